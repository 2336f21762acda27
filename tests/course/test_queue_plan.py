"""Working off the whole queue: order, preemption, replacements, and what is left."""

from typing import Any

import pytest
from msgspec.structs import replace

from kplan.course.simulation import motion
from kplan.planner.planner import Planner
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.objects import (
    HOSTNAME,
    Object,
    affinity,
    deployment,
    device_slice,
    head,
    node,
    owned_by,
    planner_of,
    pod,
    running,
)


def changes(objects: list[Object], **options: Any) -> list[tuple[str, str, str | None, str | None]]:
    plan = planner_of(objects).plan_queue(**options)
    return [(change.action, change.pod, change.from_node, change.to_node) for change in plan.report().changes]


def test_an_evicted_pod_with_a_controller_moves_and_one_without_is_gone() -> None:
    owned = [node("a"), node("b", "2"), pod("web", cpu="2", on="a", owner="ReplicaSet/owner")]
    lonely = [node("a"), node("b", "2"), pod("web", cpu="2", on="a")]
    big = pod("big", cpu="4", priority=10)
    assert changes([*owned, big]) == [("+", "default/big", None, "a"), ("~", "default/web", "a", "b")]
    assert changes([*lonely, big]) == [("+", "default/big", None, "a"), ("-", "default/web", "a", None)]
    assert changes([*owned, big], recreate=False) == changes([*lonely, big])


def test_a_replacement_that_fits_nowhere_stays_pending_where_its_pod_was_and_fails_the_plan() -> None:
    for kind in ("StatefulSet", "ReplicaSet"):
        objects = [node("a"), pod("web", cpu="2", on="a", owner=f"{kind}/owner"), pod("big", cpu="4", priority=10)]
        report = planner_of(objects).plan_queue().to_dict()
        assert changes(objects) == [("+", "default/big", None, "a"), ("!", "default/web", "a", None)]
        assert report["verdict"]["because"] == ["default/web: Unschedulable"]
        assert report["summary"]["placed"] == 1


def _half_rolled_out(cpu: str) -> list[Object]:
    """Write a deployment whose pods are of its former template; its newer set has none yet."""
    obj, former, *pods = running(deployment("web", 3, "app:2", cpu="1"), ["a"])
    noted = {"deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/revision": "2"}
    labels = {"app": "web", "pod-template-hash": "h2"}
    newer = former | {"metadata": former["metadata"] | {"name": "web-h2", "uid": "r-2", "annotations": noted}}
    template = former["spec"]["template"] | {"metadata": {"labels": labels}}
    newer["spec"] = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    for one in (former["spec"]["template"], *pods):
        one["spec"] = {**one["spec"], "containers": [{**one["spec"]["containers"][0], "image": "app:1"}]}
    return [node("a", cpu), obj, former, newer, *pods]


@pytest.mark.parametrize(
    ("objects", "ends", "counted", "words"),
    [
        ([node("a", "2"), *running(deployment("web", 4, cpu="1"), ["a"], 2)], "!!", 2, "2 pods of Deployment default"),
        ([node("a"), *running(deployment("web", 4, cpu="1"), ["a"], 2)], "++", 0, "default/web: 2 of 4 replicas"),
        (_half_rolled_out("3"), "!", 1, "The rollout of Deployment default/web gets stuck"),
        (_half_rolled_out("4"), "~~~", 0, "Deployment default/web is rolled out: 3 of 3 pods placed"),
        ([obj for obj in _half_rolled_out("4") if obj["kind"] != "ReplicaSet"], "", 0, "No"),
    ],
)
def test_what_controllers_have_yet_to_do_is_carried_on_and_counts(
    objects: list[Object], ends: str, counted: int, words: str
) -> None:
    planner = planner_of(objects)
    report = planner.plan_queue().report()

    assert "".join(change.action for change in report.changes) == ends
    assert render(report, "short", ReportOptions()).startswith(words)
    assert len(report.verdict.counted) == counted
    assert planner.changed(settle=True).plan_queue().report().verdict.failed == report.verdict.failed


