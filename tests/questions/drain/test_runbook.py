"""The order in which nodes drain safely, each step simulated from the state before it."""

import shlex
from typing import Any

import msgspec
import pytest

from kplan.changes import values as c
from kplan.course.clock import Clock
from kplan.course.snapshots import snapshot_of
from kplan.course.what_if import changed
from kplan.documents.drains import RunbookReport, TooFew
from kplan.planner.planner import Planner
from kplan.questions.drain import Runbook
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.objects import HOSTNAME, Object, adding, budget, head, planner_of, scaler
from tests.questions.remedy.test_report import deployment, node
from tests.schemas import assert_keeps_to_its_schema


def runbook(*objects: Any, nodes: tuple[str, ...], rolling: bool = False) -> RunbookReport:
    planner = planner_of(*objects)
    report = planner.ask(Runbook(nodes=nodes, rolling=rolling))
    carry_out(planner, report)
    return report


def carry_out(planner: Planner, report: RunbookReport) -> None:
    """Carry out the printed commands on a copy of the cluster: none is refused, and no pod is left without a node."""
    for command in [command for step in report.steps for command in step.commands]:
        match shlex.split(command):
            case ["kubectl", "cordon", *names]:
                planner = changed(planner, [c.Cordon(tuple(names))])
            case ["kubectl", "uncordon", name]:
                planner = changed(planner, [c.Uncordon((name,)), c.Settle()])
            case ["kubectl", "scale", kind, name, "-n", namespace, replicas]:
                number = replicas.removeprefix("--replicas=")
                planner = changed(planner, [c.Scale(f"{kind}/{namespace}/{name}", int(number)), c.Settle()])
            case ["kubectl", "patch", "hpa", name, "-n", namespace, "--type", "merge", "-p", patch]:
                bounds = msgspec.json.decode(patch)["spec"]
                scaled = c.Scale(f"deployment/{namespace}/{name}", bounds["minReplicas"])
                autoscaler = scaler(name, bounds["minReplicas"], bounds["maxReplicas"])
                planner = changed(planner, [c.Apply((autoscaler,)), scaled, c.Settle()])
            case ["kubectl", "patch", "pdb", name, "-n", namespace, "--type", "merge", "-p", patch]:
                spec = {key: to for key, to in msgspec.json.decode(patch)["spec"].items() if to is not None}
                planner = changed(planner, [c.Apply((budget(name, **spec),))])
            case ["#", "add", number, _, "like", like]:
                planner = changed(planner, [c.AddNodes(int(number), like)])
            case ["until" | "before=$(kubectl", *_]:
                continue
            case ["kubectl", "drain", name, "--ignore-daemonsets"]:
                change = planner.drain([name])
                assert not change.blocked
                planner = planner.with_snapshot(snapshot_of(change.simulation, planner.snapshot))
                planner = changed(planner, [c.Cordon((name,))])
                assert not [pod for pod in planner.objects.pods if pod.spec.node_name == name]
            case words:
                raise AssertionError(words)
    assert all(pod.spec.node_name for pod in planner.objects.pods)


def asked(*objects: Any, nodes: tuple[str, ...], min_ready: int | str = 1) -> RunbookReport:
    clock = Clock(start={"*": 3}, stop={"*": 2}, min_ready=min_ready)
    report = planner_of(*objects).ask(Runbook(nodes=nodes, rolling=True, timeline=clock))
    assert_keeps_to_its_schema(report.to_dict())
    return report


def shown(report: RunbookReport) -> str:
    return " ".join(render(report, "table", ReportOptions(width=160)).split())


def actions(report: RunbookReport) -> list[tuple[str, str]]:
    return [(step.action, step.node) for step in report.steps]


def test_all_nodes_are_cordoned_before_the_first_is_drained() -> None:
    report = runbook(node("a"), node("b"), node("c"), deployment("web", "1", ("a", "a", "b")), nodes=("a", "b"))
    assert_keeps_to_its_schema(report.to_dict())
    assert actions(report) == [("cordon", ""), ("drain", "b"), ("drain", "a")]
    assert [place.goes_to for step in report.steps for place in step.moved] == ["c", "c", "c"]
    assert (report.stuck, report.verdict.exit_code) == ((), 0)


