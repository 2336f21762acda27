import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.labels import (
    NOTHING,
    InvalidSelector,
    Requirement,
    _parts,
    new_requirement,
    parse_int64,
    parse_selector,
    selector_from,
    selector_of,
)
from kplan.api.meta import LabelSelector, LabelSelectorRequirement

keys = st.sampled_from(["a", "b", "c.example.com/d"])
words = st.sampled_from(["", "x", "y", "10", "z-3"])
labels = st.dictionaries(keys, words, max_size=3)
expressions = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=keys,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(words, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(LabelSelectorRequirement, key=keys, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
selectors = st.builds(
    LabelSelector, match_labels=labels, match_expressions=st.lists(expressions, max_size=4).map(tuple)
)


def holds(expression: LabelSelectorRequirement, found: dict[str, str]) -> bool:
    there = expression.key in found
    if expression.operator == "In":
        return there and found[expression.key] in expression.values
    if expression.operator == "NotIn":
        return not there or found[expression.key] not in expression.values
    return there if expression.operator == "Exists" else not there


@given(selector=selectors, found=labels)
def test_matching_is_the_conjunction_of_all_parts(selector: LabelSelector, found: dict[str, str]) -> None:
    expected = all(found.get(k) == v for k, v in selector.match_labels.items()) and all(
        holds(expression, found) for expression in selector.match_expressions
    )
    assert selector_from(selector).matches(found) == expected


@given(selector=selectors)
def test_order_and_repetition_do_not_matter(selector: LabelSelector) -> None:
    again = LabelSelector(
        match_labels=dict(reversed(selector.match_labels.items())),
        match_expressions=(*reversed(selector.match_expressions), *selector.match_expressions),
    )
    assert selector_from(again) == selector_from(selector)
    assert hash(selector_from(again)) == hash(selector_from(selector))


def test_absent_matches_nothing_and_empty_matches_everything() -> None:
    assert selector_from(None) is NOTHING
    assert not NOTHING.matches({})
    everything = selector_from(LabelSelector())
    assert everything.matches({"a": "b"})
    assert everything.is_empty
    assert not NOTHING.is_empty
    assert NOTHING.plus(Requirement("a", "Exists")) is NOTHING


def test_one_value_says_the_same_in_either_form() -> None:
    expression = LabelSelectorRequirement(key="a", operator="In", values=("x",))
    by_expression = selector_from(LabelSelector(match_expressions=(expression,)))
    assert by_expression == selector_from(LabelSelector(match_labels={"a": "x"}))


@pytest.mark.parametrize(
    ("operator", "bound", "value", "matches"),
    [
        ("Gt", "5", "6", True), ("Gt", "5", "5", False), ("Lt", "5", "-7", True), ("Lt", "5", "x", False),
        ("Gt", "5", None, False), ("Gt", "5", "9223372036854775808", False), ("Gt", "5", "+6", True),
    ],
)  # fmt: skip
def test_comparing_numbers(operator: str, bound: str, value: str | None, matches: bool) -> None:
    found = {} if value is None else {"n": value}
    assert new_requirement("n", operator, [bound]).matches(found) == matches


@pytest.mark.parametrize(
    ("key", "operator", "values", "message"),
    [
        ("a", "In", (), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        ("a", "Exists", ("x",), 'values: Invalid value: ["x"]: values set must be empty for exists and does not exist'),
        ("a", "Gt", ("x",), "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
    ],
)
def test_refusals_read_as_upstream(key: str, operator: str, values: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        new_requirement(key, operator, values)
    assert str(caught.value) == message


def test_a_bad_value_names_its_place_and_the_rule() -> None:
    with pytest.raises(
        InvalidSelector, match=r"^spec\.values\[0\]\[app\]: Invalid value: \"\{\{x\}\}\": a valid label"
    ):
        new_requirement("app", "In", ["{{x}}"], "spec")


def test_several_problems_stand_in_brackets() -> None:
    with pytest.raises(InvalidSelector, match=r"^\[key: Invalid value: \"\".*, values: Invalid value: null.*\]$"):
        new_requirement("", "In", [])


def test_unknown_operators_are_refused() -> None:
    selector = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Near"),))
    with pytest.raises(InvalidSelector, match='"Near" is not a valid label selector operator'):
        selector_from(selector)


def test_text_is_that_of_kubectl() -> None:
    selector = selector_of(
        [
            Requirement("tier", "NotIn", ("db", "web")),
            Requirement("app", "In", ("x",)),
            Requirement("gone", "DoesNotExist"),
            Requirement("n", "Gt", ("5",)),
            Requirement("there", "Exists"),
        ]
    )
    assert str(selector) == "app=x,!gone,n>5,there,tier notin (db,web)"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-0", 0), ("007", 7), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("", None)],
)
def test_numbers_are_int64(text: str, number: int | None) -> None:
    assert parse_int64(text) == number


LABELS = {"app": "web", "tier": "front", "env": ""}


MET = """
app=web; app==web; app = web , tier=front; app!=db; zone!=a; env=; app; !canary; ! canary; app in (web, db);
app in (db,web),tier notin (back); zone notin (a); env in ()
"""


@pytest.mark.parametrize("text", ["", *MET.split(";")])
def test_a_selector_takes_labels_that_meet_all_its_parts(text: str) -> None:
    assert parse_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text", ["app=db", "app!=web", "canary", "!app", "app in (db)", "app notin (web,db)", "app=web,tier=back", "env=x"]
)
def test_a_selector_turns_down_labels_that_fail_one_of_its_parts(text: str) -> None:
    assert not parse_selector(text).matches(LABELS)


@pytest.mark.parametrize("text", ["app web", "app=web,", ",", "=web", "app in web", "app in (web", "-app=web", "a(b"])
def test_what_kubectl_refuses_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        parse_selector(text)


@given(st.text("a,()", max_size=12))
def test_commas_within_parentheses_split_nothing(text):
    assert _parts(text) == re.split(r",(?![^(]*\))", text)
