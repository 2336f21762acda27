"""The order in which nodes drain safely: every pod finds a place, and every disruption budget is kept.

In each step the nodes that are left are tried from the state before it, the one with the fewest pods first; the first
that drains safely goes. Where none does, a change that lets one go is tried: more replicas or another budget where a
budget blocks, new nodes where a pod finds no place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

import msgspec
from msgspec import UNSET

from kplan.actions.carry_out import waiting_of
from kplan.answers.verdict import DEFAULT_FAIL_ON, PENDING, UNSCHEDULABLE, opening
from kplan.api.names import PodKey
from kplan.api.workloads import PodDisruptionBudget
from kplan.changes import remedy as r
from kplan.changes.values import DrainOptions, Place
from kplan.cluster.asking import Showing
from kplan.cluster.base import Base
from kplan.diagnosis.node_shapes import node_shapes
from kplan.documents.base import Counted
from kplan.documents.change import StepEvent
from kplan.documents.drains import RunbookReport, RunbookStep, StuckNode
from kplan.effects.change import ChangePlan
from kplan.effects.clock import Clock
from kplan.effects.drains import check_nodes, drain
from kplan.effects.snapshots import snapshot_of
from kplan.effects.timed_steps import Drained
from kplan.effects.timeline import carry_out_in_time
from kplan.effects.unblocking import ways
from kplan.effects.watching import begin
from kplan.effects.what_if import changed
from kplan.whatif.edits import AddNodes, cordoned

MOST_TRIED = 300
"""At most this many drains are simulated; nodes that are left then are stuck."""

_MOST_PREPARED = 3
_MOST_ADDED = 3
_MOST_SHAPES = 4


def runbook_report(
    base: Base, nodes: Sequence[str], options: DrainOptions, clock: Clock | None, showing: Showing, *, rolling: bool
) -> RunbookReport:
    """Return the RunbookReport; parameters as for the question."""
    check_nodes(base, nodes)
    book = _Runbook(base, list(dict.fromkeys(nodes)), options, clock, rolling=rolling)
    book.write(showing.progress or (lambda _done, _all: None))
    chosen = DEFAULT_FAIL_ON["drain"] if showing.fail_on is None else showing.fail_on
    counts = bool({UNSCHEDULABLE, PENDING, "pdb-violation"} & set(chosen))
    counted = [Counted(node.name, "Blocked") for node in book.stuck] if counts else []
    times = [step.seconds for step in book.steps if isinstance(step.seconds, float)]
    return RunbookReport(
        **opening(base.context(), chosen, counted),
        nodes=tuple(dict.fromkeys(nodes)),
        rolling=rolling,
        steps=tuple(book.steps),
        stuck=tuple(book.stuck),
        seconds=sum(times) if clock is not None else UNSET,
        tried=book.n_tried,
    )


_Steps = tuple[RunbookStep, ...]


class _Tried(msgspec.Struct, frozen=True):
    """A drain that was tried; `pod` and `because` are empty where it is safe."""

    change: ChangePlan
    pod: str = ""
    because: str = ""


class _Runbook:
    def __init__(
        self, base: Base, nodes: list[str], options: DrainOptions, clock: Clock | None, *, rolling: bool
    ) -> None:
        self._base, self._left, self._options, self._clock, self._rolling = base, nodes, options, clock, rolling
        self._known: tuple[Base, Mapping[str, int]] | None = None
        self._undoing: list[RunbookStep] = []
        self.steps: list[RunbookStep] = []
        self.stuck: list[StuckNode] = []
        self.n_tried = 0

    def write(self, progress: Callable[[int, int], None]) -> None:
        n_nodes = len(self._left)
        if not self._rolling:
            names = [name for name in self._left if not self._base.objects.node_by_name[name].spec.unschedulable]
            if names:
                self._base = changed(self._base, [cordoned(name) for name in names])
                self.steps.append(RunbookStep(action="cordon", commands=(f"kubectl cordon {_quoted(names)}",)))
        while self._left:
            progress(n_nodes - len(self._left), n_nodes)
            stopped: dict[str, _Tried] = {}
            if not self._drain_one(stopped) and not self._prepare(stopped):
                self.stuck += [
                    StuckNode(name=name, pod=drained.pod, because=drained.because) for name, drained in stopped.items()
                ]
                self.stuck += [StuckNode(name=name, pod="", because="") for name in self._left if name not in stopped]
                break
        self.steps += reversed(self._undoing)
        if not any(step.action == "drain" for step in self.steps):
            self.steps.clear()  # only cordoned nodes would be left

    def _drain_one(self, stopped: dict[str, _Tried]) -> bool:
        """Drain the first node that drains safely, by number of pods; note what stops the nodes before it."""
        cluster = self._base.session.cluster
        for name in sorted(self._left, key=lambda name: (len(cluster.pods_on[cluster.nodes.row_of[name]]), name)):
            if self.n_tried >= MOST_TRIED:
                return False
            drained = self._try(self._base, name)
            if not drained.pod:
                self._go(name, drained)
                return True
            stopped[name] = drained
        return False

    def _try(self, base: Base, name: str) -> _Tried:
        self.n_tried += 1
        change = drain(base, [name], "rolling" if self._rolling else "together", options=self._options)
        if change.obstacles:
            return _Tried(change, change.obstacles[0].pod, change.obstacles[0].words)
        simulation, allowed = change.simulation, self._waiting_anyway(base)
        for workload, pods in waiting_of(simulation).items():
            if len(pods) > allowed.get(workload, 0):
                pod = min(pods)
                row = next(row for row, observed in simulation.pods.items() if observed.key == pod)
                return _Tried(change, pod, simulation.messages.get(row, ""))
        return _Tried(change)

    def _waiting_anyway(self, base: Base) -> Mapping[str, int]:
        """Return how many pods of each workload wait now, or in the end if no node is drained."""
        if self._known is None or self._known[0] is not base:
            simulation = begin(base)
            now = waiting_of(simulation)
            simulation.retry_pending()
            simulation.run()
            then = waiting_of(simulation)
            allowed = {
                workload: max(len(now.get(workload, ())), len(then.get(workload, ()))) for workload in (*now, *then)
            }
            self._known = base, allowed
        return self._known[1]

    def _seconds_of(self, name: str, clock: Clock) -> float | None:
        """Return how many seconds the drain of a node takes; None where it does not come to rest."""
        steps = [Drained(0.0, [name], self._options)]
        plan = carry_out_in_time(self._base, steps, msgspec.structs.replace(clock, until=clock.look, runs_for=0.0))
        return plan.timeline.end if plan.is_over else None

    def _go(self, name: str, drained: _Tried) -> None:
        """Drain a node, and go on from there."""
        seconds = None if self._clock is None else self._seconds_of(name, self._clock)
        moved, gone = _moved(drained.change)
        self.steps.append(
            RunbookStep(
                action="drain",
                node=name,
                commands=(_drain_command(name, self._options),),
                moved=moved,
                gone=gone,
                seconds=UNSET if seconds is None else seconds,
            )
        )
        snapshot = self._base.objects
        self._base = self._base.with_snapshot(snapshot_of(drained.change.simulation, self._base.snapshot))
        if not snapshot.node_by_name[name].spec.unschedulable:
            self.steps.append(RunbookStep(action="uncordon", node=name, commands=(f"kubectl uncordon {quote(name)}",)))
        self._left.remove(name)

    def _prepare(self, stopped: Mapping[str, _Tried]) -> bool:
        """Make changes after which one of the nodes drains safely; tell whether there are such changes."""
        return any(
            self._prepared(self._base, name, drained, (), (), number)
            for number in range(1, _MOST_PREPARED + 1)
            for name, drained in stopped.items()
        )

    def _prepared(  # noqa: PLR0917 - what a chain of changes has so far
        self, base: Base, name: str, drained: _Tried, before: _Steps, undoing: _Steps, number: int
    ) -> bool:
        """Make so many more changes, each against what stops the drain after those before."""
        for step, back, other in self._changes(base, drained):
            if self.n_tried >= MOST_TRIED:
                return False
            allowed, waiting = self._waiting_anyway(base), self._waiting_anyway(other)
            if any(n > allowed.get(workload, 0) for workload, n in waiting.items()):
                continue  # the change has made pods that find no place
            again = self._try(other, name)
            backs = (*undoing, back) if back is not None else undoing
            if not again.pod:
                self.steps += (*before, step)
                self._undoing += backs
                self._base = other
                return True
            gets_on = again.pod != drained.pod and number > 1
            if gets_on and self._prepared(other, name, again, (*before, step), backs, number - 1):
                return True
        return False

    def _changes(self, base: Base, drained: _Tried) -> Iterator[tuple[RunbookStep, RunbookStep | None, Base]]:
        """Yield changes, each with the step that makes it, the one that undoes it, and the changed cluster."""
        obstacle = next(iter(drained.change.obstacles), None)
        if obstacle is None:
            yield from _more_nodes(base)
            return
        if len(obstacle.budgets) != 1 or not obstacle.is_by_budget:
            return
        key = PodKey.parse(obstacle.budgets[0].name)
        budget = _budget(base, *key)
        if budget is None:
            return
        for remedy, other in ways(base, obstacle, obstacle.budgets[0], budget):
            if isinstance(remedy, r.MoreReplicas):
                change = remedy.change
                command, back = (_scale(change.workload, number) for number in (change.to, change.old))
            elif isinstance(remedy, r.ChangeBudget) and (after := _budget(other, *key)) is not None:
                command, back = _budget_patch(budget, after), _budget_patch(after, budget)
            else:
                continue
            yield (
                RunbookStep(action="prepare", commands=(command,), remedy=remedy),
                RunbookStep(action="undo", commands=(back,), remedy=remedy),
                other,
            )


def _more_nodes(base: Base) -> Iterator[tuple[RunbookStep, None, Base]]:
    for shape in node_shapes(base.objects)[:_MOST_SHAPES]:
        like = shape.like.metadata.name
        for number in range(1, _MOST_ADDED + 1):
            words = f"# add {number} {'node' if number == 1 else 'nodes'} like {quote(like)}"
            remedy = r.AddNodes(change=r.NodeAddition(nodes=number, like=like), then=None)
            step = RunbookStep(action="add-nodes", commands=(words,), remedy=remedy)
            yield step, None, changed(base, [AddNodes(number, like)])


def _moved(change: ChangePlan) -> tuple[tuple[Place, ...], tuple[str, ...]]:
    """Return the pods that a drain evicts, with the node of the next one, and those that are gone for good."""
    simulation = change.simulation
    evicted = [step for step in change.steps if step.event is StepEvent.EVICTED and step.node]
    bound: dict[str, list[str]] = {}
    for step in change.steps:
        if step.event is StepEvent.BOUND and step.node:
            bound.setdefault(step.workload, []).append(step.node)
    placed, gone = [], []
    for step in evicted:
        nodes = bound.get(step.workload)
        if nodes:
            placed.append(Place(pod=step.pod, goes_to=nodes.pop(0)))
        elif not any(pod.key == step.pod for pod in simulation.pods.values()):
            gone.append(step.pod)
    return tuple(placed), tuple(gone)


def _budget(base: Base, namespace: str, name: str) -> PodDisruptionBudget | None:
    return next(
        (
            budget
            for budget in base.objects.pod_disruption_budgets
            if (budget.metadata.namespace, budget.metadata.name) == (namespace, name)
        ),
        None,
    )


def _budget_patch(before: PodDisruptionBudget, after: PodDisruptionBudget) -> str:
    fields: dict[str, Any] = {
        "minAvailable": (before.spec.min_available, after.spec.min_available),
        "maxUnavailable": (before.spec.max_unavailable, after.spec.max_unavailable),
        "unhealthyPodEvictionPolicy": (
            before.spec.unhealthy_pod_eviction_policy,
            after.spec.unhealthy_pod_eviction_policy,
        ),
    }
    spec = {name: to or (to if isinstance(to, int) else None) for name, (old, to) in fields.items() if old != to}
    patch = quote(msgspec.json.encode({"spec": spec}).decode())
    metadata = before.metadata
    return f"kubectl patch pdb {quote(metadata.name)} -n {quote(metadata.namespace)} --type merge -p {patch}"


def _scale(workload: str, replicas: int) -> str:
    kind, _, key = workload.partition(" ")
    namespace, _, name = key.partition("/")
    return f"kubectl scale {quote(kind.lower())} {quote(name)} -n {quote(namespace)} --replicas={replicas}"


def _drain_command(name: str, options: DrainOptions) -> str:
    flags = ["--ignore-daemonsets"]
    flags += ["--force"] if options.force else []
    flags += ["--delete-emptydir-data"] if options.delete_emptydir_data else []
    flags += ["--disable-eviction"] if options.disable_eviction else []
    flags += _skipping(options)
    flags += [] if options.grace_period is None else [f"--grace-period={options.grace_period}"]
    return f"kubectl drain {quote(name)} {' '.join(flags)}"


def _skipping(options: DrainOptions) -> list[str]:
    seconds = options.skip_wait_for_delete_timeout
    return [f"--skip-wait-for-delete-timeout={seconds}"] if seconds else []


def _quoted(names: Sequence[str]) -> str:
    return " ".join(map(quote, names))
