"""What warnings tell of drains, and of nodes that are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kplan.api.labels import OUT_OF_SERVICE
from kplan.api.quantity import count
from kplan.course.simulation.draining import Draining, drained_pods
from kplan.course.simulation.loop import Simulation
from kplan.facts import LOST_NODE_STAYS, InputWarning

NODE_NOT_REACHED = "NodeNotReached"
TIMED_OUT = "DrainTimedOut"
LOST_PODS_STAY = "LostPodsStay"
_NOT_READY = (
    "its kubelet answers that it is not ready, and is taken to end pods all the same, as one that waits for its network"
    " does. One whose container runtime hangs ends none: they stay Terminating, and kubectl drain waits without end;"
    " kubectl describe node tells which it is"
)
NOT_REPLACED = "its pods stay on lost nodes, or it waits for others of its own, and they are not replaced"
"""Why a workload lacks pods that nobody has told to go."""

_TERMINATING = (
    "{} Terminating as long as the Node object exists, and pods of stateful sets are not replaced:"
    f" delete the Node, or taint it with {OUT_OF_SERVICE}, once the machine is off"
)
_HANGING = (
    "kubectl drain {}: {} Terminating, as no kubelet answers that could end pods. Delete the Node,"
    " and the garbage collector removes them a minute later; or, once the machine is surely off, taint it with"
    f" {OUT_OF_SERVICE}=nodeshutdown:NoExecute, and they are removed within 20 seconds, those of daemon"
    " sets too. Only then do stateful sets go on. --force alone does not help; with --grace-period=0 the objects go"
    " though the containers may still run; with --skip-wait-for-delete-timeout kubectl goes on, and they stay"
)
_WAITS, _GIVES_UP = "waits here without end", "gives up here with an error, as its time is over"
_GIVEN_UP = f"kubectl drain {_GIVES_UP}: {{}} not gone yet"
_NOT_TOLD = (
    "{} bound without running, and without a replacement: Kubernetes tells no pod to go that tolerates its node to be"
    " unreachable, and none at all when all zones fail together, or most nodes of a small zone; delete the Node once"
    " the machine is off"
)


def drain_warnings(
    simulation: Simulation, drains: Sequence[Draining], lost: Sequence[str], *, is_over: bool
) -> list[InputWarning]:
    """Warn of nodes that drains do not reach or hang at, and of lost nodes whose objects stay, and with them pods.

    `lost`: nodes that have failed. `is_over`: nothing happens any more, so that pods that nobody has told to go stay.
    """
    not_reached = [(work, name) for work in drains for name in work.not_reached]
    return [
        *(
            InputWarning(NODE_NOT_REACHED, f"Node/{name}", _why_not_reached(simulation, work, name))
            for work, name in not_reached
        ),
        *_hanging(drains),
        *_not_ready(simulation, drains),
        *(InputWarning(TIMED_OUT, f"Node/{name}", words) for name, words in timed_out(drains).items()),
        *_left_on_lost(simulation, lost, is_over=is_over),
    ]


def timed_out(drains: Iterable[Draining]) -> dict[str, str]:
    """Return the nodes that kubectl drain gives up although their pods will be gone, unless some never are, and why."""
    left = {name: n for work in drains for name, n in work.timed_out.items() if n}
    hanging = {obstacle.node for work in drains for obstacle in work.obstacles if obstacle.never_ends}
    return {name: _GIVEN_UP.format(count(n, "pod is", "pods are")) for name, n in left.items() if name not in hanging}


def _why_not_reached(simulation: Simulation, work: Draining, name: str) -> str:
    if not work.waits_at:
        return "is not drained, because a node before it cannot be emptied"
    pods = drained_pods(simulation, [name])
    stuck, number = sum(bool(work.obstacle(pod)) for pod in pods), count(len(pods), "pod")
    which = "which" if len(pods) == 1 else f"of which {stuck}"
    also = f", {which} could not be evicted either" if stuck else ""
    return (
        f"stays cordoned with {number}{also}: kubectl drain empties one node after the other, and without a timeout it "
        f"waits at {work.waits_at} for ever"
    )


def _hanging(drains: Sequence[Draining]) -> list[InputWarning]:
    left = Counter(obstacle.node for work in drains for obstacle in work.obstacles if obstacle.reason == "node-silent")
    given_up = {name for work in drains for name in work.timed_out}
    ways = ((name, _GIVES_UP if name in given_up else _WAITS, n) for name, n in sorted(left.items()))
    return [
        InputWarning("DrainHangs", f"Node/{name}", _HANGING.format(way, count(n, "pod stays", "pods stay")))
        for name, way, n in ways
    ]


def _not_ready(simulation: Simulation, drains: Sequence[Draining]) -> list[InputWarning]:
    # Upstream: pkg/kubelet/kubelet.go syncLoop skips pods for errors of the runtime, not for those of the network; a
    # node's conditions tell the two apart in their message only.
    table = simulation.cluster.nodes
    drained = {name for work in drains for name in work.nodes} - simulation.lost_nodes
    conditions = {name: table.nodes[table.row_of[name]].status.conditions for name in drained if name in table.row_of}
    return [
        InputWarning("KubeletNotReady", f"Node/{name}", _NOT_READY)
        for name in sorted(conditions)
        if any((one.type, one.status) == ("Ready", "False") for one in conditions[name])
    ]


def _left_on_lost(simulation: Simulation, nodes: Sequence[str], *, is_over: bool) -> list[InputWarning]:
    left: Counter[tuple[str, str, str]] = Counter()
    for pod in drained_pods(simulation, [name for name in nodes if name in simulation.lost_nodes]):
        if pod.is_terminating:
            left[LOST_NODE_STAYS, pod.node, _TERMINATING] += pod.row not in simulation.stopped
        elif is_over:
            left[LOST_PODS_STAY, pod.node, _NOT_TOLD] += 1
    return [
        InputWarning(code, f"Node/{name}", message.format(count(n, "pod there stays", "pods there stay")))
        for (code, name, message), n in sorted(left.items())
        if n
    ]
