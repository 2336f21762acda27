"""Tar archives of dumps: read as their folders are, and refused where they hold what no dump does."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import kplan
from tests.cli.commands import invoke
from tests.objects import node

NODES = [json.dumps(node(name, "8")).encode() for name in ("a", "b")]


def packed(path: Path, *entries: tuple[str, bytes], change: Callable[[tarfile.TarInfo], None] | None = None) -> Path:
    """Write an archive of files; `change` makes something else of each entry."""
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if change is not None:
                change(info)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["dump.tar", "dump.tgz", "dump.tar.gz"])
def test_an_archive_is_the_folder_that_it_holds(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "dump" / "default"
    folder.mkdir(parents=True)
    files = {
        "nodes.json": NODES[0],
        "more.yaml": NODES[1],
        "logs.txt": b"started",
        ".hidden.json": b"{",
        "pods.json": b"",
    }
    for file, content in files.items():
        (folder / file).write_bytes(content)
    path = packed(tmp_path / name, *((f"./dump/default/{file}", content) for file, content in files.items()))

    whole, archived = kplan.load_snapshot(tmp_path / "dump"), kplan.load_snapshot(path)

    assert archived.digest == whole.digest
    assert [one.code for one in whole.warnings] == [one.code for one in archived.warnings] == ["EmptyFile"]
    assert archived.warnings[0].object == f"{path}/./dump/default/pods.json"


def test_an_empty_file_of_a_dump_is_a_warning_of_the_answer_and_alone_an_error(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_bytes(NODES[0])
    (tmp_path / "pods.json").touch()
    answered, refused = (invoke("plan", "-s", path, "-o", "json") for path in (tmp_path, tmp_path / "pods.json"))
    [warning] = json.loads(answered.stdout)["warnings"]
    assert (warning["code"], warning["object"]) == ("EmptyFile", f"{tmp_path}/pods.json")
    assert refused.exit_code == 2
    assert "pods.json: the file is empty" in refused.stderr


def link(kind: bytes) -> Callable[[tarfile.TarInfo], None]:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname, info.size = kind, "/etc/passwd", 0

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x.json", link(tarfile.SYMTYPE), "holds a link"),
        ("x.json", link(tarfile.LNKTYPE), "holds a link"),
        ("x.json", link(tarfile.FIFOTYPE), "holds a link, or another entry that is no file"),
        ("../x.json", None, "holds a name that leads out of it"),
        ("/etc/x.json", None, "holds a name that leads out of it"),
        ("a/../../x.txt", None, "holds a name that leads out of it"),
    ],
)
def test_what_no_dump_holds_is_refused(
    tmp_path: Path, name: str, change: Callable[[tarfile.TarInfo], None] | None, message: str
) -> None:
    path = packed(tmp_path / "dump.tgz", (name, NODES[0]), change=change)
    with pytest.raises(kplan.SnapshotError, match=message):
        kplan.load_snapshot(path)


def test_an_archive_that_unfolds_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "dump.tgz", ("nodes.json", NODES[0]), ("logs.txt", bytes(80 << 20)))
    with pytest.raises(kplan.SnapshotError, match="unpacks to more than 400 times its size"):
        kplan.load_snapshot(path)


@pytest.mark.parametrize("cut", [5, 60, -30])
def test_a_damaged_archive_is_refused(tmp_path: Path, cut: int) -> None:
    path = packed(tmp_path / "dump.tgz", ("nodes.json", NODES[0]), ("more.json", NODES[1]))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(kplan.SnapshotError, match=r"damaged|cut off"):
        kplan.load_snapshot(path)
