"""Which pods take the place of which in a change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from kplan.course.carried_out import CarriedOut
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.nodes import comes_with_node
from kplan.documents import change as d
from kplan.documents.plan import Action
from kplan.facts import DerivedOnce

_LEAVING = (d.StepEvent.EVICTED, d.StepEvent.DELETED)


class Replacement(msgspec.Struct, frozen=True, dict=True):
    """What happens to one pod: it leaves, or a new pod comes, or a new pod replaces it."""

    workload: str
    removed: d.Step | None = None
    added: ObservedPod | None = None
    is_circling: bool = False  #: nothing has come in its place because the same pods are evicted again and again

    @DerivedOnce
    def pod(self) -> str:
        """NAMESPACE/NAME of the pod that leaves, else of the new pod."""
        return self.removed.pod if self.removed is not None else self.added.key if self.added is not None else ""

    @DerivedOnce
    def added_key(self) -> str:
        """NAMESPACE/NAME of the new pod; empty for none."""
        return "" if self.added is None else self.added.key

    @DerivedOnce
    def action(self) -> Action:
        """The name of it in reports."""
        if self.added is None:
            return Action.PENDING if self.is_circling else Action.EVICTED
        if not self.added.node:
            return Action.PENDING
        return Action.PLACED if self.removed is None or self.removed.node is None else Action.MOVED


def replacements_in(
    change: CarriedOut, waited: Collection[str], was_pending: Mapping[str, ObservedPod]
) -> Iterator[Replacement]:
    """Yield pods that leave, paired: by name in a stateful set, by node in a daemon set, in order elsewhere.

    `waited`: NAMESPACE/NAME of all pods that were pending before. `was_pending`: those of them that the change left.
    """
    simulation = change.simulation
    removed: dict[str, list[d.Step]] = {}
    born: set[str] = set()
    added: dict[str, list[ObservedPod]] = {}
    created, bound = d.StepEvent.CREATED, d.StepEvent.BOUND
    for step in change.steps:
        if step.event is created:
            born.add(step.pod)
        elif step.event in _LEAVING and step.pod not in born:
            # A pod that waited when the change began has no node to leave, whichever it passes through.
            left = structs.replace(step, node=None) if step.pod in waited else step
            removed.setdefault(step.workload, []).append(left)
        elif step.event is bound and step.pod in was_pending and step.pod not in born:
            added.setdefault(step.workload, []).append(was_pending[step.pod])
    there = simulation.pods
    for pod in [there[row] for row in simulation.life.newcomers if row in there]:
        if not pod.is_terminating and not comes_with_node(simulation, pod):
            added.setdefault(simulation.workload_of(pod), []).append(pod)
    for workload, pod in simulation.kubelets.finished:
        if pod.is_new or pod.key in waited:
            added.setdefault(workload, []).append(pod)
    unreplaced = {pod.key for lost in simulation.life.lost.values() for pod in lost} if simulation.circle else set()
    blocked = change.blocked
    for workload in dict.fromkeys(step.workload for step in change.steps if step.pod):
        yield from _paired(workload, removed.get(workload, []), added.get(workload, []), blocked, unreplaced)


def _paired(
    workload: str,
    removed: Sequence[d.Step],
    added: Sequence[ObservedPod],
    blocked: Collection[str],
    unreplaced: Collection[str],
) -> Iterator[Replacement]:
    left = {pod.key: pod for pod in added}
    meant_for = {pod.target: pod.key for pod in added if pod.target}  # pods of daemon sets
    unmatched: list[d.Step] = []
    for step in removed:
        successor = step.pod if step.pod in left else meant_for.get(step.node or "", "")
        pod = left.pop(successor, None)
        if pod is not None:
            yield Replacement(workload, step, pod)
        else:
            unmatched.append(step)
    # A pod of a daemon set takes the place of none on another node.
    gone = [step for step in unmatched if meant_for and step.node]
    unmatched = [step for step in unmatched if not (meant_for and step.node)]
    rest = list(left.values())
    for step, pod in zip(unmatched, rest, strict=False):
        yield Replacement(workload, step, pod)
    for step in (*gone, *unmatched[len(rest) :]):
        if step.pod not in blocked:  # which is still there
            yield Replacement(workload, step, is_circling=step.pod in unreplaced)
    for pod in rest[len(unmatched) :]:
        yield Replacement(workload, added=pod)
