"""A plan tries the pods of a group as a group, and tells it as one thing."""

import json
from pathlib import Path
from typing import Any

import kplan
from kplan.autoscaling.settings import ClusterAutoscaler
from kplan.documents.plan import PlanReport
from kplan.questions.capacity import Capacity
from kplan.questions.place import Place
from kplan.questions.plan import Plan
from kplan.questions.preempt import Preempt
from kplan.questions.remedy import Remedy
from kplan.report.overview import group_text
from tests.objects import head, node, planner_of, pod
from tests.plugins.test_gang_scheduling import group, member, planner


def plan(*objects: dict[str, Any], **gates: bool) -> PlanReport:
    return planner(*objects, **gates).plan_queue().report()


def test_no_pod_of_a_gang_that_lacks_room_is_placed_and_the_verdict_counts_the_group_once() -> None:
    report = plan(node("a", cpu="2"), group("gang", 3), *map(member, ("x", "y", "z")), pod("alone", cpu="1"))
    (gang,) = report.groups
    assert (gang.state, gang.fit, gang.placed) == ("Waits", 1, 0)
    assert gang.message == "pod group is unschedulable"
    assert gang.because.startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert report.verdict.because == ("PodGroup/default/gang: Unschedulable",)
    assert [change.pod for change in report.changes if change.to_node] == ["default/alone"]
    assert [change.pod for change in report.changes if change.held_back_by] == ["default/x"]


def test_a_gang_that_waits_starts_once_another_pod_has_left() -> None:
    low = pod("low", cpu="2", priority=-1, nodeName="a")
    pods = [member(name, "2") for name in ("x", "y")]
    report = plan(node("a", cpu="2"), node("b", cpu="2"), group("gang", 2), low, *pods)
    (gang,) = report.groups
    assert (gang.state, gang.evicted) == ("Scheduled", ("default/low",))


def test_a_group_evicts_a_whole_group_and_says_which() -> None:
    running = [member(name, "2", of="old", priority=0, nodeName=where) for name, where in (("r1", "a"), ("r2", "b"))]
    pods = [member(name, "2", priority=10) for name in ("x", "y")]
    groups = (group("gang", 2, priority=10), group("old", 2, priority=0, disruptionMode="PodGroup"))
    report = plan(node("a", cpu="2"), node("b", cpu="2"), *groups, *running, *pods, WorkloadAwarePreemption=True)
    gang = (report.groups)[0]
    assert [(one.key, one.pods) for one in gang.evicted_groups] == [("default/old", 2)]
    assert gang.evicted == ("default/r1", "default/r2")


def test_only_the_first_of_two_groups_evicts_the_same_pods() -> None:
    fixture = Path(__file__).parents[2] / "fixtures/gang.yaml"
    gates = {"GenericWorkload": True, "GangScheduling": True}
    report = kplan.Planner(fixture, feature_gates=gates).plan_queue().report()
    evicted = {group.name: group.evicted for group in report.groups}
    assert evicted == {"train": (), "eval": ("ml/nightly-0", "ml/nightly-1"), "sweep": ()}


def test_a_group_says_on_which_rack_it_runs() -> None:
    nodes = [node(name, cpu="2", rack=rack) for name, rack in (("a", "r1"), ("b", "r2"), ("c", "r2"))]
    gang = group("gang", 3, schedulingConstraints={"topology": [{"key": "rack"}]})
    report = plan(*nodes, gang, *map(member, ("x", "y", "z")), TopologyAwareWorkloadScheduling=True)
    (told,) = report.groups
    assert (told.topology.key, told.topology.value) == ("rack", "r2")


def test_pods_that_wait_for_their_group_are_kept_out_of_the_queue() -> None:
    report = plan(node("a"), group("gang", 2), member("x"), member("lost", of="nowhere"))
    assert {told.key: (told.state, bool(told.policy)) for told in report.groups} == {
        "default/gang": ("Gated", True),
        "default/nowhere": ("Gated", False),
    }


def test_a_plan_ends_as_the_queue_does() -> None:
    objects = [node(name, cpu="4") for name in "abc"]
    objects += [group("one", 3), group("two", 2), group("free", None)]
    objects += [member(f"one-{i}", "2", of="one", priority=5) for i in range(3)]
    objects += [member(f"two-{i}", "3", of="two") for i in range(2)]
    objects += [member(f"free-{i}", "1", of="free") for i in range(4)]

    report = planner(*objects).plan_queue().report()
    ends = planner(*objects).run_queue().to_dict()["pods"]

    placed = {change.pod for change in report.changes if change.to_node}
    assert placed == {f"default/{one['pod']['name']}" for one in ends if one["outcome"] == "Scheduled"}


def test_a_gang_is_tried_again_beginning_with_the_member_that_was_turned_down() -> None:
    members = [member("big", "3", of="gang"), member("b", "2", of="gang"), member("c", "2", of="gang")]
    objects = [node("a", cpu="4"), group("gang", 2), *members]
    report = planner(*objects).plan_queue().report()
    ends = planner(*objects).run_queue().to_dict()["pods"]
    placed = {change.pod for change in report.changes if change.to_node}
    assert placed == {"default/b", "default/c"}
    assert placed == {f"default/{one['pod']['name']}" for one in ends if one["outcome"] == "Scheduled"}


