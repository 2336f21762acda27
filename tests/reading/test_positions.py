import io
import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kplan.errors import Problem
from kplan.reading.documents import read_documents
from kplan.reading.files import Document, Source, path_of, steps_of
from kplan.reading.items import Item, read_items
from kplan.reading.yaml import YamlLines

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
        (1, "$", 2),
        (1, "$.metadata.name", 5),
        (1, "$.metadata.labels['a.b/c']", 7),
        (1, "$.spec.containers", 2),
        (2, "$", 11),
        (2, "metadata.namespace", 14),
        (2, "$.spec.containers[0].name", 17),
        (2, "$.spec.containers[0].resources.requests.cpu", 19),
        (2, "$.spec.containers[1]", 21),
        (2, "$.spec.containers[1].name", 21),
        (2, "$.spec.containers[1].resources.requests.cpu", 23),
        (2, "$.spec.containers[7].name", 16),
    ],
)
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
    assert item.source() == Source("standard input", 1, 7)
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
        return document.locate(replace(bare, json_path=path)).hint

    assert hint("$.metadata.labels.x") == 'put quotes around it: "n"'
    assert hint("$.metadata.labels['y/z']") == 'put quotes around it: "1.10"'
    assert hint("$.metadata.labels.t[0]") == 'put quotes around it: "on"'
    assert hint("$.metadata.labels.t[1]") == 'put quotes around it: "7"'
    assert hint("$.metadata.labels.t") == "guessed"
    assert hint("$.nowhere") == "guessed"
