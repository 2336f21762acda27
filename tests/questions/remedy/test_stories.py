"""Incidents whose best answer was worked out by hand; all answers are replayed command by command."""

from typing import Any

import pytest

from kplan.changes.values import Scale
from kplan.questions.remedy import Remedy
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.objects import HOSTNAME, Object, adding, affinity, budget, head, planner_of, quota, scaler, spread
from tests.objects import pod as owned
from tests.questions.remedy.replay import replayed
from tests.questions.remedy.test_report import deployment, node
from tests.recorded import sample
from tests.schemas import assert_keeps_to_its_schema

ZONE = "topology.kubernetes.io/zone"


def tainted(obj: Object, key: str, value: str) -> Object:
    obj["spec"]["taints"] = [{"key": key, "value": value, "effect": "NoSchedule"}]
    return obj


def holding(obj: Object, pods: int) -> Object:
    """Return a node that takes so many pods."""
    offers = {**obj["status"]["allocatable"], "pods": str(pods)}
    return obj | {"status": {"allocatable": offers, "capacity": offers}}


def volume(zone: str, claim: str) -> list[Object]:
    """Return a volume that only nodes of a zone can attach, and its claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return [
        head("PersistentVolume", name="volume")
        | {
            "spec": {
                **spec,
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": "default", "name": claim},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
            "status": {"phase": "Bound"},
        },
        head(
            "PersistentVolumeClaim",
            name=claim,
            namespace="default",
            annotations={"pv.kubernetes.io/bind-completed": "yes"},
        )
        | {
            "spec": {**spec, "volumeName": "volume", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound"},
        },
    ]


def on_port(port: int, *protocols: str) -> list[Object]:
    plain = {"containerPort": port, "hostPort": port}
    ports = [plain | {"name": protocol.lower(), "protocol": protocol} for protocol in protocols] or [plain]
    return [{"name": "c", "image": "edge", "ports": ports, "resources": {"requests": {"cpu": "1"}}}]


def gpus() -> list[Any]:
    return [
        node("g1", "8", gpu="4"),
        node("g2", "8", gpu="4"),
        deployment("first", "1", ("g1",), gpu="2"),
        deployment("second", "1", ("g2",), gpu="2"),
        deployment("train", "1", ("",), gpu="4"),
    ]


def moves(node_name: str, *pods: str, ready: int = 1) -> list[str]:
    moved = [f"kubectl cordon {node_name}"]
    for pod in pods:
        wanted = f"--for=jsonpath='{{.status.readyReplicas}}'={ready}"
        moved.append(f"kubectl delete pod {pod} -n default --wait")
        moved.append(f"kubectl wait {wanted} deployment {pod.split('-h1')[0]} -n default --timeout=10m")
    return [*moved, f"kubectl uncordon {node_name}"]


LOOSEN, RESTORE = (
    f"kubectl patch pdb first -n default --type merge -p '{{\"spec\":{{{fields}}}}}'"
    for fields in ('"minAvailable":null,"maxUnavailable":1', '"minAvailable":1,"maxUnavailable":null')
)


def template_patch(name: str, spec: str) -> str:
    return f'kubectl patch deployment {name} -n default -p \'{{"spec":{{"template":{{"spec":{spec}}}}}}}\''


def big_template(app: str) -> Object:
    containers = [{"name": "c", "image": "app", "resources": {"requests": {"cpu": "3"}}}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers}}


ML = {"pool": "ml"}
TOLERATION = '{"key":"dedicated","operator":"Equal","value":"ml","effect":"NoSchedule"}'

UDP = '{"containerPort":53,"protocol":"UDP"'
BOTH = '{"name":"tcp","containerPort":53,"protocol":"TCP"},{"name":"udp","containerPort":53,"protocol":"UDP"}'

STORIES: dict[str, tuple[list[Any], str, list[str]]] = {
    "a budget leaves one of two pods to move":
        ([*gpus(), budget("second", maxUnavailable=0)], "", moves("g1", "first-h1-000")),
    "where budgets guard all pods, one of them is loosened":
        ([*gpus(), budget("first", minAvailable=1), budget("second", minAvailable="100%")], "moves budgets",
         [LOOSEN, *moves("g1", "first-h1-000"), RESTORE]),
    "a new node disturbs less than a budget that is loosened":
        ([*gpus(), budget("first", minAvailable=1), budget("second", minAvailable=1)], "moves budgets nodes",
         [*adding(1, "g1")]),
    "two jobs need two moves, though a budget allows only one pod at a time":
        ([*(node(f"g{number}", "8", gpu="4") for number in range(4)),
          deployment("serve", "1", ("g0", "g1", "g2", "g3"), gpu="2"), budget("serve", maxUnavailable=1),
          deployment("train", "1", ("", ""), gpu="4")], "",
         [*moves("g0", "serve-h1-000", ready=4), *moves("g2", "serve-h1-002", ready=4)]),
    "two pods with different causes need two actions":
        ([node("a", disk="ssd"), node("b", cordoned=True), node("c", "1", disk="ssd"), deployment("full", "4", ("a",)),
          deployment("web", "1", ("",), nodeSelector={"disk": "ssdd"}), deployment("big", "4", ("",))], "",
         [template_patch("web", '{"nodeSelector":{"disk":"ssd"}}'), "kubectl uncordon b"]),
    "two nodes rather than one, and pods among those that a taint is for":
        ([node("a"), tainted(node("b", "2"), "dedicated", "ml"), deployment("full", "4", ("a",)),
          deployment("m", "2", ("",)), deployment("n", "3", ("",))], "tolerations nodes", [*adding(2, "a")]),
    "a volume of a zone: the pod that is not bound to it moves":
        ([node("a", **{ZONE: "za"}), node("b", **{ZONE: "zb"}), *volume("za", "data"), deployment("mover", "3", ("a",)),
          deployment("db", "2", ("",), volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])], "",
         moves("a", "mover-h1-000")),
    "a node is added rather than that a rollout that gets stuck tolerates a taint":
        ([node("a"), tainted(node("b"), "dedicated", "ml"), deployment("web", "3", ("a", ""))], "", [*adding(1, "a")]),
    "pods that keep apart get the cordoned node":
        ([node("a"), node("b"), node("c", cordoned=True),
          deployment("db", "1", ("a", "b", ""), **affinity("podAntiAffinity", HOSTNAME, app="db"))],
         "", ["kubectl uncordon c"]),
    "pods that keep apart get a node before the running ones are replaced":
        ([node("a"), node("b"),
          deployment("db", "1", ("a", "b", ""), **affinity("podAntiAffinity", HOSTNAME, app="db"))], "",
         [*adding(1, "a")]),
    "another workload runs fewer replicas where nothing else may be done":
        ([node("a"), node("b"), deployment("batch", "2", ("a", "a", "b", "b")), deployment("web", "2", ("",))], "scale",
         ["kubectl scale deployment batch -n default --replicas=3"]),
    "no workload is scaled below its budget":
        ([node("a"), node("b"), deployment("batch", "2", ("a", "a", "b", "b")), budget("batch", minAvailable=4),
          deployment("other", "500m", ("a",)), deployment("web", "2", ("",))], "scale", []),
    "an autoscaler at its maximum gets a lower one":
        ([node("a"), deployment("web", "1", ("a", "a", "a", "a", "")), scaler("web", 2, 5)], "scale",
         ['kubectl patch hpa web -n default --type merge -p \'{"spec":{"maxReplicas":4}}\'']),
    "a pod of a full node moves where a label binds another to it":
        ([holding(node("a"), 2), node("b"), deployment("x", "100m", ("a", "a")),
          deployment("y", "100m", ("",), nodeSelector={"kubernetes.io/hostname": "a"})], "",
         moves("a", "x-h1-000", ready=2)),
    "a port of the host is taken":
        ([node("a"), deployment("edge", "1", ("a", ""), hostNetwork=True, containers=on_port(80))], "",
         [*adding(1, "a")]),
    "a zone is missing for the spread":
        ([node("a", **{ZONE: "za"}), node("b", cordoned=True, **{ZONE: "zb"}),
          deployment("web", "1", ("a", ""), **spread(ZONE, app="web"))], "", ["kubectl uncordon b"]),
    "two small moves disturb less than a node":
        ([node("a", "8"), node("b", "8"), deployment("s", "1", (*"aaaa", *"bbbb")), deployment("big", "6", ("",))], "",
         moves("a", "s-h1-000", "s-h1-001", ready=8)),
    "a misspelt scheduler is corrected":
        ([node("a"), deployment("web", "1", ("", ""), schedulerName="defualt-scheduler")], "",
         [template_patch("web", '{"schedulerName":"default-scheduler"}')]),
    "what is misspelt and what is not tolerated change together":
        ([tainted(node("a", disk="ssd"), "dedicated", "ml"),
          deployment("web", "1", ("",), nodeSelector={"disk": "sdd"})], "",
         [template_patch("web", f'{{"nodeSelector":{{"disk":"ssd"}},"tolerations":[{TOLERATION}]}}')]),
    "pods that select a pool tolerate its taint rather than leave it":
        ([node("a"), tainted(node("b", pool="ml"), "dedicated", "ml"), deployment("w", "1", ("",), nodeSelector=ML)],
         "", [template_patch("w", f'{{"tolerations":[{TOLERATION}]}}')]),
    "a set that makes one pod after the other gets nodes for all":
        ([node("a"),
          head("StatefulSet", name="db", namespace="default", uid="db")
          | {"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "db"}}, "template": big_template("db")}},
          *(owned(f"db-{n}", on, cpu="3", labels={"app": "db"}, owner="StatefulSet/db")
            for n, on in ((0, "a"), (1, "")))], "", [*adding(2, "a")]),
    "a budget that allows nothing keeps its pods where they are":
        ([node("a"), node("b"), deployment("db", "1", ("a",)), deployment("web", "2", ("b",)),
          budget("db", maxUnavailable=0), deployment("big", "4", ("",))], "moves", moves("b", "web-h1-000")),
    "pods are moved in a chain where one needs the room of the other":
        ([node("a", "6"), node("b", "5"), node("c", "2"), deployment("small", "1", ("b",)),
          deployment("middle", "5", ("a",)), deployment("big", "6", ("",))], "moves",
         [*moves("b", "small-h1-000"), *moves("a", "middle-h1-000")]),
    "a node that is uncordoned is cordoned again while its pods are moved":
        ([node("a", cordoned=True), node("b", "1"), deployment("small", "1", ("a",)), deployment("big", "4", ("",))],
         "moves uncordon", ["kubectl uncordon a", *moves("a", "small-h1-000")]),
    "as many nodes are added as are needed":
        ([node("a"), deployment("web", "3", ("a", *[""] * 5))], "nodes", [*adding(5, "a")]),
    "a misspelt selector is corrected in the template":
        ([node("a", disk="ssd"), node("b", disk="hdd"),
          deployment("web", "1", ("", ""), nodeSelector={"disk": "ssdd"})], "",
         [template_patch("web", '{"nodeSelector":{"disk":"ssd"}}')]),
    "a port of the node is told by its protocol":
        ([node("a"), deployment("dns", "1", ("a", ""), containers=on_port(53, "UDP"))], "rules",
         [template_patch("dns", f'{{"containers":[{{"name":"c","ports":[{UDP},"hostPort":null}}]}}]}}')]),
    "ports of one number are told apart by naming all":
        ([node("a"), deployment("dns", "1", ("a", ""), containers=on_port(53, "TCP", "UDP"))], "rules",
         [template_patch("dns", f'{{"containers":[{{"name":"c","ports":[{{"$patch":"replace"}},{BOTH}]}}]}}')]),
    "pods on nodes that the snapshot lacks make no room":
        ([node("a"), deployment("web", "3", ("a", "")), deployment("gone", "2", ("elsewhere",))], "",
         [*adding(1, "a")]),
    "an autoscaler lets fewer run once both its bounds say so":
        ([node("a"), deployment("b", "1", ("a", "a", "a")), deployment("big", "2", ("",)), scaler("b", 3, 5)], "scale",
         ['kubectl patch hpa b -n default --type merge -p \'{"spec":{"maxReplicas":2,"minReplicas":2}}\'']),
    "one node is enough for two workloads":
        ([node("a"), deployment("full", "4", ("a",)), deployment("w1", "2", ("",)), deployment("w2", "2", ("",))], "",
         [*adding(1, "a")]),
}  # fmt: skip


@pytest.mark.parametrize("story", sample([*STORIES], 3))
def test_the_best_answer_is_given_and_every_answer_holds(story: str) -> None:
    objects, only, commands = STORIES[story]
    planner = planner_of(*objects)
    report = planner.ask(Remedy(only=tuple(only.split())))

    done = [command for action in report.remedy.actions for command in action.commands]
    assert [*done, *report.remedy.undo] == commands
    for answer in (report.remedy, *report.alternatives):
        assert replayed(planner, answer) == answer.of - answer.runs
    assert_keeps_to_its_schema(report.to_dict())


def test_replicas_that_a_quota_keeps_from_being_made_are_told() -> None:
    objects = [node("a"), node("b", cordoned=True), deployment("web", "2", ("a", "a", ""), replicas=5)]
    planner = planner_of(*objects, quota("team", "3", pods="3"))
    report = planner.ask(Remedy(without=("quotas",)))

    assert [action.commands for action in report.remedy.actions] == [("kubectl uncordon b",)]
    (warning,) = report.warnings
    assert (warning.code, warning.object) == ("MissingReplicas", "Deployment/default/web")
    assert warning.message.startswith("2 of 5 replicas are missing")

    raised = planner.ask(Remedy())
    assert [action.text for action in raised.remedy.actions] == [
        "raise ResourceQuota default/team: pods from 3 to 5",
        "uncordon b",
        "add 1 node like a",
    ]
    assert (raised.remedy.runs, raised.remedy.of, raised.pods) == (3, 3, ("default/web-h1-002",))
    shown = " ".join(render(raised, "table", ReportOptions()).split())
    assert "ResourceQuota default/team pods 3 of 3 used; raise it to 5; 1 of 3 pods has no node. Raise" in shown
    assert "run (3 of 3 pods)" in shown


def test_workloads_that_a_quota_holds_up_are_told_once_each() -> None:
    web, two = deployment("web", "1", ("a", "a"), replicas=5), deployment("two", "1", ("a",), replicas=3)
    report = planner_of(node("a"), web, two, quota("team", "3", pods="3")).ask(Remedy(without=("quotas",)))
    shown = render(report, "table", ReportOptions())
    assert shown.count("default/two: 2 of 3 replicas are missing") == 1
    assert shown.count("- default/web: 3 of 5 replicas are missing") == 1


@pytest.mark.parametrize(
    ("change", "first", "command"),
    [
        ({"paused": True}, "Deployment is paused", "kubectl rollout resume deployment/web -n default"),
        ({"replicas": 0}, "Deployment is scaled to zero", "kubectl scale deployment web -n default --replicas=1"),
    ],
)
def test_what_somebody_has_stopped_is_told_with_the_command_that_has_it_go_on(
    change: dict[str, Any], first: str, command: str
) -> None:
    objects = deployment("web", "1", ("a",) if "paused" in change else (), replicas=change.get("replicas", 1))
    objects = [one | {"spec": one["spec"] | change} if one["kind"] == "Deployment" else one for one in objects]
    shown = " ".join(render(planner_of(node("a"), *objects).ask(Remedy()), "table", ReportOptions()).split())
    assert shown.startswith(f"No pod is pending; default/web: {first}")
    assert command in shown


def test_pods_that_are_not_wanted_any_more_are_not_said_to_run() -> None:
    objects, _, _ = STORIES["an autoscaler at its maximum gets a lower one"]
    report = planner_of(*objects).ask(Remedy(only=("scale",)))
    (action,) = report.remedy.actions
    assert isinstance(action, Scale)
    assert (action.achieves, action.drops, action.autoscaler) == ((), ("default/web-h1-004",), "web")
    shown = " ".join(render(report, "table", ReportOptions()).split())
    assert "then default/web-h1-004 is not wanted any more" in shown
