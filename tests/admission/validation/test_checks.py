"""What combines checks of fields: which fields are checked, in which order, and at which paths."""

from typing import Any

import pytest

from kplan.admission.validation import checks
from kplan.admission.validation.checks import Check
from kplan.api import field_errors

POSITIVE = checks.must(lambda number: number > 0, "must be positive")


def told(check: Check, value: Any, path: str = "spec") -> list[str]:
    return [str(error) for error in check(value, path)]


@pytest.mark.parametrize(
    ("check", "absent", "empty", "bad"),
    [
        (checks.field("n", POSITIVE), [], ["spec.n: Invalid value: 0: must be positive"], "Invalid value: -1"),
        (checks.filled("n", POSITIVE), [], [], "Invalid value: -1"),
        (checks.needed("n", POSITIVE), ["spec.n: Required value"], ["spec.n: Required value"], "Invalid value: -1"),
        (checks.present("n", POSITIVE), ["spec.n: Required value"], ["spec.n: Invalid value: 0: must be positive"],
         "Invalid value: -1"),
        (checks.field("n", POSITIVE, absent=0), ["spec.n: Invalid value: 0: must be positive"],
         ["spec.n: Invalid value: 0: must be positive"], "Invalid value: -1"),
    ],
)  # fmt: skip
def test_absent_and_empty_fields_are_told_apart(check: Check, absent: list[str], empty: list[str], bad: str) -> None:
    assert told(check, {}) == absent
    assert told(check, {"n": 0}) == empty
    assert told(check, {"n": 1}) == []
    assert [bad in text for text in told(check, {"n": -1})] == [True]


def test_errors_come_in_the_order_of_the_table_and_not_of_the_object() -> None:
    table = checks.rules(checks.needed("a"), checks.items("b", POSITIVE), checks.field("c d", POSITIVE))
    assert [text.partition(":")[0] for text in told(table, {"d": 0, "c": 0, "b": [1, 0, 0]}, "")] == [
        "a",
        "b[1]",
        "b[2]",
        "c",
        "d",
    ]


def test_enumerations_bounds_and_sizes() -> None:
    assert told(checks.enum("p", "A", "B"), {}) == ["spec.p: Required value"]
    assert told(checks.enum("p", "A", "B"), {"p": "C"}) == [
        'spec.p: Unsupported value: "C": supported values: "A", "B"'
    ]
    assert told(checks.between(1, 2), 3) == ["spec: Invalid value: 3: must be between 1 and 2, inclusive"]
    assert told(checks.at_most_bytes(1), "é") == ["spec: Too long: may not be more than 1 bytes"]
    assert told(checks.at_most_items(1), [1, 2]) == ["spec: Too many: 2: must have at most 1 item"]


def test_json_is_that_of_go() -> None:
    assert field_errors.go_json({"b": "é<&>\u2028", "a": [1]}) == '{"a":[1],"b":"é\\u003c\\u0026\\u003e\\u2028"}'
