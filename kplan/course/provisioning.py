"""Nodes that an autoscaler makes in the course of a simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from kplan.api.provisioning import DRIFTED, NodeClaim
from kplan.autoscaling.seam import NewNode, NodeRemoval, PreparedCluster, Round, Watch
from kplan.cluster.incoming import with_objects
from kplan.course.in_order import Growth, as_waiting
from kplan.course.simulation.durations import LAG
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.nodes import Departure, home_of, join
from kplan.course.simulation.objects import stamp
from kplan.course.snapshots import snapshot_of
from kplan.documents.change import StepEvent
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


class Growing:
    """The nodes that an autoscaler makes in the course of a simulation.

    Without a clock it looks when all is at rest, and they are there at once. With a clock nodes are asked for, come,
    are found unneeded, are emptied and leave. The autoscaler looks some time after a pod was found to fit nowhere.
    Where it removes nodes, too, it looks again and again, as long as something happens or one of its own waits may be
    over. `growth` receives what is added and removed.

    `snapshot`: the cluster of the simulation at the start, with all applied objects other than workloads. `now`: its
    moment, in microseconds since 1970.
    """

    def __init__(self, growth: Growth, snapshot: Snapshot, now: int) -> None:
        self.growth = growth
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

    def look(self, simulation: Simulation) -> bool:
        """Have nodes join a cluster at rest, at once; tell whether any do."""
        state = self._state(simulation)
        pending = [row for row, pod in simulation.pods.items() if not pod.node]
        if self.growth.is_stopped or not pending or state == self._seen:
            return False
        self._seen = state
        cluster = self.sight(simulation)
        self.growth.note_groups(simulation.session, pending)
        adds = self.growth.look(cluster.snapshot, cluster.session, cluster.now)
        self._snapshot = with_objects(self._snapshot, [obj for new in adds for obj in new.objects])
        if adds:
            join(simulation, adds)
        return bool(adds)

    def sight(self, simulation: Simulation) -> PreparedCluster:
        """Return the cluster as the autoscaler sees it now."""
        snapshot = _as_waiting(simulation, self._snapshot)
        # The simulation's time goes on while pods back off; a pod of this very moment, or later, is not looked at.
        now = max(self._now, int((simulation.now + LAG) * 1_000_000))
        return PreparedCluster(snapshot, simulation.session, now)

    def remove_too(self, simulation: Simulation) -> None:
        self._removes = True
        self._post(simulation, self.growth.autoscaler.wait, is_idle=False)

    def note_pending(self, simulation: Simulation) -> None:
        """Have the autoscaler look some time from now, because a pod fits nowhere."""
        wait = self.growth.autoscaler.wait
        if not self._look_at <= simulation.now + wait:
            self._post(simulation, wait, is_idle=False)

    def _post(self, simulation: Simulation, seconds: float, *, is_idle: bool) -> None:
        self._look_at = simulation.now + seconds
        simulation.timers.post(self._look_at, partial(self._look_in_time, simulation), _LOOK, is_idle=is_idle)

    def _look_in_time(self, simulation: Simulation) -> None:
        self._look_at = math.inf
        if self.growth.is_stopped:
            return
        has_pending = any(not pod.node for pod in simulation.pods.values())
        is_due = self._removes and simulation.now >= self._again_at
        state = self._state(simulation)
        if is_due or (state != self._seen and (has_pending or self._removes)):
            adds = self._decide(simulation)
            self._seen = self._state(simulation)
            if adds:
                self.note_pending(simulation)
        self._go_on(simulation)

    def _state(self, simulation: Simulation) -> object:
        waiting = ((row, simulation.messages.get(row)) for row, pod in simulation.pods.items() if not pod.node)
        return len(simulation.log.steps), frozenset(waiting), len(self._coming)

    def _go_on(self, simulation: Simulation) -> None:
        """Look again for nodes to remove, as long as that may change anything."""
        if not self._removes or self._look_at < math.inf:
            return
        is_awaited, are_idle = self._again_at < math.inf, simulation.timers.are_idle
        if not is_awaited and are_idle and self._state(simulation) == self._seen:
            return
        poll = self.growth.autoscaler.removal.poll
        wait = self._again_at - simulation.now if is_awaited and are_idle else 0.0
        ticks = max(math.ceil(wait / poll), (self._n_removing // EXACT_LOOKS) ** 2, 1)
        self._post(simulation, ticks * poll, is_idle=not is_awaited)

    def _decide(self, simulation: Simulation) -> Sequence[NewNode]:
        """Ask the autoscaler, and have happen what it decides; return the nodes that it adds for pods."""
        removes = self._removes and simulation.now >= self._deciding_until
        self._n_removing += removes
        decided = self._ask(simulation, removes=removes)
        growth = self.growth
        growth.n_looks += any(not pod.node for pod in simulation.pods.values())
        growth.note(decided.advice)
        for new in decided.advice.adds:
            self._request(simulation, new)
        if removes:
            self._again_at = simulation.now + decided.again
            for removal in decided.advice.removes:
                self._remove(simulation, removal)
            for name in sorted(decided.unneeded - self._unneeded):
                simulation.log.add_node(StepEvent.UNNEEDED, name)
            for name in sorted(self._unneeded - decided.unneeded - self._leaving):
                simulation.log.add_node(StepEvent.NEEDED, name)
            self._unneeded = decided.unneeded
        return decided.advice.adds

    def _ask(self, simulation: Simulation, *, removes: bool) -> Round:
        """Have the autoscaler look at the cluster as it is now."""
        current = _as_waiting(simulation, self._snapshot)
        self._read_pod_events(simulation)
        current = replace(current, node_claims=tuple(map(self._with_pod_event, current.node_claims)))
        cluster = PreparedCluster(current, simulation.session, self._micros(simulation))
        if self._watch is None:
            self._watch = self.growth.autoscaler.watch(cluster)
        has_changed = self._state(simulation) != self._seen
        return self._watch.look(cluster, frozenset(self._leaving), removes=removes, has_changed=has_changed)

    def _micros(self, simulation: Simulation) -> int:
        return max(self._now, int(simulation.starts_at * 1_000_000)) + int(simulation.elapsed * 1_000_000)

    def _read_pod_events(self, simulation: Simulation) -> None:
        """Note when pods other than those of daemon sets last came to a node, ended or were told to go."""
        steps = simulation.log.steps
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

    def _request(self, simulation: Simulation, new: NewNode) -> None:
        name = new.node.metadata.name
        simulation.log.add_node(StepEvent.REQUESTED, name, home_of(new))
        self._coming.add(name)
        self._snapshot = with_objects(self._snapshot, new.objects)
        at = simulation.now + simulation.durations.of_node(new.pool or new.group).seconds
        if at not in self._arrivals:
            simulation.timers.post(at, partial(self._arrive, simulation, at))
        self._arrivals.setdefault(at, []).append(new)

    def _arrive(self, simulation: Simulation, at: float) -> None:
        nodes = self._arrivals.pop(at)
        self._coming.difference_update(new.node.metadata.name for new in nodes)
        join(simulation, nodes)

    def _remove(self, simulation: Simulation, removal: NodeRemoval) -> None:
        """Remove nodes, once the decision has stood a second check where the autoscaler makes one."""
        validation = self.growth.autoscaler.removal.validation
        if not validation or removal.reason == DRIFTED:
            self._carry_out(simulation, removal)
            return
        self._deciding_until = simulation.now + validation
        at, n_steps = self._deciding_until, len(simulation.log.steps)
        simulation.timers.post(at, partial(self._check_again, simulation, removal, n_steps))

    def _check_again(self, simulation: Simulation, removal: NodeRemoval, n_steps: int) -> None:
        valid: NodeRemoval | None = removal
        if len(simulation.log.steps) > n_steps:
            removes = self._ask(simulation, removes=True).advice.removes
            valid = next((other for other in removes if set(other.nodes) == set(removal.nodes)), None)
        if valid is not None:
            self._carry_out(simulation, valid)
        self._again_at = simulation.now  # the next decision follows at once
        self._post(simulation, 0.0, is_idle=False)

    def _carry_out(self, simulation: Simulation, removal: NodeRemoval) -> None:
        growth = self.growth
        growth.removes.append(replace(removal, after=round(simulation.elapsed, 2)))
        growth.adds += removal.replacements
        self._leaving.update(removal.nodes)
        simulation.life.cordon(removal.nodes)
        ready_at = 0.0
        for new in removal.replacements:
            self._request(simulation, new)
            ready_at = max(ready_at, simulation.durations.of_node(new.pool or new.group).seconds)
        for name in removal.nodes:
            departed = partial(self._departed, simulation)
            departure = Departure(simulation, name, growth.autoscaler.removal, removal.reason, departed)
            simulation.timers.post(simulation.now + ready_at, departure.begin)

    def _departed(self, simulation: Simulation, name: str, *, is_done: bool) -> None:
        self._leaving.discard(name)
        if not is_done and self._watch is not None:
            self._watch.keep(name, self._micros(simulation))
        self._unneeded -= {name}
        self._again_at = min(self._again_at, simulation.now)


def _as_waiting(simulation: Simulation, snapshot: Snapshot) -> Snapshot:
    """Return the cluster of a simulation as an autoscaler sees it now, without nodes that are gone."""
    table, current = simulation.session.cluster.nodes, snapshot_of(simulation, snapshot)
    if table.absent is None:
        return as_waiting(current, table.nodes)
    gone = [table.nodes[row] for row in np.flatnonzero(table.absent)]
    present = [table.nodes[row] for row in np.flatnonzero(~table.absent)]
    return as_waiting(without_published(current, gone), present)
