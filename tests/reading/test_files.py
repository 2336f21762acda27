"""Inputs that are no honest files: devices, streams without end, bombs, folders that cannot be read."""

import gzip
import io
import os
import threading
import zlib
from pathlib import Path

import pytest

from kplan.errors import Problem
from kplan.reading import files
from kplan.reading.documents import read_document, read_documents
from kplan.reading.files import SETTINGS, Limits, read_source

SMALL = Limits(max_bytes=3 << 20, max_stream_bytes=2 << 20, max_documents=3)
POD = b"apiVersion: v1\nkind: Pod\n"


def problems_of(source: str | Path, limits: Limits = SMALL, stdin: io.BufferedIOBase | None = None) -> list[Problem]:
    problems: list[Problem] = []
    list(read_documents(source, problems, limits=limits, stdin=stdin))  # type: ignore[arg-type]
    return problems


class Endless(io.RawIOBase):
    """Says the same for ever."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        text = POD * (len(buffer) // len(POD) + 1)
        buffer[:] = text[: len(buffer)]
        return len(buffer)


def test_a_stream_without_end_is_cut() -> None:
    (problem,) = problems_of("-", stdin=io.BufferedReader(Endless()))
    assert problem.message == "more than 2 MiB"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(4 << 20)
    (problem,) = problems_of(path)
    assert problem.message == "larger than 3 MiB"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/random", "/dev/tty"])
def test_devices_are_refused(device: str) -> None:
    (problem,) = problems_of(device)
    assert problem.message == "is a device"


def test_the_null_device_is_an_empty_file() -> None:
    (problem,) = problems_of("/dev/null")
    assert problem.message == "the file is empty"


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(POD,))
    writer.start()
    problems: list[Problem] = []
    document = read_document(path, problems, limits=SETTINGS, expected="a pod")
    writer.join()
    assert problems == []
    assert document is not None
    assert document.value() == {"apiVersion": "v1", "kind": "Pod"}


def test_a_gzip_bomb_is_refused_before_it_unfolds() -> None:
    bomb = gzip.compress(POD + b"#" * (100 << 20))
    (problem,) = problems_of("-", Limits(1 << 30, 1 << 30), io.BytesIO(bomb))
    assert problem.message == "unpacks to more than 400 times its size"


def test_what_gzip_unfolds_to_counts_as_size() -> None:
    packed = gzip.compress(POD + os.urandom(1 << 20).hex().encode() * 2)
    (problem,) = problems_of("-", SMALL, io.BytesIO(packed))
    assert problem.message == "more than 2 MiB"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-12], "the gzip file is cut off before its end"),
        (lambda data: data[:30], "the gzip file is cut off before its end"),
        (lambda data: data[:2], "the gzip file is cut off before its end"),
        (lambda data: data[:-8] + b"\0" * 8, "the gzip file is damaged"),
        (lambda data: data[:10] + b"\xff" * 40, "the gzip file is damaged"),
        (lambda data: data + b"more", "the gzip file is damaged"),
    ],
    ids=["no end", "cut", "two bytes", "wrong sum", "no deflate", "something behind it"],
)
def test_a_broken_gzip_file_says_so(change: object, message: str) -> None:
    data = change(gzip.compress(POD + zlib.compress(POD).hex().encode()))  # type: ignore[operator]
    (problem,) = problems_of("-", stdin=io.BytesIO(data))
    assert problem.message == message


def test_gzip_in_gzip_is_no_text() -> None:
    (problem,) = problems_of("-", stdin=io.BytesIO(gzip.compress(gzip.compress(POD))))
    assert problem.message == "a binary file"


def test_bytes_that_are_no_text_are_found_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "late.yaml"
    path.write_bytes(POD + b"# comment\n" * 200_000 + b"a: \xff\n")
    (problem,) = problems_of(path)
    assert problem.message == "not text in UTF-8 at line 200003"


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_bytes(POD)
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    (problem,) = problems_of(tmp_path)
    assert (problem.path, problem.message) == (str(tmp_path / "closed"), "cannot be read: Permission denied")


def test_more_documents_than_a_file_may_hold_are_an_error() -> None:
    (problem,) = problems_of("-", stdin=io.BytesIO(b"---\nkind: Pod\n" * 4))
    assert problem.message == "holds more than 3 documents"


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/etc/passwd/x"])
def test_names_that_no_file_has(name: str) -> None:
    (problem,) = problems_of(name)
    assert problem.message.startswith(("cannot be read:", "no file can have this name"))


def test_progress_is_told_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(POD + b"#\n" * (20 << 20))
    told: list[tuple[str, int, int | None]] = []
    read_source(path, None, Limits(1 << 30, 1 << 30), lambda *args: told.append(args))
    size = path.stat().st_size
    assert told[-1] == (f"{path} (bytes)", size, size)
    assert len(told) > 1


def test_a_directory_with_very_much_below_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_ENTRIES", 5)
    for index in range(4):
        (tmp_path / f"{index}.yaml").write_text("")
    problems: list[Problem] = []
    assert len(files.files_below(tmp_path, problems)) == 4
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "more.yaml").write_text("")

    assert files.files_below(tmp_path, problems) == []
    assert [problem.message for problem in problems] == ["holds more than 5 files and folders"]
