import gzip
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kplan.api.core import Pod
from kplan.api.decode import decode_sound
from kplan.errors import Problem, SnapshotError
from kplan.reading import items
from kplan.reading.items import Item, NotInPieces, Run, read_items, read_pieces
from kplan.snapshot import load_snapshot
from tests.objects import Object

MANAGED = [{"apiVersion": "v1", "fieldsType": "FieldsV1"}, {"apiVersion": "v1", "fieldsType": "FieldsV1"}]
"""In compact text they are separated as items of the list are."""


def pod(number: int) -> Object:
    metadata = {"name": f"p{number}", "uid": "ü" * (number % 7), "managedFields": MANAGED}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def node(number: int) -> Object:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "status": status}


def event(number: int) -> Object:
    return {"apiVersion": "v1", "count": number, "involvedObject": {"apiVersion": "v1"}, "kind": "Event"}


OBJECTS = [*map(node, range(20)), *map(pod, range(60)), *map(event, range(20)), node(20)]

FORMS: dict[str, Callable[[Any], str]] = {
    "kubectl": lambda value: json.dumps(value, indent=4),
    "compact": lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
    "python": json.dumps,
}


def a_list(objects: list[Object] = OBJECTS, **fields: Any) -> Object:
    return {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}} | fields


@pytest.fixture(autouse=True, params=[700, 1500])
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_HEAD", request.param)
    monkeypatch.setattr(items, "_PIECE", request.param)


def objects_of(parts: Iterable[Item | Run]) -> list[tuple[str, str, object]]:
    """Return the objects of all parts: pods decoded, as those of a piece may be, and the text of others."""
    read: list[tuple[str, str, object]] = []
    for part in parts:
        contents: Sequence[Any] = part.contents if isinstance(part, Run) else [part.content]
        objects = decode_sound(contents, Pod) if part.kind == "Pod" else map(bytes, contents)
        read += [(part.api_version, part.kind, one) for one in objects or ()]
    return read


def in_pieces(path: Path) -> list[tuple[str, str, object]]:
    problems: list[Problem] = []
    read = objects_of(read_pieces(path, problems))
    assert problems == []
    return read


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("first", ["items", "kind"])
def test_pieces_hold_the_same_objects_as_the_whole(tmp_path: Path, form: str, first: str) -> None:
    path = tmp_path / "cluster.json"
    fields = a_list()
    path.write_text(FORMS[form]({first: fields[first]} | fields))
    whole = objects_of(read_items(path, []))
    assert len(whole) == len(OBJECTS)
    assert in_pieces(path) == whole


def test_objects_may_be_larger_than_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    large = [{**pod(number), "x": "y" * number} for number in (3000, 9000, 20_000, 40)]
    path.write_text(FORMS["kubectl"](a_list([*OBJECTS, *large, *OBJECTS])))
    whole = objects_of(read_items(path, []))
    assert len(whole) == len(OBJECTS) * 2 + len(large)
    assert in_pieces(path) == whole


SOUND = json.dumps(a_list(), indent=4)

ODD: dict[str, str] = {
    "a typed list": json.dumps(a_list(kind="PodList"), indent=4),
    "no list at all": json.dumps(a_list(kind="ConfigMap"), indent=4),
    "no kind": json.dumps({"apiVersion": "v1", "items": OBJECTS}, indent=4),
    "items twice": SOUND[:-1] + ', "items": []}',
    "a second document": SOUND + json.dumps(node(21)),
    "cut off": SOUND[:-200],
    "a comma too much": SOUND.replace("},\n        {", "},,\n        {", 40),
    "an object without kind": json.dumps(a_list([*OBJECTS, pod(61), {"apiVersion": "v1"}]), indent=4),
    "half a character": json.dumps(a_list([*OBJECTS, {**pod(61), "x": "\ud800"}]), indent=4),
    "something else": json.dumps(a_list(status={"items": []}) | {"apiVersion": "v2"}, indent=4),
    "an array": json.dumps(OBJECTS),
    "YAML": "apiVersion: v1\nkind: List\nitems:\n" + "- kind: Node\n  apiVersion: v1\n" * 200,
    "one large object": json.dumps(a_list([{**pod(1), "x": "y" * 4000}, *OBJECTS]), indent=4),
    "a small file": "{}",
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_plain_list_is_read_as_a_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(ODD[name], errors="surrogatepass")
    with pytest.raises(NotInPieces):
        for _ in read_pieces(path, []):
            pass


def test_files_that_cannot_be_read_twice_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(os.urandom(9000)))
    (tmp_path / "invalid").write_bytes(SOUND.replace("p59", "p\x80").encode("latin-1"))
    for path in ("-", tmp_path, *(tmp_path / name for name in ("pipe", "packed.gz", "invalid", "missing", "a\0b"))):
        with pytest.raises(NotInPieces):
            list(read_pieces(path, []))


def test_a_problem_has_the_line_that_it_has_in_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    wrong = {**node(21), "status": {"allocatable": {"cpu": "many"}}}
    path.write_text(json.dumps(a_list([*OBJECTS, wrong]), indent=4))
    with pytest.raises(SnapshotError) as caught:
        load_snapshot(path)
    (problem,) = caught.value.problems
    lines = path.read_text().splitlines()
    assert problem.line is not None
    assert '"many"' in lines[problem.line - 1]
    assert problem.json_path == "$.items[101].status.allocatable.cpu"


def test_what_an_object_holds_is_no_item(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    compact = FORMS["compact"](a_list([*map(node, range(60))]))
    path.write_text(
        compact.replace('"status":', '"x":[{},{"apiVersion":"v1","kind":"Node"},{"apiVersion":2}],"status":')
    )
    assert len(load_snapshot(path).nodes) == 60
    for wrong in ('"n50","x":{"y":1,}', '"n50","creationTimestamp":1e999,"x":{"y":1,}'):
        path.write_text(compact.replace('"n50"', wrong))
        with pytest.raises(SnapshotError, match="not valid JSON"):
            load_snapshot(path)


def test_progress_tells_how_much_of_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(SOUND)
    told: list[tuple[str, int, int | None]] = []
    snapshot = load_snapshot(path, progress=lambda *amounts: told.append(amounts))
    assert len(snapshot.nodes) == 21
    assert told[-1] == (f"{path} (bytes)", len(SOUND), len(SOUND))


def test_an_object_that_is_too_large_is_reported_of_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "MAX_OBJECT", 3000)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(a_list([*OBJECTS, {**pod(61), "x": "y" * 2900}]), indent=4))
    with pytest.raises(NotInPieces):
        list(read_pieces(path, []))
