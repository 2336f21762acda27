"""Changes on paper: laws, and what each kind of change means."""

import random
import re
from typing import Any

import pytest

from kplan.errors import KplanError, NotFoundError, SnapshotError, UsageError
from kplan.planner.planner import Planner
from kplan.questions.reading import question_of
from tests import objects
from tests.objects import Object, head, planner_of
from tests.recorded import sample

SPREAD = {"maxSkew": 1, "topologyKey": objects.HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"}
SET, DAEMONS = "ReplicaSet/web", "DaemonSet/agent"


def node(name: str, cpu: str = "4", **labels: str) -> Object:
    made = objects.node(name, cpu, pods="20", **labels)
    del made["spec"]
    return made


def pod(name: str, on: str = "", cpu: str = "500m", owner: str | None = None, app: str = "a") -> Object:
    spread = [{**SPREAD, "labelSelector": {"matchLabels": {"app": app}}}]
    made = objects.pod(
        name, on or None, cpu=cpu, labels={"app": app}, owner=owner, start=1, topologySpreadConstraints=spread
    )
    made["spec"]["containers"][0]["resources"]["requests"]["memory"] = "256Mi"
    return made


def replica_set(replicas: int) -> Object:
    template = pod("web", app="web")
    return head("ReplicaSet", name="web", namespace="default", uid="web") | {
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        }
    }


def some_cluster(seed: int) -> list[Object]:
    draw = random.Random(seed)
    names = [f"n{index}" for index in range(6)]
    there = [node(name, cpu=draw.choice(["2", "4", "8"]), pool=draw.choice("ab")) for name in names]
    for index in range(20):
        owner = draw.choice([None, DAEMONS])
        cpu = draw.choice(["100m", "500m", "1"])
        there.append(pod(f"p{index}", draw.choice(names), cpu, owner, app=draw.choice("abc")))
    return there


def answers(planner: Planner) -> Object:
    """What is asked of every cluster: three pods, one after the other, and what was odd about it."""
    new_pods = [pod(f"new-{app}", cpu="900m", app=app) for app in "abc"]
    for new_pod in new_pods:
        del new_pod["metadata"]["uid"]
    report: Object = planner.plan(new_pods).report(fail_on=()).to_dict()
    del report["generatedAt"]
    for name in ("source", "changes"):
        report["snapshot"].pop(name, None)
    return report


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", sample(range(4), 2))
@pytest.mark.parametrize("is_asked_first", [True, False])
def test_a_cluster_without_a_node_is_one_that_never_had_it(seed: int, is_asked_first: bool) -> None:
    there = some_cluster(seed)
    planner = planner_of(there)
    if is_asked_first:
        answers(planner)
    never = [obj for obj in there if obj["metadata"]["name"] != "n2" and obj.get("spec", {}).get("nodeName") != "n2"]
    owned_by_daemons_or_nobody = planner.changed(without=["node/n2"])
    assert answers(owned_by_daemons_or_nobody) == answers(planner_of(never))


@pytest.mark.parametrize("seed", sample(range(4), 2))
def test_a_cluster_without_pods_is_one_that_never_had_them(seed: int) -> None:
    there = some_cluster(seed)
    planner = planner_of(there)
    answers(planner)
    never = [obj for obj in there if obj["metadata"]["labels"].get("app") != "b"]
    assert answers(planner.changed(without=["pod?app=b"])) == answers(planner_of(never))