def test_where_templates_look_the_same_the_set_of_the_highest_revision_is_current() -> None:
    obj, current, *pods = running(deployment("web", 3), ["a"])
    current["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    former = {**current, "metadata": {**current["metadata"], "name": "web-h0", "uid": "r-0", "annotations": {}}}
    snapshot = planner_of(node("a"), obj, former | {"spec": former["spec"] | {"replicas": 0}}, current, *pods).snapshot
    assert Planner(replace(snapshot, whole={})).plan_queue().report().changes == ()


def _leader_and_follower() -> list[dict[str, Any]]:
    """Write a pod that fits only beside another one of lower priority, which comes after it."""
    labels = {"app": "leader"}
    friend = affinity("podAffinity", HOSTNAME, **labels)
    return [node("a"), node("b"), pod("follower", priority=5, **friend), pod("leader", labels=labels)]


def test_a_later_round_places_what_an_earlier_one_made_possible() -> None:
    plan = planner_of(_leader_and_follower()).plan_queue()
    assert plan.simulation.rounds == 2
    assert [change.action for change in plan.report().changes] == ["+", "+"]
    assert len({change.to_node for change in plan.report().changes}) == 1


def test_freed_room_goes_to_the_pod_of_higher_priority_that_may_not_preempt() -> None:
    objects = [
        node("a"),
        pod("low", cpu="4", on="a"),
        pod("patient", cpu="3", priority=20, preemptionPolicy="Never"),
        pod("preemptor", cpu="4", priority=10),
    ]
    plan = planner_of(objects).plan_queue()

    assert {change.pod: change.to_node for change in plan.report().changes} == {
        "default/patient": "a",
        "default/preemptor": None,
        "default/low": None,
    }


def test_a_cascade_of_preemptions_ends_with_the_least_important_pending() -> None:
    objects = [
        node("a"),
        node("b"),
        pod("middle", cpu="4", priority=5, on="a", owner="ReplicaSet/owner"),
        pod("low", cpu="4", priority=1, on="b", owner="ReplicaSet/owner"),
        pod("high", cpu="4", priority=9, nodeSelector={"kubernetes.io/hostname": "a"}),
    ]

    assert changes(objects) == [
        ("+", "default/high", None, "a"),
        ("~", "default/middle", "a", "b"),
        ("!", "default/low", "b", None),
    ]


def test_utilisation_counts_before_and_after() -> None:
    objects = [node("a"), pod("web", cpu="1", on="a"), pod("new", cpu="2")]
    report = planner_of(objects).plan_queue().to_dict()

    cpu = report["utilisation"]["cluster"]["resources"]["cpu"]
    assert (cpu["before"], cpu["after"], cpu["allocatable"]) == ("1", "3", "4")
    assert (cpu["percentBefore"], cpu["percentAfter"]) == (25.0, 75.0)
    largest = {fit["resource"]: fit for fit in report["largestFit"]}
    assert largest["cpu"]["after"] == {"node": "a", "free": "1", "totalFree": "1", "percentOfFree": 100.0}
    assert report["utilisation"]["nodes"]["a"]["cpu"] == cpu


def test_pods_that_keep_being_evicted_are_given_up_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion, "MAX_RETURNS", 0)
    workers = [pod(name, cpu="2", on="a", owner="ReplicaSet/owner") for name in ("w1", "w2")]
    report = planner_of(node("a"), *workers, pod("big", cpu="4", priority=10)).plan_queue().to_dict()

    assert [(warning["code"], warning["message"]) for warning in report["warnings"]] == [
        ("EvictionCycle", "default/big and default/w1, default/w2 preempt each other again and again")
    ]
    assert [(change["pod"], change["action"], change["reason"]) for change in report["changes"][1:]] == [
        (f"default/{name}", "!", "keeps being evicted wherever its controller puts it") for name in ("w1", "w2")
    ]


def test_a_limit_of_rounds_is_told() -> None:
    plan = planner_of(_leader_and_follower()).plan_queue(max_rounds=1)
    assert plan.simulation.hit_limit
    assert [warning["code"] for warning in plan.to_dict()["warnings"]] == ["RoundLimit"]


