"""How each remedy is said: what changes, without a full stop."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import assert_never

from kplan.api import labels as well_known
from kplan.api.quantity import count, listing, readable
from kplan.changes import remedy as r
from kplan.changes.base import addition_words, of_somebody_else
from kplan.health.nodes import UnusableResource
from kplan.health.words import in_parentheses

NODE_STATES = {
    well_known.NOT_READY: "not ready",
    well_known.UNREACHABLE: "unreachable",
    well_known.NETWORK_UNAVAILABLE: "without network",
    well_known.MEMORY_PRESSURE: "under memory pressure",
    well_known.DISK_PRESSURE: "under disk pressure",
    well_known.PID_PRESSURE: "under process id pressure",
    well_known.OUT_OF_SERVICE: "out of service",
    well_known.UNINITIALIZED: "not set up yet",
    well_known.SHUTDOWN: "shut down",
    well_known.UNSCHEDULABLE: "cordoned",
    well_known.DISRUPTED: "being removed by Karpenter",
    well_known.UNREGISTERED: "not set up yet",
    well_known.TO_BE_DELETED: "being removed by the cluster-autoscaler",
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
    if c.what == "claim":
        return f"delete the pod, so that claim {c.name} goes, and have both made again"
    if c.what == "volume":
        return f"once nobody needs what is on volume {c.name}, release it from claim {because}"
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
        case r.DropHostPorts(change=c):
            other = "another one" if len(c.ports) == 1 else "others"
            return f"leave out {_some('hostPort', c.ports)}, as a Service reaches the pod without, or choose {other}"
        case r.TolerateTaint(change=c):
            return f"tolerate {_some('taint', c.taints)}"
        case r.CorrectSelector(change=c):
            return (
                f"remove {c.old} from its {c.where}" if c.to is None else f"in its {c.where}, {c.to} instead of {c.old}"
            )
        case r.CorrectName(change=c):
            instead = f" instead of {c.old}" if c.old else ""
            return f"{'in ' + c.of + ', ' if c.of else ''}set the {c.what} to {c.to}{instead}"
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
        case r.RepairNode(change=c) if c.taints == (well_known.OUT_OF_SERVICE,):
            return f"have {c.node}, which is ready, in service again: kubectl taint node {quote(c.node)} {c.taints[0]}-"
        case r.RepairNode(change=c) if c.hanging:
            hangs = f"whose kubelet has not ended {listing(c.hanging)} though the grace period is over"
            return f"repair {c.node}, {hangs}: kubectl describe node {quote(c.node)}"
        case r.RepairNode(change=c):
            others = [taint for taint in c.taints if taint not in NODE_STATES]
            behind = {well_known.NOT_READY: in_parentheses(c.message)}
            states = [NODE_STATES[taint] + behind.get(taint, "") for taint in c.taints if taint in NODE_STATES]
            states += [f"not set up ({_some('taint', others)})"] if others else []
            return f"repair {c.node}, which is {listing(states)}: kubectl describe node {quote(c.node)}"
        case r.RelaxRule(change=c) if c.min_domains:
            return f"set minDomains: {c.min_domains} for the spread over {c.topology_key}"
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
            return f"run {count(c.to, 'replica')} of {c.workload} instead of {c.old}{c.bounds_words}: as many as fit"
        case r.MoreReplicas(change=c):
            return f"first run {count(c.to, 'replica')} of {c.workload} instead of {c.old}{c.bounds_words}"
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
