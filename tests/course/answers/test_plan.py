"""Pods that cannot take each other's last node."""

from __future__ import annotations

from msgspec.structs import replace

from kplan.course.answers.plan import is_roomy, placement_documents, placement_report, summary
from kplan.diagnosis.explanation import Shown
from kplan.documents.placement import Summary
from kplan.snapshot.model import MissingKind
from tests.objects import node, planner_of, pod
from tests.preemption.scenes import app, budget, planner

WORLD = [
    node("a", cpu="4"),
    node("b", cpu="1"),
    pod("low", on="a", cpu="3", labels={"app": "low"}),
    budget("keep", app("low")),
    pod("vip", cpu="4", priority=9),
    pod("small", cpu="500m"),
    pod("shut", cpu="1", schedulingGates=[{"name": "later"}]),
    pod("lost", cpu="1", schedulerName="nobody"),
]
ALL = ["default/vip", "default/small", "default/shut", "default/lost"]


def test_a_report_tells_what_was_asked_of_which_cluster():
    asking = planner(WORLD)
    missing = (MissingKind("pdbs", "forbidden", ("P",)),)
    asking.snapshot = replace(asking.snapshot, source="live:x", taken_at="2026-03-01T10:00:00Z", missing=missing)
    made = asking.plan([]).to_dict()

    assert made["generatedAt"].endswith("Z")
    assert (made["apiVersion"], made["kind"], made["formatVersion"]) == ("kplan/v1", "PlacementReport", "1.1")
    assert made["snapshot"] == {
        "source": "live:x",
        "takenAt": "2026-03-01T10:00:00Z",
        "nodes": 2,
        "pods": 5,
        "digest": asking.snapshot.digest,
        "missing": [{"resource": "pdbs", "reason": "forbidden", "blinds": ["P"]}],
    }
    assert made["scheduler"] == {
        "kubernetesVersion": "1.36",
        "featureGates": {},
        "ties": "scheduler",
        "seed": None,
        "profiles": ["default-scheduler"],
        "configSource": "default",
    }


def test_outcomes_are_counted_and_victims_with_them():
    assert summary(planner(WORLD).plan(ALL).placements) == Summary(
        pods=4, scheduled=1, unschedulable=1, gated=1, errors=1, victims=1, pdb_violations=1
    )


def test_a_pod_that_was_tried_twice_counts_once_with_its_last_outcome_and_so_do_its_victims():
    placements = planner(WORLD).plan(["default/vip"], settle_preemption=True).placements
    assert len(placements) == 2
    assert summary(placements) == Summary(
        pods=1, scheduled=1, unschedulable=0, gated=0, errors=0, victims=1, pdb_violations=1
    )


def test_the_report_holds_verdict_summary_warnings_and_placements():
    plan = planner(WORLD).plan(["default/small", "default/vip"])
    made = plan.report()

    assert made.verdict.to_dict() == {
        "failed": True,
        "exitCode": 1,
        "failOn": ["unschedulable", "stuck", "preemption", "gated"],
        "because": ["default/vip: Unschedulable"],
        "counted": [{"object": "default/vip", "rule": "Unschedulable", "node": None, "victim": None}],
        "more": 0,
    }
    assert plan.report(fail_on=["gated"]).verdict.failed is False
    assert made.summary == summary(plan.placements)
    assert made.placements == tuple(placement.to_document() for placement in plan.placements)
    assert made.warnings == plan.context.warnings
    assert made.placements == placement_report(plan.context, plan.placements).placements


def test_placements_are_told_as_far_as_somebody_wants_to_know():
    placements = planner(WORLD).plan(["default/small", "default/vip", "default/shut"]).placements
    outlined, about_a, shown = placement_documents(placements, {1: ["a"], 2: Shown(1)})
    assert outlined == placements[0].to_outline()
    assert (outlined.node, outlined.rejections) == (placements[0].node, {})
    assert list(about_a.rejections) == ["a"]
    assert shown == placements[2].to_document(Shown(1))
    assert placement_documents(placements, None) == tuple(placement.to_document() for placement in placements)


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
