import pytest

from kplan.api.affinity import TopologySelectorTerm, VolumeNodeAffinity
from kplan.api.core import Node
from kplan.api.decode import convert
from kplan.engine.matching import allowed, reachable
from kplan.engine.node_table import NodeTable

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
        pytest.param(
            affinity(expression("NotIn", "a")), [False, True, True], id="not in takes nodes without the label"
        ),
        pytest.param(affinity(expression("In", "a"), expression("DoesNotExist")), [True, False, True], id="any term"),
        pytest.param(affinity(expression("In")), [False, False, False], id="a term that cannot be compiled"),
        pytest.param(affinity(expression("In"), expression("In", "b")), [False, True, False], id="spoils no other"),
        pytest.param(
            affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}),
            [True, True, True],
            id="fields exclude no node",
        ),
    ],
)
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