@pytest.mark.parametrize("seed", sample(range(4), 2))
@pytest.mark.parametrize("settings", [{}, {"spec": {}}])
def test_a_change_and_its_opposite_give_the_first_answer_again(seed: int, settings: Object) -> None:
    there = [settings | obj for obj in some_cluster(seed)]
    planner = planner_of(there)
    first = answers(planner)
    gone = [obj for obj in there if "n1" in (obj["metadata"]["name"], obj.get("spec", {}).get("nodeName"))]

    there_again = planner.changed(without=["node/n1"]).changed(with_=gone)
    cordoned = planner.changed(cordon=["n1", "n2"])
    more = planner.changed(add_nodes=["3=n1"])

    assert answers(there_again) == first
    assert answers(cordoned) != first
    assert answers(cordoned.changed(uncordon=["n1", "n2"])) == first
    tainted = [{"change": "taint", "taints": {"n1": [text]}} for text in ("a=b:NoSchedule", "a-")]
    assert answers(planner.changed(changes=tainted)) == first
    assert answers(more) != first
    assert answers(more.changed(without=["node/n1-more-*"])) == first


@pytest.mark.parametrize("seed", sample(range(4), 2))
def test_the_first_planner_stays_as_it_is(seed: int) -> None:
    planner = planner_of(some_cluster(seed))
    first = answers(planner)
    other = planner.changed(without=["node/n3", "pod?app=c"], add_nodes=["1=n1"], cordon=["n2"], settle=True)
    answers(other)
    assert answers(planner) == first
    assert planner.snapshot.changes == ()


def test_scaling_up_and_down_again_leaves_the_pods_that_there_were() -> None:
    planner = planner_of([node("n1"), replica_set(2), *(pod(f"web-{i}", "n1", owner=SET, app="web") for i in "ab")])
    more = planner.changed(scale=["rs/web=5"])
    again = more.changed(scale=["rs/web=2"])
    assert len(more.snapshot.pods) == 5
    assert sorted(running.spec.node_name for running in more.snapshot.pods) == ["", "", "", "n1", "n1"]
    assert again.snapshot.pods == planner.snapshot.pods
    assert again.snapshot.replica_sets == planner.snapshot.replica_sets


# --- each kind of change ----------------------------------------------------------------------------------------------


def test_pods_of_a_node_that_is_gone_wait_for_another_where_a_controller_makes_them() -> None:
    there = [node("n1"), node("n2"), replica_set(1), pod("web-a", "n1", owner=SET, app="web")]
    there += [pod("agent-a", "n1", owner=DAEMONS), pod("alone", "n1")]
    other = planner_of(there).changed(without=["node/n1"])
    assert [(recreated.metadata.name, recreated.spec.node_name) for recreated in other.snapshot.pods] == [("web-1", "")]
    assert other.place("default/web-1").node == "n2"


def test_what_an_object_owns_goes_with_it() -> None:
    planner = planner_of([node("n1"), replica_set(1), pod("web-a", "n1", owner=SET), pod("alone", "n1")])
    other = planner.changed(without=["replicaset/web"])
    assert [remaining.metadata.name for remaining in other.snapshot.pods] == ["alone"]
    assert other.snapshot.replica_sets == ()
    [change] = other.snapshot.changes
    assert (change.change, change.what, change.count) == ("without", "replicaset/web", 2)
    assert change.objects == ("ReplicaSet/default/web", "Pod/default/web-a")


def test_quotas_count_no_more_what_is_removed_and_what_is_unknown_as_before() -> None:
    amounts = {"pods": "4", "requests.cpu": "8"}
    quota = head("ResourceQuota", name="few", namespace="default") | {
        "spec": {"hard": amounts},
        "status": {"hard": amounts, "used": {"pods": "4", "requests.cpu": "1500m"}},  # one pod is not in the snapshot
    }
    planner = planner_of(node("n1"), quota, *(pod(name, "n1") for name in "abc"))
    (without,) = planner.changed(without=["Pod/default/a"]).snapshot.resource_quotas
    (with_more,) = planner.changed(with_=[pod("d"), pod("e")]).snapshot.resource_quotas
    back = planner.changed(without=["Pod/default/a"], with_=[pod("a", "n1")])

    assert without.status.used == {"pods": "3", "requests.cpu": "1"}
    assert with_more.status.used == {"pods": "6", "requests.cpu": "2500m"}
    assert back.changed(without=["Pod/default/b"]).snapshot.resource_quotas[0].status.used["pods"] == "2"
    assert planner.snapshot.resource_quotas[0].status.used["pods"] == "4"


