"""Remedies of stories whose best answer is known, replayed command by command, and held against all smaller sets."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.changes import remedy as r
from kplan.changes.sets import KINDS, allowed_kinds, disturbance
from kplan.changes.values import AddNodes, Move, Patch, Place, Uncordon
from kplan.course.beginning import begin
from kplan.documents import remedies as d
from kplan.errors import UsageError
from kplan.questions.remedy import Remedy
from kplan.questions.remedy.carry_out import Goal, Playing, movable
from kplan.questions.remedy.search import LEAST_TRIED, MOST_DECIDED, Search
from kplan.questions.remedy.search import budget as sets_to_try
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests import objects
from tests.cli.commands import invoke
from tests.objects import Object, budget, head, planner_of, running
from tests.questions.remedy.replay import replayed
from tests.recorded import examples
from tests.schemas import assert_keeps_to_its_schema


def node(name: str, cpu: str = "4", *, cordoned: bool = False, gpu: str = "", **labels: str) -> Object:
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}] if cordoned else []
    made = objects.node(name, cpu, pods="20", taints=taints, labels=labels)
    made["spec"] |= {"unschedulable": True} if cordoned else {}
    made["status"]["allocatable"] |= {"nvidia.com/gpu": gpu} if gpu else {}
    return made


def deployment(
    name: str, cpu: str, on: tuple[str, ...], *, replicas: int | None = None, gpu: str = "", **spec: Any
) -> list[Object]:
    """Return a Deployment, its ReplicaSet, and its pods: on nodes, or pending where the name is empty."""
    gpus = {"nvidia.com/gpu": gpu} if gpu else {}
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu, **gpus}, "limits": gpus}}
    priority = spec.pop("priority", 0)
    workload = objects.deployment(name, len(on) if replicas is None else replicas)
    workload["spec"]["template"]["spec"] = {"schedulerName": "default-scheduler", "containers": [container], **spec}
    made = running(workload, on, pods=len(on))
    for pod in made[2:]:
        pod["spec"]["priority"] = priority
    return made


def remedy(
    *objects: Object | list[Object], only: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> d.RemedyReport:
    planner = planner_of(*objects)
    report = planner.ask(Remedy(only=only, without=without))
    assert replayed(planner, report.remedy) == report.remedy.of - report.remedy.runs
    return report


def test_a_cordoned_node_is_uncordoned_before_anything_else() -> None:
    report = remedy(node("a"), node("b", cordoned=True), deployment("web", "3", ("a", "")))
    assert [action.commands for action in report.remedy.actions] == [("kubectl uncordon b",)]
    assert (report.remedy.runs, report.remedy.of, report.remedy.is_least) == (1, 1, True)
    assert_keeps_to_its_schema(report.to_dict())
    assert report.remedy.actions[0].achieves == ("default/web-h1-001",)
    assert [type(action) for other in report.alternatives for action in other.actions].count(AddNodes) == 1


def test_a_pod_is_moved_so_that_a_job_gets_its_gpus() -> None:
    objects = [
        node("g1", "8", gpu="4"),
        node("g2", "8", gpu="4"),
        deployment("serve", "1", ("g1", "g2"), gpu="2"),
        deployment("train", "1", ("",), gpu="4"),
    ]
    report = remedy(*objects, without=("requests",))

    (action,) = report.remedy.actions
    assert isinstance(action, Move)
    assert [place.goes_to for place in action.pods] == [{"g1": "g2", "g2": "g1"}[action.node]]
    assert action.achieves == ("default/train-h1-000",)
    assert action.disturbs == (action.pods[0].pod,)
    assert report.remedy.is_least


def test_a_node_is_added_where_many_pods_may_move_but_no_move_is_enough() -> None:
    running = [
        deployment(f"w{number}-{other}", f"{1900 + 10 * number + other}m", (f"n{number}",))
        for number in range(8)
        for other in range(5)
    ]
    objects = [*(node(f"n{number}", "12") for number in range(8)), *running, deployment("big", "11", ("",))]
    playing = Playing(planner_of(*objects))
    waiting = playing.play(()).waiting
    goal = Goal(waiting, waiting, ["default/big-h1-000"])

    assert Search(playing, goal, ("moves", "nodes"), 60, by_hand=True).run().acts == (AddNodes(1, "n0"),)


def test_pods_with_gates_are_told_and_not_counted() -> None:
    gate, web = [{"name": "hold"}], deployment("web", "9", ("", ""))
    web[-1]["spec"]["schedulingGates"] = gate
    planner = planner_of(node("a"), deployment("held", "1", ("",), schedulingGates=gate), web)
    report = planner.ask(Remedy(only=("moves",)))
    text = render(report, "table", ReportOptions())
    assert planner.ask(Remedy(("default/web-h1-000",), ("moves",))).verdict.because == report.verdict.because
    assert report.remedy.of == 1
    assert report.remedy.left == ("default/web-h1-000", "default/held-h1-000", "default/web-h1-001")
    assert text.startswith("default/web-h1-000 stays pending: no node is large enough")
    assert "Stays pending: default/held-h1-000, default/web-h1-001. The scheduler ignores it" in text


def test_kinds_are_words_of_the_contract() -> None:
    assert allowed_kinds((), ()) == KINDS
    assert allowed_kinds(("changes", "moves"), ("names", "priority")) == (
        "moves",
        "requests",
        "selectors",
        "tolerations",
        "rules",
    )
    with pytest.raises(UsageError, match="gossip"):
        allowed_kinds(("gossip",), ())
    with pytest.raises(UsageError, match="is left"):
        allowed_kinds(("moves",), ("moves",))


_SIZES = st.sampled_from(["1", "2", "3"])


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Draw a small cluster in which pods are where they fit, and one or two wait."""
    n_nodes = draw(st.integers(2, 6))
    sizes = [draw(st.integers(2, 5)) for _ in range(n_nodes)]
    objects: list[Any] = [
        node(f"n{index}", str(size), cordoned=draw(st.integers(0, 5)) == 0) for index, size in enumerate(sizes)
    ]
    for index in range(draw(st.integers(1, 7))):
        size = int(draw(_SIZES))
        places = [place for place, free in enumerate(sizes) if free >= size]
        if places:
            place = draw(st.sampled_from(places))
            sizes[place] -= size
            objects.append(deployment(f"w{index}", str(size), (f"n{place}",)))
            if draw(st.integers(0, 4)) == 0:
                objects.append(budget(f"w{index}", maxUnavailable=0))
    objects.append(deployment("waits", str(draw(st.integers(2, 5))), ("",) * draw(st.integers(1, 2))))
    return objects