def test_a_replacement_gets_claims_of_its_own() -> None:
    size = {"requests": {"storage": "1Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": size}
    late = {"provisioner": "disks.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    storage = head("StorageClass", name="fast") | late
    owned = {"namespace": "default", "ownerReferences": owned_by("Pod/web")}
    bound = head("PersistentVolumeClaim", name="web-scratch", **owned) | {
        "spec": {**claim, "volumeName": "disk"},
        "status": {"phase": "Bound"},
    }
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    web = pod("web", cpu="2", on="a", owner="ReplicaSet/owner", volumes=volumes)

    found = changes([node("a"), node("b", "2"), storage, bound, web, pod("big", cpu="4", priority=10)])
    assert found == [("+", "default/big", None, "a"), ("~", "default/web", "a", "b")]


def test_a_replacement_gets_devices_of_its_own() -> None:
    wanted = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "gpu"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "web", "uid": "web"}],
    }
    owned = {"namespace": "default", "uid": "web-gpu", "ownerReferences": owned_by("Pod/web")}
    devices = [
        head("DeviceClass", name="gpu") | {"spec": {}},
        head("ResourceClaimTemplate", name="one", namespace="default") | {"spec": {"spec": wanted}},
        head("ResourceClaim", name="web-gpu", **owned) | {"spec": wanted, "status": status},
        device_slice("a", "gpu"),
        device_slice("b", "gpu"),
    ]
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    web = pod("web", cpu="2", on="a", owner="ReplicaSet/owner", resourceClaims=claims)
    web["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "web-gpu"}]

    found = changes([node("a"), node("b", "2"), *devices, web, pod("big", cpu="4", priority=10)])
    assert found == [("+", "default/big", None, "a"), ("~", "default/web", "a", "b")]


def test_pods_that_kube_scheduler_leaves_alone_do_not_fail_a_plan() -> None:
    foreign, leaving = pod("foreign", schedulerName="other"), pod("leaving", leaving=True)
    planner = planner_of(node("a"), foreign, leaving)
    report = planner.plan_queue().report()
    assert [(change.pod, change.outcome) for change in report.changes] == [("default/foreign", "Error")]
    assert not report.verdict.failed
    assert planner.plan([foreign]).placements[0].outcome.value == "Error"


def test_a_pod_that_preempts_what_hangs_is_nominated_once_and_waits() -> None:
    small, hanging = pod("small", on="a", cpu=None, created="2026-03-01T13:00:00Z"), pod("hanging", cpu="4", on="a")
    hanging["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"  # nothing tells that it was preempted
    plan = planner_of(node("a"), small, hanging, pod("big", cpu="4", priority=10)).plan_queue()
    assert [(step.event.value, step.pod, step.node) for step in plan.steps] == [("nominated", "default/big", "a")]
    assert [change.outcome for change in plan.report().changes] == ["Unschedulable"]


def test_what_is_odd_about_the_end_counts_as_a_warning_and_has_no_object_before_it() -> None:
    planner = planner_of(node("a"), pod("going", on="a", leaving=True))
    report = planner.plan_queue().report(fail_on=["warning"])
    assert report.verdict.because == ("BeingDeleted",)
    text = render(report, "table", ReportOptions(width=120))
    assert "\n  - pods that are being deleted already count as gone: default/going [BeingDeleted]\n" in text
    assert text.endswith("Verdict: failed (exit code 1): warning\n")


def test_a_cluster_that_tells_no_time_is_as_it_is_at_the_last_deletion() -> None:
    going = pod("going", on="a", leaving=True)
    del going["metadata"]["creationTimestamp"]
    report = planner_of(node("a"), going).plan_queue().report(fail_on=["warning"])
    assert report.verdict.because == ("BeingDeleted",)  # it counts as gone, as it has not hung for long by now


def test_a_change_that_moves_nothing_takes_a_round() -> None:
    web = running(deployment("web", 1), ["a"])
    assert planner_of(node("a"), web).roll_out([web[0]]).report().summary.rounds == 1
    assert planner_of(node("a"), web).plan_queue().report().summary.rounds == 0
