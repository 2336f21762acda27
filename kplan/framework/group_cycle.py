"""The scheduling cycle of a pod group: its members one after the other in one state of the cluster, none bound yet.

A group with a topology key is tried on placements: the nodes with one value of the key, of which the best is chosen.

Upstream: pkg/scheduler/schedule_one_podgroup.go, plugins/topologyaware, plugins/podgrouppodscount,
plugins/noderesources ScorePlacement, runtime RunPlacementGeneratePlugins and RunPlacementScorePlugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.config.args import NodeResourcesFitArgs, ResourceSpec
from kplan.engine.arrays import MAX_NODE_SCORE, BoolArray
from kplan.engine.pod_table import NONZERO
from kplan.framework.cycle import GROUP_UNSCHEDULABLE, CycleResult, schedule_pod
from kplan.framework.interface import GroupVictims
from kplan.framework.listers import Key
from kplan.framework.pod_groups import PREEMPTION_GATE, TOPOLOGY_GATE, GroupCycle
from kplan.framework.results import SUCCESS, Outcome, Status, StatusCode
from kplan.framework.session import Session
from kplan.rules.resources import is_counted, is_scalar

_FIT = "NodeResourcesFit"


class Placement(msgspec.Struct, frozen=True):
    """Some nodes that a group may share."""

    key: str  #: the label; empty for all nodes
    value: str  #: its value; empty for all nodes
    nodes: BoolArray | None  #: bool array of shape (n_nodes,); None for all nodes


def placements_of(session: Session, key: Key) -> list[Placement] | Status:
    """Return the placements of a group by the value of its key, or why there is none.

    Members that have a node already fix the value. Upstream tries them in no particular order.
    """
    group = session.pod_groups.groups.get(key)
    if group is None:
        return Status.error(f'podgroup.scheduling.k8s.io "{key[1]}" not found')
    constraints = group.spec.scheduling_constraints
    if constraints is None or not constraints.topology:
        return [Placement("", "", None)]
    label = constraints.topology[0].key
    column = session.cluster.nodes.label(label)
    domain: str | None = None
    infos, node_of = session.cluster.pods.infos, session.cluster.node_of
    for pod in sorted(session.pod_groups.scheduled(key), key=lambda pod: infos[pod].key):
        value = session.cluster.nodes.nodes[node_of[pod]].metadata.labels.get(label)
        problem = ""
        if value is None:
            problem = f"no topology domain found for pod {infos[pod].key}"
        elif domain and value != domain:
            problem = f"more than 1 domain found for pod group: {domain}, {value}"
        if problem:
            return Status.error(f"cannot determine domain for already scheduled pods: {problem}")
        domain = value
    values = sorted(column.values) if domain is None else [value for value in column.values if value == domain]
    absent = session.cluster.nodes.absent
    placements = []
    for value in values:
        nodes = column.codes == column.code_of[value]
        if absent is None or (nodes & ~absent).any():  # else all nodes of the value are gone
            placements.append(Placement(label, value, None if nodes.all() else nodes))
    return placements or Status.unschedulable("no feasible placements found")


def _best(session: Session, results: Sequence[GroupResult]) -> GroupResult:
    """Return the best of several placements in which a group fits; upstream draws among equal ones."""
    proposed = [[member.pod for member in result.members if member.row is not None] for result in results]
    n_scheduled = len(session.pod_groups.scheduled(results[0].key))
    counts = [n_scheduled + len(pods) for pods in proposed]
    framework = session.frameworks[session.cluster.pods.infos[proposed[0][0]].pod.spec.scheduler_name]
    args, weight = framework.profile.args.get(_FIT), framework.weights.get(_FIT, 0)
    resources = args.scoring_strategy.resources if isinstance(args, NodeResourcesFitArgs) else ()
    totals = []
    for result, pods, count in zip(results, proposed, counts, strict=True):
        total = MAX_NODE_SCORE * count // max(counts)
        among = None if result.placement is None else result.placement.nodes
        totals.append(total + weight * _fullness(session, among, pods, resources))
    best = [result for result, total in zip(results, totals, strict=True) if total == max(totals)]
    return best[0] if session.random is None else session.random.choice(best)


def _fullness(session: Session, among: BoolArray | None, pods: Sequence[int], resources: Sequence[ResourceSpec]) -> int:
    """Return how full some nodes (None: all) would be, as NodeResourcesFit scores it: the fuller the better."""
    cluster, nodes = session.cluster, session.cluster.nodes
    infos = cluster.pods.infos
    inside = np.ones(len(cluster), np.bool_) if among is None else among
    total = weight_sum = 0
    for resource in resources:
        name = resource.name
        requested = sum(infos[pod].scored_requests.get(name, 0) for pod in pods)
        if not is_counted(name) or (is_scalar(name) and requested == 0):
            continue
        used = cluster.requested(NONZERO.get(name, name))
        has_any = inside & (nodes.allocatable(name) != 0)
        allocatable = int(nodes.allocatable(name)[has_any].sum())
        if allocatable == 0:
            continue
        requested = min(requested + int(used[has_any].sum()), allocatable)
        total += resource.weight * (requested * MAX_NODE_SCORE // allocatable)
        weight_sum += resource.weight
    return total // weight_sum if weight_sum else 0


WAITS_FOR_PREEMPTION = "pod group is waiting for preemption to complete"
_SEVERAL_SCHEDULERS = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "{}" and "{}"'
_NO_PREEMPTION = "default preemption plugin is not registered, workload aware preemption is disabled"
_NOT_WITH_CONSTRAINTS = "workload aware preemption is not supported for pod groups with scheduling constraints"


class Member(msgspec.Struct):
    """What the cycle found for a member."""

    pod: int
    result: CycleResult
    row: int | None = None  #: the node on which it counts as placed, or None
    permit: Status = SUCCESS  #: what Permit said of it there
    start: int = 0  #: where the search for nodes began, an index into the node tree's order
    preempts: bool = False  #: it counts as placed although others have to leave first

    @property
    def fits(self) -> bool:
        return self.row is not None and not self.preempts


class GroupResult(msgspec.Struct):
    """The result of a group's cycle."""

    key: Key
    members: list[Member]
    status: Status  #: SUCCESS, UNSCHEDULABLE or ERROR; `reasons` are the group's message
    waits: bool = False  #: the group is feasible once the victims have left
    victims: list[int] = []  #: pods that leave their nodes, whether or not the group fits then
    violating: list[int] = []  #: those of them that the group evicts as a whole against a budget
    n_violating: int = 0  #: how many units those are, single pods or groups
    n_effects: int = 0  #: changes of PostFilter plugins that hold whether or not the group fits
    placement: Placement | None = None  #: the nodes that were chosen, where the group has a topology key
    has_condition: bool = True  #: the scheduler writes its condition PodGroupScheduled


