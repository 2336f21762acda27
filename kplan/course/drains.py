"""The answer of `Planner.drain`: nodes are emptied in one of several ways, or are lost."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from kplan.changes.values import DrainOptions, Upgrade
from kplan.cluster.base import Base
from kplan.cluster.workload_pods import no_node
from kplan.course.carried_out import Decisions
from kplan.course.change import ChangePlan
from kplan.course.simulation.any_node import AnyNodeTaker, Uncertain
from kplan.course.simulation.draining import Drain, How
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.nodes import NodeUpgrade
from kplan.course.simulation.outcome import note_stuck
from kplan.course.watching import any_node, at_rest, begin
from kplan.documents.change import StepEvent
from kplan.facts import InputWarning

NODE_NOT_REACHED = "NodeNotReached"
LOST_PODS_STAY = "LostPodsStay"
NOT_REPLACED = "its pods stay on lost nodes, or it waits for others of its own, and they are not replaced"
"""Why a workload lacks pods that nobody has told to go."""

_TO_PODS = {StepEvent.LOST, StepEvent.EVICTED, StepEvent.DELETED, StepEvent.CREATED, StepEvent.BOUND, StepEvent.BLOCKED}
_WHEREVER = frozenset({*_TO_PODS, StepEvent.UNREACHABLE, StepEvent.REMOVED})
"""What happens whichever nodes pods are on, unless their own controllers delete them."""

_TERMINATING = (
    "{} Terminating as long as the Node object exists, and pods of stateful sets are not replaced:"
    " delete the Node, or taint it with node.kubernetes.io/out-of-service, once the machine is off"
)
_HANGING = (
    "kubectl drain waits here without end: {} Terminating, as no kubelet answers that could end pods. Delete the Node,"
    " and the garbage collector removes them a minute later; or, once the machine is surely off, taint it with"
    " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, and they are removed within 20 seconds, those of daemon"
    " sets too. Only then do stateful sets go on. --force alone does not help; with --grace-period=0 the objects go"
    " though the containers may still run; with --skip-wait-for-delete-timeout kubectl goes on, and they stay"
)
_NOT_TOLD = (
    "{} bound without running, and without a replacement: Kubernetes tells no pod to go that tolerates its node to be"
    " unreachable, and none at all when all zones fail together, or most nodes of a small zone; delete the Node once"
    " the machine is off"
)


def drain(
    base: Base,
    nodes: Sequence[str],
    how: How = "together",
    *,
    options: DrainOptions | None = None,
    decisions: Decisions | None = None,
    waits: bool = False,
) -> ChangePlan:
    """Cordon nodes and evict their pods, or let nodes fail.

    Parameters
    ----------
    decisions : collects the decisions about all pods
    waits : one by one, wait in the end for jobs that back off before they recreate their pods
    """
    check_nodes(base, nodes)
    simulation = begin(base)
    if decisions is not None:
        decisions.watch(simulation)
    change = empty(simulation, base, nodes, how, options=options, waits=waits)

    def again(other: Base, *, options: DrainOptions | None = None, decisions: Decisions | None = None) -> ChangePlan:
        return drain(other, nodes, how, options=options or change.options, decisions=decisions, waits=waits)

    change = dataclasses.replace(
        change,
        command="drain",
        again=again,
        decide=lambda noted: again(base, decisions=noted),
    )
    note_stuck(change.simulation, change.workloads)  # the workloads that the drain leaves with missing pods
    return change


def drain_to_any(base: Base, nodes: Sequence[str], how: How, options: DrainOptions) -> ChangePlan | None:
    """Drain nodes as `drain` does, with pods on other nodes than the scheduler's, and otherwise the same in the end.

    Returns
    -------
    change : None where it may matter on which nodes pods are
    """
    still = at_rest(base)
    if still.unplaced or how not in ("together", "one-by-one", "lost"):
        return None  # for pods that wait the nodes of others may matter
    known = any_node(base)
    leaving = Drain(still, options).leaving(nodes) if known.uncertain else ()
    if any(still.workload_of(pod) in known.uncertain for pod in leaving):
        return None
    simulation = begin(base)
    if not simulation.node_lifecycle.is_well:
        return None
    simulation.scheduler.any_node = AnyNodeTaker(known, nodes)
    try:
        change = empty(simulation, base, nodes, how, options=options, waits=True)
    except Uncertain:
        return None
    return change if _is_as_anywhere(change, still) else None


def _is_as_anywhere(change: ChangePlan, still: Simulation) -> bool:
    """Tell whether a change goes the same way whichever of the nodes with room for them the scheduler gave its pods."""
    session = change.simulation.session
    # Controllers that delete pods choose them by their nodes.
    has_choice = any(removal.by_owner for removal in change.simulation.removals)
    has_choice = has_choice or any(step.event not in _WHEREVER for step in change.steps)
    # Pods of a new replica set may be spread by default, which depends on what it selects.
    has_new_set = len(session.listers.replica_sets) != len(still.session.listers.replica_sets)
    names_node = any(session.cluster.pods.infos[row].pod.spec.node_name for row in change.simulation.newcomers)
    return not (has_choice or has_new_set or names_node)


def check_nodes(base: Base, nodes: Iterable[str]) -> None:
    """Raise NotFoundError for the first name that no node has."""
    for name in nodes:
        if name not in base.objects.node_by_name:
            raise no_node([name], base.objects.node_by_name)


def empty(
    simulation: Simulation,
    base: Base,
    nodes: Sequence[str],
    how: How = "together",
    *,
    options: DrainOptions | None = None,
    waits: bool = False,
) -> ChangePlan:
    """Drain nodes in a fresh simulation, or have them fail; parameters as for `drain`."""
    simulation.node_lifecycle.go_on()
    drains: list[Drain] = []
    if how == "lost":
        simulation.node_lifecycle.fail(nodes, is_machine_gone=True)
    elif how in ("rolling", "replace"):
        NodeUpgrade(simulation, nodes, Upgrade(is_replaced=how == "replace"), options, drains).begin()
    else:
        drains.append(Drain(simulation, options, () if how == "one-by-one" else nodes))
        simulation.life.cordon(nodes)
        if how == "one-by-one":
            drains[0].one_by_one(drains[0].leaving(nodes), waits=waits)
        else:
            drains[0].begin()
    if how != "one-by-one" or not simulation.node_lifecycle.is_well:
        simulation.run()  # what has failed already goes on, also where no pod is evicted
    for drain in drains:
        drain.conclude()
    left_out = [*nodes_not_reached(drains), *drains_that_hang(drains)]
    left_out += left_on_lost(simulation, nodes, is_over=True) if how == "lost" else []
    return ChangePlan(simulation, base, drains=drains, left_out=tuple(left_out), options=options or DrainOptions())


def nodes_not_reached(drains: Iterable[Drain]) -> list[InputWarning]:
    return [
        InputWarning(NODE_NOT_REACHED, f"Node/{name}", _why(work, name)) for work in drains for name in work.not_reached
    ]


def _why(work: Drain, name: str) -> str:
    if not work.waits_at:
        return "is not drained, because a node before it cannot be emptied"
    pods = work.leaving([name])
    stuck = sum(bool(work.obstacle(pod)) for pod in pods)
    number = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    which = "which" if len(pods) == 1 else f"of which {stuck}"
    also = f", {which} could not be evicted either" if stuck else ""
    return (
        f"stays cordoned with {number}{also}: kubectl drain empties one node after the other, and without a timeout it "
        f"waits at {work.waits_at} for ever"
    )


def drains_that_hang(drains: Iterable[Drain]) -> list[InputWarning]:
    """Warn of nodes at which kubectl drain waits without end, with the ways out."""
    left = Counter(obstacle.node for work in drains for obstacle in work.obstacles if obstacle.reason == "node-silent")
    return [
        InputWarning("DrainHangs", f"Node/{name}", _HANGING.format("1 pod stays" if n == 1 else f"{n} pods stay"))
        for name, n in sorted(left.items())
    ]


def left_on_lost(simulation: Simulation, nodes: Sequence[str], *, is_over: bool) -> list[InputWarning]:
    """Warn of lost nodes whose objects stay, and with them pods.

    Parameters
    ----------
    is_over : nothing happens any more, so that pods that nobody has told to go stay
    """
    left: Counter[tuple[str, str, str]] = Counter()
    for pod in Drain(simulation).leaving([name for name in nodes if name in simulation.lost_nodes]):
        if pod.is_terminating:
            left["LostNodeStays", pod.node, _TERMINATING] += pod.row not in simulation.stopped
        elif is_over:
            left[LOST_PODS_STAY, pod.node, _NOT_TOLD] += 1
    return [
        InputWarning(code, f"Node/{name}", message.format("1 pod there stays" if n == 1 else f"{n} pods there stay"))
        for (code, name, message), n in sorted(left.items())
        if n
    ]
