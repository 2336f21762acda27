import pytest

from kplan.api.affinity import CompiledNodeSelector, CompiledTerm, FieldRequirement
from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.labels import NOTHING, selector_from_map
from kplan.engine.matching import (
    count_untolerated_soft_taints,
    match_labels,
    match_node_selector,
    match_required_affinity,
    untolerated_hard_taints,
)
from kplan.engine.node_table import MAX_DERIVED, NodeTable


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


def test_a_table_forgets_the_oldest_of_many_derived_values():
    nodes = table()
    made = []

    for key in range(MAX_DERIVED + 1):
        nodes.derived(key, lambda key=key: made.append(key) or key)
    nodes.derived(MAX_DERIVED, lambda: made.append("again") or 0)
    nodes.derived(0, lambda: made.append("again") or 0)

    assert made == [*range(MAX_DERIVED + 1), "again"]
