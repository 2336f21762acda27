"""Small clusters of JSON objects for preemption."""

import kplan
from tests.objects import head

HOSTNAME = "kubernetes.io/hostname"


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
