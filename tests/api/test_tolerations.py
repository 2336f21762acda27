import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.affinity import Taint, Toleration, tolerates, untolerated

TAINT = Taint(key="dedicated", value="ml", effect="NoSchedule")


CASES = {
    "no operator means Equal": (Toleration(key="dedicated", value="ml"), True),
    "all equal": (Toleration(key="dedicated", operator="Equal", value="ml", effect="NoSchedule"), True),
    "another value": (Toleration(key="dedicated", operator="Equal", value="web"), False),
    "any value": (Toleration(key="dedicated", operator="Exists"), True),
    "another key": (Toleration(key="other", operator="Exists"), False),
    "everything": (Toleration(operator="Exists"), True),
    "another effect": (Toleration(operator="Exists", effect="NoExecute"), False),
    "no key means any": (Toleration(value="ml"), True),
    "comparing needs its gate": (Toleration(key="dedicated", operator="Gt", value="1"), False),
    "unknown operator": (Toleration(key="dedicated", operator="Near", value="ml"), False),
}


@pytest.mark.parametrize("case", CASES)
def test_tolerates(case: str) -> None:
    toleration, expected = CASES[case]
    assert tolerates(toleration, TAINT) is expected


NUMBERS = ["0", "-1", "7", "10", "-0", "+7", "07", " 7", "7.0", "", "seven", str(2**63 - 1), str(2**63), str(-(2**63))]
CANONICAL = {"0", "-1", "7", "10", str(2**63 - 1), str(-(2**63))}


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.sampled_from(["Lt", "Gt"]))
def test_numbers_are_compared_where_both_are_int64_in_canonical_form(bound: str, value: str, operator: str) -> None:
    are_numbers = {bound, value} <= CANONICAL
    expected = are_numbers and (int(value) < int(bound) if operator == "Lt" else int(value) > int(bound))
    taint, toleration = Taint(key="cost", value=value), Toleration(key="cost", operator=operator, value=bound)
    assert tolerates(toleration, taint, compares=True) is expected
    assert not tolerates(toleration, taint)
    assert not tolerates(Toleration(key="other", operator=operator, value=bound), taint, compares=True)


WORDS = st.sampled_from(["", "a", "b", "0", "7"])
EFFECTS = st.sampled_from(["", "NoSchedule", "NoExecute"])
TOLERATIONS = st.builds(
    Toleration,
    key=WORDS,
    operator=st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "Near"]),
    value=st.one_of(WORDS, st.sampled_from(NUMBERS)),
    effect=EFFECTS,
)
TAINTS = st.builds(Taint, key=WORDS, value=st.one_of(WORDS, st.sampled_from(NUMBERS)), effect=EFFECTS)


@given(st.lists(TOLERATIONS, max_size=6), st.lists(TAINTS, max_size=6), st.booleans())
def test_untolerated_taints_are_those_that_no_toleration_tolerates(
    tolerations: list[Toleration], taints: list[Taint], compares: bool
) -> None:
    expected = [taint for taint in taints if not any(tolerates(one, taint, compares=compares) for one in tolerations)]
    assert untolerated(tolerations, taints, compares=compares) == tuple(expected)


def test_many_taints_and_many_tolerations_take_no_longer_than_both() -> None:
    tolerations = [Toleration(key=f"k{number}", operator="Exists") for number in range(1, 5000)]
    taints = [Taint(key=f"k{number}", effect="NoSchedule") for number in range(5000)]
    assert untolerated(tolerations, taints) == (taints[0],)