class MemberEnd(msgspec.Struct, frozen=True):
    """What becomes of a member once its group's cycle is over."""

    outcome: Outcome  #: SCHEDULED for a member that is bound now
    message: str = ""
    rejectors: frozenset[str] = frozenset()  #: the plugins that reject it
    nominated: int | None = None  #: the node for which it is nominated from now on
    drops_nomination: bool = False  #: it loses its nomination
    row: int | None = None  #: the node to which it is bound, where what it needs there is reserved (`reserved_ends`)


def reserved_ends(group: GroupResult, pods: Iterable[int]) -> Iterator[tuple[int, MemberEnd]]:
    """Yield pods of a group, each with what becomes of it, and reserve what it needs where it is bound."""
    members = {member.pod: member for member in group.members}
    for pod in pods:
        member = members.get(pod)
        end = end_of(group, member)
        if member is not None and end.outcome is Outcome.SCHEDULED:
            status = reserve_again(member)
            end = replace(end, row=member.row) if status.is_success else MemberEnd(Outcome.ERROR, status.message)
        yield pod, end


def end_of(group: GroupResult, member: Member | None) -> MemberEnd:
    """Return what becomes of a member, None if the cycle did not get to it. Upstream: submitPodGroupAlgorithmResult."""
    status = group.status
    if status.code is StatusCode.ERROR:
        own = member is not None and member.result.outcome is Outcome.ERROR
        message = member.result.message if member is not None and own else status.message
        return MemberEnd(Outcome.ERROR, message, drops_nomination=True)
    if member is None:
        return MemberEnd(Outcome.UNSCHEDULABLE, status.message)
    if member.fits and status.is_success:
        return MemberEnd(Outcome.SCHEDULED)
    if member.fits and group.waits:
        return MemberEnd(Outcome.UNSCHEDULABLE, status.message, nominated=member.row)
    if member.fits or (member.preempts and not group.waits):
        message = f"{GROUP_UNSCHEDULABLE}, {member.permit.message}" if member.permit.message else GROUP_UNSCHEDULABLE
        return MemberEnd(Outcome.UNSCHEDULABLE, message, drops_nomination=True)
    result = member.result
    rejectors = frozenset() if result.filter is None else result.filter.rejectors
    nominated = member.row if member.preempts else None
    # It loses its nomination where preemption was tried for it, and found no node.
    findings = None if result.post_filter is None else result.post_filter.findings
    drops = nominated is None and getattr(findings, "eligible", True)
    return MemberEnd(result.outcome, result.message, rejectors, nominated, drops)


