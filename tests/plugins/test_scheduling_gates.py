import pytest

from kplan.framework.interface import SUCCESS, Status
from kplan.plugins.scheduling_gates import SchedulingGates

from .worlds import World, node, pod


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        pytest.param([], SUCCESS, id="no gates"),
        pytest.param(["b"], Status.unresolvable("waiting for scheduling gates: [b]"), id="one"),
        pytest.param(
            ["b", "a"], Status.unresolvable("waiting for scheduling gates: [b a]"), id="several, in their order"
        ),
    ],
)
def test_gated_pods_wait(gates, expected):
    world = World([node()])
    info = world.cycle(pod(schedulingGates=[{"name": each} for each in gates])).pod

    assert SchedulingGates(None, world.handle).pre_enqueue(info) == expected
