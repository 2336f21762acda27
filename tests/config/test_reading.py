"""Files that are no YAML, too much of it, or odd in ways that general loaders pass over."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kplan.config import load_scheduler_config
from kplan.config.reading import parse_text
from kplan.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_scheduler_config(str(path))
    (problem,) = caught.value.problems
    assert problem.path == str(path)
    return problem.message, problem.hint


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
    "binary": (b"\x00\x9f\x92\x96", "is not text in UTF-8", "as YAML or JSON"),
    "control characters": (b"a: \x01", "control characters are not allowed", "as YAML or JSON"),
    "tabs": (b"profiles:\n\t- schedulerName: a\n", "line 2, column 1: found character", "replace the tabs"),
    "a bracket that is never closed": (b"profiles: [\n", "line 2, column 1: did not find expected", "indentation"),
    "JSON that breaks off": (b'{"kind": "Kube', "line 1, column", "check the indentation and quotes"),
    "an alias bomb": (BOMB.encode(), "expands to more than 200000 values", "remove the anchors"),
    "an anchor inside itself": (b"a: &a [*a]", "nested too deeply", "remove the anchors"),
    "a very long file": (b"#" * (5 << 20), "has more than 4 MiB", "give a KubeSchedulerConfiguration"),
}


@pytest.mark.parametrize(("data", "message", "hint"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, data: bytes, message: str, hint: str) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_bytes(data)

    found, found_hint = refused(path)

    assert message in found
    assert hint in found_hint


def test_a_missing_file_and_a_directory_say_so(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere.yaml") == ("no such file", "give the path that kube-scheduler's --config names")
    assert refused(tmp_path) == ("is a directory", "name the file in it that holds the configuration")


@pytest.mark.parametrize("text", ['{"a":' * 5000 + "1" + "}" * 5000, "[" * 100_000, "- " * 50_000])
def test_what_is_nested_without_end_is_refused_without_a_crash(text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse_text(text, "file")


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


def test_values_are_what_their_tags_say() -> None:
    text = "a: 0x10\nb: yes\nc: ~\nd: 1.5\ne: 2020-01-01\nf: '5'\n7: x\n"

    document = parse_text(text, "file")

    assert document.value == {"a": 16, "b": True, "c": None, "d": 1.5, "e": "2020-01-01", "f": "5", "7": "x"}


def test_anchors_and_merge_keys_are_followed_and_own_fields_win() -> None:
    text = "base: &base {x: 1, y: 2}\none: {<<: *base, y: 3}\nboth: {<<: [*base, {z: 4, x: 9}]}\n"

    document = parse_text(text, "file")

    assert document.value == {"base": {"x": 1, "y": 2}, "one": {"x": 1, "y": 3}, "both": {"x": 1, "y": 2, "z": 4}}
    assert document.problems.found == []


@pytest.mark.parametrize("text", ["a: {b: [{c: 1, c: 2}]}", '{"a": {"b": [{"c": 1, "c": 2}]}}'])
def test_a_repeated_field_is_named_by_its_path(text: str) -> None:
    document = parse_text(text, "file")

    ((path, message),) = [(problem.json_path, problem.message) for problem in document.problems.found]
    assert path == "a.b[0].c"
    assert message == 'duplicate field "a.b[0].c"'


@pytest.mark.parametrize("text", ["a: !python/object x", "a: !!int x"])
def test_a_tag_that_does_not_belong_is_a_problem_and_never_runs(text: str) -> None:
    document = parse_text(text, "file")

    assert [problem.json_path for problem in document.problems.found] == ["a"]
    assert document.value == {"a": None}
