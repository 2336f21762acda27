"""What becomes of pod groups, as parts of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import object_name
from kplan.changes.remedy import Remedy
from kplan.course.answers.placement import NodesShown, Placement, last_placement, placement_of
from kplan.diagnosis.explanation import Explanation, explain
from kplan.documents.placement import EvictedGroup, GroupPlan, GroupState, Origin, TopologyDomain
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import schedule_pod
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.results import Outcome, StatusCode
from kplan.framework.session import Session
from kplan.remedies.diagnosis import diagnose
from kplan.remedies.replicas import Replicas

if TYPE_CHECKING:
    from kplan.course.simulation.controllers.observed import ObservedPod
    from kplan.course.simulation.loop import Simulation
    from kplan.documents.plan import PodChange

_REMEDIED: tuple[GroupState, ...] = ("Partial", "Waits", "Gated")
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
    *,
    messages: Mapping[int, str],
    is_gated: bool,
    most_tried: int,
) -> GroupPlan:
    """Return what becomes of a group.

    - `members`: its pods -> whether they have a node at the end
    - `last`: how its last cycle has ended, with all pods that leave for it; None where it had none
    - `messages`: kube-scheduler's messages about pending pods
    - `is_gated`: all pending members are kept out of the queue
    - `most_tried`: how many decisions about its members may be made to find remedies
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

        remedies = remedies_of(offers_for_group(session, key, pending, most_tried))
    return GroupPlan(
        namespace=key[0],
        name=key[1],
        policy=UNSET if group is None else "basic" if min_count is None else "gang",
        min_count=UNSET if min_count is None else min_count,
        members=tuple(sorted(infos[pod].key for pod in members)),
        placed=len(members) - len(pending),
        fit=len(members) - len(pending) + len(fitting),
        state=state,
        topology=UNSET if topology is None else TopologyDomain(key=topology[0], value=topology[1]),
        evicted=tuple(infos[row].key for row in victims),
        evicted_groups=tuple(
            EvictedGroup(namespace=namespace, name=name, pods=n) for (namespace, name), n in evicted_groups.items()
        ),
        violating=() if last is None else tuple(infos[row].key for row in victims if row in last.violating),
        pdb_violations=0 if last is None else last.n_violating,
        message="" if last is None else last.status.message,
        because="" if first is None else messages.get(first, ""),
        remedies=remedies,
    )


def member_placement(
    session: Session, pod: int, pending: Sequence[int], replicas: Replicas, origin: Origin | None = None
) -> Placement:
    """Return the placement of a pod that waits, in its group's cycle, after which its session never changes.

    `pending`: the members of its group without a node. `replicas`: pods like it that wait with it. `origin`: the
    manifest of the pod.
    """
    from kplan.remedies.trials import Trials

    key = group_of(session.cluster.pods.infos[pod])
    decisions = iter(()) if key is None else Trials(session, pending, key).decisions()
    live = next(((forked, result) for forked, result in decisions if result.pod == pod), None)
    if live is None:
        return last_placement(session, schedule_pod(session, pod), origin, replicas)
    forked, result = live

    # The decision is live as long as somebody holds the iterator.
    def explain_nodes(nodes: NodesShown, _live: object = decisions) -> Explanation:
        return explain(result, forked.cluster.nodes.names, nodes)

    origins = {} if origin is None else {pod: origin}
    return placement_of(forked, result, explain_nodes, origins, lambda: diagnose(forked, result, replicas=replicas))


def plans_in_order(
    session: Session, tries: Mapping[Key, GroupTry], placements: Sequence[Placement]
) -> tuple[GroupPlan, ...]:
    """Return what becomes of groups of which some pods were placed in order, after which nothing has changed.

    `tries`: how the groups' cycles have ended. `placements`: the decisions about the pods in question.
    """
    last = {placement.pod.key: placement for placement in placements}
    infos, node_of = session.cluster.pods.infos, session.cluster.node_of
    plans = []
    for key, tried in tries.items():
        members = {pod: node_of[pod] != NOWHERE for pod in session.pod_groups.members(key)}
        known = {pod: last[infos[pod].key] for pod in members if infos[pod].key in last}
        plans.append(
            group_plan(
                session,
                key,
                members,
                tried,
                messages={pod: placement.message for pod, placement in known.items()},
                is_gated=any(placement.outcome is Outcome.GATED for placement in known.values())
                and not tried.fitting
                and tried.misfit is None,
                most_tried=share_of(len(tries)),
            )
        )
    return tuple(plans)


def _state(last: GroupTry | None, *, is_whole: bool, is_gated: bool) -> GroupState:
    if is_whole:
        return "Scheduled"
    if last is not None and last.status.code is StatusCode.ERROR:
        return "Error"
    if is_gated:
        return "Gated"
    if last is not None and last.status.is_success:
        return "Partial"
    return "Preempts" if last is not None and last.waits else "Waits"


def group_plans(simulation: Simulation, changes: Iterable[PodChange]) -> tuple[GroupPlan, ...]:
    """Return the groups whose pods are among the changes, in their order."""
    if not simulation.groups.is_on:
        return ()
    rows = (simulation.session.pod_ids.get(change.recreated_as or change.pod) for change in changes)
    keys = (None if row is None else simulation.groups.key_of(row) for row in rows)
    members: dict[Key, list[ObservedPod]] = {key: [] for key in keys if key is not None}
    infos, groups = simulation.session.cluster.pods.infos, simulation.groups
    for row, pod in simulation.pods.items():
        key = group_of(infos[row])
        if key in members:
            members[key].append(pod)
    return tuple(
        group_plan(
            simulation.session,
            key,
            {pod.row: bool(pod.node) for pod in pods},
            groups.tries.get(key),
            messages=simulation.messages,
            is_gated=all(simulation.outcomes.get(pod.row) is Outcome.GATED for pod in pods if not pod.node),
            most_tried=share_of(len(members)),
        )
        for key, pods in members.items()
    )


def pending_in_groups(simulation: Simulation) -> dict[str, str]:
    if not simulation.groups.is_on:
        return {}
    keys = {pod.key: simulation.groups.key_of(row) for row, pod in simulation.pods.items() if not pod.node}
    return {name: object_name("PodGroup", *key) for name, key in keys.items() if key is not None}


def pending_placement(simulation: Simulation, row: int, replicas: Replicas) -> Placement:
    """Return the decision at the end about a pending pod, in its group's cycle, if any; `replicas`: others like it."""
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
