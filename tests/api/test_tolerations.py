from __future__ import annotations

import pytest

from kplan.api.tolerations import Taint, Toleration, is_comparison, tolerates

TAINT = Taint(key="dedicated", value="ml", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="dedicated", value="ml"), True),
        (Toleration(key="dedicated", operator="Equal", value="ml", effect="NoSchedule"), True),
        (Toleration(key="dedicated", operator="Equal", value="web"), False),
        (Toleration(key="dedicated", operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(value="ml"), True),
        (Toleration(key="dedicated", operator="Gt", value="1"), False),
        (Toleration(key="dedicated", operator="Near", value="ml"), False),
    ],
    ids=[
        "no operator means Equal",
        "all equal",
        "another value",
        "any value",
        "another key",
        "everything",
        "another effect",
        "no key means any",
        "comparing is off by default",
        "unknown operator",
    ],
)
def test_tolerates(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, TAINT) is expected


def test_comparison_is_recognised() -> None:
    assert is_comparison(Toleration(operator="Lt"))
    assert not is_comparison(Toleration(operator="Exists"))
