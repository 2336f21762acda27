import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.affinity import (
    CompiledNodeSelector,
    CompiledTerm,
    FieldRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.labels import NOTHING, selector_from, selector_from_map
from kplan.engine.matching import (
    allowed,
    count_untolerated_soft_taints,
    match_labels,
    match_node_selector,
    match_required_affinity,
    reachable,
    untolerated_hard_taints,
)
from kplan.engine.node_table import NodeTable
from kplan.engine.terms import TermIndex, TermKind, TermSets, pod_terms
from kplan.rules.pod_info import NO_TERMS, AffinityTerm, PodAffinityTerms, PodInfo, WeightedAffinityTerm, affinity_terms
from tests.engine.crowds import POD_POOL, PODS
from tests.engine.test_pod_table import LABELS, SELECTORS
from tests.recorded import examples


def table():
    nodes = [
        {
            "metadata": {"name": "a", "labels": {"disk": "ssd"}},
            "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
        },
        {"metadata": {"name": "b", "labels": {"disk": "hdd"}}},
        {"metadata": {"name": "c"}, "spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}},
    ]
    return NodeTable([convert(each, Node) for each in nodes])


@pytest.mark.parametrize(
    ("selector", "rows"),
    [
        pytest.param(selector_from_map({"disk": "ssd"}), [0], id="one value"),
        pytest.param(selector_from_map({"disk": "nvme"}), [], id="a value that no node has"),
        pytest.param(selector_from_map({}), [0, 1, 2], id="everything"),
        pytest.param(NOTHING, [], id="nothing"),
    ],
)
def test_labels(selector, rows):
    assert match_labels(table(), selector).nonzero()[0].tolist() == rows


@pytest.mark.parametrize(
    ("terms", "rows"),
    [
        pytest.param([], [], id="no term"),
        pytest.param([CompiledTerm(None, (FieldRequirement("metadata.name", "b"),))], [1], id="a name"),
        pytest.param(
            [CompiledTerm(None, (FieldRequirement("metadata.uid", ""),))], [0, 1, 2], id="other fields are empty"
        ),
        pytest.param([CompiledTerm(None, (FieldRequirement("metadata.uid", "u"),))], [], id="so they have no value"),
        pytest.param(
            [
                CompiledTerm(selector_from_map({"disk": "ssd"}), None),
                CompiledTerm(None, (FieldRequirement("metadata.name", "c"),)),
            ],
            [0, 2],
            id="either of two",
        ),
        pytest.param([CompiledTerm(selector_from_map({}), None, ("broken",))], [], id="a broken term"),
    ],
)
def test_node_selectors(terms, rows):
    assert match_node_selector(table(), CompiledNodeSelector(tuple(terms))).nonzero()[0].tolist() == rows


def test_a_pod_that_requires_nothing_has_no_column():
    assert match_required_affinity(table(), convert({}, Pod)) is None


def test_taints_are_hard_or_soft():
    assert untolerated_hard_taints(table(), ()).tolist() == [True, False, False]
    assert count_untolerated_soft_taints(table(), ()).tolist() == [0, 0, 1]


def test_matching_twice_leaves_the_kept_columns_alone():
    nodes = table()
    ssd = CompiledTerm(selector_from_map({"disk": "ssd"}), (FieldRequirement("metadata.name", "z"),))
    assert not match_node_selector(nodes, CompiledNodeSelector((ssd,))).any()
    assert match_labels(nodes, selector_from_map({"disk": "ssd"})).tolist() == [True, False, False]


WEB = AffinityTerm(selector_from_map({"app": "web"}), frozenset({"default"}), selector_from(None), "zone")
TERM = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Odd"}]}}
ODD = convert(
    {
        "metadata": {"name": "odd"},
        "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    },
    Pod,
)
POD_LISTS = st.lists(st.sampled_from([*(info.pod for info in POD_POOL if info.pod.spec.affinity), ODD]), max_size=12)


def test_all_terms_of_a_pod_are_listed_repeated_ones_too():
    weighted = WeightedAffinityTerm(WEB, 7)
    assert pod_terms(PodAffinityTerms((WEB, WEB), (WEB,), (weighted,), (weighted,))) == [
        (TermKind.REQUIRED_AFFINITY, WEB, 0),
        (TermKind.REQUIRED_AFFINITY, WEB, 0),
        (TermKind.REQUIRED_ANTI_AFFINITY, WEB, 0),
        (TermKind.PREFERRED_AFFINITY, WEB, 7),
        (TermKind.PREFERRED_ANTI_AFFINITY, WEB, 7),
    ]


def test_a_group_whose_last_holder_left_keeps_its_place():
    index = TermIndex()
    terms = PodAffinityTerms(required_anti_affinity=(WEB, WEB))
    index.change(terms, (3,), 1)
    index.change(terms, (1,), 1)
    (group,) = index.groups
    assert [column.tolist() for column in group.arrays()] == [[3, 1], [2, 2]]

    index.change(terms, (3,), -1)
    assert [column.tolist() for column in group.arrays()] == [[1], [2]]
    index.change(terms, (1,), -1)
    assert [column.tolist() for column in group.arrays()] == [[], []]
    assert index.group_id(TermKind.REQUIRED_ANTI_AFFINITY, WEB, 0) == 0
    assert index.group_id(TermKind.REQUIRED_AFFINITY, WEB, 0) == 1


@examples(60)
@given(
    st.lists(st.tuples(PODS, st.integers(0, 2)), max_size=8), st.lists(st.tuples(PODS, st.integers(0, 2)), max_size=4)
)
def test_a_copy_and_its_original_do_not_notice_each_other(pods, more):
    def read(index):
        return [(group.kind, group.term, group.weight, dict(group.holders)) for group in index.groups]

    index = TermIndex()
    for info, row in pods:
        index.change(info.affinity, (row,), 1)
    before = read(index)
    twin = index.copy()
    assert read(twin) == before
    for info, row in more:
        twin.change(info.affinity, (row,), 1)
    assert read(index) == before
    for info, row in reversed(more):
        twin.change(info.affinity, (row,), -1)

    assert [each for each in read(twin) if each[3]] == [each for each in before if each[3]]


@examples(60)
@given(st.lists(st.tuples(PODS, SELECTORS), max_size=6), st.lists(SELECTORS, max_size=3), LABELS)
def test_groups_are_found_by_the_labels_that_their_selectors_want(held, more, labels):
    def meant(index):
        return [group for group in index.groups if group.term.selector.matches(labels)]

    def term(selector):
        return AffinityTerm(selector, frozenset({"default"}), selector_from(None), "zone")

    index = TermIndex()
    for row, (info, selector) in enumerate(held):
        index.change(info.affinity, (row,), 1)
        index.group_id(TermKind.REQUIRED_AFFINITY, term(selector), 0)
    twin = index.copy()
    for selector in more:
        twin.group_id(TermKind.REQUIRED_ANTI_AFFINITY, term(selector), 0)
    for selector in reversed(more):
        index.group_id(TermKind.PREFERRED_AFFINITY, term(selector), 5)

    for each in (index, twin):
        found = each.groups_for(labels)
        assert [group for group in found if group.term.selector.matches(labels)] == meant(each)
        positions = [each.groups.index(group) for group in found]
        assert positions == sorted(set(positions))


@examples(80)
@given(POD_LISTS, POD_LISTS)
def test_the_terms_of_a_code_are_those_of_the_pod(pods: list[Pod], more: list[Pod]) -> None:
    terms = TermSets()
    infos = [PodInfo(pod) for pod in pods]
    codes = [terms.code(info) for info in infos]
    copied = terms.copy()
    added = [PodInfo(pod) for pod in more]
    codes_of_added = [copied.code(info) for info in added]

    for info, code in zip([*infos, *added], [*codes, *codes_of_added], strict=True):
        assert (info.affinity, info.affinity_error) == affinity_terms(info.pod)
        assert copied.sets[code] == info.affinity
    assert terms.sets == copied.sets[: len(terms.sets)]
    assert copied.sets[0] is NO_TERMS
    assert len(set(copied.sets)) == len(copied.sets)


def test_replicas_share_what_was_compiled() -> None:
    terms = TermSets()
    one = next(info.pod for info in POD_POOL if info.affinity)
    infos = [PodInfo(one), PodInfo(one)]
    assert terms.code(infos[0]) == terms.code(infos[1])
    assert infos[0].affinity is infos[1].affinity


NODES = NodeTable(
    [
        convert({"metadata": {"name": f"n{i}", "labels": labels}}, Node)
        for i, labels in enumerate([{"z": "a"}, {"z": "b"}, {}])
    ]
)


def affinity(*terms):
    return convert({"required": {"nodeSelectorTerms": list(terms)}}, VolumeNodeAffinity)


def expression(operator, *values):
    return {"matchExpressions": [{"key": "z", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, [True, True, True], id="no affinity"),
        pytest.param(VolumeNodeAffinity(), [True, True, True], id="nothing required"),
        pytest.param(affinity(), [False, False, False], id="no term takes no node"),
        pytest.param(affinity({}), [False, False, False], id="nor does an empty one"),
        pytest.param(affinity(expression("In", "a")), [True, False, False], id="in"),
        pytest.param(affinity(expression("NotIn", "a")), [False, True, True],
                     id="not in takes nodes without the label"),
        pytest.param(affinity(expression("In", "a"), expression("DoesNotExist")), [True, False, True], id="any term"),
        pytest.param(affinity(expression("In")), [False, False, False], id="a term that cannot be compiled"),
        pytest.param(affinity(expression("In"), expression("In", "b")), [False, True, False], id="spoils no other"),
        pytest.param(affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}),
                     [True, True, True], id="fields exclude no node"),
    ],
)  # fmt: skip
def test_reachable(given, expected):
    assert reachable(NODES, given).tolist() == expected


def topology(*requirements):
    found = [{"key": key, "values": list(values)} for key, *values in requirements]
    return convert({"matchLabelExpressions": found}, TopologySelectorTerm)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([], [True, True, True], id="no terms allow every node"),
        pytest.param([topology()], [False, False, False], id="an empty term allows none"),
        pytest.param([topology(("z", "a", "x"))], [True, False, False], id="one of the values"),
        pytest.param([topology(("z", "a")), topology(("z", "b"))], [True, True, False], id="one of the terms"),
        pytest.param([topology(("z", "a"), ("y", "a"))], [False, False, False], id="all requirements of a term"),
    ],
)
def test_allowed(terms, expected):
    assert allowed(NODES, terms).tolist() == expected
