"""Small clusters of JSON objects for preemption."""

import kplan
from tests.objects import head

HOSTNAME = "kubernetes.io/hostname"


def node(name, *, cpu="4", memory="8Gi", pods="110", taints=(), labels=None):
    """Make a node."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return head("Node", name=name, labels={HOSTNAME: name, **(labels or {})}) | {
        "spec": {"taints": list(taints)},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(
    name,
    on=None,
    *,
    cpu="1",
    priority=0,
    start=None,
    labels=None,
    namespace="default",
    ports=(),
    nominated=None,
    leaving=False,
    owner=None,
    **spec,
):
    """Make a pod: running when `on` a node; `start` is an hour of the day."""
    requests = {} if cpu is None else {"cpu": cpu}
    container_ports = [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports]
    made = head("Pod", name=name, namespace=namespace, uid=f"uid-{namespace}-{name}", labels=labels or {}) | {
        "spec": {
            "schedulerName": "default-scheduler",
            "priority": priority,
            "containers": [
                {"name": "main", "image": "app", "resources": {"requests": requests}, "ports": container_ports}
            ],
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }
    if on:
        made["spec"]["nodeName"] = on
    if start is not None:
        made["status"]["startTime"] = f"2026-03-01T{start:02}:00:00Z"
    if nominated:
        made["status"]["nominatedNodeName"] = nominated
    if leaving:
        made["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        made["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ]
    if owner:
        kind, owner_name = owner.split("/")
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": "u", "controller": True}
        ]
    return made


def budget(name, selector, allowed=0, *, namespace="default", disrupted=()):
    """Make a pod disruption budget."""
    spec = {} if selector is None else {"selector": selector}
    return head("PodDisruptionBudget", name=name, namespace=namespace) | {
        "spec": spec,
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-03-01T12:00:00Z"),
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        },
    }


def app(name):
    """Select pods by their app."""
    return {"matchLabels": {"app": name}}


def planner(objects, config=None, **options):
    """Make a planner."""
    return kplan.Planner(kplan.load_snapshot(objects), kplan.load_scheduler_config(config), **options)


def preempt(*objects, config=None, incoming="default/vip", **options):
    """Place a pending pod that fits nowhere, and return the contract's preemption object."""
    placement = planner(objects, config, **options).place(incoming)
    assert placement.node is None
    return placement.preemption.to_dict()


def victims(found, name="a"):
    """Return the victims on a candidate, without namespaces."""
    return [key.split("/")[1] for key in found["candidates"][name]["victims"]]
