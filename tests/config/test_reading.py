"""Files that are no YAML, too much of it, or odd in ways that general loaders pass over."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kplan.config import load_scheduler_config
from kplan.config.reading import ConfigDocument, read_file
from kplan.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_scheduler_config(str(path))
    (problem,) = caught.value.problems
    assert problem.path == str(path)
    return problem.message, problem.hint


def document(tmp_path: Path, text: str) -> ConfigDocument:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    return read_file(str(path))


BOMB = (
    HEAD
    + "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
)

FILES = {
    "an empty file": (b"", "is empty", "begin with: apiVersion"),
    "spaces only": (b" \n\n", "is empty", "begin with: apiVersion"),
    "comments only": (b"# nothing\n---\n", "holds comments only", "begin with: apiVersion"),
    "binary": (b"\x00\x9f\x92\x96", "a binary file", "expected a KubeSchedulerConfiguration"),
    "latin-1": (b"a: \xe9\n", "not text in UTF-8", "expected a KubeSchedulerConfiguration"),
    "control characters": (b"a: \x01", "the character U+0001 may not stand in it", "control characters"),
    "tabs": (b"profiles:\n\t- schedulerName: a\n", "found character", "spaces, not tabs"),
    "a bracket that is never closed": (b"profiles: [\n", "did not find expected", "indentation"),
    "JSON that breaks off": (b'{"kind": "Kube', "ends before it is complete", "write it again"),
    "an alias bomb": (BOMB.encode(), "aliases unfold into more than", "use fewer anchors"),
    "an anchor inside itself": (b"a: &a [*a]", "refers to nothing before it", "define &a before it"),
    "a very long file": (b"#" * (5 << 20), "larger than 4 MiB", "expected a KubeSchedulerConfiguration"),
    "a tag that would run": (b"a: !python/object x", "the tag !python/object means nothing", "leave the tag out"),
    "a tag that lies": (b"a: !!int x", "'x' is not what its tag !!int says", "leave the tag out"),
}


@pytest.mark.parametrize(("data", "message", "hint"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, data: bytes, message: str, hint: str) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_bytes(data)

    found, found_hint = refused(path)

    assert message in found
    assert hint in found_hint


def test_a_missing_file_and_a_directory_say_so(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere.yaml") == ("no such file or directory", "check the path")
    assert refused(tmp_path)[0] == "is a directory"


@pytest.mark.parametrize("text", ['{"a":' * 5000 + "1" + "}" * 5000, "[" * 100_000, "- " * 50_000])
def test_what_is_nested_without_end_is_refused_without_a_crash(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"nested (too deeply|deeper than)"):
        document(tmp_path, text)


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((HEAD + "parallelism: 3").encode())))

    config = load_scheduler_config("-")

    assert (config.parallelism, config.source) == (3, "standard input")


def test_only_the_first_document_counts_and_the_rest_is_said_to_be_ignored(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(f"---\n{HEAD}parallelism: 3\n---\n{HEAD}parallelism: 4\n")

    config = load_scheduler_config(str(path))

    assert config.parallelism == 3
    assert [warning.message for warning in config.warnings] == [
        "only the first document is read, as by kube-scheduler; 1 more in the file"
    ]


def test_values_are_what_they_look_like(tmp_path: Path) -> None:
    text = "a: 0x10\nb: yes\nc: ~\nd: 1.5\ne: 2020-01-01\nf: '5'\n7: x\n"

    read = document(tmp_path, text)

    assert read.value == {"a": 16, "b": True, "c": None, "d": 1.5, "e": "2020-01-01", "f": "5", "7": "x"}


def test_anchors_and_merge_keys_are_followed_and_own_fields_win(tmp_path: Path) -> None:
    text = "base: &base {x: 1, y: 2}\none: {<<: *base, y: 3}\nboth: {<<: [*base, {z: 4, x: 9}]}\n"

    read = document(tmp_path, text)

    assert read.value == {"base": {"x": 1, "y": 2}, "one": {"x": 1, "y": 3}, "both": {"x": 1, "y": 2, "z": 4}}
    assert read.problems.found == []


@pytest.mark.parametrize(
    ("text", "line"),
    [("a:\n  b:\n  - c: 1\n    c: 2\n", 4), ('{"a": {"b": [\n{"c": 1,\n"c": 2}]}}', 3)],
    ids=["YAML", "JSON"],
)
def test_a_repeated_field_is_named_by_its_path_and_line(tmp_path: Path, text: str, line: int) -> None:
    read = document(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        read.problems.raise_if_any(read.value)
    (problem,) = caught.value.problems
    assert (problem.json_path, problem.message, problem.line) == ("a.b[0].c", 'duplicate field "a.b[0].c"', line)
