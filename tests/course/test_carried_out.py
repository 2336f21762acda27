"""Which pods take the place of which."""

import kplan
from kplan.questions.drain import Drain
from kplan.questions.plan import Plan
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.objects import Object, daemon_set, deployment, head, node, owned_by, planner_of, pod, running, template


def _daemon(number: int, on: str) -> Object:
    daemon = pod(f"agent-{number}", on, cpu="500m", labels={"app": "agent"})
    daemon["metadata"]["ownerReferences"] = owned_by("DaemonSet/agent", "ds-agent")
    return daemon


def test_pods_of_a_daemon_set_are_replaced_on_their_own_node_only() -> None:
    big = pod("big", cpu="4", priority=1000, nodeSelector={"kubernetes.io/hostname": "n3"})
    nodes = [node(name, "4") for name in ("n1", "n2", "n3")]
    nodes[0]["spec"]["providerID"] = "aws:///a/i-1"
    daemons = [_daemon(number, f"n{number}") for number in (1, 2, 3)]
    planner = planner_of(*nodes, daemon_set("agent"), *daemons, big)

    report = Drain(nodes=("n1",), how="lost").answer(planner)

    ends = {change.pod: (change.action.value, change.from_node, change.because) for change in report.changes}
    assert ends["default/agent-1"] == ("-", "n1", "its node is gone")
    assert ends["default/agent-3"][:2] == ("!", "n3")
    assert "default/agent-2" not in ends
    assert "DaemonSet default/agent: 1 of 2 nodes" in render(report, "table", ReportOptions(width=160))


def test_pending_pods_of_a_daemon_set_are_each_told_with_their_own_node() -> None:
    nodes = [node(name, cpu) for name, cpu in (("n1", "250m"), ("n2", "300m"), ("n3", "4"), ("n4", "250m"))]
    report = Plan(manifests=(daemon_set("agent"),)).answer(planner_of(nodes))
    text = render(report, "table", ReportOptions(width=160))
    assert "not on n1, n2, n4" in text
    table = text.partition("DaemonSet default/agent: 1 of 4 nodes")[2]
    assert [line.split()[0] for line in table.splitlines() if "It can run on" in line] == ["n1", "n2", "n4"]
    assert "It can run on n4 only, which lacks cpu (requests 500m, it has 250m even when empty)" in table


def _ranked(name: str, priority: int, on: str = "", **selector: str) -> list[Object]:
    """Return a replica set of one pod that fills a node but for one cpu."""
    pods, labels = template(name, cpu="3"), {"app": name}
    more = {"priorityClassName": name, "nodeSelector": selector}
    pods["spec"] |= more
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pods}
    return [
        head("PriorityClass", name=name) | {"value": priority},
        head("ReplicaSet", name=name, namespace="default", uid=name) | {"spec": spec},
        pod(f"{name}-x", on or None, cpu="3", labels=labels, owner=f"ReplicaSet/{name}", priority=priority, **more),
    ]


def _chain(cpu: str) -> kplan.Planner:
    """Return a cluster in which the pod that waits evicts `middle`, which has to go to n2 or n3 then."""
    others = [node("n3", cpu), *running(deployment("small", 1), ["n3"])]
    waiting = _ranked("waiting", 20, **{"kubernetes.io/hostname": "n1"})
    pods = [*waiting, *_ranked("middle", 10, "n1"), *_ranked("last", 5, "n2")]
    return planner_of(node("n1", "4"), node("n2", "4"), *others, *pods)


def test_pods_that_make_way_without_the_change_too_are_not_its_doing() -> None:
    planner = _chain("1")

    report = planner.drain(["n3"]).report(fail_on=["unschedulable", "preemption"])
    in_turn = planner.drain_in_turn(["n3"]).drains[0]

    ends = {change.pod: (change.action.value, change.caused_by) for change in report.changes}
    assert ends["default/middle-x"] == ("~", "waiting")
    assert ends["default/last-x"] == ("!", "waiting")
    assert not report.verdict.failed
    assert (in_turn.may_go, in_turn.pending, in_turn.preempted) == (True, 0, 0)


def test_pods_that_make_way_because_their_evictor_loses_its_place_are_the_doing_of_the_change() -> None:
    planner = _chain("4")
    report = planner.drain(["n3"]).report(fail_on=["unschedulable", "preemption"])
    ends = {change.pod: (change.action.value, change.caused_by) for change in report.changes}
    assert ends["default/middle-x"] == ("~", "waiting")
    assert ends["default/last-x"] == ("!", "change")
    counted = [(event.rule, event.object.partition("-")[0]) for event in report.verdict.counted]
    assert sorted(counted) == [("Preemption", "default/middle"), ("Unschedulable", "default/last")]