class GroupTry(msgspec.Struct, frozen=True):
    """How a group's cycle has ended, in facts that outlast the state of the cluster."""

    status: Status
    fitting: frozenset[int]  #: members that fit in it without preemption
    waits: bool  #: the group is feasible once its victims have left
    misfit: int | None = None  #: the first member that fits nowhere
    topology: tuple[str, str] | None = None  #: the label and the value of the nodes that were chosen
    victims: tuple[int, ...] = ()
    violating: tuple[int, ...] = ()  #: those of them that the group evicts as a whole against a budget
    n_violating: int = 0  #: how many units those are, single pods or groups
    is_scheduled: bool | None = None  #: what its condition says, which stays True; None where it has none

    @staticmethod
    def of(group: GroupResult) -> GroupTry:
        placement = group.placement if group.status.is_success or group.waits else None
        return GroupTry(
            group.status,
            frozenset(member.pod for member in group.members if member.fits),
            group.waits,
            next((member.pod for member in group.members if member.row is None), None),
            None if placement is None or not placement.key else (placement.key, placement.value),
            tuple(dict.fromkeys(group.victims)),
            tuple(group.violating),
            group.n_violating,
            group.status.is_success if group.has_condition else None,
        )

    def after(self, before: GroupTry) -> GroupTry:
        """Return the facts with the victims of an earlier cycle, which have left since."""
        return replace(
            self,
            victims=tuple(dict.fromkeys((*before.victims, *self.victims))),
            violating=(*before.violating, *self.violating),
            n_violating=before.n_violating + self.n_violating,
            is_scheduled=before.is_scheduled or self.is_scheduled,
        )


def live_decisions(session: Session, group: GroupResult, pods: Sequence[int]) -> Iterator[CycleResult]:
    """Yield the decisions about members, live: all before a member are on their nodes, as the cycle saw it.

    Each member is filtered and scored once more for that; its node and its message stay. When the iteration ends the
    cluster is as before.
    """
    members = {member.pod: member for member in group.members}
    among = None if group.placement is None else group.placement.nodes
    start = session.sampling.start_index
    try:
        with _in_cycle(session, group.key, pods) as placed:
            for pod in pods:
                member = members.get(pod)
                end = end_of(group, member)
                result = CycleResult(pod, end.outcome, session=session) if member is None else member.result
                if member is not None and member.result.cycle is not None:
                    result = _seen_again(session, member, among)
                result.framework = result.framework or session.framework_for(session.cluster.pods.infos[pod])
                result.outcome, result.message = end.outcome, end.message
                result.row = member.row if member is not None and end.outcome is Outcome.SCHEDULED else None
                if group.placement is not None and group.placement.key:
                    result.among = group.placement.key, group.placement.value
                result.held_back = member is not None and member.fits and result.row is None
                result.awaits_victims = result.held_back and group.waits
                yield result
                if member is not None and member.row is not None:
                    session.cluster.assume(pod, member.row)
                    placed.append(Member(pod, result, member.row))
    finally:
        session.sampling.start_index = start


