"""Inputs that are no honest files: devices, streams without end, bombs, folders that cannot be read."""

import gzip
import io
import json
import os
import pickle
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kplan.errors import Problem
from kplan.reading import files
from kplan.reading.documents import read_document, read_documents
from kplan.reading.files import SETTINGS, Limits, read_source
from kplan.reading.items import Item, read_items
from kplan.reading.positions import Document, path_of, steps_of
from kplan.reading.yaml import YamlLines

SMALL = Limits(max_bytes=3 << 20, max_stream_bytes=2 << 20, max_documents=3)
POD = b"apiVersion: v1\nkind: Pod\n"


def problems_of(source: str | Path, limits: Limits = SMALL, stdin: io.BufferedIOBase | None = None) -> list[Problem]:
    problems: list[Problem] = []
    list(read_documents(source, problems, limits=limits, stdin=stdin))
    return problems


def messages_of(*args: Any, **named: Any) -> list[str]:
    return [problem.message for problem in problems_of(*args, **named)]


class Endless(io.RawIOBase):
    """Says the same for ever."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        text = POD * (len(buffer) // len(POD) + 1)
        buffer[:] = text[: len(buffer)]
        return len(buffer)


def test_a_stream_without_end_is_cut() -> None:
    assert messages_of("-", stdin=io.BufferedReader(Endless())) == ["more than 2 MiB"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(4 << 20)
    assert messages_of(path) == ["larger than 3 MiB"]


@pytest.mark.parametrize(
    ("device", "message"),
    [*((f"/dev/{name}", "is a device") for name in ("zero", "random", "tty")), ("/dev/null", "the file is empty")],
)
def test_devices_are_refused_and_the_null_device_is_an_empty_file(device: str, message: str) -> None:
    assert messages_of(device) == [message]


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
    bomb = gzip.compress(POD) + 80 * gzip.compress(b"#" * (1 << 20))
    assert messages_of("-", Limits(1 << 30, 1 << 30), io.BytesIO(bomb)) == ["unpacks to more than 400 times its size"]


def test_what_gzip_unfolds_to_counts_as_size() -> None:
    packed = gzip.compress(POD + os.urandom(1 << 20).hex().encode() * 2)
    assert messages_of("-", SMALL, io.BytesIO(packed)) == ["more than 2 MiB"]


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
    data = change(gzip.compress(POD + zlib.compress(POD).hex().encode()))
    assert messages_of("-", stdin=io.BytesIO(data)) == [message]


def test_gzip_in_gzip_is_no_text() -> None:
    assert messages_of("-", stdin=io.BytesIO(gzip.compress(gzip.compress(POD)))) == ["a binary file"]


def test_bytes_that_are_no_text_are_found_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "late.yaml"
    path.write_bytes(POD + b"# comment\n" * 200_000 + b"a: \xff\n")
    assert messages_of(path) == ["not text in UTF-8 at line 200003"]


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
    assert messages_of("-", stdin=io.BytesIO(b"---\nkind: Pod\n" * 4)) == ["holds more than 3 documents"]


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/etc/passwd/x"])
def test_names_that_no_file_has(name: str) -> None:
    (problem,) = problems_of(name)
    assert problem.message.startswith(("cannot be read:", "no file can have this name"))


def test_progress_is_told_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(POD + b"#\n" * (10 << 20))
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


YAML = """\
# a comment
apiVersion: v1
kind: Pod
metadata:
  name: a
  labels:
    a.b/c: "1"
---
# nothing but a comment
---
kind: Pod
apiVersion: v1
metadata: {name: ü,
  namespace: x}
spec:
  containers:
  - name: c
    resources:
      requests: &r {cpu: "1"}
  -
    name: d
    resources:
      requests: *r
