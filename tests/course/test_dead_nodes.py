"""Drains of nodes that do not answer, and workloads that end with fewer pods than they want."""

from random import Random
from typing import Any

import pytest

from kplan.changes.values import DrainOptions
from kplan.course.clock import Clock
from kplan.documents.base import with_sentence
from kplan.documents.plan import PlanReport
from kplan.questions import Checks, Drain, Explain, Plan, Remedy, Runbook
from kplan.questions.drain import How
from tests.objects import Object, daemon_set, deployment, node, owned_pod, planner_of, running, stateful_set, with_ready

THREE = ["n0", "n1", "n2"]


def _node(name: str, ready: str = "True") -> Object:
    return with_ready(node(name, "8"), ready)


def _db(*nodes: str | None) -> list[Object]:
    """Write a stateful set with pods on these nodes; None for a pending one."""
    workload = stateful_set("db", len(nodes))
    pods = [owned_pod(workload, f"db-{number}", name) for number, name in enumerate(nodes)]
    for pod in pods:
        pod["spec"] |= {} if "nodeName" in pod["spec"] else {"nodeSelector": {"disk": "ssd"}}
    return [workload, *pods]


def _drain(objects: list[Object], *nodes: str, how: How = "together", **options: Any) -> PlanReport:
    question = Drain(nodes=nodes, how=how, options=DrainOptions(**options))
    return planner_of(objects).ask(question)


def _counted(report: PlanReport) -> list[tuple[str, str]]:
    return [(counted.object, counted.rule) for counted in report.verdict.counted]


def test_a_drain_of_a_node_that_does_not_answer_never_ends() -> None:
    report = _drain([_node("n0", "Unknown"), _node("n1"), *running(deployment("web", 2), ["n0", "n1"])], "n0")
    assert report.verdict.failed
    ((_, rule),) = _counted(report)
    assert rule == "NeverGone"
    assert [obstacle.node for obstacle in report.obstacles] == ["n0"]
    (warning,) = [warning for warning in report.warnings if warning.code == "DrainHangs"]
    assert warning.object == "Node/n0"
    assert "Delete the Node" in warning.message
    assert "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in warning.message
    assert sum(step.event == "created" for step in report.steps) == 1  # its successor runs at once


def test_a_forced_drain_ends_and_one_that_does_not_wait_leaves_the_pods() -> None:
    objects = [_node("n0", "Unknown"), _node("n1"), *_db("n0")]
    forced = _drain(objects, "n0", grace_period=0)
    skipping = _drain(objects, "n0", skip_wait_for_delete_timeout=10)
    assert not forced.verdict.failed
    assert not skipping.obstacles
    assert _counted(skipping) == [("StatefulSet/default/db", "NotReplaced")]


@pytest.mark.parametrize(("ready", "reason"), [("Unknown", "node-silent"), ("True", "kubelet-hangs")])
def test_a_pod_that_is_being_deleted_and_that_nothing_ends_holds_everything_up(ready: str, reason: str) -> None:
    objects = [_node("n0", ready), _node("n1"), *_db("n0")]
    objects[-1]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    objects[1]["metadata"]["creationTimestamp"] = "2026-03-01T14:00:00Z"
    for how in ("together", "one-by-one"):
        report = _drain(objects, "n0", how=how)
        assert _counted(report) == [("default/db-0", "NeverGone")]
        assert [obstacle.reason for obstacle in report.obstacles] == [reason]
    (short,) = planner_of(objects).ask(Remedy()).verdict.counted
    assert (short.object, short.rule) == ("StatefulSet/default/db", "MissingReplicas")


def test_a_kubelet_that_is_not_ready_is_said_to_be_taken_to_end_pods() -> None:
    pods = running(deployment("web", 2), ["n0", "n1"])
    unready, well = (_drain([_node("n0", ready), _node("n1"), *pods], "n0") for ready in ("False", "True"))
    one_by_one = _drain([_node("n0", "False"), _node("n1"), *pods], "n0", how="one-by-one")
    for report in (unready, one_by_one):
        assert [(warning.code, warning.object) for warning in report.warnings] == [("KubeletNotReady", "Node/n0")]
    assert (unready.verdict.failed, unready.steps) == (well.verdict.failed, well.steps)
    assert not well.warnings


