"""Nodes that an autoscaler makes in the course of a simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.provisioning import DRIFTED, NodeClaim
from kplan.autoscaling.seam import NewNode, NodeRemoval, PreparedCluster, Round, Watch
from kplan.cluster.incoming import with_objects
from kplan.course.growth import Growth, as_waiting
from kplan.course.simulation.durations import LAG
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.nodes import Departure, join
from kplan.course.simulation.objects import stamp
from kplan.course.snapshots import snapshot_of
from kplan.documents.change import StepEvent
from kplan.documents.nodes import NodeChanges, new_node_text
from kplan.rules.nodes import without_published
from kplan.snapshot.model import Snapshot

EXACT_LOOKS = 100
"""So often an autoscaler looks for nodes to remove as it does by itself; from then on less and less often."""

_LOOK = "look of the autoscaler"
_POD_EVENTS = frozenset({StepEvent.BOUND, StepEvent.SUCCEEDED, StepEvent.TERMINATING, StepEvent.EVICTED})
_POD_EVENT_SECONDS = 10
"""Karpenter notes the last event of a node's pods at most so often. Upstream: nodeclaim/podevents dedupeTimeout."""


def growth_of(simulation: Simulation) -> Growth | None:
    """Return the nodes that an autoscaler adds in the course of a simulation; None where none is followed."""
    return simulation.provisioner.growth if isinstance(simulation.provisioner, Growing) else None


def node_changes(simulation: Simulation) -> NodeChanges | UnsetType:
    """Return the document about these nodes at the end of a simulation; absent where no autoscaler is followed."""
    growth = growth_of(simulation)
    return UNSET if growth is None else growth.changes({pod.key: pod.node for pod in simulation.pods.values()})


