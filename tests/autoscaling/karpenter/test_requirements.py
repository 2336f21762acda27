"""Requirements as bits decide as requirements as sets of texts do."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kplan.autoscaling.karpenter.requirements import Requirement, Vocabulary

KEY = "example.com/size"
VALUES = ("1", "2", "3", "10", "-4", "small", "")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")


class Plain(NamedTuple):
    """A requirement as a function of the value would see it."""

    operator: str
    values: tuple[str, ...]

    def allows(self, value: str) -> bool:
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator in {"Exists", "DoesNotExist"}:
            return self.operator == "Exists"
        if not value.lstrip("-").isdigit():
            return False
        number, bound = int(value), int(self.values[0])
        return {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}[
            self.operator
        ]


def requirements() -> st.SearchStrategy[Plain]:
    sets = st.lists(st.sampled_from(VALUES), max_size=4, unique=True).map(tuple)
    numbers = st.integers(-5, 11).map(lambda number: (str(number),))
    return st.one_of(
        st.builds(Plain, st.sampled_from(OPERATORS[:2]), sets),
        st.builds(Plain, st.sampled_from(OPERATORS[2:4]), st.just(())),
        st.builds(Plain, st.sampled_from(OPERATORS[4:]), numbers),
    )


def compiled(known: Vocabulary, plain: Plain) -> Requirement:
    return known.requirement(KEY, plain.operator, plain.values)


def vocabulary() -> Vocabulary:
    known = Vocabulary(())
    known.bits(KEY, VALUES)
    return known


@given(requirements(), requirements(), requirements())
def test_an_intersection_allows_what_all_allow(one: Plain, other: Plain, third: Plain) -> None:
    known = vocabulary()
    both = known.intersection(compiled(known, one), compiled(known, other))
    all_three = known.intersection(both, compiled(known, third))
    for value in VALUES:
        assert known.has(both, value) == (one.allows(value) and other.allows(value))
        assert known.has(all_three, value) == (one.allows(value) and other.allows(value) and third.allows(value))


@given(requirements(), requirements())
def test_requirements_agree_where_a_value_or_the_absence_of_the_label_meets_both(one: Plain, other: Plain) -> None:
    known = vocabulary()
    left, right = compiled(known, one), compiled(known, other)
    if not (left.is_complement and right.is_complement):
        meet = any(one.allows(value) and other.allows(value) for value in VALUES)
        assert known.agree(left, right) == (meet or (left.allows_absence and right.allows_absence))
    assert known.agree(left, right) == known.agree(right, left)