@pytest.mark.parametrize("deleted", [{}, {"deletionTimestamp": "2026-03-01T12:00:00Z"}])
def test_a_pod_that_a_finalizer_holds_holds_the_drain_up(deleted: dict[str, str]) -> None:
    objects = [_node("n0"), _node("n1"), *_db("n0")]
    objects[-1]["metadata"] |= {"finalizers": ["example.com/hold"], **deleted}
    report = _drain(objects, "n0")
    assert ("default/db-0", "NeverGone") in _counted(report)
    assert [obstacle.reason for obstacle in report.obstacles] == ["finalizer"]
    assert not any(warning.code == "DrainHangs" for warning in report.warnings)
    assert not any(step.event == "created" for step in report.steps)


def test_replicas_that_are_missing_in_the_end_fail_a_loss_although_no_pod_of_it_is_pending() -> None:
    objects = [*map(_node, THREE), *_db(None, "n0", "n1")]
    report = _drain(objects, "n0", how="lost")
    assert report.verdict.failed
    assert _counted(report) == [("StatefulSet/default/db", "NotReplaced")]


def test_replicas_that_were_missing_before_fail_nothing() -> None:
    objects = [*map(_node, THREE), *_db(None, "n0"), *running(deployment("web", 1), ["n2"])]
    objects[3]["spec"]["replicas"] = 3
    assert not _drain(objects, "n2").verdict.failed


@pytest.mark.parametrize("how", ["together", "lost"])
def test_pods_that_go_with_another_dead_node_in_any_case_fail_nothing(how: How) -> None:
    objects = [_node("n0", "Unknown"), *map(_node, THREE[1:]), *_db("n0"), *running(deployment("web", 1), ["n1"])]
    assert _counted(_drain(objects, "n1", how=how)) == []


def test_a_node_that_did_not_answer_before_goes_with_its_machine_as_well() -> None:
    objects = [_node("n0", "Unknown"), _node("n1"), *_db("n0")]
    objects[0]["spec"]["providerID"] = "aws:///a/i-1"
    report = _drain(objects, "n0", how="lost")
    assert [(change.from_node, change.to_node) for change in report.changes] == [("n0", "n1")]


def test_a_pod_that_leaves_by_itself_before_its_turn_comes_is_not_evicted_again() -> None:
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 1}
    objects = [_node("n0", "Unknown"), _node("n1"), *running(deployment("web", 2), ["n0", "n0"])]
    for pod in objects[-2:]:
        pod["spec"]["tolerations"] = [toleration]

    report = _drain(objects, "n0", how="one-by-one")

    events = sorted(step.event for step in report.steps if step.node == "n0" and step.pod)
    assert events == ["blocked"] * 2 + ["evicted"] * 2


@pytest.mark.parametrize(
    "question", [Plan(), Plan(timeline=Clock()), Checks(), Drain(nodes=("n1",)), Explain(("sts/db", "deploy/web"))]
)
def test_an_answer_about_a_cluster_that_is_not_well_does_not_depend_on_the_order_of_objects(question: Any) -> None:
    objects = [_node("n0", "Unknown"), *map(_node, THREE[1:]), *_db("n0", "n1", None)]
    objects += [*running(deployment("web", 4), ["n0", "gone", "n2"]), daemon_set("agent")]
    objects[-2]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"

    def answer(ordered: list[Object]) -> dict[str, Any]:
        document = with_sentence(planner_of(ordered).ask(question)).to_dict()
        return {key: value for key, value in document.items() if key != "generatedAt"}

    as_given = answer(objects)
    assert answer(objects[::-1]) == as_given
    for seed in range(2):
        assert answer(Random(seed).sample(objects, len(objects))) == as_given


def test_the_order_in_which_nodes_that_fail_are_named_does_not_matter() -> None:
    objects = [*map(_node, THREE), *running(deployment("web", 4), ["n0", "n1"]), daemon_set("agent")]
    planner = planner_of(objects)
    apply = {"at": 70, "apply": [daemon_set("late")]}
    one, other = (
        planner.timeline([{"at": 0, "fail": names}, apply], until=500).to_dict()
        for names in (["n0", "n1"], ["n1", "n0"])
    )
    assert (one["steps"], one["verdict"]) == (other["steps"], other["verdict"])