"""


def documents(text: str) -> list[Document]:
    problems: list[Problem] = []
    found = list(read_documents("-", problems, stdin=io.BytesIO(text.encode())))
    assert problems == []
    return found


@pytest.mark.parametrize(
    ("number", "path", "line"),
    [
        (1, "$", 2), (1, "$.metadata.name", 5), (1, "$.metadata.labels['a.b/c']", 7), (1, "$.spec.containers", 2),
        (2, "$", 11), (2, "metadata.namespace", 14), (2, "$.spec.containers[0].name", 17),
        (2, "$.spec.containers[0].resources.requests.cpu", 19),
        (2, "$.spec.containers[1]", 21),
        (2, "$.spec.containers[1].name", 21),
        (2, "$.spec.containers[1].resources.requests.cpu", 23),
        (2, "$.spec.containers[7].name", 16),
    ],
)  # fmt: skip
def test_any_path_of_a_manifest_has_its_line(number: int, path: str, line: int) -> None:
    assert documents(YAML)[number - 1].lines.of(path) == line


def test_lines_are_those_of_the_file_also_where_a_document_is_indented() -> None:
    (document,) = documents("\n\n   kind: Pod\n   metadata:\n     name: x\n")
    assert (document.line, document.lines.of("$.metadata.name")) == (3, 5)


def test_json_has_lines_too() -> None:
    first, second = documents('\n{"kind": "Pod",\n "metadata":\n  {"name": "a"}}\n\n{"kind":\n"Node", "a": [1,\n2]}')
    assert (first.line, first.lines.of("$.metadata.name"), first.lines.of("$.kind")) == (2, 4, 2)
    assert (second.line, second.lines.of("$.kind"), second.lines.of("$.a[1]"), second.lines.of("$")) == (6, 7, 8, 6)


def test_an_object_tells_file_document_and_line_of_its_name() -> None:
    text = "kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: x\n"
    (item,) = read_items("-", [], stdin=io.BytesIO(text.encode()))
    assert (item.path, item.document, item.line_of()) == ("standard input", 1, 7)
    assert item.locate(Problem("wrong", json_path="$.kind")).line == 5


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\napiVersion: v1\nspec:\n  a: [{b: 1,\n    b: 2}]\n  x.y: 1\n  x.y: 2\n",
        '{"kind": "Pod", "apiVersion": "v1",\n\n"spec": {\n"a": [{"b": 1,\n"b": 2}],\n"x.y": 1,\n"x.y": 2}}',
    ],
    ids=["YAML", "JSON"],
)
def test_repeated_keys_are_told_with_path_and_line(text: str) -> None:
    items: list[Item] = list(read_items("-", [], stdin=io.BytesIO(text.encode())))
    paths = [(found.path, found.line) for item in items for found in item.duplicates()]
    assert paths == [("$.spec.a[0].b", 5), ("$.spec['x.y']", 7)]


def test_repeated_keys_of_an_object_in_a_list_have_paths_of_their_own() -> None:
    one = {"kind": "Pod", "apiVersion": "v1", "metadata": {}}
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [one, one]}).replace("{}", '{"name": 1, "name": 2}')
    found = [item.duplicates() for item in read_items("-", [], stdin=io.BytesIO(text.encode()))]
    assert [[each.path for each in duplicates] for duplicates in found] == [["$.metadata.name"], ["$.metadata.name"]]


keys = st.text(min_size=1, max_size=5)


@given(st.lists(keys | st.integers(0, 99), max_size=5))
def test_paths_are_read_as_they_are_written(steps: list[Any]) -> None:
    assert steps_of(path_of(tuple(steps))) == tuple(steps)


#: Kubernetes reads some keys that PyYAML writes as they are as numbers or booleans, such as 0E0 and y; none of these.
texts = keys.map("k{}".format)

values = st.recursive(
    st.integers(-9, 9) | st.sampled_from(["", "a b", "ü", "- x", "a\nb", "#"]) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | texts, inner, max_size=3),
    max_leaves=15,
)


def leaves(value: Any, steps: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [steps, *(leaf for key, item in inner for leaf in leaves(item, (*steps, key)))]


@given(st.dictionaries(st.sampled_from("abc"), values, min_size=1, max_size=3), st.booleans())
def test_the_line_of_a_path_is_where_the_value_begins(value: dict[str, Any], flow: bool) -> None:
    """The plain way: PyYAML's own tree of nodes."""
    text = "# first\n" + yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True, width=20)
    (document,) = documents(text)
    root = yaml.compose(text)
    for steps in leaves(document.value()):
        node, line = root, root.start_mark.line
        for step in steps:
            if isinstance(step, int):
                node = node.value[step]
                line = node.start_mark.line
            else:
                line, node = next((k.start_mark.line, v) for k, v in node.value if k.value == step)
        assert document.lines.of(path_of(steps)) == line + 1


def test_lines_of_a_document_that_is_no_yaml_are_known_up_to_where_it_ends_to_be_one() -> None:
    lines = YamlLines("a: 1\nb: {c: 2\n]", line=10, content_line=10)
    assert (lines.of("$.a"), lines.of("$.b.c"), lines.of("$.z")) == (10, 11, 10)


_ASKED = ["$.c", "$.a", "$.b[1].x", "$.b[0]", "$.b[1].z", "$", "$.a.q"]


@given(st.permutations(_ASKED))
def test_a_line_is_the_same_whatever_was_asked_before(paths: list[str]) -> None:
    text = "a: 1\nb:\n- 2\n- x: 3\nc: 4\n"
    lines = YamlLines(text, line=1, content_line=1)

    assert {path: lines.of(path) for path in paths} == {
        "$.a": 1,
        "$.b[0]": 3,
        "$.b[1].x": 4,
        "$.c": 5,
        "$.b[1].z": 4,
        "$": 1,
        "$.a.q": 1,
    }
    assert pickle.loads(pickle.dumps(lines)).of("$.b[1].x") == 4


def test_of_a_key_that_is_there_twice_the_line_of_the_later_one_counts() -> None:
    (document,) = read_documents("-", [], stdin=io.BytesIO(b"a: 1\nb: 2\na: 3\n"))
    assert document.lines.of("$.a") == 3


def test_a_hint_quotes_what_is_written_and_not_what_yaml_makes_of_it() -> None:
    text = "metadata: {labels: {x: n, y/z: 1.10, t: [on, 7]}}"
    (document,) = read_documents("-", [], stdin=io.BytesIO(text.encode()))
    bare = Problem("expected a string", hint="guessed", wants_quotes=True)

    def hint(path: str) -> str:
        return document.locate(bare._replace(json_path=path)).hint

    assert hint("$.metadata.labels.x") == 'put quotes around it: "n"'
    assert hint("$.metadata.labels['y/z']") == 'put quotes around it: "1.10"'
    assert hint("$.metadata.labels.t[0]") == 'put quotes around it: "on"'
    assert hint("$.metadata.labels.t[1]") == 'put quotes around it: "7"'
    assert hint("$.metadata.labels.t") == "guessed"
    assert hint("$.nowhere") == "guessed"