class Growing:
    """The nodes that an autoscaler makes in the course of a simulation.

    Without a clock it looks when all is at rest, and they are there at once. With a clock nodes are asked for, come,
    are found unneeded, are emptied and leave. The autoscaler looks some time after a pod was found to fit nowhere.
    Where it removes nodes, too, it looks again and again, as long as something happens or one of its own waits may be
    over. `growth` receives what is added and removed.

    `snapshot`: the cluster of the simulation at the start, with all applied objects other than workloads. `now`: its
    moment, in microseconds since 1970.
    """

    def __init__(self, simulation: Simulation, growth: Growth, snapshot: Snapshot, now: int) -> None:
        self._simulation, self.growth = simulation, growth
        self._snapshot, self._now = snapshot, now
        self._watch: Watch | None = None
        self._removes = False
        self._n_removing = 0  # how often it has looked for nodes to remove
        self._coming: set[str] = set()
        self._leaving: set[str] = set()
        self._unneeded: frozenset[str] = frozenset()
        self._seen: object = None
        self._look_at = math.inf
        self._arrivals: dict[float, list[NewNode]] = {}  # when nodes come -> these
        self._again_at = -math.inf
        self._deciding_until = -math.inf  # a decision to remove nodes is checked a second time then
        self._n_read = 0  # how many steps were read for the events of pods
        self._pod_event: dict[str, float] = {}

    def look(self) -> bool:
        """Have nodes join a cluster at rest, at once; tell whether any do."""
        state, pending = self._state(), self._pending
        if self.growth.is_stopped or not pending or state == self._seen:
            return False
        self._seen = state
        cluster = self.sight()
        adds = self.growth.look(cluster.snapshot, cluster.session, pending, cluster.now)
        self._snapshot = with_objects(self._snapshot, [obj for new in adds for obj in new.objects])
        if adds:
            join(self._simulation, adds)
        return bool(adds)

    def sight(self) -> PreparedCluster:
        """Return the cluster as the autoscaler sees it now."""
        # The simulation's time goes on while pods back off; a pod of this very moment, or later, is not looked at.
        now = max(self._now, int((self._simulation.now + LAG) * 1_000_000))
        return PreparedCluster(self._current(), self._simulation.session, now)

    def _current(self) -> Snapshot:
        """Return the cluster as it is now, without nodes that are gone."""
        table, current = self._simulation.cluster.nodes, snapshot_of(self._simulation, self._snapshot)
        if table.absent is None:
            return as_waiting(current, table.nodes)
        gone = [table.nodes[row] for row in np.flatnonzero(table.absent)]
        present = [table.nodes[row] for row in np.flatnonzero(~table.absent)]
        return as_waiting(without_published(current, gone), present)

    @property
    def _pending(self) -> list[int]:
        return [row for row, pod in self._simulation.pods.items() if not pod.node]

    def remove_too(self) -> None:
        self._removes = True
        self._post(self.growth.autoscaler.wait, is_idle=False)

    def note_pending(self) -> None:
        """Have the autoscaler look some time from now, because a pod fits nowhere."""
        wait = self.growth.autoscaler.wait
        if not self._look_at <= self._simulation.now + wait:
            self._post(wait, is_idle=False)

    def _post(self, seconds: float, *, is_idle: bool) -> None:
        self._look_at = self._simulation.now + seconds
        self._simulation.timers.post(self._look_at, self._look_in_time, _LOOK, is_idle=is_idle)

    def _look_in_time(self) -> None:
        self._look_at = math.inf
        if self.growth.is_stopped:
            return
        is_due = self._removes and self._simulation.now >= self._again_at
        if is_due or (self._state() != self._seen and (self._pending or self._removes)):
            adds = self._decide()
            self._seen = self._state()
            if adds:
                self.note_pending()
        self._go_on()

    def _state(self) -> object:
        waiting = frozenset((row, self._simulation.messages.get(row)) for row in self._pending)
        return len(self._simulation.log.steps), waiting, len(self._coming)

    def _go_on(self) -> None:
        """Look again for nodes to remove, as long as that may change anything."""
        if not self._removes or self._look_at < math.inf:
            return
        is_awaited, are_idle = self._again_at < math.inf, self._simulation.timers.are_idle
        if not is_awaited and are_idle and self._state() == self._seen:
            return
        poll = self.growth.autoscaler.removal.poll
        wait = self._again_at - self._simulation.now if is_awaited and are_idle else 0.0
        ticks = max(math.ceil(wait / poll), (self._n_removing // EXACT_LOOKS) ** 2, 1)
        self._post(ticks * poll, is_idle=not is_awaited)

    def _decide(self) -> Sequence[NewNode]:
        """Ask the autoscaler, and have happen what it decides; return the nodes that it adds for pods."""
        removes = self._removes and self._simulation.now >= self._deciding_until
        self._n_removing += removes
        decided = self._ask(removes=removes)
        growth = self.growth
        growth.n_looks += bool(self._pending)
        growth.note(decided.advice)
        for new in decided.advice.adds:
            self._request(new)
        if removes:
            self._again_at = self._simulation.now + decided.again
            for removal in decided.advice.removes:
                self._remove(removal)
            for name in sorted(decided.unneeded - self._unneeded):
                self._simulation.log.add_node(StepEvent.UNNEEDED, name)
            for name in sorted(self._unneeded - decided.unneeded - self._leaving):
                self._simulation.log.add_node(StepEvent.NEEDED, name)
            self._unneeded = decided.unneeded
        return decided.advice.adds

    def _ask(self, *, removes: bool) -> Round:
        """Have the autoscaler look at the cluster as it is now."""
        self._read_pod_events()
        current = self._current()
        current = replace(current, node_claims=tuple(map(self._with_pod_event, current.node_claims)))
        cluster = PreparedCluster(current, self._simulation.session, self._micros())
        if self._watch is None:
            self._watch = self.growth.autoscaler.watch(cluster)
        has_changed = self._state() != self._seen
        return self._watch.look(cluster, frozenset(self._leaving), removes=removes, has_changed=has_changed)

    def _micros(self) -> int:
        return max(self._now, int(self._simulation.starts_at * 1_000_000)) + int(self._simulation.elapsed * 1_000_000)

    def _read_pod_events(self) -> None:
        """Note when pods other than those of daemon sets last came to a node, ended or were told to go."""
        steps = self._simulation.log.steps
        for step in steps[self._n_read :]:
            if step.node is None or not isinstance(step.at, float):
                continue
            is_of_pod = step.event in _POD_EVENTS and not step.workload.startswith("DaemonSet/")
            is_noted = step.at - self._pod_event.get(step.node, -math.inf) >= _POD_EVENT_SECONDS
            if step.event is StepEvent.ADDED or (is_of_pod and is_noted):
                self._pod_event[step.node] = step.at
        self._n_read = len(steps)

    def _with_pod_event(self, claim: NodeClaim) -> NodeClaim:
        at = self._pod_event.get(claim.status.node_name)
        if at is None:
            return claim
        return replace(claim, status=replace(claim.status, last_pod_event_time=stamp(self._now / 1e6 + at)))

    def _request(self, new: NewNode) -> None:
        self._simulation.log.add_node(StepEvent.REQUESTED, new.facts.name, new_node_text(new.facts))
        self._coming.add(new.facts.name)
        self._snapshot = with_objects(self._snapshot, new.objects)
        at = self._simulation.now + self._simulation.durations.of_node(new.facts.home).seconds
        if at not in self._arrivals:
            self._simulation.timers.post(at, partial(self._arrive, at))
        self._arrivals.setdefault(at, []).append(new)

    def _arrive(self, at: float) -> None:
        nodes = self._arrivals.pop(at)
        self._coming.difference_update(new.facts.name for new in nodes)
        join(self._simulation, nodes)

    def _remove(self, removal: NodeRemoval) -> None:
        """Remove nodes, once the decision has stood a second check where the autoscaler makes one."""
        validation = self.growth.autoscaler.removal.validation
        if not validation or removal.facts.reason == DRIFTED:
            self._carry_out(removal)
            return
        self._deciding_until = self._simulation.now + validation
        at, n_steps = self._deciding_until, len(self._simulation.log.steps)
        self._simulation.timers.post(at, partial(self._check_again, removal, n_steps))

    def _check_again(self, removal: NodeRemoval, n_steps: int) -> None:
        valid: NodeRemoval | None = removal
        if len(self._simulation.log.steps) > n_steps:
            removes = self._ask(removes=True).advice.removes
            valid = next((other for other in removes if set(other.facts.nodes) == set(removal.facts.nodes)), None)
        if valid is not None:
            self._carry_out(valid)
        self._again_at = self._simulation.now  # the next decision follows at once
        self._post(0.0, is_idle=False)

    def _carry_out(self, removal: NodeRemoval) -> None:
        growth = self.growth
        facts = replace(removal.facts, after=round(self._simulation.elapsed, 2))
        growth.removes.append(replace(removal, facts=facts))
        growth.adds += removal.replacements
        self._leaving.update(removal.facts.nodes)
        self._simulation.life.cordon(removal.facts.nodes)
        ready_at = 0.0
        for new in removal.replacements:
            self._request(new)
            ready_at = max(ready_at, self._simulation.durations.of_node(new.facts.home).seconds)
        for name in removal.facts.nodes:
            times = growth.autoscaler.removal
            departure = Departure(self._simulation, name, times, removal.facts.reason, self._departed)
            self._simulation.later(ready_at, departure.begin)

    def _departed(self, name: str, *, is_done: bool) -> None:
        self._leaving.discard(name)
        if not is_done and self._watch is not None:
            self._watch.keep(name, self._micros())
        self._unneeded -= {name}
        self._again_at = min(self._again_at, self._simulation.now)
