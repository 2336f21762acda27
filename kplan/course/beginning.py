"""How a simulation of a cluster begins: it reports its progress, and autoscalers act in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from random import Random

import msgspec

from kplan.api.names import object_name
from kplan.api.workloads import HorizontalPodAutoscaler
from kplan.cluster.base import Base
from kplan.course.growth import Growth
from kplan.course.provisioning import Growing
from kplan.course.simulation.any_node import AnyNode, AnyNodeTaker, Uncertain
from kplan.course.simulation.loop import Simulation, start
from kplan.health.workloads import namespaces_with_quotas, refused_before
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot
from kplan.workloads.autoscalers import Autoscalers, bounds_of


def watched(simulation: Simulation, base: Base, snapshot: Snapshot | None = None) -> Simulation:
    """Return the simulation, with its steps reported to the planner's progress callback, and its autoscaler's nodes.

    `snapshot`: the cluster of the simulation; None for the planner's.
    """
    growth = Growth.of(base)
    if growth is not None:
        simulation.provisioner = Growing(simulation, growth, snapshot or base.objects, base.now)
    report = base.on_progress
    if report is not None:
        simulation.log.on_step.connect(lambda done: report(done, None))
    return simulation


def unmoved(base: Base) -> Simulation:
    """Return the simulation of a cluster before anything moves; questions fork it and never run it."""
    return base.derived(_started)


def _started(base: Base) -> Simulation:
    return start(base.session_for(base.objects), base.objects)


def any_node(base: Base) -> AnyNode:
    """Return where pods fit while nothing has moved."""
    return base.derived(_any_node)


def _any_node(base: Base) -> AnyNode:
    still = unmoved(base)
    still.queue.sort_key  # noqa: B018 - made once, so that copies which ask no plugin else need none for that
    return AnyNode(still.session.fork())


def fit_anyhow(base: Base, pods: Iterable[tuple[PodInfo, int]]) -> bool:
    """Tell whether so many pods like each of these certainly fit together, whichever nodes the scheduler chooses."""
    taker = AnyNodeTaker(any_node(base), ())
    try:
        for pod, number in pods:
            if pod.pod.spec.scheduling_group is not None:
                return False
            for _ in range(number):
                taker.take(pod, "")
    except Uncertain:
        return False
    return True


def begin(base: Base, random: Random | None = None) -> Simulation:
    """Return a fresh simulation of the planner's cluster; `random`: source of draws in place of the planner's own."""
    return watched(unmoved(base).fork(base.objects, random), base)


def carry_on(simulation: Simulation, snapshot: Snapshot, keys: Iterable[str]) -> None:
    """Have controllers go on with what is under way, and autoscalers keep workloads within their bounds.

    `keys`: KIND/NAMESPACE/NAME of the workloads that go on.
    """
    for key in keys:
        workload = simulation.workloads.find(key)
        for part in () if workload is None else (workload, *workload.owners):
            simulation.enqueue(part)
    scalers = snapshot.horizontal_pod_autoscalers
    add_bounds(simulation, Autoscalers(scalers), scalers)


def carry_on_known(simulation: Simulation, snapshot: Snapshot, only: Collection[str] | None) -> None:
    """Have all workloads go on but those of which the API server refuses pods for a reason that nothing here shows.

    `only`: KIND/NAMESPACE/NAME of those that may go on; None for all.
    """
    limited = namespaces_with_quotas(snapshot)
    sources = (snapshot.deployments, snapshot.replica_sets, snapshot.replication_controllers)
    refused = {f"{type(obj).__name__}/{obj.metadata.key}" for obj in chain(*sources) if refused_before(obj, limited)}
    for both in snapshot.controllers.items() if refused else ():
        if not refused.isdisjoint(both):
            refused.update(both)
    keys = simulation.workloads.keys() if only is None else only
    carry_on(simulation, snapshot, [key for key in keys if key not in refused])


def has_more_to_do(base: Base, only: Collection[str] | None = None) -> bool:
    """Tell whether controllers do anything before a pod has found a node; `only`: as for `carry_on_known`."""
    simulation = begin(base)
    carry_on_known(simulation, base.objects, only)
    simulation.controllers.run()
    bound = ((simulation.workloads.find(key), bounds) for key, bounds in simulation.bounds.items())
    return bool(simulation.log.steps) or any(owner.keep_within(bounds) for owner, bounds in bound if owner is not None)


def add_bounds(simulation: Simulation, autoscalers: Autoscalers, additions: Iterable[msgspec.Struct]) -> None:
    """Have the autoscalers among some objects keep their workloads within their bounds."""
    for scaler in additions:
        if isinstance(scaler, HorizontalPodAutoscaler):
            target, namespace = scaler.spec.scale_target_ref, scaler.metadata.namespace
            bounds = bounds_of(autoscalers.of(target.api_version, target.kind, namespace, target.name))
            if bounds is not None:
                simulation.note_bounds(object_name(target.kind, namespace, target.name), bounds)
