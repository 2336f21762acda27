"""Which pods take the place of which."""

import kplan
from kplan.questions.drain.question import Drain
from kplan.questions.plan.question import Plan
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.objects import head
from tests.simulation.clusters import Object, daemon_set, node


def _daemon(number: int, on: str) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "ds-agent", "controller": True}
    name = f"agent-{number}"
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}
    return head("Pod", name=name, namespace="default", uid=name, labels={"app": "agent"}, ownerReferences=[owner]) | {
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def test_pods_of_a_daemon_set_are_replaced_on_their_own_node_only() -> None:
    big = head("Pod", name="big", namespace="default", uid="big") | {
        "spec": {
            "priority": 1000,
            "nodeSelector": {"kubernetes.io/hostname": "n3"},
            "containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "4"}}}],
        }
    }
    nodes = [node(name, "4") for name in ("n1", "n2", "n3")]
    daemons = [_daemon(number, f"n{number}") for number in (1, 2, 3)]
    planner = kplan.Planner(kplan.load_snapshot([*nodes, daemon_set("agent"), *daemons, big]))

    report = Drain(nodes=("n1",), how="lost").answer(planner)

    ends = {change.pod: (change.action.value, change.from_node, change.because) for change in report.changes}
    assert ends["default/agent-1"] == ("-", "n1", "its node is lost")
    assert ends["default/agent-3"][:2] == ("!", "n3")
    assert "default/agent-2" not in ends
    assert "DaemonSet default/agent: 1 of 2 nodes" in render(report, "table", ReportOptions(width=160))


def test_pending_pods_of_a_daemon_set_are_each_told_with_their_own_node() -> None:
    nodes = [node(name, cpu) for name, cpu in (("n1", "250m"), ("n2", "300m"), ("n3", "4"), ("n4", "250m"))]
    report = Plan(manifests=(daemon_set("agent"),)).answer(kplan.Planner(kplan.load_snapshot(nodes)))

    text = render(report, "table", ReportOptions(width=160))
    assert "not on n1, n2, n4" in text
    table = text.partition("DaemonSet default/agent: 1 of 4 nodes")[2]
    assert [line.split()[0] for line in table.splitlines() if "It can run on" in line] == ["n1", "n2", "n4"]
    assert "It can run on n4 only, which lacks cpu (requests 500m, it has 250m even when empty)" in table
