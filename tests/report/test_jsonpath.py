"""Templates mean what they mean to kubectl."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.errors import UsageError
from kplan.report.jsonpath import parse_jsonpath, render_jsonpath

DOCUMENT: dict[str, Any] = {
    "kind": "List",
    "items": [
        {"name": "a", "node": "n1", "n": 3, "ready": True, "labels": {"app.kubernetes.io/name": "x", "pool": "p"}},
        {"name": "b", "node": None, "n": 1, "ready": False, "labels": {}},
        {"name": "c", "node": "n2", "n": 2, "share": 0.5},
    ],
    "numbers": [0, 1, 2, 3, 4],
    "users": {"e2e": {"password": "secret"}, "root": {"password": "guess"}},
    "whole": 100.0,
}

TEMPLATES = {
    # In kubectl's own words: k8s.io/client-go/util/jsonpath/jsonpath_test.go, and the page on JSONPath support.
    "plain text": ("hello jsonpath", "hello jsonpath"),
    "text around": ("hello {.kind}!", "hello List!"),
    "the current object": ("{@.kind}{$.kind}{ .kind }", "ListListList"),
    "a quoted literal": ('{"{"}{\'\\t\'}{"\\x41\\u0042\\n"}', "{\tAB\n"),
    "a number and a truth": ("{1}{-2}{1.5}{true}", "1-21.5true"),
    "a field": ("{.items[0].name}", "a"),
    "values with blanks between": ("{.items[*].name}", "a b c"),
    "a wildcard for fields": ("{.users.*.password}", "secret guess"),
    "a key in brackets": ("{.users['e2e'].password}", "secret"),
    "a dot in a key, escaped": (r"{.items[0].labels.app\.kubernetes\.io/name}", "x"),
    "a dot in a key in brackets": (r"{.items[0].labels['app\.kubernetes\.io/name']}", "x"),
    "from the end": ("{.numbers[-1]}{.numbers[-2:]}", "43 4"),
    "a slice": ("{.numbers[1:3]}", "1 2"),
    "a slice in steps": ("{.numbers[::2]}", "0 2 4"),
    "up to": ("{.numbers[:2]}", "0 1"),
    "an empty slice": ("{.numbers[2:2]}", ""),
    "a slice of null": ("<{.items[1].node[0]}>", "<>"),
    "a union": ("{.numbers[0,3]}", "0 3"),
    "a union of keys": ("{.items[0]['name', 'node']}", "a n1"),
    "everything at any depth": ("{..password}", "secret guess"),
    "at any depth from a field": ("{.users..password}", "secret guess"),
    "at any depth of a list": ("{.items..pool}", "p"),
    "a filter": ('{.items[?(@.name=="b")].n}', "1"),
    "a filter with single quotes": ("{.items[?(@.name=='b')].n}", "1"),
    "a filter by number": ("{.items[?(@.n>1)].name}{.items[?(@.n<=1)].name}", "a cb"),
    "a filter by another field": ("{.items[?(@.n!=3)].name}", "b c"),
    "a filter by truth": ("{.items[?(@.ready==true)].name}", "a"),
    "a filter by what is there": ("{.items[?(@.share)].name}", "c"),
    "a filter with a bracket in its text": ('{.items[?(@.name==")]")].n}', ""),
    "null is equal to nothing": ('{.items[?(@.node!="n1")].name}', "b c"),
    "a range": ('{range .items[*]}{.name}={.node}{"\\n"}{end}.', "a=n1\nb=null\nc=n2\n."),
    "a range in a range": ("{range .items[*]}[{range .labels.*}<{@}>{end}]{end}", "[<x><p>][][]"),
    "a range that is not closed": ("{range .items[*]}{.name};", "a;b;c;"),
    "a field that is not there": ("<{.nothing.at.all}>", "<>"),
    "a field of a text": ("<{.kind.name}>", "<>"),
    "objects and lists as JSON": ("{.users.root}{.numbers}", '{"password":"guess"}[0,1,2,3,4]'),
    "a number without a fraction": ("{.whole} {.items[2].share}", "100 0.5"),
    "the whole document": ("{}", json.dumps(DOCUMENT, separators=(",", ":"))),
}


@pytest.mark.parametrize(("template", "text"), TEMPLATES.values(), ids=TEMPLATES)
def test_what_a_template_writes(template: str, text: str) -> None:
    assert render_jsonpath(template, DOCUMENT) == text


WRONG = {
    "an open brace": ("{.items", "a brace is not closed"),
    "an open bracket": ("{.items[0", "a bracket is not closed"),
    "an open filter": ("{.items[?(@.a==1]}", "a filter is not closed"),
    "an open quote": ('{"a}', "cannot read"),
    "no index": ("{.items[x]}", "[x] is neither a number, a slice, * nor a key"),
    "no step": ("{.items[::0]}", "a step must be greater than 0"),
    "an end of nothing": ("{end}", "{end} ends nothing"),
    "a field without its dot": ("{items}", "a field begins with a dot: {.items}"),
    "another comparison": ("{.items[?(@.n=<1)]}", "=< is no comparison"),
    "an unknown escape": (r'{"\q"}', "is no escape"),
    "out of bounds": ("{.items[7]}", "[7] is out of bounds of a list of 3"),
    "no list": ("{.users[0]}", "an object is not a list"),
    "a filter on no list": ("{.users[?(@.a)]}", "an object is not a list and cannot be filtered"),
    "a text and a number": ('{.items[?(@.n=="3")]}', "a number and a text cannot be compared"),
    "an order of objects": ("{.items[?(@.labels<@.labels)]}", "an object has no order"),
    "several values": ("{.items[?(@.labels.*==1)]}", "can compare one value with one other"),
    "very deep": ("{range @}" * 60, "more than 50 ranges in each other"),
    "very long": ("x" * 10_001, "more than 10,000 characters"),
}


@pytest.mark.parametrize(("template", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_template_is_said_with_a_hint(template: str, words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        render_jsonpath(template, DOCUMENT)
    assert words in refusal.value.message
    assert refusal.value.hint


@given(st.text("{}[]().@$*?\"'\\=<>!:-01 anrgedx", max_size=40))
def test_any_text_is_a_template_or_wrong(template: str) -> None:
    with suppress(UsageError):
        parse_jsonpath(template)
        assert isinstance(render_jsonpath(template, DOCUMENT), str)


@given(st.text(st.characters(blacklist_characters="{"), max_size=40))
def test_text_without_braces_is_written_as_it_is(text: str) -> None:
    assert render_jsonpath(text, DOCUMENT) == text


def test_a_template_that_multiplies_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kplan.report.jsonpath._MOST_VALUES", 1000)
    document = {"a": [{"b": list(range(50))} for _ in range(50)]}
    with pytest.raises(UsageError, match="more than 1,000 values"):
        render_jsonpath("{..a..*}", document)


def test_a_template_that_writes_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kplan.report.jsonpath._MOST_WRITTEN", 10_000)
    ranges = "{range ..}" * 30 + "{end}" * 30
    with pytest.raises(UsageError, match="writes more than"):
        render_jsonpath(ranges, {"a": {"b": {"c": [1]}}})
