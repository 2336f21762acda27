import json
from pathlib import Path

import pytest

import kplan
from kplan.course.answers.drains import NOT_REPLACED
from kplan.course.clock import Clock
from kplan.documents.plan import Action
from kplan.questions import Drain, InTurn
from tests.cli.commands import invoke, listed, reports, told
from tests.objects import budget, deployment, node, running
from tests.recorded import sample
from tests.schemas import assert_keeps_to_its_schema


def test_a_pod_that_waited_before_leaves_no_node_though_it_passes_through_one() -> None:
    result = invoke("drain", "gpu-a-1", "-o", "json")
    document = json.loads(result.stdout)
    [waited] = [change for change in document["changes"] if change["pod"] == "ml/fine-tune"]
    assert (waited["action"], waited["from"], waited["to"]) == ("-", None, None)
    assert waited["by"].startswith("ml/inference-")
    assert {"bound", "evicted"} <= {step["event"] for step in document["steps"] if step["pod"] == "ml/fine-tune"}
    assert "  -  ml/fine-tune                  0/1  -  " in invoke("drain", "gpu-a-1").stdout
    assert "evicted for ml/inference" in invoke("drain", "gpu-a-1", "-o", "junit").stdout


def test_the_page_about_each_node_marks_on_its_picture_which_can_be_drained(tmp_path: Path) -> None:
    texts = reports(tmp_path, "drain", "--each", formats=("html", "json"), code=1)
    page, drains = texts["html"], json.loads(texts["json"])["drains"]
    assert page.count('<span class="mark good">drainable</span>') == sum(drain["mayGo"] for drain in drains)
    assert page.count('<span class="mark bad">not drainable</span>') == sum(not drain["mayGo"] for drain in drains)
    assert '<span class="mark bad">pool not drainable</span>' in invoke("drain", "--by", "pool", "-o", "html").stdout


def test_a_pool_is_drained_as_a_whole() -> None:
    by_labels = invoke("drain", "-l", "pool=spot", "-o", "name")
    assert invoke("drain", "--pool", "spot", "-o", "name").stdout == by_labels.stdout


def test_each_drain_takes_its_time_and_the_longest_of_those_that_end_alike_comes_first() -> None:
    document = told("drain", "spot-*", "database-*", "--each", "--timeline")
    assert_keeps_to_its_schema(document)
    outcomes = {drain["name"]: drain for drain in document["drains"]}
    assert outcomes["spot-a-1"]["emptied"] == pytest.approx(15.2, abs=0.1)
    assert outcomes["spot-b-1"]["emptied"] is None  # it does not answer
    assert outcomes["database-a-1"]["restored"] is None
    alike = [drain["emptied"] for drain in document["drains"] if drain["mayGo"]]
    assert alike == sorted(alike, reverse=True)


def test_drains_of_each_node_fail_where_too_few_pods_stay_ready() -> None:
    options = ("--each", "--timeline", "--min-ready", "100%", "--fail-on", "unavailable", "-o", "json")
    document = json.loads(invoke("drain", "spot-a-1", *options).stdout)
    assert document["verdict"]["failed"]
    assert {counted["rule"] for counted in document["drains"][0]["counted"]} == {"Unavailable"}


def test_many_runs_tell_when_they_end(tmp_path: Path) -> None:
    texts = reports(tmp_path, "drain", "spot-a-1", "--timeline", "--runs", "5", formats=("json", "table"), code=1)
    report = json.loads(texts["json"])
    assert_keeps_to_its_schema(report)
    end = report["summary"]["end"]
    assert end["shortest"] <= end["median"] <= end["p90"] <= end["longest"]
    assert "Time: " in texts["table"]


def test_lost_pods_that_nothing_replaces_are_told(tmp_path: Path) -> None:
    pods = running(deployment("web", 2), ["n0", "n1"])
    path = listed(tmp_path / "cluster.json", *map(node, ("n0", "n1")), *pods)
    shown = invoke("drain", "n0", "n1", "--lost", "--timeline", "--snapshot", path).stdout
    assert " ".join(shown.split()).startswith(f"Deployment default/web is stuck, 0 of 2 ready: {NOT_REPLACED}")
    assert "pods of 2 lost nodes not replaced" in shown
    assert "1 pod there stays bound without running" in shown


