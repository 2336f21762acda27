"""What becomes of pod groups in an answer, what would help those that wait, and which pods they hold back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import object_name
from kplan.changes.remedy import Remedy
from kplan.course.answers.placement import Placement
from kplan.documents import placement as d
from kplan.engine.cluster import NOWHERE
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.results import Outcome, StatusCode
from kplan.framework.session import Session

if TYPE_CHECKING:
    from kplan.course.simulation.controllers.observed import ObservedPod
    from kplan.course.simulation.loop import Simulation
    from kplan.documents.plan import PodChange

_REMEDIED: tuple[d.GroupState, ...] = ("Partial", "Waits", "Gated")
"""How a group may end for which remedies are searched."""

_FEWEST_GROUPS = 4
MOST_TRIED = 24_000  #: how many decisions about members may be made to find remedies, for all groups of an answer


def share_of(n_groups: int) -> int:
    """Return how many decisions the search for remedies of one group may make."""
    return MOST_TRIED // max(n_groups, _FEWEST_GROUPS)


def group_plan(
    session: Session,
    key: Key,
    members: Mapping[int, bool],
    last: GroupTry | None,
    messages: Mapping[int, str],
    *,
    is_gated: bool,
    n_groups: int,
) -> d.GroupPlan:
    """Return what becomes of a group.

    - `members`: its pods -> whether they have a node at the end
    - `last`: how its last cycle has ended, with all pods that leave for it; None where it had none
    - `messages`: kube-scheduler's messages about pending pods
    - `is_gated`: all pending members are kept out of the queue
    - `n_groups`: how many groups the answer is about, which share the search for remedies
    """
    group, min_count = session.pod_groups.groups.get(key), session.pod_groups.min_count(key)
    infos = session.cluster.pods.infos
    pending = [pod for pod, is_placed in members.items() if not is_placed]
    fitting = frozenset() if last is None else last.fitting.intersection(pending)
    first = last.misfit if last is not None and last.misfit in pending else next(iter(pending), None)
    topology = None if last is None else last.topology
    victims = () if last is None else last.victims
    evicted_groups = Counter(other for row in victims if (other := group_of(infos[row])) is not None)
    state = _state(last, is_whole=not pending, is_gated=is_gated)
    remedies: tuple[Remedy, ...] = ()
    if state in _REMEDIED:
        # Most questions have no groups that wait, so the modules for it are loaded only here.
        from kplan.remedies.ways import offers_for_group, remedies_of

        remedies = remedies_of(offers_for_group(session, key, pending, share_of(n_groups)))
    return d.GroupPlan(
        namespace=key[0],
        name=key[1],
        policy=UNSET if group is None else "basic" if min_count is None else "gang",
        min_count=UNSET if min_count is None else min_count,
        members=tuple(sorted(infos[pod].key for pod in members)),
        placed=len(members) - len(pending),
        fit=len(members) - len(pending) + len(fitting),
        state=state,
        topology=UNSET if topology is None else d.TopologyDomain(key=topology[0], value=topology[1]),
        evicted=tuple(infos[row].key for row in victims),
        evicted_groups=tuple(
            d.EvictedGroup(namespace=namespace, name=name, pods=n) for (namespace, name), n in evicted_groups.items()
        ),
        violating=() if last is None else tuple(infos[row].key for row in victims if row in last.violating),
        pdb_violations=0 if last is None else last.n_violating,
        message="" if last is None else last.status.message,
        because="" if first is None else messages.get(first, ""),
        remedies=remedies,
    )


def plans_in_order(
    session: Session, tries: Mapping[Key, GroupTry], placements: Sequence[Placement]
) -> tuple[d.GroupPlan, ...]:
    """Return what becomes of groups of which some pods were placed in order, after which nothing has changed.

    `tries`: how the groups' cycles have ended. `placements`: the decisions about the pods in question.
    """
    last = {placement.pod.key: placement for placement in placements}
    infos, node_of = session.cluster.pods.infos, session.cluster.node_of
    plans = []
    for key, tried in tries.items():
        members = {pod: node_of[pod] != NOWHERE for pod in session.pod_groups.members(key)}
        known = {pod: last[infos[pod].key] for pod in members if infos[pod].key in last}
        messages = {pod: placement.message for pod, placement in known.items()}
        has_gated = any(placement.outcome is Outcome.GATED for placement in known.values())
        is_gated = has_gated and not tried.fitting and tried.misfit is None
        plans.append(group_plan(session, key, members, tried, messages, is_gated=is_gated, n_groups=len(tries)))
    return tuple(plans)


def _state(last: GroupTry | None, *, is_whole: bool, is_gated: bool) -> d.GroupState:
    if is_whole:
        return "Scheduled"
    if last is not None and last.status.code is StatusCode.ERROR:
        return "Error"
    if is_gated:
        return "Gated"
    if last is not None and last.status.is_success:
        return "Partial"
    return "Preempts" if last is not None and last.waits else "Waits"


def group_plans(simulation: Simulation, changes: Iterable[PodChange]) -> tuple[d.GroupPlan, ...]:
    """Return the groups whose pods are among the changes, in their order."""
    if not simulation.queue.has_groups:
        return ()
    rows = (simulation.session.pod_ids.get(change.recreated_as or change.pod) for change in changes)
    keys = (None if row is None else simulation.queue.key_of(row) for row in rows)
    members: dict[Key, list[ObservedPod]] = {key: [] for key in keys if key is not None}
    infos, groups = simulation.infos, simulation.groups
    for row, pod in simulation.pods.items():
        key = group_of(infos[row])
        if key in members:
            members[key].append(pod)
    plans = []
    for key, pods in members.items():
        placed, last = {pod.row: bool(pod.node) for pod in pods}, groups.tries.get(key)
        is_gated = all(simulation.outcomes.get(pod.row) is Outcome.GATED for pod in pods if not pod.node)
        session, messages, n_groups = simulation.session, simulation.messages, len(members)
        plans.append(group_plan(session, key, placed, last, messages, is_gated=is_gated, n_groups=n_groups))
    return tuple(plans)


def pending_in_groups(simulation: Simulation) -> dict[str, str]:
    if not simulation.queue.has_groups:
        return {}
    keys = {pod.key: simulation.queue.key_of(row) for row, pod in simulation.pods.items() if not pod.node}
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