@examples(12)
@given(clusters())
def test_no_smaller_set_of_moves_and_uncordoned_nodes_does_as_much(objects: list[Any]) -> None:
    planner = planner_of(*objects)
    report = remedy(*objects, only=("moves", "uncordon"))
    simulation = begin(planner)
    playing = Playing(planner)
    start, anyway = simulation.waiting(), playing.play(()).waiting
    goal = Goal(start, anyway, [key for keys in (*start.values(), *anyway.values()) for key in keys])
    cordoned = [Uncordon((node.metadata.name,)) for node in planner.objects.nodes if node.spec.unschedulable]
    single = [*cordoned, *(Move(pod.node, (Place(pod.key),)) for pod in movable(simulation))]
    for number in range(1, 3):
        for acts in permutations(single, number):
            if not report.remedy.actions:
                assert goal.runs(playing.play(acts)) <= max(report.remedy.runs, 0), acts
            elif disturbance(acts) < report.remedy.disturbance:
                assert goal.runs(playing.play(acts)) < report.remedy.runs, acts


def test_nodes_that_an_autoscaler_would_add_are_not_counted_on_and_that_is_told() -> None:
    objects = [node("n1"), *deployment("web", "3", ("n1", ""))]
    status = head("ConfigMap", name="cluster-autoscaler-status", namespace="kube-system")

    alone, followed = (planner_of(these).ask(Remedy(only=("nodes",))) for these in (objects, [*objects, status]))

    assert alone.warnings == ()
    assert [(warning.code, warning.object) for warning in followed.warnings] == [
        ("AutoscalerNotFollowed", "cluster-autoscaler")
    ]
    assert followed.remedy == alone.remedy


def test_a_pod_that_nothing_helps_is_told_with_the_reason() -> None:
    report = kplan.Planner("demo").ask(Remedy())

    assert report.because == {
        "batch/nightly-export": "The scheduler ignores it until its scheduling gate example.com/wait-for-quota "
        "is removed.",
        "ml/llm-eval": "None of 14 nodes is large enough, even empty: it requests 8 nvidia.com/gpu, and the largest, "
        "gpu-a-1, has 4.",
    }
    alone = invoke("remedy", "ml/llm-eval", "--snapshot", "demo").stdout
    assert alone.startswith("ml/llm-eval stays pending: none of 13 nodes is large enough, even empty")


def test_a_request_of_the_whole_pod_is_lowered_but_not_below_its_containers() -> None:
    def web(own: str, each: str) -> list[Object]:
        resources = {"requests": {"cpu": own}, "limits": {"cpu": own}}
        return deployment("web", each, ("",), resources=resources)

    full = deployment("full", "2500m", ("a",))
    (action,) = remedy(node("a"), full, web("3", "500m"), only=("requests",)).remedy.actions
    assert isinstance(action, Patch)
    assert action.patch == '{"resources":{"requests":{"cpu":"1500m"}}}'
    assert remedy(node("a"), full, web("3", "2"), only=("requests",)).remedy.actions == ()