def test_a_node_that_is_not_reached_is_told_of_its_only_pod(tmp_path: Path) -> None:
    pods = running(deployment("web", 2), ["n0", "n1"])
    path = listed(tmp_path / "cluster.json", *map(node, ("n0", "n1")), *pods, budget("web", minAvailable=2))
    shown = " ".join(invoke("drain", "n0", "n1", "--snapshot", path).stdout.split())
    assert "Node/n1: stays cordoned with 1 pod, which could not be evicted either: kubectl drain" in shown


def test_options_about_evictions_are_told_to_have_no_effect_on_lost_nodes() -> None:
    given = ("--force", "--delete-emptydir-data", "--grace-period", "0", "--timeout", "5s")
    said = invoke("drain", "spot-a-1", "--lost", "--timeline", *given).stderr
    for option in ("--force", "--delete-emptydir-data", "--grace-period", "--timeout"):
        assert f"{option} has no effect: a node that is lost is not drained" in said
    assert "no effect" not in invoke("drain", "spot-a-1", "--lost").stderr


def test_each_drain_tells_what_it_brings_about_and_not_what_pods_that_waited_before_do() -> None:
    demo = kplan.Planner("demo")
    drains = {drain.name: drain for drain in demo.ask(InTurn()).drains}

    for name, drain in sample(list(drains.items()), one_of=12):
        changes = [change for change in demo.ask(Drain((name,))).changes if change.caused_by == "change"]
        actions = [change.action for change in changes]
        assert drain.placed == actions.count(Action.PLACED) + actions.count(Action.MOVED)
        assert drain.pending == actions.count(Action.PENDING)
        assert drain.evicted == actions.count(Action.EVICTED)
        assert drain.preempted == sum(change.by is not None for change in changes)
        # As it is without any drain: a job's pod makes way for ml/fine-tune.
        assert drain.waiting <= 1
    roomier = demo.changed(without=["node/spot-b-1"], add_nodes=["1=spot-a-1"])
    (may_go,) = roomier.ask(InTurn(question=Drain(("spot-a-1-more-1",)))).drains
    assert (may_go.may_go, may_go.pod, may_go.because) == (True, "", "")
    assert (drains["spot-b-1"].may_go, drains["spot-b-1"].state) == (False, "blocked")  # it does not answer


def test_pods_that_stay_on_lost_nodes_without_others_in_their_place_fail_the_verdict() -> None:
    demo = kplan.Planner("demo")

    def counted(*nodes: str) -> list[tuple[str, str]]:
        report = demo.ask(Drain(nodes, how="lost", timeline=Clock()))
        return [(event.object, event.rule) for event in report.verdict.counted]

    assert counted("database-a-1") == [
        ("StatefulSet/data/postgres", "NotReplaced"),
        ("StatefulSet/data/redis", "NotReplaced"),
    ]
    assert counted("spot-b-1") == []  # only pods of daemon sets stay
    everywhere = dict(counted(*demo.objects.node_by_name))
    assert everywhere["Deployment/shop/cart"] == "NotReplaced"
    assert not any(name.startswith(("DaemonSet/", "Pod/")) for name in everywhere)


def test_a_loss_after_which_pods_are_not_replaced_is_told_as_a_failure() -> None:
    shown = invoke("drain", "database-a-1", "--lost", "--timeline", "--snapshot", "demo", "-o", "junit")
    assert shown.exit_code == 1
    assert 'type="NotReplaced" message="stuck, 2 of 3 ready: its pods stay on lost nodes' in shown.stdout
    each = " ".join(
        invoke("drain", "database-a-1", "--each", "--lost", "--timeline", "--snapshot", "demo").stdout.split()
    )
    assert "database-a-1: pods of 2 workloads are not replaced" in each
    assert "StatefulSet/data/postgres: its pods stay on lost nodes, or it waits for others of its own" in each
