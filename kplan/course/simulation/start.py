"""The start of a simulation: the workloads of a snapshot with their pods, on a session of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from kplan.api.pod import ENDED
from kplan.api.time import to_micros
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.desired import IsOn
from kplan.course.simulation.disruption import Disruptions
from kplan.course.simulation.durations import Durations
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.node_lifecycle import is_well
from kplan.course.simulation.objects import Workloads
from kplan.course.simulation.observing import latest, observe
from kplan.course.simulation.owners import Owner
from kplan.course.simulation.pod_creation import PodMaker
from kplan.course.simulation.templates import Revisions, Templates, whole_specs
from kplan.engine.cluster import NOWHERE
from kplan.framework.session import Session
from kplan.health.nodes import present, renewals, silent_nodes
from kplan.health.pods import fails_by_itself
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot

QUIET = 3.25
"""Seconds without an event after which a cluster counts as being at rest, where a drain waits for that."""


def start(
    session: Session, snapshot: Snapshot, durations: Durations | None = None, *, tries_pending: bool = True
) -> Simulation:
    """Return a simulation of a cluster.

    `session`: a fork of its own, with listers of its own. `snapshot`: the cluster of the session, with all applied
    objects other than workloads. `durations`: how long pods take; None where nothing takes time. `tries_pending`: as
    for `Simulation.take_in`.
    """
    infos = session.cluster.pods.infos
    n_pods = len(infos)
    workloads = _workloads(snapshot, session.config.release.is_on)
    workloads.name_revisions(infos)
    names = session.cluster.nodes.names
    versions = snapshot.versions
    known: list[tuple[ObservedPod, PodInfo]] = []
    for row in range(n_pods):
        info, place = infos[row], session.cluster.node_of[row]
        if row in session.refused:
            continue
        node = names[place] if place != NOWHERE else info.pod.spec.node_name
        known.append((observe(row, info, node, versions.get(info.key, 0)), info))
    known.sort(key=lambda entry: entry[0].order)
    members = [workloads.give(pod, info) for pod, info in known]
    maker = PodMaker(snapshot, session.listers, session.config.release.number)
    disruptions = Disruptions(snapshot.pod_disruption_budgets, workloads.owner)
    renewed = renewals(snapshot)
    simulation = Simulation(session, workloads, maker, disruptions, _now(snapshot, members, renewed))
    simulation.take_in(members, tries_pending=tries_pending)
    simulation.failing = _failing(members, infos, simulation.now)
    silent = silent_nodes(snapshot, renewed, simulation.now)
    bound = {pod.node for pod in simulation.pods.values() if pod.node and pod.phase not in ENDED}
    missing = bound - session.cluster.nodes.row_of.keys()
    simulation.kubelets.lose(silent)
    simulation.node_lifecycle.silent = {**silent, **dict.fromkeys(missing, simulation.now)}
    simulation.node_lifecycle.is_well = not silent and not missing and all(map(is_well, snapshot.nodes))
    is_known = snapshot.taken_at is not None
    simulation.kubelets.begin(
        durations or Durations.none(),
        is_time_known=is_known or bool(renewed),
        is_fraction_known=bool(renewed) and not is_known,
    )
    if simulation.durations.is_timed:
        simulation.node_lifecycle.begin()
    return simulation


def _failing(
    members: Sequence[tuple[ObservedPod, Owner | None]], infos: Sequence[PodInfo], now: float
) -> Mapping[tuple[str, str], str]:
    """Return the templates of which no pod is ready and some fail by themselves, with the first such pod of each."""
    failing: dict[tuple[str, str], str] = {}
    for pod, owner in members:
        if owner is not None and pod.node and not pod.is_ready and fails_by_itself(infos[pod.row].pod, now):
            failing.setdefault(owner.template_key(pod), pod.key)
    for pod, owner in members if failing else ():
        if owner is not None and pod.is_ready:
            failing.pop(owner.template_key(pod), None)
    return failing


def fork(simulation: Simulation, snapshot: Snapshot, random: Random | None = None) -> Simulation:
    """Return a copy of a simulation in which nothing has moved yet, on a session of its own.

    `random`: source of draws instead of the session's own.
    """
    listers = simulation.session.listers.fork()
    session = simulation.session.fork(listers, random=random)
    return simulation.fork(session, snapshot, listers)


def _now(
    snapshot: Snapshot, members: Iterable[tuple[ObservedPod, Owner | None]], renewed: Mapping[str, float]
) -> float:
    """Return the time of the snapshot; where it is not known, a moment after the last thing that happened in it.

    Heartbeats and conditions tell that it was taken later than that.

    `renewed`: when leases of nodes were renewed last.
    """
    if snapshot.taken_at is not None:
        try:
            return to_micros(snapshot.taken_at) / 1e6
        except ValueError:
            pass
    times = [time for pod, _ in members for time in (pod.created or None, pod.ready_since) if time]
    known = snapshot.latest_known or 0.0
    return present(renewed, max(known, *times, 0.0)) or max(known, latest(times) + QUIET)


def _workloads(snapshot: Snapshot, is_on: IsOn) -> Workloads:
    workloads = Workloads(Templates(whole_specs(snapshot)), is_on, Revisions(snapshot))
    workloads.pods = snapshot.pods
    for deployment in snapshot.deployments:
        workloads.add_deployment(deployment)
    for replica_set in sorted(
        snapshot.replica_sets, key=lambda obj: (obj.metadata.creation_timestamp or "", obj.metadata.name)
    ):
        workloads.add_replica_set(replica_set)
    for controller in snapshot.replication_controllers:
        workloads.add_replication_controller(controller)
    for stateful_set in snapshot.stateful_sets:
        workloads.add_stateful_set(stateful_set)
    for daemon_set in snapshot.daemon_sets:
        workloads.add_daemon_set(daemon_set, snapshot.nodes)
    for job in snapshot.jobs:
        workloads.add_job(job)
    return workloads