def test_added_nodes_have_their_daemons_and_nothing_else() -> None:
    leaving = node("n1")
    leaving["spec"] = {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}
    planner = planner_of([leaving, pod("agent-a", "n1", owner=DAEMONS), pod("alone", "n1")])
    other = planner.changed(cordon=["n1"]).changed(add_nodes=["2=n1"])
    added = [added_node for added_node in other.snapshot.nodes if added_node.metadata.name != "n1"]
    assert [added_node.metadata.name for added_node in added] == ["n1-more-1", "n1-more-2"]
    assert not any(added_node.spec.unschedulable or added_node.spec.taints for added_node in added)
    assert [added_node.metadata.labels["kubernetes.io/hostname"] for added_node in added] == ["n1-more-1", "n1-more-2"]
    assert [daemon.spec.node_name for daemon in other.snapshot.pods] == ["n1", "n1", "n1-more-1", "n1-more-2"]


def test_an_uncordoned_node_has_no_taint_of_a_cordoned_one() -> None:
    cordoned = node("n1")
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned["spec"] = {"unschedulable": True, "taints": [taint]}
    planner = planner_of([cordoned])
    assert planner.place(pod("new")).node is None
    assert planner.changed(uncordon=["n1"]).place(pod("new")).node == "n1"


def test_a_node_without_status_has_the_capacity_of_the_one_that_it_is_like() -> None:
    planner = planner_of([node("n1", cpu="6")])
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9", "annotations": {"kplan/like": "n1"}}}
    lost = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9", "annotations": {"kplan/like": "m1"}}}
    other = planner.changed(with_=[bare])
    assert other.snapshot.node_by_name["n9"].status == planner.snapshot.node_by_name["n1"].status
    with pytest.raises(NotFoundError, match="no node m1"):
        planner.changed(with_=[lost])


def test_an_object_takes_the_place_of_the_one_of_its_name_and_keeps_what_that_reports() -> None:
    planner = planner_of([node("n1"), node("n2")])
    tainted = head("Node", name="n1") | {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}
    other = planner.changed(with_=[tainted])
    before, after = planner.snapshot.node_by_name["n1"], other.snapshot.node_by_name["n1"]
    assert after.status == before.status
    assert after.metadata.uid == before.metadata.uid
    assert other.place(pod("new")).node == "n2"


def test_settling_lets_controllers_and_scheduler_do_what_they_would() -> None:
    there = [node("n1"), node("n2"), replica_set(3), pod("web-a", "n1", owner=SET, app="web")]
    settled = planner_of(there).changed(without=["node/n1"], settle=True)
    assert [moved.spec.node_name for moved in settled.snapshot.pods] == ["n2"] * 3
    assert [change.change for change in settled.snapshot.changes] == ["without", "settle"]
    nothing_left = settled.changed(settle=True)
    assert nothing_left.snapshot.changes[-1].count == 0
    assert nothing_left.snapshot.digest == settled.snapshot.digest


def guard(name: str, **spec: Any) -> Object:
    return head("PodDisruptionBudget", name=name, namespace="default") | {
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}
    }


def allowed(planner: Planner) -> dict[str, int]:
    budgets = planner.objects.pod_disruption_budgets
    return {budget.metadata.name: budget.status.disruptions_allowed for budget in budgets}


