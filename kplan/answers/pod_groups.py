"""What becomes of pod groups, as parts of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET

from kplan.answers.placement import Placement
from kplan.api.references import object_name
from kplan.documents.placement import Outcome
from kplan.documents.pod_groups import EvictedGroup, GroupPlan, GroupState, TopologyDomain
from kplan.engine.cluster import NOWHERE
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.session import Session
from kplan.framework.status import StatusCode


def group_plan(
    session: Session,
    key: Key,
    members: Mapping[int, bool],
    last: GroupTry | None,
    *,
    messages: Mapping[int, str],
    is_gated: bool,
    victims: Iterable[int],
) -> GroupPlan:
    """Return what becomes of a group.

    Parameters
    ----------
    members : its pods -> whether they have a node at the end
    last : how its last cycle has ended; None where it had none
    messages : kube-scheduler's messages about pending pods
    is_gated : all pending members are kept out of the queue
    victims : the pods that leave for it
    """
    group, min_count = session.pod_groups.groups.get(key), session.pod_groups.min_count(key)
    infos = session.cluster.pods.infos
    pending = [pod for pod, is_placed in members.items() if not is_placed]
    fitting = frozenset() if last is None else last.fitting.intersection(pending)
    first = last.misfit if last is not None and last.misfit in pending else next(iter(pending), None)
    topology = None if last is None else last.topology
    victims = tuple(victims)
    evicted_groups = Counter(other for row in victims if (other := group_of(infos[row])) is not None)
    return GroupPlan(
        namespace=key[0],
        name=key[1],
        policy=UNSET if group is None else "basic" if min_count is None else "gang",
        min_count=UNSET if min_count is None else min_count,
        members=tuple(sorted(infos[pod].key for pod in members)),
        placed=len(members) - len(pending),
        fit=len(members) - len(pending) + len(fitting),
        state=_state(last, is_whole=not pending, is_gated=is_gated),
        topology=UNSET if topology is None else TopologyDomain(key=topology[0], value=topology[1]),
        evicted=tuple(infos[row].key for row in victims),
        evicted_groups=tuple(
            EvictedGroup(namespace=namespace, name=name, pods=n) for (namespace, name), n in evicted_groups.items()
        ),
        message="" if last is None else last.status.message,
        because="" if first is None else messages.get(first, ""),
    )


def groups_of_members(groups: Iterable[GroupPlan]) -> dict[str, str]:
    """Return NAMESPACE/NAME of the members of groups -> their group as PodGroup/NAMESPACE/NAME."""
    return {pod: object_name("PodGroup", group.namespace, group.name) for group in groups for pod in group.members}


def plans_in_order(
    session: Session, tries: Mapping[Key, GroupTry], placements: Sequence[Placement]
) -> tuple[GroupPlan, ...]:
    """Return what becomes of groups of which some pods were placed in order, after which nothing has changed.

    Parameters
    ----------
    tries : how the groups' cycles have ended
    placements : the decisions about the pods in question
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
                victims=tried.victims,
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
