"""What drains and losses of nodes leave undone, as warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kplan.cluster.base import Base
from kplan.cluster.workload_pods import no_node
from kplan.course.simulation.draining import Drain
from kplan.course.simulation.loop import Simulation
from kplan.facts import InputWarning

NODE_NOT_REACHED = "NodeNotReached"
LOST_PODS_STAY = "LostPodsStay"
NOT_REPLACED = "its pods stay on lost nodes, or it waits for others of its own, and they are not replaced"
"""Why a workload lacks pods that nobody has told to go."""

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


def check_nodes(base: Base, nodes: Iterable[str]) -> None:
    """Raise NotFoundError for the first name that no node has."""
    for name in nodes:
        if name not in base.objects.node_by_name:
            raise no_node([name], base.objects.node_by_name)


def drain_warnings(
    simulation: Simulation, drains: Sequence[Drain], lost: Sequence[str], *, is_over: bool
) -> list[InputWarning]:
    """Warn of nodes that drains do not reach or hang at, and of lost nodes whose objects stay, and with them pods.

    Parameters
    ----------
    lost : nodes that have failed
    is_over : nothing happens any more, so that pods that nobody has told to go stay
    """
    return [*_not_reached(drains), *_hanging(drains), *_left_on_lost(simulation, lost, is_over=is_over)]


def _not_reached(drains: Iterable[Drain]) -> list[InputWarning]:
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


def _hanging(drains: Iterable[Drain]) -> list[InputWarning]:
    left = Counter(obstacle.node for work in drains for obstacle in work.obstacles if obstacle.reason == "node-silent")
    return [
        InputWarning("DrainHangs", f"Node/{name}", _HANGING.format("1 pod stays" if n == 1 else f"{n} pods stay"))
        for name, n in sorted(left.items())
    ]


def _left_on_lost(simulation: Simulation, nodes: Sequence[str], *, is_over: bool) -> list[InputWarning]:
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
