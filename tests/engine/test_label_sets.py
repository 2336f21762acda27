"""Selectors asked about distinct sets of labels say what they say of each set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.labels import NOTHING, Requirement, selector_of
from kplan.engine import pod_table
from kplan.engine.pod_table import LabelSets
from tests.recorded import examples

KEYS = ("app", "tier", "n")
VALUES = ("a", "b", "", "3", "12")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)


@st.composite
def requirements(draw):
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    count = {"In": (1, 3), "NotIn": (1, 3), "Gt": (1, 1), "Lt": (1, 1)}.get(operator, (0, 0))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=count[0], max_size=count[1], unique=True))
    return Requirement(draw(st.sampled_from(KEYS)), operator, tuple(sorted(values)))


SELECTORS = st.one_of(st.just(NOTHING), st.lists(requirements(), max_size=3).map(selector_of))


@examples(150)
@given(st.lists(LABELS, max_size=8), st.lists(LABELS, max_size=8), SELECTORS, st.integers(0, 3))
def test_a_selector_takes_the_sets_that_it_matches_one_by_one(first, more, selector, most_one_by_one):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_table, "_MAX_MATCHED_SINGLY", most_one_by_one)
        table = LabelSets()
        for labels in first:
            table.code(labels)
        assert table.mask(selector).tolist() == [selector.matches(labels) for labels in table.sets]
        for labels in more:
            table.code(labels)

        assert table.mask(selector).tolist() == [selector.matches(labels) for labels in table.sets]


@given(st.lists(LABELS, max_size=8))
def test_equal_labels_have_one_code(listed):
    table = LabelSets()
    codes = [table.code(dict(labels)) for labels in listed]

    assert [table.sets[code] for code in codes] == listed
    assert len(table) == len({frozenset(labels.items()) for labels in listed})


def test_masks_that_are_not_used_are_forgotten(monkeypatch):
    monkeypatch.setattr(pod_table, "MAX_LABEL_MASKS", 1)
    table = LabelSets()
    table.code({"app": "a"})
    one, two = (selector_of([Requirement("app", "In", (value,))]) for value in "ab")
    kept = table.mask(one)
    assert table.mask(one) is kept

    table.mask(two)

    assert table.mask(one) is not kept
