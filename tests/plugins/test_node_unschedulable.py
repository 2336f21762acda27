from kplan.plugins.node_unschedulable import NodeUnschedulable

from .asking import details
from .worlds import World, node, pod


def test_details_name_what_a_pod_would_have_to_tolerate():
    world = World([node(unschedulable=True)])
    assert details(NodeUnschedulable(None, world.handle), world.cycle(pod()), world.view()) == [
        {"taint": "node.kubernetes.io/unschedulable:NoSchedule", "unschedulable": True}
    ]
