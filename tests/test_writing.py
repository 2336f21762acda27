"""Files: whole or not at all, with their rights, and nothing else touched."""

import errno
import json
import os
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from kplan import writing
from kplan.errors import UsageError
from kplan.writing import PRIVATE, check_writable, write_file
from tests.cli.commands import invoke
from tests.cli.processes import PROGRAM, kplan


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_rights_that_are_asked_for_less_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "public", b"x")
        write_file(tmp_path / "private", b"x", mode=PRIVATE)
    finally:
        os.umask(before)
    assert (mode_of(tmp_path / "public"), mode_of(tmp_path / "private")) == (0o640, 0o600)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o666, 0o755])
def test_a_file_that_was_there_keeps_its_rights(mode: int, tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("before")
    target.chmod(mode)
    write_file(target, b"after", mode=PRIVATE)
    assert (target.read_bytes(), mode_of(target)) == (b"after", mode)


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name, target in (("planted", victim), ("dangling", tmp_path / "nowhere")):
        (tmp_path / name).symlink_to(target)
        write_file(tmp_path / name, b"report")

        assert (tmp_path / name).read_bytes() == b"report"
        assert not (tmp_path / name).is_symlink()
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_another_name_of_a_file_keeps_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    os.link(tmp_path / "victim", tmp_path / "planted")
    write_file(tmp_path / "planted", b"report")
    assert (tmp_path / "victim").read_text() == "precious"


def test_whatever_stands_under_the_temporary_name_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", lambda size: b"\7" * size)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / f".kplan-{'07' * 8}.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(UsageError, match="file exists"):
        write_file(tmp_path / "report", b"x")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "report").exists()


def test_temporary_names_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[tuple[str, int]] = []
    opened = os.open

    def noted(path: Path, flags: int, *mode: int) -> int:
        names.append((str(path), flags))
        return opened(path, flags, *mode)

    monkeypatch.setattr(writing.os, "open", noted)

    for _ in range(2):
        write_file(tmp_path / "report", b"x")

    assert len({name for name, _ in names}) == 2
    assert all(flags & os.O_EXCL and flags & os.O_NOFOLLOW for _, flags in names)
    assert all(Path(name).parent == tmp_path for name, _ in names)


def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report"
    target.write_text("before")

    def full_disk(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full_disk)

    with pytest.raises(UsageError, match="no space left on device"):
        write_file(target, b"after")

    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for path, why in (
        (tmp_path, "it is a directory"),
        (tmp_path / "link", "it is a directory"),
        (tmp_path / "absent" / "x", "there is no such directory"),
        (tmp_path / "file" / "x", "not a directory|there is no such directory"),
        (tmp_path / ("x" * 300), "name"),
        (Path("a\0b"), "no file can have this name"),
    ):
        with pytest.raises(UsageError, match=why):
            check_writable(path)
        with pytest.raises(UsageError, match=why):
            write_file(path, b"x")
    check_writable(tmp_path / "new")
    check_writable("new")
    check_writable(os.devnull)


def test_into_a_device_it_is_written_and_the_device_stays() -> None:
    write_file(os.devnull, b"x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    if Path("/dev/full").exists():
        with pytest.raises(UsageError, match="no space left"):
            write_file("/dev/full", b"x")


def test_into_a_pipe_it_is_written_and_the_pipe_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = b"x" * (1 << 20)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    for _ in range(100):
        time.sleep(0.02)
        try:
            write_file(pipe, content)
            break
        except UsageError:
            # The reader has not opened it yet.
            continue
    reader.join(5)

    assert received == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot write"):
        write_file(tmp_path / "pipe", b"x")


def test_a_report_can_go_to_standard_output_and_error(tmp_path: Path) -> None:
    """Also where these are files, whose places in the file the program and its parent share."""
    command = [*PROGRAM, "preempt", "-s", "demo", "-o", "name", "--exit-zero", "-q", "--report"]
    together = tmp_path / "together"
    with together.open("wb") as file:
        file.write(b"before\n")
        file.flush()
        subprocess.run([*command, "json=/dev/stdout"], stdout=file, check=True)
        subprocess.run([*command, "json=/dev/stderr"], stdout=subprocess.DEVNULL, stderr=file, check=True)

    first, rest = together.read_text().split("\n", 1)
    report, end = json.JSONDecoder().raw_decode(rest)
    assert (first, report["kind"]) == ("before", "PreemptionReport")
    assert json.loads(rest[rest.rindex("\n{") :])["kind"] == "PreemptionReport"
    assert rest[end:].strip()
    assert Path("/dev/stdout").is_symlink()


@pytest.mark.parametrize("option", ["--report", "--save"])
def test_the_path_of_a_report_is_looked_at_before_the_work_is_done(option: str, tmp_path: Path) -> None:
    value = f"json={tmp_path}" if option == "--report" else str(tmp_path)
    result = kplan("plan", "-s", tmp_path / "absent.json", option, value)
    assert result.returncode == 2
    assert "it is a directory" in result.stderr
    assert "absent.json" not in result.stderr


def test_the_path_of_a_snapshot_is_looked_at_before_the_cluster_is_read(tmp_path: Path) -> None:
    result = invoke("snapshot", "save", tmp_path / "absent" / "x.json", "-s", tmp_path / "absent.json")
    assert result.exit_code == 2
    assert "there is no such directory" in result.stderr


def test_two_reports_in_one_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    result = invoke("preempt", "--report", f"json={path}", "--report", f"html={path}")
    assert result.exit_code == 2
    assert "two reports for one file" in result.stderr


def test_of_two_writers_at_once_the_file_is_that_of_one_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    contents = [letter * 500_000 for letter in (b"a", b"b")]
    seen: set[bytes] = set()

    def write(content: bytes) -> None:
        for _ in range(20):
            write_file(path, content)

    write_file(path, contents[0])
    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        seen.add(path.read_bytes())
    for writer in writers:
        writer.join()

    assert seen | {path.read_bytes()} <= set(contents)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_two_snapshots_saved_under_one_name_at_once_leave_one_of_both(tmp_path: Path) -> None:
    kinds = {"a": 3, "b": 300}
    for name, number in kinds.items():
        nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{index}"}} for index in range(number)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    target = tmp_path / "saved.json"

    save = [*PROGRAM, "snapshot", "save", target, "-s"]
    running = [subprocess.Popen([*save, tmp_path / f"{name}.json"], stderr=subprocess.DEVNULL) for name in kinds]

    assert [process.wait(60) for process in running] == [0, 0]
    assert len(json.loads(target.read_bytes())["objects"]["nodes"]) in kinds.values()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.json", "b.json", "saved.json"]


@pytest.mark.parametrize("words", [["snapshot", "save"], ["plan", "--save"], ["drain", "n1", "--save"]])
def test_a_directory_that_is_only_read_is_refused_before_the_work_is_done(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the rights of a directory say does not hold for root, as which tests may run.
    monkeypatch.setattr("kplan.writing.os.access", lambda path, _mode: Path(path) != tmp_path)
    result = invoke(*words, tmp_path / "x.json", "-s", tmp_path / "absent.json")
    assert result.exit_code == 2
    assert "files cannot be made in this directory" in result.stderr
    assert "absent.json" not in result.stderr