def test_a_job_is_created_again_in_one_command_that_leaves_nothing_undone() -> None:
    job = head("Job", name="train", namespace="default") | {
        "spec": {
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
        }
    }
    waiting = head("Pod", name="train-0", namespace="default") | {"spec": {"containers": [CONTAINER]}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    waiting["metadata"]["ownerReferences"] = [owner]
    job["metadata"] |= {"uid": "u", "ownerReferences": [owner | {"kind": "CronJob", "name": "night", "uid": "n"}]}
    night = head("CronJob", name="night", namespace="default", uid="n")
    night |= {"spec": {"schedule": "0 1 * * *", "jobTemplate": {"spec": {"template": job["spec"]["template"]}}}}
    (action,) = remedy(node("a", "2"), job, waiting, night, only=("requests",)).remedy.actions
    command, of_next_runs = action.commands
    assert of_next_runs.startswith("kubectl patch cronjob night -n default -p")
    assert '{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[' in of_next_runs
    assert "in Job/default/train and CronJob/default/night, lower the cpu request" in action.text
    assert command.startswith("kubectl get job train -n default -o yaml | kubectl patch --local -f - -o yaml -p ")
    assert command.endswith(" | kubectl replace --force -f -")
    assert '"selector":null' in command
    assert '"cpu":"2"' in command


CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}


def test_where_very_many_pods_wait_fewer_sets_are_tried() -> None:
    planner = planner_of(node("a"), *(deployment(f"w{number}", "5", ("",) * 50) for number in range(60)))
    playing = Playing(planner)
    start = playing.play(()).waiting
    assert sets_to_try(playing, Goal(start, start, ())) == MOST_DECIDED // 3001 < LEAST_TRIED


def test_a_claim_of_a_class_that_does_not_exist_is_created_again_with_the_only_one() -> None:
    claim = head("PersistentVolumeClaim", name="data", namespace="default")
    fast = head("StorageClass", name="fast") | {"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    planner = planner_of(
        node("a"),
        claim | {"spec": {"storageClassName": "premium", "resources": {"requests": {"storage": "1Gi"}}}},
        fast,
        deployment("web", "1", ("",), volumes=volumes),
    )
    (action,) = planner.ask(Remedy()).remedy.actions

    assert action.words == "in PersistentVolumeClaim default/data, set the storage class to fast instead of premium"
    assert action.steps[0].endswith("| kubectl replace --force -f -")


def test_pods_behind_several_that_nothing_helps_are_looked_at_too() -> None:
    lost = [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]
    hopeless = [deployment(f"a{number}", "1", ("",), volumes=lost) for number in range(5)]
    web = deployment("web", "1", ("",), nodeSelector={"disk": "sdd"})
    found = remedy(node("n", disk="ssd"), *hopeless, web).remedy
    assert (found.runs, found.of, [type(action) for action in found.actions]) == (1, 6, [Patch])


def test_nodes_of_several_kinds_are_added_also_for_pods_that_are_looked_at_later() -> None:
    arch, n_tried = "kubernetes.io/arch", 70
    typos = [deployment(f"a{number}", "1", ("",), nodeSelector={"disk": "sdd"}) for number in range(4)]
    needs = [deployment(name, "6", ("",), nodeSelector={arch: name}) for name in ("amd64", "arm64")]
    nodes = [node("n", "6", disk="ssd", **{arch: "amd64"}), deployment("full", "1", ("n",))]
    report = planner_of(*nodes, *typos, *needs).ask(Remedy())
    added = [action for action in report.remedy.actions if isinstance(action, AddNodes)]
    assert sorted(action.labels for action in added) == [(), (f"{arch}=arm64",)]
    assert (report.remedy.runs, report.remedy.of) == (6, 6)
    assert report.tried <= n_tried


def test_what_helps_pods_that_no_action_helps_is_said() -> None:
    gated = deployment("web", "1", ("",), schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    report = planner_of(node("a"), gated).ask(Remedy())
    assert report.would_help
    assert "wait until Kueue admits it" in render(report, "table", ReportOptions())


def test_new_nodes_for_pods_that_claim_devices_have_to_bring_them() -> None:
    def claim(name: str, **more: Any) -> dict[str, Any]:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        return head("ResourceClaim", name=name, namespace="default", uid=name) | {
            "spec": {"devices": {"requests": [request]}},
            **more,
        }

    taken = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    slice_of_a = head("ResourceSlice", name="a") | {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        }
    }
    waiting = deployment("wants", "1", ("",), resourceClaims=[{"name": "gpu", "resourceClaimName": "free"}])
    objects = [node("a"), slice_of_a, head("DeviceClass", name="gpu") | {"spec": {}}, claim("free"), waiting]
    objects.append(claim("used", status={"allocation": {"devices": {"results": [taken]}}}))
    report = remedy(*objects, only=("nodes",))

    assert report.remedy.actions == (AddNodes(1, "a", devices=True).described(report.remedy.actions[0].achieves or ()),)
    assert "Add 1 node like a with its devices; then" in render(report, "table", ReportOptions())
    (named,) = planner_of(*objects).place("default/wants-h1-000").remedies
    assert isinstance(named, r.AddNodes)
    assert (named.change.like, named.change.nodes, named.change.devices) == ("a", 1, True)
