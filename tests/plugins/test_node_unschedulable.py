from hypothesis import given
from hypothesis import strategies as st

from kplan.plugins.node_unschedulable import NodeUnschedulable
from tests.oracle import taint_toleration as oracle

from .asking import details, filtered
from .worlds import World, few, node, pod, tolerations


@few
@given(st.lists(st.booleans(), min_size=1, max_size=5), st.lists(tolerations(), max_size=2))
def test_filter_equals_the_oracle(cordoned, tolerated):
    world = World([node(f"n{index}", unschedulable=each) for index, each in enumerate(cordoned)])
    incoming = pod(tolerations=tolerated)
    plugin, cycle, rows = NodeUnschedulable(None, world.handle), world.cycle(incoming), range(len(cordoned))[::-2]
    expected = [oracle.filter_unschedulable(incoming, each) for each in world.nodes]
    assert filtered(plugin, cycle, world.view()) == expected
    assert filtered(plugin, cycle, world.view(rows)) == [expected[row] for row in rows]


def test_details_name_what_a_pod_would_have_to_tolerate():
    world = World([node(unschedulable=True)])
    assert details(NodeUnschedulable(None, world.handle), world.cycle(pod()), world.view()) == [
        {"taint": "node.kubernetes.io/unschedulable:NoSchedule", "unschedulable": True}
    ]
