"""What becomes of the pod groups of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.names import object_name
from kplan.course.answers.placement import Placement, last_placement
from kplan.course.answers.pod_groups import group_plan, member_placement, share_of
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.loop import Simulation
from kplan.documents.placement import GroupPlan
from kplan.documents.plan import PodChange
from kplan.framework.cycle import schedule_pod
from kplan.framework.listers import Key, group_of
from kplan.framework.results import Outcome
from kplan.remedies.replicas import Replicas


def group_plans(
    simulation: Simulation, changes: Iterable[PodChange], *, with_remedies: bool = True
) -> tuple[GroupPlan, ...]:
    """Return the groups whose pods are among the changes, in their order."""
    if not simulation.groups.is_on:
        return ()
    keys: dict[Key, None] = {}
    for change in changes:
        row = simulation.session.pod_ids.get(change.recreated_as or change.pod)
        key = None if row is None else simulation.groups.key_of(row)
        if key is not None:
            keys[key] = None
    most_tried = share_of(len(keys)) if with_remedies else 0
    return tuple(_plan(simulation, key, pods, most_tried) for key, pods in _members(simulation, keys).items())


def pending_in_groups(simulation: Simulation) -> dict[str, str]:
    if not simulation.groups.is_on:
        return {}
    keys = {pod.key: simulation.groups.key_of(row) for row, pod in simulation.pods.items() if not pod.node}
    return {name: object_name("PodGroup", *key) for name, key in keys.items() if key is not None}


def pending_placement(simulation: Simulation, row: int, replicas: Replicas) -> Placement:
    """Return the decision about a pod that stays pending, in the cluster at the end and in its group's cycle.

    `replicas`: pods like it that wait with it.
    """
    session, key = simulation.session, simulation.groups.key_of(row)
    if key is None:
        return last_placement(session, schedule_pod(session, row), replicas=replicas)
    pods, infos = simulation.pods, session.cluster.pods.infos
    pending = [other for other, pod in pods.items() if not pod.node and group_of(infos[other]) == key]
    return member_placement(session, row, pending, replicas)


def held_back(simulation: Simulation, changes: Sequence[PodChange]) -> list[PodChange]:
    """Return the changes with what holds pending pods back that fit without their group."""
    fitting = {row for last in simulation.groups.tries.values() for row in last.fitting}
    if not fitting:
        return list(changes)
    groups, row_of = pending_in_groups(simulation), simulation.session.pod_ids
    names = [change.recreated_as or change.pod for change in changes]
    return [
        replace(change, held_back_by=groups[name]) if name in groups and row_of[name] in fitting else change
        for name, change in zip(names, changes, strict=True)
    ]


def _members(simulation: Simulation, keys: Mapping[Key, None]) -> dict[Key, list[ObservedPod]]:
    members: dict[Key, list[ObservedPod]] = {key: [] for key in keys}
    infos = simulation.session.cluster.pods.infos
    for row, pod in simulation.pods.items():
        key = group_of(infos[row])
        if key in members:
            members[key].append(pod)
    return members


def _plan(simulation: Simulation, key: Key, pods: Sequence[ObservedPod], most_tried: int) -> GroupPlan:
    pending = [pod.row for pod in pods if not pod.node]
    return group_plan(
        simulation.session,
        key,
        {pod.row: bool(pod.node) for pod in pods},
        simulation.groups.tries.get(key),
        messages=simulation.messages,
        is_gated=all(simulation.outcomes.get(row) is Outcome.GATED for row in pending),
        victims=simulation.groups.victims.get(key, ()),
        violating=simulation.groups.violating.get(key, ()),
        n_violating=simulation.groups.n_violating[key],
        most_tried=most_tried,
    )
