"""The replica set controller. Upstream: pkg/controller/replicaset/replica_set_test.go."""

from kplan.course.simulation.controllers.replica_set import BURST_REPLICAS, actions
from tests.course.simulation.controllers.builders import NOW, pod, said


def test_missing_pods_are_made() -> None:
    assert said(actions(3, [pod()], {}, NOW)) == ["+", "+"]


def test_surplus_pods_are_deleted_the_least_useful_first() -> None:
    pods = [pod("a", node="n", ready=True), pod("b"), pod("c", node="n")]
    assert said(actions(1, pods, {}, NOW)) == ["-b", "-c"]


def test_nothing_is_done_about_the_right_number() -> None:
    assert actions(2, [pod(), pod()], {}, NOW) == []


def test_only_so_many_are_made_in_one_go() -> None:
    assert len(actions(BURST_REPLICAS * 2, [], {}, NOW)) == BURST_REPLICAS
    pods = [pod() for _ in range(BURST_REPLICAS + 7)]
    assert len(actions(0, pods, {}, NOW)) == BURST_REPLICAS