def test_everybody_has_a_turn_before_the_queue_rests() -> None:
    large = [pod(f"large-{index:02}", cpu="9") for index in range(20)]
    last = pod("small", cpu="1", priority=-1)
    ends = planner(node("a", cpu="4"), *large, last).run_queue().to_dict()["pods"]
    assert [one["pod"]["name"] for one in ends if one["outcome"] == "Scheduled"] == ["small"]


def test_draws_count_no_pod_as_evicted_that_a_group_only_tried() -> None:
    objects = [node("a", cpu="2"), node("b", cpu="2"), group("gang", 3), *map(member, ("x", "y", "z"))]
    odds = planner(*objects).odds(Plan(), runs=5)
    told = odds.to_dict()
    assert told["summary"]["allPlaced"]["runs"] == 5
    assert all(one["evicted"]["runs"] == 0 for one in told["pods"])


def test_placing_a_member_tries_its_whole_group() -> None:
    fits = planner(node("a", cpu="3"), group("gang", 3), *map(member, ("x", "y", "z")))
    lacks = planner(node("a", cpu="2"), group("gang", 3), *map(member, ("x", "y", "z")))

    placed, waiting = fits.plan(["default/y"]).report(), lacks.plan(["default/y", "default/x"]).report()

    assert [one.node for one in placed.placements] == ["a"]
    assert [one.state for one in placed.groups] == ["Scheduled"]
    assert [one.state for one in waiting.groups] == ["Waits"]
    assert {one.node for one in waiting.placements} == {None}
    assert waiting.verdict.because == ("PodGroup/default/gang: Unschedulable",)
    assert waiting.warnings == ()


def test_each_decision_of_a_group_is_explained_as_it_was_made() -> None:
    asked = planner(node("a", cpu="2"), node("b", cpu="2"), group("gang", 4), *map(member, "wxyz"))
    placements = asked.plan([f"default/{name}" for name in "wxyz"]).placements
    assert [len(placement.feasible_nodes) for placement in placements] == [2, 2, 2, 1]
    assert all(placement.node in placement.feasible_nodes for placement in placements)
    assert all(placement.node in placement.ties for placement in placements)


def test_preemption_tells_whom_the_whole_group_evicts() -> None:
    running = [pod(name, cpu="2", priority=0, nodeName=where) for name, where in (("r1", "a"), ("r2", "b"))]
    pods = [member(name, "2", priority=10) for name in ("x", "y")]
    objects = (node("a", cpu="2"), node("b", cpu="2"), group("gang", 2, priority=10), *running, *pods)
    asked = planner(*objects, WorkloadAwarePreemption=True)

    report = asked.ask(Preempt(pods=("default/x",)))
    settled = asked.plan(["default/x", "default/y"], settle_preemption=True)

    (gang,) = report.groups
    assert (gang.state, gang.evicted) == ("Preempts", ("default/r1", "default/r2"))
    assert not report.verdict.failed
    assert {placement.node for placement in settled.placements[-2:]} == {"a", "b"}
    assert [one.state for one in settled.groups] == ["Scheduled"]


def test_manifests_of_a_group_are_placed_as_a_group_only_while_the_gate_is_on() -> None:
    nodes = [node("a", cpu="2")]
    gang = group("gang", 3)
    question = Place(manifests=(gang, *map(member, "xyz")))

    whole = planner(*nodes).ask(question)
    apart = planner_of(nodes, kubernetes="1.36").ask(question)

    assert whole.summary.scheduled == 0
    assert [one.key for one in whole.groups] == ["default/gang"]
    assert (apart.summary.scheduled, bool(apart.groups)) == (2, False)


def test_a_group_is_tried_again_once_a_node_is_uncordoned() -> None:
    """Moves cordon the node that a pod leaves, and uncordon it afterwards."""
    selected = {"web": "yes"}
    web = pod("web", cpu="1", nodeName="a", labels={"app": "web"}, owner="ReplicaSet/web", nodeSelector=selected)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web", cpu="1", nodeSelector=selected)["spec"]}
    owner = head("ReplicaSet", name="web", namespace="default", uid="web") | {
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    }
    pods = [member(name, "2") for name in ("x", "y")]
    nodes = (node("a", cpu="2", web="yes"), node("b", cpu="2"), node("small", cpu="1", web="yes"))
    report = planner(*nodes, group("gang", 2), web, owner, *pods).ask(Remedy(only=("moves",)))
    assert report.remedy.runs == 2
    assert len(report.remedy.actions) == 1


BUDGETED = {"app": "guarded"}


def guarded(name: str, where: str, of: str) -> dict[str, Any]:
    made = member(name, "2", of=of, priority=0, nodeName=where)
    made["metadata"]["labels"] = BUDGETED
    return made


