"""The order in which nodes drain safely, each step simulated from the state before it."""

import shlex
from typing import Any

import msgspec

from kplan.documents.drains import RunbookReport
from kplan.effects.drains import drain
from kplan.effects.snapshots import snapshot_of
from kplan.effects.what_if import changed
from kplan.planner.planner import Planner
from kplan.questions.runbook.question import Runbook
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from kplan.whatif.edits import Settle, With, cordoned, parse_add_nodes, parse_scale
from tests.questions.remedy.test_report import budget, deployment, node, planner_of
from tests.schemas import assert_keeps_to_its_schema

Object = dict[str, Any]


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
                planner = changed(planner, [cordoned(name) for name in names])
            case ["kubectl", "uncordon", name]:
                planner = changed(planner, [cordoned(name, is_cordoned=False), Settle()])
            case ["kubectl", "scale", kind, name, "-n", namespace, replicas]:
                number = replicas.removeprefix("--replicas=")
                planner = changed(planner, [parse_scale(f"{kind}/{namespace}/{name}={number}"), Settle()])
            case ["kubectl", "patch", "pdb", name, "-n", namespace, "--type", "merge", "-p", patch]:
                spec = {key: to for key, to in msgspec.json.decode(patch)["spec"].items() if to is not None}
                planner = changed(planner, [With.of(budget(name, **spec))])
            case ["#", "add", number, _, "like", like]:
                planner = changed(planner, [parse_add_nodes(f"{number}={like}")])
            case ["kubectl", "drain", name, "--ignore-daemonsets"]:
                change = drain(planner, [name])
                assert not change.blocked
                planner = planner.with_snapshot(snapshot_of(change.simulation, planner.snapshot))
                planner = changed(planner, [cordoned(name)])
                assert not [pod for pod in planner.objects.pods if pod.spec.node_name == name]
            case words:
                raise AssertionError(words)
    assert all(pod.spec.node_name for pod in planner.objects.pods)


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


def test_a_workload_is_scaled_before_where_its_budget_blocks_and_back_at_the_end() -> None:
    report = runbook(node("a"), node("b"), deployment("web", "1", ("a",)), budget("web", minAvailable=1), nodes=("a",))

    assert actions(report) == [("cordon", ""), ("prepare", ""), ("drain", "a"), ("undo", "")]
    assert [step.commands[0].rpartition("=")[2] for step in report.steps if step.action in ("prepare", "undo")] == [
        "2",
        "1",
    ]


def test_the_budget_is_changed_where_there_is_no_room_for_more_replicas() -> None:
    report = runbook(
        node("a"), node("b", "1"), deployment("web", "1", ("a",)), budget("web", minAvailable=1), nodes=("a",)
    )

    assert actions(report) == [("cordon", ""), ("prepare", ""), ("drain", "a"), ("undo", "")]
    assert report.steps[1].commands[0].startswith("kubectl patch pdb web -n default --type merge -p ")


def test_nodes_are_added_where_pods_find_no_place() -> None:
    report = runbook(node("a"), node("b", "2"), deployment("web", "3", ("a",)), nodes=("b", "a"))

    assert report.steps[0].commands == ("kubectl cordon b a",)
    assert {node.name for node in report.stuck} == {"a"}, "every node of the shape that is needed is cordoned"

    report = runbook(node("a"), node("b"), deployment("web", "3", ("a", "b")), nodes=("a",))
    assert [step.commands for step in report.steps if step.action == "add-nodes"] == [("# add 1 node like b",)]


def test_a_pod_that_no_controller_recreates_keeps_its_node() -> None:
    lonely = deployment("web", "1", ("a",))[-1]
    del lonely["metadata"]["ownerReferences"]
    report = planner_of(node("a"), node("b"), lonely).ask(Runbook(nodes=("a",)))

    assert [(node.name, node.pod) for node in report.stuck] == [("a", "default/web-abc-0")]
    assert report.verdict.exit_code == 1
    assert report.verdict.because == ("a: Blocked",)


def test_where_no_node_drains_safely_none_is_cordoned_either() -> None:
    objects = (node("a"), node("b"), deployment("web", "1", ("a", "b")))
    report = runbook(*objects, nodes=("a", "b"))
    assert {stuck.name for stuck in report.stuck} == {"a", "b"}
    assert report.steps == ()
    assert "with --rolling" in render(report, "table", ReportOptions(width=160))
    assert runbook(*objects, nodes=("a", "b"), rolling=True).steps


def test_commands_of_a_step_belong_to_its_item_in_markdown() -> None:
    report = runbook(node("a"), node("b"), deployment("web", "1", ("a",)), nodes=("a",))

    assert render(report, "markdown", ReportOptions()).count("\n\n  ```sh\n  kubectl ") == len(report.steps)
    assert "<summary>commands" not in render(report, "html", ReportOptions())
