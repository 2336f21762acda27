"""Pods that cannot take each other's last node."""

from kplan.course.answers.plan import is_roomy
from tests.objects import node, planner_of, pod


def infos(*pods: dict) -> list:
    planner = planner_of(node("n"), *pods)
    return list(planner.session.cluster.pods.infos)


def test_as_many_nodes_as_pods_are_room_for_all() -> None:
    both = infos(pod("a"), pod("b"))
    assert is_roomy(2, both)
    assert not is_roomy(1, both)


def test_a_single_pod_competes_with_none() -> None:
    assert is_roomy(0, infos(pod("a")))


def test_a_pod_that_may_decide_about_a_zone_leaves_it_open() -> None:
    selector = {"matchLabels": {"app": "a"}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    term = {"topologyKey": "zone", "labelSelector": selector}
    avoids = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]

    assert not is_roomy(9, infos(pod("a"), pod("b", topologySpreadConstraints=[spread])))
    assert is_roomy(
        9, infos(pod("a"), pod("b", topologySpreadConstraints=[spread | {"whenUnsatisfiable": "ScheduleAnyway"}]))
    )
    assert not is_roomy(9, infos(pod("a"), pod("b", affinity=avoids)))
    assert not is_roomy(9, infos(pod("a"), pod("b", volumes=claim)))