def test_a_group_that_leaves_whole_breaks_a_budget_once() -> None:
    budget = head("PodDisruptionBudget", name="guard", namespace="default") | {
        "spec": {"selector": {"matchLabels": BUDGETED}, "maxUnavailable": 0},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2},
    }
    old = group("old", 2, priority=0, disruptionMode="PodGroup")
    running = [guarded("r1", "a", "old"), guarded("r2", "b", "old")]
    pods = [member(name, "2", priority=10) for name in ("x", "y")]
    objects = (node("a", cpu="2"), node("b", cpu="2"), group("gang", 2, priority=10), old, budget, *running, *pods)
    asked = planner(*objects, WorkloadAwarePreemption=True)
    report = asked.ask(Preempt(pods=("default/x", "default/y"), follow=False), fail_on=("pdb-violation",))

    (gang,) = report.groups
    assert (gang.pdb_violations, gang.violating) == (1, ("default/r1", "default/r2"))
    assert (report.summary.victims, report.summary.pdb_violations) == (2, 1)
    assert report.verdict.because == tuple(
        f"PodGroup/default/gang: PdbViolation of {pod}" for pod in ("default/r1", "default/r2")
    )


def racks_of_gpus() -> list[dict[str, Any]]:
    nodes = [node(f"{rack}{number}", cpu="4", rack=rack) for rack in "ab" for number in "12"]
    for one in nodes:
        one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return nodes


def growing(tmp_path: Path, *objects: dict[str, Any], **gates: bool) -> kplan.Planner:
    listed = {"nodeGroups": [{"name": "b", "minSize": 0, "maxSize": 9, "nodes": {"selector": {"rack": "b"}}}]}
    path = tmp_path / "groups.json"
    path.write_text(json.dumps(listed))
    return planner_of(
        objects,
        kubernetes="1.36",
        feature_gates={"GenericWorkload": True, "GangScheduling": True, **gates},
        ties="name",
        autoscaler=ClusterAutoscaler(node_groups=str(path)),
    )


def test_an_autoscaler_adds_a_node_for_each_member_that_fits_nowhere(tmp_path: Path) -> None:
    pods = [member(name, "4") for name in ("u", "v", "w", "x", "y", "z")]
    asked = growing(tmp_path, *racks_of_gpus(), group("gang", 6), *pods)
    report = asked.ask(Place(pods=tuple(f"default/{one['metadata']['name']}" for one in pods)))

    (gang,) = report.groups
    assert (gang.state, gang.placed) == ("Scheduled", 6)
    assert len(report.nodes.added) == 2
    assert {warning.code for warning in report.warnings} == {"GroupSeenApart"}
    assert asked.plan_queue().report().groups == report.groups


def test_an_autoscaler_that_finds_room_in_several_racks_adds_none_for_a_group_of_one_rack(tmp_path: Path) -> None:
    gang = group("gang", 3, schedulingConstraints={"topology": [{"key": "rack"}]})
    pods = [member(name, "4") for name in ("x", "y", "z")]
    asked = growing(tmp_path, *racks_of_gpus(), gang, *pods, TopologyAwareWorkloadScheduling=True)
    report = asked.plan_queue().report()

    (told,) = report.groups
    assert told.state == "Waits"
    assert report.nodes.added == ()
    existing = sorted(pod for pods in report.nodes.existing.values() for pod in pods)
    assert existing == ["default/x", "default/y", "default/z"]


def test_a_group_that_evicts_others_gets_no_node(tmp_path: Path) -> None:
    low = [pod(f"low-{name}", cpu="4", priority=-1, nodeName=name) for name in ("a1", "a2", "b1", "b2")]
    pods = [member(name, "4", priority=10) for name in ("x", "y")]
    asked = growing(
        tmp_path, *racks_of_gpus(), group("gang", 2, priority=10), *low, *pods, WorkloadAwarePreemption=True
    )
    report = asked.ask(Place(pods=("default/x", "default/y")))

    (gang,) = report.groups
    assert gang.state == "Preempts"
    assert report.nodes.added == ()


def test_pods_that_are_kept_out_of_the_queue_get_no_node(tmp_path: Path) -> None:
    report = growing(tmp_path, *racks_of_gpus(), group("gang", 2), member("x", "9")).plan_queue().report()
    assert report.nodes.added == ()


def test_whole_groups_are_counted_with_the_nodes_that_come(tmp_path: Path) -> None:
    spec = {**pod("x", cpu="4", schedulingGroup={"podGroupName": "gang"})["spec"], "restartPolicy": "Never"}
    job = head("Job", name="train", namespace="default") | {"spec": {"parallelism": 3, "template": {"spec": spec}}}
    report = growing(tmp_path, *racks_of_gpus()).ask(Capacity(manifests=(group("gang", 3), job), replicas=3))
    assert report.summary.fits == 3
    assert len(report.new_nodes.added) == 5


def test_a_group_of_which_some_pods_run_says_so() -> None:
    running = [member(name, "2", nodeName="a") for name in ("x", "y")]
    nodes = [node("a", cpu="4"), node("b", cpu="2")]
    report = plan(*nodes, group("gang", 4), *running, member("z", "2"), member("w", "2"))
    (gang,) = report.groups
    assert group_text(gang) == "2 of 4 run, the others wait until enough of them fit; 1 of them would"