def test_rolling_each_node_takes_pods_again_when_it_is_empty() -> None:
    report = runbook(node("a"), node("b"), deployment("web", "3", ("a",)), nodes=("a", "b"), rolling=True)
    assert actions(report) == [("drain", "b"), ("uncordon", "b"), ("drain", "a"), ("uncordon", "a")]


@pytest.mark.parametrize(
    ("scalers", "numbers"),
    [
        ([], ["=2", "=1"]),
        ([scaler("web", 1, 1)], ['"maxReplicas":2,"minReplicas":2', '"maxReplicas":1,"minReplicas":1']),
    ],
)
def test_a_workload_is_scaled_before_where_its_budget_blocks_and_back_at_the_end(
    scalers: list[Object], numbers: list[str]
) -> None:
    cluster = node("a"), node("b"), deployment("web", "1", ("a",)), budget("web", minAvailable=1), *scalers
    report = runbook(*cluster, nodes=("a",))
    assert actions(report) == [("cordon", ""), ("prepare", ""), ("drain", "a"), ("undo", "")]
    commands = [step.commands[0] for step in report.steps if step.action in ("prepare", "undo")]
    assert all(number in command for number, command in zip(numbers, commands, strict=True))


def test_the_budget_is_changed_where_there_is_no_room_for_more_replicas() -> None:
    report = runbook(
        node("a"), node("b", "1"), deployment("web", "1", ("a",)), budget("web", minAvailable=1), nodes=("a",)
    )
    assert actions(report) == [("cordon", ""), ("prepare", ""), ("drain", "a"), ("undo", "")]
    assert report.steps[1].commands[0].startswith("kubectl patch pdb web -n default --type merge -p ")


def test_what_was_changed_last_is_undone_first() -> None:
    guarded = [[deployment(name, "1", (on,)), budget(name, minAvailable=1)] for name, on in (("web", "a"), ("db", "b"))]
    report = runbook(node("a"), node("b"), node("c"), *(part for pair in guarded for part in pair), nodes=("a", "b"))
    assert [step.action for step in report.steps].count("prepare") == 2
    changed_workloads = [step.commands[0].split("=")[0] for step in report.steps if step.action in ("prepare", "undo")]
    assert changed_workloads[:2] == changed_workloads[:1:-1]


def test_pods_that_wait_anyway_stop_no_drain() -> None:
    waits = deployment("huge", "9", ("",))
    report = planner_of(node("a"), node("b"), waits, deployment("web", "1", ("a",))).ask(Runbook(nodes=("a",)))
    assert (report.stuck, [step.action for step in report.steps]) == ((), ["cordon", "drain"])


def test_a_workload_is_away_where_its_only_pod_moves_and_not_where_another_serves_meanwhile() -> None:
    stays = deployment("db", "1", ("b",))
    alone = asked(node("a"), node("b"), deployment("web", "1", ("a",)), stays, nodes=("a",))
    both = asked(node("a"), node("b"), deployment("web", "1", ("a", "b")), nodes=("a",))
    assert [step.away for step in alone.steps if step.action == "drain"] == [("Deployment/default/web",)]
    assert [step.away for step in both.steps if step.action == "drain"] == [()]


def test_nodes_are_added_where_pods_find_no_place() -> None:
    report = runbook(node("a"), node("b", "2"), deployment("web", "3", ("a",)), nodes=("b", "a"))
    assert report.steps[0].commands == ("kubectl cordon b a",)
    assert {node.name for node in report.stuck} == {"a"}, "every node of the shape that is needed is cordoned"
    report = runbook(node("a"), node("b"), deployment("web", "3", ("a", "b")), nodes=("a",))
    assert [step.commands for step in report.steps if step.action == "add-nodes"] == [adding(1, "b")]
    guarded = (deployment("web", "3", ("a", "b")), budget("web", minAvailable=2))
    report = runbook(node("a", "6"), node("b"), *guarded, deployment("db", "3", ("a",)), nodes=("a",))
    assert [step.action for step in report.steps] == ["cordon", "prepare", "add-nodes", "drain", "undo"]
    assert report.tried == 5, "no drain twice"


def test_a_pod_that_no_controller_recreates_keeps_its_node() -> None:
    lonely = deployment("web", "1", ("a",))[-1]
    del lonely["metadata"]["ownerReferences"]
    report = planner_of(node("a"), node("b"), lonely).ask(Runbook(nodes=("a",)))
    assert [(node.name, node.pod) for node in report.stuck] == [("a", "default/web-h1-000")]
    assert report.verdict.exit_code == 1
    assert report.verdict.because == ("a: Blocked",)


