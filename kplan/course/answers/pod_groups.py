"""What becomes of pod groups, as parts of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import UNSET

from kplan.api.names import object_name
from kplan.changes.remedy import Remedy
from kplan.course.answers.placement import NodesShown, Placement, last_placement, placement_of
from kplan.diagnosis.explanation import Explanation, explain
from kplan.documents.placement import EvictedGroup, GroupPlan, GroupState, Origin, TopologyDomain
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key, group_of
from kplan.framework.results import Outcome, StatusCode
from kplan.framework.session import Session
from kplan.remedies.diagnosis import diagnose
from kplan.remedies.replicas import Replicas

_REMEDIED: tuple[GroupState, ...] = ("Partial", "Waits", "Gated")
"""How a group may end for which remedies are searched."""

_FEWEST_GROUPS = 4
MOST_TRIED = 24_000
"""How many decisions about members may be made to find remedies, for all groups of an answer."""


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
    victims: Iterable[int],
    violating: Collection[int],
    n_violating: int,
    most_tried: int = 0,
) -> GroupPlan:
    """Return what becomes of a group.

    - `members`: its pods -> whether they have a node at the end
    - `last`: how its last cycle has ended; None where it had none
    - `messages`: kube-scheduler's messages about pending pods
    - `is_gated`: all pending members are kept out of the queue
    - `victims`: the pods that leave for it
    - `violating`, `n_violating`: those that it evicts as a whole against a budget, and how many units they are
    - `most_tried`: how many decisions about its members may be made to find remedies
    """
    group, min_count = session.pod_groups.groups.get(key), session.pod_groups.min_count(key)
    infos = session.cluster.pods.infos
    pending = [pod for pod, is_placed in members.items() if not is_placed]
    fitting = frozenset() if last is None else last.fitting.intersection(pending)
    first = last.misfit if last is not None and last.misfit in pending else next(iter(pending), None)
    topology = None if last is None else last.topology
    victims = tuple(victims)
    evicted_groups = Counter(other for row in victims if (other := group_of(infos[row])) is not None)
    state = _state(last, is_whole=not pending, is_gated=is_gated)
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
        violating=tuple(infos[row].key for row in victims if row in violating),
        pdb_violations=n_violating,
        message="" if last is None else last.status.message,
        because="" if first is None else messages.get(first, ""),
        remedies=_remedies(session, key, pending, most_tried) if state in _REMEDIED else (),
    )


def _remedies(session: Session, key: Key, pending: Sequence[int], most: int) -> tuple[Remedy, ...]:
    if not most:
        return ()
    # Most questions have no groups that wait, so the modules for it are loaded only here.
    from kplan.remedies.ways import offers_for_group, remedies_of

    return remedies_of(offers_for_group(session, key, pending, most))


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
    if live is not None:
        # The decision is live as long as somebody holds the iterator.
        return _live_placement(*live, replicas, decisions, {} if origin is None else {pod: origin})
    return last_placement(session, schedule_pod(session, pod), origin, replicas)


def _live_placement(
    session: Session, result: CycleResult, replicas: Replicas, decisions: object, origins: Mapping[int, Origin]
) -> Placement:
    def explain_nodes(nodes: NodesShown, _live: object = decisions) -> Explanation:
        return explain(result, session.cluster.nodes.names, nodes)

    return placement_of(session, result, explain_nodes, origins, lambda: diagnose(session, result, replicas=replicas))


def groups_of_members(groups: Iterable[GroupPlan]) -> dict[str, str]:
    return {pod: object_name("PodGroup", group.namespace, group.name) for group in groups for pod in group.members}


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
                victims=tried.victims,
                violating=tried.violating,
                n_violating=tried.n_violating,
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
