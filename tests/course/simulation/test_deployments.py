"""Replica sets as they are kept with their pods."""

import pytest

from kplan.api.names import WorkloadRef
from kplan.course.simulation.controllers.observed import Delete
from kplan.course.simulation.deployments import ReplicaSetState
from tests.course.simulation.controllers.builders import NOW, pod


@pytest.mark.parametrize(("controlled", "goes"), [(True, "beside"), (False, "alone")])
def test_a_replica_set_of_nobody_does_not_look_at_what_stands_beside_its_pods(*, controlled: bool, goes: str) -> None:
    """Without a controller upstream's getReplicaSetsWithSameController finds no sets, and all pods rank alike."""
    state = ReplicaSetState(WorkloadRef("ReplicaSet", "default", "web"), replicas=2, is_controlled=controlled)
    for number, (name, node) in enumerate([("alone", "n2"), ("beside", "n1"), ("other", "n1")]):
        state.join(pod(name, node=node, ready=True, since=NOW - 1000 - number, uid=str(number)))

    assert [each.pod.name for each in state.actions(NOW) if isinstance(each, Delete)] == [goes]