@contextmanager
def _in_cycle(session: Session, key: Key, pods: Sequence[int]) -> Iterator[list[Member]]:
    """Run the cycle of a group; members that are added to the list leave their nodes again when it ends."""
    groups = session.pod_groups
    groups.cycle = GroupCycle(key, len(groups.scheduled(key)))
    session.nominator.in_cycle = frozenset(pods)
    members: list[Member] = []
    try:
        yield members
    finally:
        for member in reversed(members):
            _revert(session, member)
        groups.cycle = None
        session.nominator.in_cycle = frozenset()


def _seen_again(session: Session, member: Member, among: BoolArray | None) -> CycleResult:
    """Return the decision about a member in the present state of the cluster, reserved on the node it was given."""
    random, session.random = session.random, None  # the draw among equal nodes was made before
    session.sampling.start_index = member.start
    result = schedule_pod(session, member.pod, is_member=True, among=among, looks_for_victims=False)
    session.random = random
    result.post_filter = member.result.post_filter
    if result.framework is not None and result.cycle is not None and result.row != member.row:
        if result.row is not None:
            result.framework.run_unreserve(result.cycle, result.row)
        if member.row is not None:
            result.framework.run_reserve(result.cycle, member.row)
    return result


def reserve_again(member: Member) -> Status:
    """Reserve what a member needs on its node, now for good."""
    framework, cycle = member.result.framework, member.result.cycle
    assert framework is not None  # noqa: S101 - the member has a node
    assert cycle is not None  # noqa: S101 - likewise
    assert member.row is not None  # noqa: S101 - likewise
    return framework.run_reserve(cycle, member.row)


def error_of_several_schedulers(names: Sequence[str]) -> str:
    """Return why a group is not tried whose members, in order, name these schedulers; empty if they agree."""
    other = next((name for name in names if name != names[0]), None)
    return "" if other is None else _SEVERAL_SCHEDULERS.format(other, names[0])


def schedule_group(session: Session, key: Key, pods: Sequence[int]) -> GroupResult:
    """Run a group's cycle for members without a node, in this order; nothing is bound, and nobody evicted.

    Nominations that DefaultPreemption clears are cleared, as they are upstream while the cycle runs.
    """
    result = try_group(session, key, pods, looks_for_victims=True)
    release = session.config.release
    if not release.is_on(PREEMPTION_GATE) or result.status.code is not StatusCode.UNSCHEDULABLE:
        return result
    status, victims = _preempt(session, key, pods)
    if status.is_success:
        result.waits = True
        result.victims += victims.pods
        result.violating, result.n_violating = victims.violating, victims.n_violating
    elif status.is_rejected:
        result.status = Status(result.status.code, (*result.status.reasons, status.message))
    else:
        result.status = status
    return result


def _preempt(session: Session, key: Key, pods: Sequence[int]) -> tuple[Status, GroupVictims]:
    """Look for victims of the whole group. Upstream: runWorkloadAwarePreemption."""
    framework = session.framework_for(session.cluster.pods.infos[pods[0]])
    plugins = [] if framework is None else framework.group_post_filter_plugins
    if not plugins:
        return Status.unschedulable(_NO_PREEMPTION), GroupVictims()
    group = session.pod_groups.groups.get(key)
    if group is None:
        return Status.error(
            f'failed to get pod group object: podgroup.scheduling.k8s.io "{key[1]}" not found'
        ), GroupVictims()
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        return Status.unschedulable(_NOT_WITH_CONSTRAINTS), GroupVictims()

    return plugins[0].pod_group_post_filter(
        group, pods, lambda: try_group(session, key, pods, looks_for_victims=False).status
    )