def test_what_happens_if_nobody_does_anything_is_judged_as_the_plan_is() -> None:
    planner = planner_of(_node("n0", "Unknown"), *map(_node, THREE[1:]), *_db("n0", "n1"))
    assert _counted(planner.timeline([{"at": 0}]).report()) == _counted(planner.ask(Plan(timeline=Clock()))) != []


def test_a_runbook_is_no_safer_than_the_drain_and_tells_only_its_pods() -> None:
    objects = [_node("n0", "Unknown"), *map(_node, THREE[1:]), *running(deployment("web", 2), ["n0", "n1"])]
    db = _db("n0", "n1")
    db[1] = with_ready(db[1], "False")
    planner, blocked = (planner_of(*objects, *more) for more in ([], db))
    (cordon, drain, *_) = planner.ask(Runbook(nodes=("n1",))).steps
    assert (cordon.action, [place.pod for place in drain.moved]) == ("cordon", ["default/web-h1-001"])
    (stuck,) = blocked.ask(Runbook(nodes=("n1",))).stuck
    assert stuck.because.startswith("StatefulSet/default/db: ")
    assert stuck.rule == "NotReplaced"


def test_a_pod_of_a_former_workload_of_the_same_name_has_no_controller() -> None:
    objects = [*map(_node, THREE), *running(deployment("web", 3), ["n0", "n1", "n0"])]
    objects[-1]["metadata"]["ownerReferences"][0]["uid"] = "former"
    report = _drain(objects, "n0")
    assert sorted((str(change.action), change.pod) for change in report.changes if change.from_node) == [
        ("-", "default/web-h1-002"),
        ("~", "default/web-h1-000"),
    ]


def _with_status(pod: Object, phase: str, ready: str, **container: Any) -> None:
    containers = [{"name": "c", "image": "app", "imageID": "", "ready": False, "restartCount": 0, **container}]
    pod["status"] = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": ready}],
        "containerStatuses": containers,
    }


CRASHING = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
STARTING = {"state": {"waiting": {"reason": "ContainerCreating"}}}


@pytest.mark.parametrize(
    ("first", "second", "ready"),
    [
        pytest.param(("False", CRASHING), ("False", CRASHING), 0, id="all of them crash"),
        pytest.param(("False", CRASHING), ("False", STARTING), 0, id="one crashes, another starts"),
        pytest.param(("False", CRASHING), ("True", {}), 2, id="another one is ready"),
        pytest.param(("False", STARTING), ("True", {}), 2, id="it only starts"),
    ],
)
@pytest.mark.parametrize("clock", [None, Clock()])
def test_a_new_pod_fails_as_those_of_its_template_do(
    first: tuple[str, Object], second: tuple[str, Object], ready: int, clock: Clock | None
) -> None:
    objects = [_node("n0"), _node("n1"), _node("n2"), *running(deployment("web", 2), ["n0", "n1"])]
    for pod, (is_ready, container) in zip(objects[-2:], (first, second), strict=True):
        _with_status(pod, "Running", is_ready, **container)

    report = planner_of(objects).ask(Drain(nodes=("n0",), timeline=clock))

    (web,) = report.workloads
    assert web.ready == ready
    assert [warning.object for warning in report.warnings if warning.code == "FailsAsBefore"] == (
        [] if ready else ["Deployment/default/web"]
    )


def test_a_drain_that_gives_up_before_its_pods_are_gone_says_so() -> None:
    planner = planner_of(*map(_node, THREE), *running(deployment("web", 2), ["n0", "n1"]))
    clock = Clock(stop={"*": 20.0})

    early, late = (planner.ask(Drain(nodes=("n0",), timeline=clock, timeout=seconds)) for seconds in (10, 30))
    assert [(one.object, one.code) for one in early.warnings] == _counted(early) == [("Node/n0", "DrainTimedOut")]
    assert not late.warnings
    assert not late.verdict.failed

    hasty, patient = (planner.ask(Runbook(nodes=("n0",), timeline=clock, timeout=seconds)) for seconds in (10, 30))
    assert [(node.name, node.because) for node in hasty.stuck] == [("n0", early.warnings[0].message)]
    assert [hasty.verdict.condition_of(counted) for counted in hasty.verdict.counted] == ["stuck"]
    assert not patient.stuck
    assert patient.steps[-1].commands[0].endswith("--timeout=30s")
