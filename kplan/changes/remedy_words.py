"""How each remedy is said: what changes, in the words of an advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from kplan.api.quantity import count, listing, readable
from kplan.changes import remedy as r
from kplan.changes.base import addition_words, of_somebody_else
from kplan.health.nodes import UnusableResource

NODE_STATES = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
    "node.kubernetes.io/network-unavailable": "without network",
    "node.kubernetes.io/memory-pressure": "under memory pressure",
    "node.kubernetes.io/disk-pressure": "under disk pressure",
    "node.kubernetes.io/pid-pressure": "under process id pressure",
    "node.cloudprovider.kubernetes.io/uninitialized": "not set up yet",
    "node.cloudprovider.kubernetes.io/shutdown": "shut down",
    "node.kubernetes.io/unschedulable": "cordoned",
    "karpenter.sh/disrupted": "being removed by Karpenter",
    "karpenter.sh/unregistered": "not set up yet",
    "ToBeDeletedByClusterAutoscaler": "being removed by the cluster-autoscaler",
}
"""The meaning of the taints that the control plane and autoscalers set."""

_MOST_TAINTS = 3

_RULES = {
    "topologySpreadConstraints": "set whenUnsatisfiable: ScheduleAnyway for the spread over {}",
    "podAffinity": "only prefer to run near other pods per {}",
    "podAntiAffinity": "only prefer to stay apart per {}",
}


def remedy_change(remedy: r.Remedy) -> str:
    """Return a remedy as a sentence without a full stop."""
    return f"{of_members(remedy)}{remedy_words(remedy)}{untried(remedy)}"


def untried(remedy: r.Remedy) -> str:
    """Return that a remedy was not tried, to go behind it; what is waited for cannot be."""
    return "" if remedy.checked or isinstance(remedy, r.Await) else " (not tried)"


def of_members(remedy: r.Remedy) -> str:
    """Return which pods of a group change, to go before the change; empty for all."""
    return f"in {listing(remedy.members)}, " if remedy.members else ""


def _some(noun: str, names: Sequence[str]) -> str:
    return f"{noun if len(names) == 1 else noun + 's'} {listing(names)}"


def _within(budgets: Sequence[str]) -> str:
    """Return which budgets count what a remedy evicts or deletes."""
    return f" (within {_some('budget', budgets)})" if budgets else ""


def _awaited(c: r.Awaited) -> str:
    because = listing(c.because, most=_MOST_TAINTS)
    if c.what == "node":
        return f"wait until node {c.name} is set up ({because} {'goes' if len(c.because) == 1 else 'go'} away then)"
    if c.what == "pod":
        return f"wait until {c.name} has ended on {because}"
    return f"wait until {c.name} admits it and removes {because}"


def _moved(c: r.MovedPod) -> str:
    whose = of_somebody_else(c.of_others)
    return f"delete {c.pod} on {c.node}, which fits on {c.goes_to} as well{_within(c.budgets)}{whose}"


def _lowered(c: r.RequestChange) -> str:
    whose = f"container {c.container}" if c.container else "the pod"
    why = f" (what VerticalPodAutoscaler {c.recommended} recommends)" if c.recommended else ""
    return f"lower the {c.resource} request of {whose} from {readable(c.old)} to {c.to}{why}"


def remedy_words(remedy: r.Remedy) -> str:  # noqa: C901, PLR0911, PLR0912 - one case a kind, in one place
    """Return what changes, without what comes of it."""
    match remedy:
        case r.LowerRequest(change=c):
            return " and ".join(_lowered(request) for request in (c, *(remedy.also or ())))
        case r.TolerateTaint(change=c):
            return f"tolerate {_some('taint', c.taints)}"
        case r.CorrectSelector(change=c):
            return (
                f"remove {c.old} from its {c.where}" if c.to is None else f"in its {c.where}, {c.to} instead of {c.old}"
            )
        case r.CorrectName(change=c):
            return f"{'in ' + c.of + ', ' if c.of else ''}set the {c.what} to {c.to} instead of {c.old}"
        case r.SearchNamespace(change=c):
            return f"add {c.namespace}, where {c.selector} runs, to namespaces of the podAffinity per {c.topology_key}"
        case r.HonorPolicy(change=c):
            return f"set {c.policy}: Honor for the spread over {c.topology_key}"
        case r.CreateObject(change=c):
            return f"create {c.what} {c.name}"
        case r.Await(change=c):
            return f"{_awaited(c)}{f': {remedy.command}' if remedy.command else ''}"
        case r.RemoveGates(change=c):
            them = "it" if len(c.gates) == 1 else "them"
            return f"have whoever set {_some('scheduling gate', c.gates)} remove {them}"
        case r.Uncordon(change=c):
            return " ".join(["kubectl uncordon", c.node, *(other.node for other in remedy.also or ())])
        case r.RepairNode(change=c) if c.resource:
            devices = UnusableResource(resource=c.resource, capacity=c.capacity, allocatable=c.allocatable)
            return f"look at the device plugin of {c.node}, which reports {devices.text}"
        case r.RepairNode(change=c):
            states = [NODE_STATES.get(taint) or f"not set up (taint {taint})" for taint in c.taints]
            return f"repair {c.node}, which is {listing(states)}"
        case r.RelaxRule(change=c):
            return _RULES[c.rule].format(c.topology_key)
        case r.Together(changes=changes):
            return " and ".join(map(remedy_words, changes))
        case r.MovePod(change=c):
            return " and ".join(_moved(pod) for pod in (c, *(remedy.also or ())))
        case r.WidenPool(change=c):
            return c.text
        case r.AddNodes(change=c):
            return addition_words(c.nodes, c.like, c.devices, c.labels, c.room)
        case r.RaisePriority(change=c):
            evicts = f"{listing(c.evicts)}{_within(c.budgets)}"
            where = f" in PodGroup {c.group} and its pods" if c.group else ""
            return f"use priority class {c.priority_class} ({c.to}){where}, which would evict {evicts}"
        case r.LowerReplicas(change=c):
            return f"run {count(c.to, 'replica')} of {c.workload} instead of {c.old}: as many as fit"
        case r.MoreReplicas(change=c):
            return f"first run {count(c.to, 'replica')} of {c.workload} instead of {c.old}"
        case r.ChangeBudget(change=c):
            return f"set {c.to} in budget {c.budget}" + (f" instead of {c.old}" if c.old else "")
        case r.AllowUnavailable(change=c):
            meanwhile = f"1 of {count(c.replicas, 'pod')} may be missing meanwhile"
            return f"set {c.to} in the rollout of {c.workload} instead of {c.old} ({meanwhile})"
        case r.LowerMinCount(change=c):
            return f"create PodGroup {c.group} anew with minCount {c.to} instead of {c.old}: it starts with fewer pods"
        case r.AddMembers(change=c):
            return f"create {count(c.pods, 'more pod', 'more pods')} of PodGroup {c.group}"
        case r.DropTopology(change=c):
            return f"create PodGroup {c.group} anew without the topology constraint on {c.key}"
        case _:
            assert_never(remedy)
