"""Pods as columns say what the pods say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.api.labels import NOTHING, Requirement, selector_from_map, selector_of
from kplan.api.time import to_micros
from kplan.engine import matching as matching_module
from kplan.engine import pod_table
from kplan.engine.matching import LabelSets, PodMatch
from kplan.engine.pod_table import HOST_PORTS, NONZERO_CPU, NONZERO_MEMORY, START, PodTable
from kplan.rules.pod_info import NO_START_TIME, NO_TERMS, PodInfo
from tests.engine.crowds import MATCHES, PODS, RESOURCES, is_meant, matching
from tests.objects import pod
from tests.recorded import examples

CROWD = st.lists(PODS, max_size=12)


def table_of(infos):
    table = PodTable()
    for info in infos:
        table.add(info)
    return table


def columns(table):
    """Read every column."""
    return {
        "priority": table.priorities.tolist(),
        "terminating": [not stays for stays in matching(table, PodMatch((), skip_terminating=True))],
        "start": table.derived(START).tolist(),
        "requests": {name: table.derived(name).tolist() for name in RESOURCES},
        "nonzero": [table.derived(key).tolist() for key in (NONZERO_CPU, NONZERO_MEMORY)],
        "ports": table.derived(HOST_PORTS).tolist(),
        "terms": [table.term_sets[code] for code in table.term_codes.tolist()],
    }


def plainly(infos):
    """Read the same pod by pod."""
    starts = [info.pod.status.start_time for info in infos]
    return {
        "priority": [info.pod.spec.priority for info in infos],
        "terminating": [info.pod.metadata.deletion_timestamp is not None for info in infos],
        "start": [NO_START_TIME if text is None else to_micros(text) for text in starts],
        "requests": {name: [info.resources.requests.get(name, 0) for info in infos] for name in RESOURCES},
        "nonzero": [[info.resources.nonzero_cpu for info in infos], [info.resources.nonzero_memory for info in infos]],
        "ports": [len(info.host_ports) for info in infos],
        "terms": [info.affinity for info in infos],
    }


@examples(80)
@given(CROWD, CROWD, st.booleans())
def test_columns_say_what_the_pods_say_however_they_grow(infos, more, is_read_between):
    table = table_of(infos)
    if is_read_between:
        assert columns(table) == plainly(infos)
    for info in more:
        table.add(info)
    assert columns(table) == plainly([*infos, *more])
    assert table.term_sets[0] is NO_TERMS


@examples(120)
@given(CROWD, CROWD, MATCHES)
def test_matching_equals_asking_pod_by_pod(infos, more, match):
    table = table_of(infos)
    mask = table.mask(match)
    assert matching(table, match) == [is_meant(match, info) for info in infos]
    for info in more:
        table.add(info)
    everybody = [*infos, *more]
    wanted = [is_meant(match, info) for info in everybody]

    assert matching(table, match) == wanted
    assert [table.matches(match, row) for row in range(len(table))] == wanted
    assert mask.column[: len(table)].tolist() == wanted
    backwards = np.arange(len(table))[::-1]
    assert table.matching_rows(match, backwards).tolist() == wanted[::-1]


@examples(60)
@given(CROWD)
def test_pods_stand_in_their_namespaces_in_order(infos):
    backwards = np.arange(len(infos))[::-1]
    found = table_of(infos).by_namespace(backwards)
    names = [infos[row].namespace for row in backwards]
    of_each = {name: [index for index, own in enumerate(names) if own == name] for name in names}
    assert {name: indices.tolist() for name, indices in found.items()} == of_each


@examples(40)
@given(CROWD, CROWD, MATCHES, st.booleans())
def test_a_copy_and_its_original_do_not_notice_each_other(infos, more, match, is_read_before):
    table = table_of(infos)
    if is_read_before:
        columns(table)
        matching(table, match)
    twin = table.copy()
    for info in more:
        twin.add(info)
    columns(twin)

    assert columns(table) == plainly(infos)
    assert matching(table, match) == [is_meant(match, info) for info in infos]
    for info in reversed(more):
        table.add(info)
    assert columns(table) == plainly([*infos, *reversed(more)])
    assert matching(table, match) == [is_meant(match, info) for info in [*infos, *reversed(more)]]
    assert columns(twin) == plainly([*infos, *more])
    assert matching(twin, match) == [is_meant(match, info) for info in [*infos, *more]]


@examples(20)
@given(st.lists(PODS, min_size=1, max_size=4), st.integers(60, 300))
def test_a_table_grows_beyond_its_first_capacity(few, n_pods):
    infos = [few[number % len(few)] for number in range(n_pods)]
    assert columns(table_of(infos)) == plainly(infos)


@examples(60)
@given(CROWD, CROWD, MATCHES, st.integers(0, 6), st.integers(0, 4))
def test_pods_are_found_by_their_labels_however_many_are_sorted(infos, more, match, most_unsorted, pods_a_set):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_table, "_MAX_UNSORTED", most_unsorted)
        patch.setattr(pod_table, "_PODS_A_SET", pods_a_set)
        table = table_of(infos)
        assert sorted(table.rows_matching(match)) == [row for row, info in enumerate(infos) if is_meant(match, info)]
        for info in more:
            table.add(info)
        found = sorted(table.rows_matching(match))
        assert found == [row for row, info in enumerate([*infos, *more]) if is_meant(match, info)]


def test_a_pod_that_begins_to_leave_is_terminating_in_every_mask():
    before, after = (PodInfo(convert(pod("p", leaving=leaving), Pod)) for leaving in (False, True))
    table = table_of([before])
    assert columns(table) == plainly([before])
    table.replace(0, after)
    assert columns(table) == plainly([after])
    assert table.rows_matching(PodMatch((), skip_terminating=True)).tolist() == []


def test_a_mask_is_kept_until_too_many_others_were_asked_for(monkeypatch):
    monkeypatch.setattr(pod_table, "MAX_MASKS", 2)
    table = PodTable()
    one, two, three = (PodMatch(((None, selector_from_map({"app": app})),)) for app in ("a", "b", "c"))
    kept = table.mask(one)

    assert table.mask(one) is kept
    table.mask(two)
    assert table.mask(one) is kept
    table.mask(three)
    assert table.mask(one) is kept
    table.mask(two)
    table.mask(three)
    assert table.mask(one) is not kept


KEYS = ("app", "tier", "n")
VALUES = ("a", "b", "", "3", "12")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)


@st.composite
def requirements(draw):
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    count = {"In": (1, 3), "NotIn": (1, 3), "Gt": (1, 1), "Lt": (1, 1)}.get(operator, (0, 0))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=count[0], max_size=count[1], unique=True))
    return Requirement(draw(st.sampled_from(KEYS)), operator, tuple(sorted(values)))


OWN_LABELS = st.lists(st.tuples(st.sampled_from("ab"), LABELS), max_size=8)
SELECTORS = st.one_of(st.just(NOTHING), st.lists(requirements(), max_size=3).map(selector_of))


@examples(150)
@given(OWN_LABELS, OWN_LABELS, st.none() | st.frozensets(st.sampled_from("abc")), SELECTORS, st.integers(0, 3))
def test_a_clause_takes_the_sets_that_it_matches_one_by_one(first, more, namespaces, selector, most_one_by_one):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching_module, "_MAX_MATCHED_SINGLY", most_one_by_one)
        table = LabelSets()
        for own in (first, [*first, *more]):
            distinct = list({(name, frozenset(labels.items())): (name, labels) for name, labels in own}.values())
            assert [table.code(*each) for each in distinct] == list(range(len(distinct)))
            wanted = [(namespaces is None or name in namespaces) and selector.matches(of) for name, of in distinct]
            assert table.mask(namespaces, selector).tolist() == wanted
            assert sorted(table.codes(namespaces, selector)) == np.flatnonzero(wanted).tolist()


@given(st.lists(LABELS, max_size=8))
def test_equal_labels_have_one_code(listed):
    table = LabelSets()
    codes = [table.code("a", dict(labels)) for labels in listed]
    assert [table.sets[code] for code in codes] == listed
    assert len(table) == len({frozenset(labels.items()) for labels in listed})


def test_masks_that_are_not_used_are_forgotten(monkeypatch):
    monkeypatch.setattr(matching_module, "MAX_LABEL_MASKS", 1)
    table = LabelSets()
    table.code("a", {"app": "a"})
    one, two = (selector_of([Requirement("app", "In", (value,))]) for value in "ab")
    kept = table.mask(None, one)
    assert table.mask(None, one) is kept
    table.mask(None, two)
    assert table.mask(None, one) is not kept
