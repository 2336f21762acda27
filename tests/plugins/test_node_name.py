import pytest

from kplan.plugins.node_name import NodeName

from .asking import details, filtered
from .worlds import World, node, pod

REJECTED = ("UnschedulableAndUnresolvable", ["node(s) didn't match the requested node name"])


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param("", [None, None, None], id="no name takes any node"),
        pytest.param("b", [REJECTED, None, REJECTED], id="a name takes that node"),
        pytest.param("z", [REJECTED, REJECTED, REJECTED], id="the name of no node takes none"),
    ],
)
def test_only_the_requested_node_passes(wanted, expected):
    world = World([node("a"), node("b"), node("c")])
    plugin, cycle = NodeName(None, world.handle), world.cycle(pod(nodeName=wanted))
    assert filtered(plugin, cycle, world.view()) == expected
    assert filtered(plugin, cycle, world.view([2, 1])) == [expected[2], expected[1]]


def test_details_name_both_nodes():
    world = World([node("a"), node("b")])
    assert details(NodeName(None, world.handle), world.cycle(pod(nodeName="a")), world.view([1])) == [
        {"requested": "a", "node": "b"}
    ]
