"""What becomes of the pod groups of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.references import object_name
from kplan.documents.placement import Outcome
from kplan.documents.plan import PodChange
from kplan.documents.pod_groups import EvictedGroup, GroupPlan, GroupState, TopologyDomain
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.status import StatusCode
from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.loop import Simulation


def group_plans(simulation: Simulation, changes: Iterable[PodChange]) -> tuple[GroupPlan, ...]:
    """Return the groups whose pods are among the changes, in their order."""
    if not simulation.groups.is_on:
        return ()
    keys: dict[Key, None] = {}
    for change in changes:
        row = simulation.session.pod_ids.get(change.recreated_as or change.pod)
        key = None if row is None else simulation.groups.key_of(row)
        if key is not None:
            keys[key] = None
    return tuple(_plan(simulation, key, pods) for key, pods in _members(simulation, keys).items())


def pending_in_groups(simulation: Simulation) -> dict[str, str]:
    """Return NAMESPACE/NAME of the pending pods of groups -> their group as PodGroup/NAMESPACE/NAME."""
    if not simulation.groups.is_on:
        return {}
    keys = {pod.key: simulation.groups.key_of(row) for row, pod in simulation.pods.items() if not pod.node}
    return {name: object_name("PodGroup", *key) for name, key in keys.items() if key is not None}


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


def _plan(simulation: Simulation, key: Key, pods: Sequence[ObservedPod]) -> GroupPlan:
    groups, session = simulation.groups, simulation.session
    group = session.pod_groups.groups.get(key)
    min_count = session.pod_groups.min_count(key)
    last = groups.tries.get(key)
    pending = [pod for pod in pods if not pod.node]
    n_placed = len(pods) - len(pending)
    fitting = frozenset() if last is None else last.fitting.intersection(pod.row for pod in pending)
    infos = session.cluster.pods.infos
    victims = groups.victims.get(key, {})
    evicted_groups = Counter(other for row in victims if (other := group_of(infos[row])) is not None)
    topology = None if last is None else last.topology
    return GroupPlan(
        namespace=key[0],
        name=key[1],
        policy=UNSET if group is None else "basic" if min_count is None else "gang",
        min_count=UNSET if min_count is None else min_count,
        members=tuple(sorted(pod.key for pod in pods)),
        placed=n_placed,
        fit=n_placed + len(fitting),
        state=_state(simulation, key, pods),
        topology=UNSET if topology is None else TopologyDomain(key=topology[0], value=topology[1]),
        evicted=tuple(infos[row].key for row in victims),
        evicted_groups=tuple(
            EvictedGroup(namespace=namespace, name=name, pods=n) for (namespace, name), n in evicted_groups.items()
        ),
        message="" if last is None else last.status.message,
        because=_because(simulation, pending, last.misfit if last is not None else None),
    )


def _state(simulation: Simulation, key: Key, pods: Sequence[ObservedPod]) -> GroupState:
    pending = [pod.row for pod in pods if not pod.node]
    if not pending:
        return "Scheduled"
    last = simulation.groups.tries.get(key)
    if last is not None and last.status.code is StatusCode.ERROR:
        return "Error"
    if all(simulation.outcomes.get(row) is Outcome.GATED for row in pending):
        return "Gated"
    return "Partial" if last is not None and last.status.is_success else "Waits"


def _because(simulation: Simulation, pending: Sequence[ObservedPod], misfit: int | None) -> str:
    """Return the message about the member that fits nowhere, else about the first pending one."""
    rows = [pod.row for pod in pending]
    first = misfit if misfit in rows else next(iter(rows), None)
    return "" if first is None else simulation.messages.get(first, "")
