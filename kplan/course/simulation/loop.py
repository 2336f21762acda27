"""The loop: the scheduler, the controllers and evictions in turn, until nothing moves.

In a real cluster the scheduler is the quickest, then come the controllers that create and delete pods, then the
deployment controller, which waits for their status. The loop does the same: pending pods are scheduled before a
controller syncs, and a deployment syncs when its replica sets have nothing left to do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Protocol

from kplan.api.core import Node
from kplan.api.meta import controller_of
from kplan.api.time import seconds, to_micros
from kplan.course.simulation.any_node import Uncertain
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.disruption import Disruptions
from kplan.course.simulation.durations import Durations
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.kubelets import Kubelets
from kplan.course.simulation.life_cycle import LifeCycle
from kplan.course.simulation.motion import Motion
from kplan.course.simulation.node_lifecycle import NodeLifecycle
from kplan.course.simulation.objects import Workloads, observe
from kplan.course.simulation.pod_creation import PodMaker
from kplan.course.simulation.scheduler import GroupTurns, Scheduler, is_decided_by_shape
from kplan.course.simulation.syncs import EVER, MAX_STEPS, Controllers
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, turned_down_by
from kplan.framework.session import Session
from kplan.health.nodes import present, renewals, silent_nodes
from kplan.health.pods import fails_by_itself
from kplan.rules.pod_info import PodInfo, scheduled_condition, scheduler_message
from kplan.snapshot.model import Snapshot
from kplan.workloads.autoscalers import Bounds


class Provisioner(Protocol):
    """Makes nodes for pods that fit nowhere."""

    def look(self) -> bool:
        """Have nodes join a cluster at rest, at once; tell whether any do."""

    def note_pending(self) -> None:
        """Have nodes join later, where there is a clock, because a pod fits nowhere now."""


class Simulation(Motion):
    """A cluster in motion, with the scheduler and the controllers that move it."""

    def __init__(
        self, session: Session, workloads: Workloads, maker: PodMaker, disruptions: Disruptions, now: float
    ) -> None:
        super().__init__(session, workloads, maker, disruptions, now)
        #: KIND/NAMESPACE/NAME -> the bounds within which an autoscaler keeps the replicas
        self.bounds: dict[str, Bounds] = {}
        self.provisioner: Provisioner | None = None  #: makes nodes for pods that fit nowhere
        self._is_news = False  #: nodes have joined of which the scheduler has yet to hear
        self.rounds = 0  #: how many rounds the scheduler has begun: a new one begins when a pod is tried again
        self._max_rounds = EVER
        self.hit_limit = False  #: it ended because of `max_rounds`
        self._in_round: set[int] = set()
        self.joined: list[Node] = []  #: the nodes that have joined, as they were then
        self.kubelets = Kubelets(self)
        self.life = LifeCycle(self, self.kubelets)
        self.controllers = Controllers(self, self.life, self.kubelets)
        self.scheduler = Scheduler(self, self.life)
        self.groups = GroupTurns(self, self.life, self.scheduler)  #: pods that are scheduled in groups
        #: the nodes as the control plane sees them
        self.node_lifecycle = NodeLifecycle(self, self.life, self.kubelets)
        self.on_misfit.connect(self._note_misfit)

    def fork(self, snapshot: Snapshot, random: Random | None = None) -> Simulation:
        """Return a copy of this simulation in which nothing has moved yet, on a session of its own.

        `snapshot`: the cluster of this one. `random`: source of draws instead of the session's own.
        """
        listers = self.session.listers.fork()
        session = self.session.fork(listers, random=random)
        workloads, maker = self.workloads.fork(), self.maker.fork(snapshot, listers)
        forked = Simulation(session, workloads, maker, self.disruptions.fork(workloads.owner), self.now)
        forked.take_over(self)
        forked.life.take_over(self.life)
        forked.kubelets.take_over(self.kubelets)
        forked.node_lifecycle.take_over(self.node_lifecycle)
        return forked

    def let_go(self) -> None:
        """Forget everything, so that its memory is free at once: its parts refer to it, and it to them."""
        attachments, life = self.kubelets.attachments, self.life
        for part in (attachments, life, self):  # by its life also those refer to each other that hold it
            vars(part).clear()

    def take_in(self, pods: Iterable[ObservedPod], *, tries_pending: bool = True) -> None:
        """Add the pods of the snapshot, pending ones with the scheduler's last message about them.

        `tries_pending`: the scheduler tries pending pods that some node fits, and others when something may help them.
        """
        infos = self.infos
        pending: list[int] = []
        for pod in pods:
            self.pods[pod.row] = pod
            self.circles.note(pod, 1)
            if not pod.node:
                self.unplaced.append(pod.row)
            if infos[pod.row].is_terminating:
                continue
            if controller_of(infos[pod.row].pod.metadata) is None:
                self.life.add_orphan(pod)
            self.disruptions.join(pod, infos[pod.row])
            if not pod.node and self.cluster.node_of[pod.row] == NOWHERE:
                self.messages[pod.row] = scheduler_message(infos[pod.row].pod)
                if tries_pending and self.session.has_profile_for(infos[pod.row]):
                    pending.append(pod.row)
        self.disruptions.trust_status()
        self.queue.expect(pending)
        known: dict[bytes, frozenset[str] | None] = {}
        for row in sorted(pending, key=lambda row: (self.pods[row].created, infos[row].key)):
            self.queue.note_creation(row)
            self._queue_again(row, known)

    def _queue_again(self, row: int, known: dict[bytes, frozenset[str] | None]) -> None:
        """Queue a pod that the scheduler has tried before; `known` are the plugins that reject pods of a shape."""
        if self.queue.key_of(row) is not None:
            self.queue.add(row)
            return
        shape, has_twins = self.infos[row].shape, is_decided_by_shape(self.session, row, self.infos[row])
        rejectors = known[shape] if has_twins and shape in known else turned_down_by(self.session, row)
        if has_twins:
            known[shape] = rejectors
        if rejectors is None:
            self.queue.add(row)
        else:
            self.queue.add_rejected(row, rejectors, -math.inf)

    def run(self, patience: float = EVER, *, waits: bool = True) -> None:
        """Run until nothing moves; see `decisions`."""
        for _ in self.decisions(patience, waits=waits):
            pass

    def decisions(
        self, patience: float = EVER, *, waits: bool = True, max_rounds: float = EVER
    ) -> Iterator[CycleResult]:
        """Run until nothing moves; yield every decision of the scheduler before it is carried out, which makes it live.

        `patience`: seconds of virtual time to wait for what controllers try again. `waits`: they pass in any case.
        `max_rounds`: it ends after so many rounds.
        """
        self._max_rounds = max_rounds
        end = self.now + patience
        scheduler, queue, steps = self.scheduler, self.queue, self.log.steps
        leaving, failures = scheduler.leaving, scheduler.failures
        failures.forget()
        while not self.circle and not self.hit_limit:
            if len(steps) > MAX_STEPS:
                self.circle = f"it was still moving after {MAX_STEPS} steps"
                break
            may_come = self.groups.may_come() if queue.has_groups else None
            row = None if leaving and self.groups.is_queue_alone else queue.pop(may_come, only_active=bool(leaving))
            if row is not None:
                yield from self._take_turn(row)
                continue
            failures.forget()  # what happens now may matter to them
            if leaving:
                scheduler.let_victims_go(*leaving.pop(0))
            elif self.dirty or self.dirty_deployments:
                self.controllers.sync_next()
            elif not self._goes_on(end):
                break
        if patience < EVER and waits:
            self.now = max(self.now, end)

    def _take_turn(self, row: int) -> Iterator[CycleResult]:
        """Schedule a pod, or the whole group of a pod that belongs to one."""
        group = self.queue.key_of(row)
        if (group is None or row not in self.outcomes) and self._begins_round_too_many(row):
            return
        if group is not None:
            if self.scheduler.any_node is not None:
                raise Uncertain
            self.scheduler.failures.forget()
            yield from self.groups.run(group, row)
            return
        self.groups.n_unchanged += 1
        result = self.scheduler.decide(row)
        yield result
        self.scheduler.carry_out(result)

    def _begins_round_too_many(self, row: int) -> bool:
        """Count the round in which a pod is tried; tell whether that is one too many."""
        if row in self._in_round or not self.rounds:
            self.hit_limit = self.rounds >= self._max_rounds
            self.rounds += not self.hit_limit
            self._in_round.clear()
        self._in_round.add(row)
        return self.hit_limit

    def retry_pending(self) -> None:
        """Have the scheduler try all pending pods again, as it does after some minutes without an event."""
        self.queue.retry(self.now)

    def try_untried(self) -> None:
        """Have the scheduler try pending pods of the snapshot that it never has, as far as their conditions tell."""
        infos = self.infos
        waiting = [row for row, pod in self.pods.items() if not pod.node]
        for row in sorted(waiting, key=lambda row: (self.pods[row].created, infos[row].key)):
            if scheduled_condition(infos[row].pod) is None and self.queue.take_out(row):
                self.queue.add(row)

    def _goes_on(self, end: float) -> bool:
        """Have something happen where nothing moves by itself; tell whether there is something.

        Without a clock the autoscaler of the nodes looks before pods are tried again that have waited for minutes.
        """
        if self._is_news:
            self._is_news = False
            self.retry_pending()
            return True
        if self.controllers.advance(min(end, self.now + SCALING_SECONDS) if self.timers.are_idle else end):
            return True
        if self.provisioner is not None and not self.durations.is_timed and self.provisioner.look():
            return True
        return self.controllers.advance(end)

    def note_bounds(self, key: str, bounds: Bounds) -> None:
        """Have an autoscaler keep the replicas of a workload within its bounds, when it looks next."""
        self.bounds[key] = bounds
        self.timers.post(self.now + SCALING_SECONDS, partial(self._keep_within, key), f"bounds of {key}")

    def _keep_within(self, key: str) -> None:
        workload = self.workloads.find(key)
        if workload is not None and workload.keep_within(self.bounds[key]):
            self.enqueue(workload)

    def note_joined(self, nodes: Iterable[Node]) -> None:
        """Note that the session has further nodes; the scheduler hears of them once their daemon pods are there."""
        self.joined += nodes
        self._is_news = True
        self.queue.expect(row for row in range(len(self.infos)) if row not in self.pods)  # all count as known anew
        self.scheduler.know_nodes()

    def _note_misfit(self) -> None:
        """Tell the autoscaler of the nodes that a pod fits nowhere; without a clock it looks when all is at rest."""
        if self.provisioner is not None and self.durations.is_timed:
            self.provisioner.note_pending()


SCALING_SECONDS = 15.0
"""So long it takes at most until an autoscaler looks; upstream --horizontal-pod-autoscaler-sync-period."""

QUIET = 3.25  #: seconds without an event after which a cluster counts as being at rest, where a drain waits for that


def start(
    session: Session, snapshot: Snapshot, durations: Durations | None = None, *, tries_pending: bool = True
) -> Simulation:
    """Return a simulation of a cluster.

    `session`: a fork of its own, with listers of its own. `snapshot`: the cluster of the session, with all applied
    objects other than workloads. `durations`: how long pods take; None where nothing takes time. `tries_pending`: as
    for `Simulation.take_in`.
    """
    workloads = Workloads.of(snapshot, session.config.release.is_on)
    workloads.name_revisions(session.cluster.pods.infos)
    pods = _given(session, workloads, snapshot.versions)
    maker = PodMaker(snapshot, session.listers, session.config.release.number)
    disruptions = Disruptions(snapshot.pod_disruption_budgets, workloads.owner)
    renewed = renewals(snapshot)
    simulation = Simulation(session, workloads, maker, disruptions, _now(snapshot, pods, renewed))
    for key, ended in snapshot.ended_pods.items() if snapshot.pod_disruption_budgets else ():
        for pod in ended:
            disruptions.join_ended(pod, key)
    simulation.take_in(pods, tries_pending=tries_pending)
    simulation.kubelets.failing = _failing(simulation)
    simulation.node_lifecycle.note_before(snapshot.nodes, silent_nodes(snapshot, renewed, simulation.now))
    is_known = snapshot.taken_at is not None
    simulation.kubelets.begin(
        durations or Durations(is_timed=False),
        is_time_known=is_known or bool(renewed),
        is_fraction_known=bool(renewed) and not is_known,
    )
    if simulation.durations.is_timed:
        simulation.scheduler.retry_in_time()
        simulation.node_lifecycle.begin()
        for job in snapshot.jobs:
            state = workloads.owner(f"Job/{job.metadata.key}")
            if isinstance(state, JobState) and state.wanted.is_over:
                simulation.controllers.expire(state)
    return simulation


def _given(session: Session, workloads: Workloads, versions: Mapping[str, int]) -> list[ObservedPod]:
    """Return the pods of a session, given to their workloads in the order in which controllers got to know them."""
    cluster, known = session.cluster, list[tuple[ObservedPod, PodInfo]]()
    for row, info in enumerate(cluster.pods.infos):
        if row not in session.refused:
            place = cluster.node_of[row]
            node = cluster.nodes.names[place] if place != NOWHERE else info.pod.spec.node_name
            known.append((observe(row, info, node, versions.get(info.key, 0)), info))
    known.sort(key=lambda entry: entry[0].order)
    return [workloads.give(pod, info) for pod, info in known]


def _failing(simulation: Simulation) -> Mapping[tuple[str, str], str]:
    """Return the templates of which no pod is ready and some fail by themselves, with the first such pod of each."""
    failing: dict[tuple[str, str], str] = {}
    infos, now = simulation.infos, simulation.now
    members = [(pod, owner) for pod in simulation.pods.values() if (owner := simulation.owner(pod)) is not None]
    for pod, owner in members:
        if pod.node and not pod.is_ready and fails_by_itself(infos[pod.row].pod, now):
            failing.setdefault(owner.template_key(pod), pod.key)
    for pod, owner in members if failing else ():
        if pod.is_ready:
            failing.pop(owner.template_key(pod), None)
    return failing


def _now(snapshot: Snapshot, pods: Iterable[ObservedPod], renewed: Mapping[str, float]) -> float:
    """Return the time of the snapshot; where it is not known, a moment after the last thing that happened in it.

    `renewed`: when leases of nodes were renewed last; these and conditions tell that it was taken later than that.
    """
    if snapshot.taken_at is not None:
        try:
            return to_micros(snapshot.taken_at) / 1e6
        except ValueError:
            pass
    times = [at for pod in pods for at in (pod.created, pod.ready_since) if at]
    known = snapshot.latest_known or 0.0
    ends = filter(None, (seconds(pod.metadata.deletion_timestamp) for pod in snapshot.pods))
    last = max(times, default=known or max(ends, default=time.time()))
    return present(renewed, max(known, *times, 0.0)) or max(known, last + QUIET)
