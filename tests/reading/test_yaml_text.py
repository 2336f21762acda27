from typing import Any

import pytest

from kplan.reading.yaml_text import YamlProblem, read_yaml


def load(text: str) -> Any:
    (document,) = read_yaml(text.encode(), "f.yaml")
    return document.content


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"),
        ("a: 2026-03-01", "2026-03-01"),
        ("a: 1:30", "1:30"),
        ("a: yes", True),
        ("a: Off", False),
        ("a: y", True),
        ("a: N", False),
        ("a: 'y'", "y"),
        ("a: ~", None),
        ("a:", None),
        ("a: '1'", "1"),
        ("a: 0x1f", 31),
        ("a: 010", 8),
        ("a: 1_000", 1000),
        ("a: -5", -5),
        ("a: 1e3", 1000),
        ("a: 1e21", 1e21),
        ("a: 0_8", 8),
        ("a: 0X1F", 31),
        ("a: 1.", 1),
        ("a: .5", 0.5),
        ("a: 100m", "100m"),
        ("a: +x", "+x"),
        ("a: 18446744073709551615", (1 << 64) - 1),
        ("a: 99999999999999999999", 100000000000000000000),
        ("a: 1e400", "1e400"),
        ("a: " + "9" * 5000, "9" * 5000),
        ("a: 0b_", "0b_"),
        ("a: '.nan'", ".nan"),
        ("a: !!str .nan", ".nan"),
        ("a: !!binary aGVs\n", "hel"),
        ("a: !!set {b, c}", {"b": None, "c": None}),
        ("a: !mytag 5", "5"),
        ("a: !!int '5'", 5),
        ("a: !!timestamp 2026-03-01", "2026-03-01"),
        ("a: [&b true, *b]", [True, True]),
        ("a: !!str 5", "5"),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ("a: [1, b, {c: d}]", [1, "b", {"c": "d"}]),
    ],
)
def test_values_are_those_of_the_api_machinery(text: str, value: Any) -> None:
    found = load(text)["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_become_texts() -> None:
    assert load("1: a\ntrue: b\n1.5: c\n1e3: d\n1e-7: f") == {
        "1": "a",
        "true": "b",
        "1.5": "c",
        "1000": "d",
        "1e-07": "f",
    }


def test_a_tag_of_python_makes_a_text_and_no_object() -> None:
    assert load("a: !!python/object:os.system x") == {"a": "x"}


def test_anchors_and_merge_keys() -> None:
    text = "base: &b {x: 1, z: 2}\none: {<<: *b, z: 3}\ntwo: {<<: [*b, {w: 4}]}\nthree: *b\n"
    assert load(text) == {
        "base": {"x": 1, "z": 2},
        "one": {"x": 1, "z": 3},
        "two": {"x": 1, "z": 2, "w": 4},
        "three": {"x": 1, "z": 2},
    }


def test_documents_are_counted_and_empty_ones_left_out() -> None:
    text = b"---\na: 1\n---\n---\n# nothing\n---\n\n# the second\nb: 2\n...\n"
    found = [(document.number, document.line, document.content) for document in read_yaml(text, "f.yaml")]
    assert found == [(1, 2, {"a": 1}), (2, 9, {"b": 2})]


def bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{one}: &{one} [{', '.join(['*' + before] * 9)}]" for before, one in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "a:\n\tb: 1",
            "found character that cannot start any token at column 1",
            "YAML is indented with spaces, not tabs",
        ),
        ("a: {{ .Values.x }}", "a key must be a string", "render templates first"),
        ("a: [1, 2", "not valid YAML", ""),
        ("a: *b", "alias *b refers to nothing before it", ""),
        ("a: !!int x", "'x' does not match its tag !!int", "remove the tag"),
        ("a: !!binary ä", "!!binary value contains invalid base64 data", "encode it again"),
        ("a: .inf", "JSON has no number .inf", "put quotes around it"),
        ("%YAML 1.2\n---\na: 1", "YAML 1.2 is a version that Kubernetes does not read", "%YAML"),
        ("a: " + "[" * 300, "nested deeper than 200 levels", ""),
        (bomb(), "aliases expand to more than", "write the values out"),
    ],
    ids=[
        "tab",
        "template",
        "cut off",
        "unknown alias",
        "tag",
        "binary",
        "infinity",
        "version",
        "nesting",
        "alias bomb",
    ],
)
def test_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(YamlProblem) as caught:
        list(read_yaml(text.encode(), "f.yaml"))
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.document == 1


def test_documents_before_a_broken_one_are_read() -> None:
    seen = []
    with pytest.raises(YamlProblem) as caught:
        seen.extend(document.content for document in read_yaml(b"a: 1\n---\nb: 2\n---\nc: [\n", "f.yaml"))
    assert (caught.value.document, caught.value.line) == (3, 6)


def test_of_many_merges_the_first_wins_and_own_keys_before_all() -> None:
    maps = "".join(f"- &m{i} {{shared: {i}, own{i}: {i}}}\n" for i in range(300))
    merges = ", ".join(f"*m{i}" for i in range(300))
    text = f"bases:\n{maps}whole:\n  <<: [{merges}]\n  own7: mine\n"

    value = load(text)

    assert value["whole"] == {"shared": 0, **{f"own{i}": i for i in range(300)}, "own7": "mine"}