def test_where_no_node_drains_safely_none_is_cordoned_either() -> None:
    objects = (node("a"), node("b"), deployment("web", "1", ("a", "b")))
    report = runbook(*objects, nodes=("a", "b"))
    assert {stuck.name for stuck in report.stuck} == {"a", "b"}
    assert report.steps == ()
    assert "with --rolling" in render(report, "table", ReportOptions(width=160))
    assert runbook(*objects, nodes=("a", "b"), rolling=True).steps


def test_pods_that_go_to_a_node_that_does_not_answer_do_not_serve_there() -> None:
    silent = node("b", "64")
    silent["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    tolerant = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {HOSTNAME: "b"}}
    single, two = (deployment("web", "1", on, **tolerant) for on in (("a",), ("a", "c")))
    assert "b: not ready or does not answer" in shown(asked(node("a"), silent, *single, nodes=("a",)))
    report = asked(node("a"), silent, node("c"), *two, nodes=("a",))
    assert "1 pod moved: default/web-h1-000 to b (not ready or does not answer)" in shown(report)


def test_commands_of_a_step_belong_to_its_item_in_markdown() -> None:
    report = runbook(node("a"), node("b"), deployment("web", "1", ("a",)), nodes=("a",))
    assert render(report, "markdown", ReportOptions()).count("\n\n  ```sh\n  kubectl ") == len(report.steps)
    assert "<summary>commands" not in render(report, "html", ReportOptions())


FULL = (node("a"), node("b"), node("c"))


def test_pods_that_have_no_place_until_their_node_is_uncordoned_are_not_said_to_drain_safely() -> None:
    report = asked(*FULL, deployment("web", "4", ("a", "b", "c")), nodes=("a", "b"))
    drains = [step for step in report.steps if step.action == "drain"]
    assert [(step.moved, len(step.waits)) for step in drains] == [((), 1), ((), 1)]
    assert shown(report).startswith("2 of 2 nodes drain, in 6.3 s, but 1 pod has no place until the node is uncordoned")
    assert "every pod finds a place" not in shown(report)


def test_a_node_with_all_pods_of_a_workload_does_not_drain_while_none_of_them_has_a_place() -> None:
    report = asked(*FULL, deployment("web", "4", ("a",)), deployment("all", "4", ("b", "c")), nodes=("a",))
    assert actions(report) == [("add-nodes", ""), ("drain", "a"), ("uncordon", "a")]
    (needed,) = (step.needed for step in report.steps if step.needed)
    assert needed.too_few == TooFew(workload="Deployment/default/web", ready=0, wanted=1)
    assert "else a does not drain safely: only 0 of 1 pod that must stay ready of Deployment/default/web" in shown(
        report
    )


def test_a_pod_that_makes_room_is_preempted_and_not_moved() -> None:
    objects = (
        *(node("a"), node("b"), head("PriorityClass", name="high") | {"value": 100}),
        *deployment("high", "4", ("a",), priority=100, priorityClassName="high"),
        *deployment("low", "4", ("b",)),
    )
    report = asked(*objects, nodes=("a",))

    stopped = [step.needed for step in report.steps if step.needed] or report.stuck
    assert [(one.pod, one.by) for one in stopped[0].preempted] == [("default/low-h1-000", "default/high-h1-1")]
    assert "preempted: default/low-h1-000 for default/high-h1-1" in shown(report)
    assert all(place.pod != "default/low-h1-000" for step in report.steps for place in step.moved)


def test_as_many_pods_stay_ready_as_are_asked_for() -> None:
    objects = (*FULL, *deployment("web", "1", ("a", "a", "b")))
    assert asked(*objects, nodes=("a",)).stuck == ()
    (stuck,) = asked(*objects, nodes=("a",), min_ready="60%").stuck
    assert stuck.too_few == TooFew(workload="Deployment/default/web", ready=1, wanted=2)


def test_the_only_pod_of_a_workload_may_move_unless_all_are_to_stay_ready() -> None:
    objects = (*FULL, *deployment("web", "1", ("a",)))
    (step, _) = asked(*objects, nodes=("a",)).steps
    assert step.away == ("Deployment/default/web",)
    assert [stuck.name for stuck in asked(*objects, nodes=("a",), min_ready="100%").stuck] == ["a"]