def test_a_new_budget_gets_its_status_at_once() -> None:
    running = [{**pod(f"web-{n}", "n1", owner=SET, app="web")} for n in "abc"]
    for web in running:
        web["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    planner = planner_of([node("n1"), node("n2"), replica_set(3), *running])
    assert allowed(planner.changed(with_=[guard("one", minAvailable=1)])) == {"one": 2}
    assert allowed(planner.changed(with_=[guard("none", maxUnavailable=0)])) == {"none": 0}
    replaced = planner.changed(with_=[guard("one", minAvailable=1)]).changed(with_=[guard("one", minAvailable=2)])
    assert allowed(replaced) == {"one": 1}


def test_budgets_allow_what_the_changed_pods_make_of_them() -> None:
    budget = guard("one", minAvailable=1) | {"status": {"disruptionsAllowed": 0, "expectedPods": 1}}
    web = pod("web-a", "n1", owner=SET, app="web")
    web["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    planner = planner_of([node("n1"), node("n2"), replica_set(1), web, budget])
    assert allowed(planner) == {"one": 0}
    assert allowed(planner.changed(scale=["rs/web=3"], settle=True)) == {"one": 2}


def test_a_settled_cluster_is_the_same_as_its_snapshot_read_anew() -> None:
    there = [node("n1"), node("n2"), replica_set(3), pod("web-a", "n1", owner=SET, app="web")]
    settled = planner_of(there).changed(scale=["rs/web=6"], settle=True)
    anew = planner_of(*settled.snapshot)
    assert answers(settled)["placements"] == answers(anew)["placements"]


def test_warnings_about_what_is_gone_go_with_it() -> None:
    planner = planner_of([node("n1"), pod("lost", "n7")])
    assert [warning.code for warning in planner.snapshot.warnings] == ["UnknownNode"]
    assert planner.changed(without=["pod/lost"]).snapshot.warnings == ()


# --- what cannot be done ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"without": ["node/n3"]}, "the snapshot has no node/n3", "the snapshot has 2 of that kind, such as node/n1"),
        ({"without": ["pod/other/alone"]}, "the snapshot has no pod/other/alone", "did you mean pod/default/alone?"),
        ({"without": ["pvc/x"]}, "the snapshot has no pvc/x", "the snapshot has no persistentvolumeclaims at all"),
        ({"without": ["hpa.v2.autoscaling/x"]}, "the snapshot has no hpa.v2.autoscaling/x", None),
        ({"without": ["nodde/x"]}, "nodde/x: no kind that scheduling reads is called 'nodde'", "did you mean node?"),
        ({"without": ["node/a/b"]}, "node/a/b: expected node/NAME", "for example node/NAME or node?label=value"),
        ({"without": ["pod"]}, "pod: expected pod/NS/NAME", "for example pod/NS/NAME or pod?label=value"),
        ({"without": ["pod?"]}, "pod?: names no label", "for example node?pool=gpu"),
        ({"cordon": ["n3"]}, "the snapshot has no node/n3", None),
        ({"add_nodes": ["n1"]}, "n1: expected N=NODE", "for example 3=node-01; N is a number from 1 to 100000"),
        ({"add_nodes": ["0=n1"]}, "0=n1: expected N=NODE", "for example 3=node-01; N is a number from 1 to 100000"),
        ({"add_nodes": ["1=n3"]}, "the snapshot has no node n3", None),
        ({"scale": ["pod/alone=2"]}, "pod/alone: a Pod has no number of replicas", None),
        ({"scale": ["rs/web"]}, "rs/web: expected KIND/[NS/]NAME=N", None),
        ({"scale": ["rs/web=-1"]}, "rs/web=-1: expected KIND/[NS/]NAME=N", None),
        ({"add_nodes": ["0000000019999999=n1"]}, "0000000019999999=n1: expected N=NODE", None),
    ],
)
def test_what_cannot_be_changed_is_told_with_the_nearest(change: Any, message: str, hint: str | None) -> None:
    planner = planner_of([node("n1"), node("n2"), pod("alone", "n1")])
    with pytest.raises((NotFoundError, UsageError)) as caught:
        planner.changed(**change)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


def test_objects_that_cannot_be_read_are_told_all_at_once() -> None:
    planner = planner_of([node("n1")])
    broken = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": 7}}, {"kind": 3}]
    with pytest.raises(SnapshotError):
        planner.changed(with_=broken)
    with pytest.raises(UsageError, match="no priority class 'high'"):
        planner.changed(with_=[{**pod("x"), "metadata": {"name": "x"}, "spec": {"priorityClassName": "high"}}])


