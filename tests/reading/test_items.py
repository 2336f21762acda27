import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from kplan.errors import Problem
from kplan.reading.items import Item, read_items

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def a_list(*items: Any) -> dict[str, Any]:
    return {"kind": "List", "apiVersion": "v1", "items": list(items)}


def read(source: Path | str, data: bytes | None = None) -> tuple[list[Item], list[Problem]]:
    problems: list[Problem] = []
    items = list(read_items(source, problems, stdin=io.BytesIO(data) if data is not None else None))
    return items, problems


def kinds(items: list[Item]) -> list[tuple[str, str]]:
    return [(item.kind, item.json_path) for item in items]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(POD), [("Pod", "$")]),
        (json.dumps([POD, NODE]), [("Pod", "$[0]"), ("Node", "$[1]")]),
        (json.dumps(a_list(POD, NODE)), [("Pod", "$.items[0]"), ("Node", "$.items[1]")]),
        (json.dumps({"items": [{"metadata": {}}], "kind": "PodList", "apiVersion": "v1"}), [("Pod", "$.items[0]")]),
        (json.dumps(a_list(a_list(POD))), [("Pod", "$.items[0].items[0]")]),
        (json.dumps({"kind": "PodList", "apiVersion": "v1", "items": None}), []),
        (json.dumps({"kind": "PodList", "apiVersion": "v1"}), []),
        (json.dumps(POD) + "\n" + json.dumps(NODE), [("Pod", "$"), ("Node", "$")]),
        (json.dumps(POD) + "\n--- \r\n" + json.dumps(NODE) + "\n---", [("Pod", "$"), ("Node", "$")]),
        ("---\n" + json.dumps(POD) + "\n---\nkind: Node\napiVersion: v1\n", [("Pod", "$"), ("Node", "$")]),
        ("kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n",
         [("Node", "$.items[0]"), ("Node", "$.items[1]")]),
        ("- kind: Node\n  apiVersion: v1\n", [("Node", "$[0]")]),
    ],
    ids=["one", "array", "List", "PodList", "lists in lists", "null items", "no items", "JSON after JSON", "marked",
         "mixed", "YAML list", "YAML array"],
)  # fmt: skip
def test_forms(text: str, expected: list[tuple[str, str]]) -> None:
    items, problems = read("-", text.encode())
    assert problems == []
    assert kinds(items) == expected


def test_items_of_a_typed_list_inherit_version_and_kind() -> None:
    (item,), _ = read("-", b'{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"name":"x"}}]}')
    assert (item.api_version, item.kind) == ("apps/v1", "Deployment")


def test_a_cluster_info_dump_on_one_stream() -> None:
    where = "logs for container a of pod x/y ===="
    log = f'==== START {where}\n{{"level": "info"}}\nkind: Pod\n==== END {where}\n'
    items, problems = read("-", f"{json.dumps(NODE)}\n{json.dumps(POD)}\n{log}{log}".encode())
    assert problems == []
    assert [(item.kind, item.document) for item in items] == [("Node", 1), ("Pod", 2)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"], ids=["byte order mark", "as PowerShell writes"])
def test_encodings(encoding: str) -> None:
    items, problems = read("-", json.dumps(POD).encode(encoding))
    assert problems == []
    assert kinds(items) == [("Pod", "$")]


def test_directories_are_read_by_name_and_hidden_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.json").write_text("{")
    (tmp_path / "b" / "pods.json").write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [POD]}))
    (tmp_path / "b" / "logs.txt").write_text("{ no object")
    (tmp_path / "a.yaml.gz").write_bytes(gzip.compress(b"kind: Node\napiVersion: v1\n"))
    items, problems = read(tmp_path)
    assert problems == []
    assert [(Path(item.path).name, item.kind) for item in items] == [("a.yaml.gz", "Node"), ("pods.json", "Pod")]


@pytest.mark.parametrize(
    ("data", "message", "place"),
    [
        (b"", "the file is empty", ""),
        (b" \n\t\n", "the file is empty", ""),
        (b"\x7fELF\0\0\0", "a binary file", ""),
        (b"caf\xe9: 1\n", "not text in UTF-8", ""),
        (b'{"kind": "List", "items": [', "the JSON ends before it is complete", ""),
        (b'{"kind": "List",\n  "items": [}', "invalid character at column 13", ""),
        (b'{"apiVersion": "v1", "kind": "List", "items": {"a": 1}}', "expected a list, got an object", "$.items"),
        (b'{"apiVersion": "v1", "kind": "PodList", "items": "x"}', 'expected a list, got "x"', "$.items"),
        (b"apiVersion: v1\nkind: List\nitems: 5\n", "expected a list, got 5", "$.items"),
        (b'{"apiVersion": "v1", "kind": "List", "items": [7]}', "expected an object, got 7", "$.items[0]"),
        (b'{"a": 1}', "missing", "$.kind"),
        (b'{"kind": 5, "apiVersion": "v1"}', "expected a string, got 5", "$.kind"),
        (b'{"kind": "Pod", "apiVersion": {}}', "expected a string, got an object", "$.apiVersion"),
        (b"just words", 'expected an object, got "just words"', "$"),
        (b"[" * 100_000, "nested too deeply", ""),
        (gzip.compress(json.dumps(POD).encode())[:-12], "the gzip file is cut off", ""),
        (b"x" * (2 << 20), "no apiVersion, kind or items in the first megabyte", ""),
    ],
    ids=["empty", "blank", "binary", "latin-1", "truncated", "broken", "no list", "text as list", "YAML no list",
         "number in list", "no kind", "kind a number", "version an object", "words", "deep", "cut gzip", "garbage"],
)  # fmt: skip
def test_refused(data: bytes, message: str, place: str) -> None:
    items, (problem,) = read("-", data)
    assert items == []
    assert message in problem.message
    assert problem.json_path == place
    assert problem.path == "standard input"


def test_missing_files_and_empty_directories(tmp_path: Path) -> None:
    assert read(tmp_path / "none.json")[1][0].message == "no such file or directory"
    assert "holds no .json" in read(tmp_path)[1][0].message


def test_reading_goes_on_after_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text(json.dumps(POD))
    items, problems = read(tmp_path)
    assert kinds(items) == [("Pod", "$")]
    assert [Path(problem.path).name for problem in problems] == ["a.json"]


def test_garbage_is_refused_without_reading_it_all() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            assert size > 0
            self.given += size
            return b"z" * size

    endless = Endless()
    problems: list[Problem] = []
    assert list(read_items("-", problems, stdin=endless)) == []
    assert problems
    assert endless.given <= 1 << 20


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_an_object_far_larger_than_an_api_server_stores_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kplan.reading.items.MAX_OBJECT", 1 << 20)
    large = {**NODE, "metadata": {"name": "n", "labels": {f"l{i}": "v" * 50 for i in range(25_000)}}}
    text = json.dumps(a_list(POD, large, POD))
    file = tmp_path / f"x.{kind}"
    file.write_text(text if kind == "json" else f"# YAML\n---\n{text}")

    items, problems = read(file)

    assert kinds(items) == [("Pod", "$.items[0]"), ("Pod", "$.items[2]")]
    assert [(problem.message, problem.json_path) for problem in problems] == [
        ("one object of more than 1 MiB", "$.items[1]")
    ]