def try_group(session: Session, key: Key, pods: Sequence[int], *, looks_for_victims: bool) -> GroupResult:
    """Try members, on all nodes or where the topology key has one value. Upstream: podGroupSchedulingAlgorithm."""
    if not session.config.release.is_on(TOPOLOGY_GATE):
        return _try_members(session, key, pods, looks_for_victims=looks_for_victims)
    placements = placements_of(session, key)
    if isinstance(placements, Status):
        return GroupResult(key, [], placements)
    results: list[GroupResult] = []
    for placement in placements:
        result = _try_members(session, key, pods, looks_for_victims=looks_for_victims, among=placement.nodes)
        if result.status.code is StatusCode.ERROR:
            return result
        result.placement = placement
        results.append(result)
    successes = [result for result in results if result.status.is_success or result.waits]
    if not successes:
        text = f"0/{len(results)} placements are available, first placement status: {GROUP_UNSCHEDULABLE}"
        results[0].status = Status.unschedulable(text)
        return results[0]
    return successes[0] if len(successes) == 1 else _best(session, successes)


def _try_members(
    session: Session, key: Key, pods: Sequence[int], *, looks_for_victims: bool, among: BoolArray | None = None
) -> GroupResult:
    """Try the members one after the other; each that fits counts as placed for those after it."""
    requires_preemption = False
    with _in_cycle(session, key, pods) as members:
        group = GroupResult(key, members, Status.unschedulable(GROUP_UNSCHEDULABLE))
        for pod in pods:
            member = _try_member(session, pod, looks_for_victims=looks_for_victims, among=among)
            members.append(member)
            if member.result.post_filter is not None:
                group.n_effects += len(member.result.post_filter.effects)
            if member.row is None:
                if member.result.outcome is not Outcome.ERROR:
                    continue
                text = f"failed to schedule other pod from a pod group: {member.result.message}"
                group.status, group.waits = Status.error(text), False
                break
            if member.preempts and member.result.post_filter is not None:
                group.victims += [v for v in member.result.post_filter.victims if v not in group.victims]
            requires_preemption |= member.preempts
            if member.permit.is_success and requires_preemption:
                group.status = Status.unschedulable(GROUP_UNSCHEDULABLE, WAITS_FOR_PREEMPTION)
                group.waits = True
            elif member.permit.is_success:
                group.status = SUCCESS
    return group


def _try_member(session: Session, pod: int, *, looks_for_victims: bool, among: BoolArray | None) -> Member:
    start = session.sampling.start_index
    result = schedule_pod(session, pod, is_member=True, among=among, looks_for_victims=looks_for_victims)
    framework, cycle, post_filter = result.framework, result.cycle, result.post_filter
    row = result.row
    member = Member(pod, result, start=start)
    if framework is None or cycle is None:
        return member
    if post_filter is not None:
        for take_effect in post_filter.effects:
            take_effect()
        if post_filter.nominated_row is not None:
            row, member.preempts = post_filter.nominated_row, True
            for cleared in post_filter.cleared_nominations:
                session.nominator.drop(cleared)
            status = framework.run_reserve(cycle, row)
            if not status.is_success:
                member.preempts = False
                result.turn_down(status)
                return member
    if row is None:
        return member
    session.cluster.assume(pod, row)
    member.row = row
    member.permit = framework.run_permit(cycle, row)
    if not (member.permit.is_success or member.permit.is_wait):
        _revert(session, member)
        member.row, member.preempts = None, False
        result.turn_down(member.permit)
    return member


def _revert(session: Session, member: Member) -> None:
    framework, cycle = member.result.framework, member.result.cycle
    if member.row is None or framework is None or cycle is None:
        return
    framework.run_unreserve(cycle, member.row)
    session.cluster.unbind(member.pod, is_trial=True)