def test_a_report_lists_the_changes_in_order() -> None:
    planner = planner_of([node("n1"), node("n2")])
    assert "changes" not in planner.plan([pod("new")]).report().to_dict()["snapshot"]
    report = planner.changed(cordon=["n1"]).changed(uncordon=["?1"]).plan([pod("new")]).report().to_dict()
    assert report["snapshot"]["changes"] == [
        {"change": "cordon", "what": "n1", "count": 1, "objects": ["Node/n1"]},
        {"change": "uncordon", "what": "?1", "count": 1, "objects": ["Node/n1"]},
    ]


def test_changed_snapshots_share_what_did_not_change() -> None:
    planner = planner_of(some_cluster(1))
    answers(planner)
    other = planner.changed(cordon=["n1"])
    assert other.snapshot.pods is planner.snapshot.pods
    shared = {id(info) for info in planner.session.cluster.pods.infos}
    assert {id(info) for info in other.session.cluster.pods.infos} == shared


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"change": "taint", "taints": {"n1": ["a=b:NoSchedule"]}}, "n2"),
        ({"change": "taint", "taints": {"n2": ["old-"]}}, "n1"),
        ({"change": "removeNodes", "nodes": ["n1"]}, "n2"),
        ({"change": "cordon", "nodes": ["n1", "n2"]}, ""),
        ({"change": "settle"}, "n1"),
    ],
)
def test_any_change_is_made_on_paper_as_its_document_says(change: dict[str, Any], expected: str) -> None:
    planner = planner_of([node("n1"), node("n2")])
    assert (planner.changed(changes=[change]).place(pod("new")).node or "") == expected
    question = {"apiVersion": "kplan/v1", "kind": "WhatIfQuestion", "changes": [change]}
    read, problems = question_of({**question, "question": {"kind": "PlaceQuestion", "pods": [pod("new")]}})
    assert not problems
    assert [placement.node or "" for placement in planner.ask(read).placements] == [expected]


def test_a_quota_and_a_budget_are_changed_on_paper() -> None:
    quota = head("ResourceQuota", name="q", namespace="shop") | {"spec": {"hard": {"pods": "1"}}}
    budget = head("PodDisruptionBudget", name="b", namespace="shop") | {"spec": {"minAvailable": 2}}
    planner = planner_of([node("n1"), quota, budget]).changed(
        changes=[
            {"change": "quota", "quota": "shop/q", "limits": [{"resource": "pods", "old": "1", "to": "5"}]},
            {"change": "budget", "budget": "shop/b", "old": '{"minAvailable":2}', "to": '{"minAvailable":1}'},
        ]
    )

    assert planner.snapshot.resource_quotas[0].spec.hard == {"pods": "5"}
    assert planner.snapshot.pod_disruption_budgets[0].spec.min_available == 1
    assert [(change.change, change.what) for change in planner.snapshot.changes] == [
        ("quota", "shop/q"),
        ("budget", "shop/b"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"change": "runCronJob", "cronJob": "shop/report"}, "run CronJob shop/report: cannot be done on paper"),
        ({"change": "cordon", "nodes": ["nosuch"]}, "the snapshot has no node/nosuch"),
        ({"change": "taint", "taints": {"n1": ["="]}}, "'=' is no taint"),
        ({"change": "nosuch"}, "expected one of apply, delete"),
    ],
)
def test_a_change_that_means_nothing_on_paper_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(KplanError, match=re.escape(words)):
        planner_of([node("n1")]).changed(changes=[change])
    question = {"apiVersion": "kplan/v1", "kind": "WhatIfQuestion", "changes": [change]}
    read, problems = question_of({**question, "question": {"kind": "PlaceQuestion", "pods": [pod("new")]}})
    assert (read is None) is bool(problems)  # a question that is one of many in a file is read all the same
