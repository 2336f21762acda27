from ast import literal_eval
from typing import Any

import pytest

from kplan.reading.yaml import YamlProblem, read_yaml


def load(text: str) -> Any:
    (document,) = read_yaml(text.encode(), "f.yaml")
    return document.content


TEXTS = """
2026-03-01T10:00:00Z 2026-03-01 1:30 100m +x 1e400 0b_ 190:20:30 0b2 0o8 0x 0xG _1 ._5 .5_0 . .. + 1e e1 nULL yEs oN
2026-11-22 2026-11-22T10:00:00Z = 1Ki +1Ki << http://x:80/y?z
"""
NUMBERS = """
0x1f=31 010=8 1_000=1000 -5=-5 1e3=1000 1e21=1e+21 0_8=8 0X1F=31 1.=1 .5=0.5
18446744073709551615=18446744073709551615 99999999999999999999=100000000000000000000 +0x1F=31 -0b101=-5 0B101=5
0O17=15 +12=12 -0=0 0_7=7 0x_1F=31 08=8 09.5=9.5 -07=-7 1.e5=100000 +.5=0.5 .5e3=500 1e-3=0.001 1_0.5=10.5
18446744073709551616=18446744073709552000 -9223372036854775809=-9223372036854776000 1__=1 1e+3=1000 0.5=0.5
"""
VALUES: dict[str, Any] = {
    "yes": True,
    "Off": False,
    "y": True,
    "N": False,
    "'y'": "y",
    "~": None,
    "'1'": "1",
    "'.nan'": ".nan",
    "!!str .nan": ".nan",
    "!!set {b, c}": {"b": None, "c": None},
    "!mytag 5": "5",
    "!!int '5'": 5,
    "!!timestamp 2026-03-01": "2026-03-01",
    "[&b true, *b]": [True, True],
    "!!str 5": "5",
    "[1, b, {c: d}]": [1, "b", {"c": "d"}],
    "! 5": 5,
    "!!bool 'yes'": True,
    "!!null ''": None,
    "!!float 5": 5,
    "!!str ~": "~",
    "!!map {b: 1}": {"b": 1},
    "!!seq [1]": [1],
    "!!omap [b: 1]": [{"b": 1}],
    "!<tag:yaml.org,2002:int> 7": 7,
    "['what?']": ["what?"],
    "[http://x:80/y]": ["http://x:80/y"],
    "{b: c:d}": {"b": "c:d"},
    "\tb": "b",
    "9" * 5000: "9" * 5000,
    **{text: text for text in TEXTS.split()},
    **{text: literal_eval(number) for text, number in (one.rsplit("=", 1) for one in NUMBERS.split())},
}
"""What is written, and what the API machinery reads."""


@pytest.mark.parametrize("text", VALUES, ids=lambda text: text[:40])
def test_values_are_those_of_go_yaml(text: str) -> None:
    read = load(f"a: {text}")["a"]
    assert read == VALUES[text]
    assert type(read) is type(VALUES[text])


def test_values_may_stand_on_lines_of_their_own() -> None:
    assert load("a:\n- ")["a"] == [None]
    assert load("a:") == {"a": None}
    assert load("a: !!binary aGVs\n") == {"a": "hel"}
    assert load("a: |\n  x\n  y\n") == {"a": "x\ny\n"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int 5.0", "'5.0' does not match its tag !!int"),
        ("a: !!int 1e1", "'1e1' does not match its tag !!int"),
        ("a: !!bool 1", "does not match its tag !!bool"),
        ("a: !!null x", "does not match its tag !!null"),
        ("a: !!float yes", "does not match its tag !!float"),
        ("a: !!timestamp now", "does not match its tag !!timestamp"),
        ("a: +.Inf", "JSON has no number +.Inf"),
        ("a: {<<: 5}", "map merge requires map or sequence of maps as the value"),
        ("a: {<<: }", "map merge requires map or sequence of maps as the value"),
        ("a: {<<: [{b: 1}, 2]}", "map merge requires map or sequence of maps as the value"),
        ("a: [sh, what?]", "did not find expected ',' or ']' after 'what'"),
        ("a: {b: http://x/?y}", "did not find expected ',' or ']' after 'http://x/'"),
        ("18446744073709551615: a", "a key must be a string"),
        ("~: a", "a key must be a string"),
        ("? [a]\n: b", "a key must be a string"),
        ("a: @b", "found character"),
        ("a: `b`", "found character"),
        ("a: %b", "found character"),
        ("a: b: c", "mapping values are not allowed in this context"),
        ("a: 'b' c", "expected"),
        ("%TAG ! tag:x,2000:\n%TAG ! tag:y,2000:\n---\na: 1", "found duplicate %TAG directive"),
    ],
)
def test_what_go_yaml_refuses_is_refused(text: str, message: str) -> None:
    with pytest.raises(YamlProblem) as caught:
        list(read_yaml(text.encode(), "f.yaml"))
    assert message in str(caught.value)


def test_whatever_is_written_later_wins_over_a_merge_and_under_it() -> None:
    base = "base: &b {x: 1, w: 1}\none: {x: 2, <<: *b}\ntwo: {<<: *b, x: 2}\n"
    value = load(base + "three: {'<<': *b}\nfour: {<<: &c {x: 3}, <<: *b}\n")
    assert value["one"] == {"x": 1, "w": 1}
    assert value["two"] == {"x": 2, "w": 1}
    assert value["three"] == {"<<": {"x": 1, "w": 1}}
    assert value["four"] == {"x": 1, "w": 1}


def test_a_key_that_a_merge_brings_is_not_written_twice() -> None:
    (document,) = read_yaml(b"base: &b {x: 1}\none:\n  <<: *b\n  x: 2\ntwo:\n  x: 1\n  x: 2\n", "f.yaml")
    assert [(duplicate.path, duplicate.line) for duplicate in document.duplicates()] == [("$.two.x", 7)]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert [document.content for document in read_yaml("\ufeffa: ä\n".encode(), "f.yaml")] == [{"a": "ä"}]


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
        ("a: *b", "alias *b refers to nothing before it", "define &b before it"),
        ("a: &a [*a]", "alias *a refers to nothing before it", "define &a before it"),
        ("a: !!int x", "'x' does not match its tag !!int", "remove the tag"),
        ("a: !!binary ä", "!!binary value contains invalid base64 data", "encode it again"),
        ("a: .inf", "JSON has no number .inf", "put quotes around it"),
        ("%YAML 1.2\n---\na: 1", "YAML 1.2 is a version that Kubernetes does not read", "%YAML"),
        ("a: " + "[" * 300, "nested deeper than 200 levels", ""),
        (bomb(), "aliases expand to more than", "write the values out"),
    ],
    ids=[
        "tab", "template", "cut off", "unknown alias", "alias inside itself", "tag", "binary", "infinity", "version",
        "nesting", "alias bomb",
    ],
)  # fmt: skip
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
