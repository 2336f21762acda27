import pytest

import kplan
from tests.objects import Object, deployment, head, node, planner_of, running

NODES = ["n0", "n1", "n2"]


def autoscaler(lowest: int | None, highest: int, name: str = "h", kind: str = "Deployment") -> Object:
    spec: Object = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"}, "maxReplicas": highest}
    if lowest is not None:
        spec["minReplicas"] = lowest
    return head("HorizontalPodAutoscaler", name=name, namespace="default") | {"spec": spec}


def planner(*objects: Object) -> kplan.Planner:
    return planner_of(*(node(name, "8") for name in NODES), *objects)


@pytest.mark.parametrize(("replicas", "ends_at"), [(1, 2), (2, 2), (5, 5), (9, 6), (0, 0)])
def test_a_number_of_replicas_beyond_the_bounds_ends_at_the_bound(replicas: int, ends_at: int) -> None:
    change = planner(*running(deployment("web", 3), NODES), autoscaler(2, 6)).roll_out([deployment("web", replicas)])
    assert change.workloads[0].desired == ends_at
    assert len(change.after) == ends_at


def test_an_autoscaler_that_is_applied_scales_what_runs_already() -> None:
    change = planner(*running(deployment("web", 3), NODES)).roll_out([autoscaler(5, 6)])
    assert len(change.after) == 5


def test_of_several_autoscalers_none_acts() -> None:
    cluster = planner(*running(deployment("web", 3), NODES), autoscaler(5, 6), autoscaler(5, 6, "other"))
    assert len(cluster.roll_out([deployment("web", 1)]).after) == 1


def test_a_cluster_settles_within_the_bounds() -> None:
    settled = planner(*running(deployment("web", 3), NODES), autoscaler(1, 2)).changed(settle=True)
    assert len(settled.roll_out([]).after) == 2
