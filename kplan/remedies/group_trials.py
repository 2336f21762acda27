"""Schedule a whole pod group again with something changed, each time in a fork of the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.scheduling import PodGroup
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.group_cycle import (
    GroupResult,
    error_of_several_schedulers,
    live_decisions,
    reserve_again,
    schedule_group,
    try_group,
)
from kplan.framework.listers import PREEMPTION_GATE, Key
from kplan.framework.session import Session
from kplan.plugins.node_unschedulable import UNSCHEDULABLE_TAINT
from kplan.preemption import preemptors
from kplan.preemption.default_preemption import units_of
from kplan.remedies.node_shapes import NodeShape, added_nodes
from kplan.remedies.trials import budgets_of, without_taints
from kplan.rules.pod_info import PodInfo

MOST_DECISIONS = 4000
"""At most this many decisions about the members of a group, over all trials."""

_encoder = msgspec.json.Encoder(order="deterministic")


class GroupChange(msgspec.Struct, frozen=True):
    """What a trial changes; nothing by default."""

    edit: Callable[[Pod], Pod] | None = None  #: of the pending members in `edited`
    edited: frozenset[int] | None = None  #: rows of members; None for all
    group: PodGroup | None = None  #: what the group is instead
    like: NodeShape | None = None  #: nodes that are added
    number: int = 0  #: how many of these
    uncordoned: tuple[int, ...] = ()  #: rows of nodes
    leaving: tuple[int, ...] = ()  #: running pods that run elsewhere afterwards
    more: int = 0  #: further members like the last one
    preempts: bool = False  #: the group may evict others


NO_CHANGE = GroupChange()


class GroupEnd(msgspec.Struct, frozen=True):
    """How a trial has ended."""

    runs: int = 0  #: how many of the pending members run
    fit: int = 0  #: how many of them find a node, whether or not the group runs then
    victims: tuple[int, ...] = ()  #: pods that are evicted for it
    goes_to: tuple[str, ...] = ()  #: the new nodes of the pods that left, in their order


NOBODY = GroupEnd()


class GroupTrials:
    """Tries a group again whose members wait.

    Parameters
    ----------
    live : the session after which the group waits; it is only forked
    pending : rows of its members without a node
    """

    def __init__(self, live: Session, key: Key, pending: Sequence[int], most: int = MOST_DECISIONS) -> None:
        infos = live.cluster.pods.infos
        self.live, self.key, self.left = live, key, most
        self.pending = sorted(
            (row for row in pending if row not in live.refused and not infos[row].is_terminating),
            key=lambda row: -infos[row].priority,
        )

    @property
    def group(self) -> PodGroup | None:
        """The group without any change."""
        return self.live.pod_groups.groups.get(self.key)

    def runs(self, change: GroupChange) -> int:
        return self.end(change).runs

    def end(self, change: GroupChange) -> GroupEnd:
        """Return how the group ends with a change; as if nobody ran after the last decision that is allowed."""
        if change.more > self.left or self.left <= 0:
            return NOBODY
        session, rows = self._fork(change)
        pods = self._in_turn(session, rows)
        units = self._units(session) if change.preempts else 0
        self.left -= len(pods) * (1 + units)
        if not pods or self.left < 0:
            return NOBODY
        group = (
            schedule_group(session, self.key, pods) if change.preempts else _without_victims(session, self.key, pods)
        )
        fit = sum(member.fits for member in group.members)
        if not (group.status.is_success or group.waits):
            return GroupEnd(fit=fit)
        victims = tuple(dict.fromkeys(group.victims))
        if group.waits:
            for victim in victims:
                session.evict(victim)
            session.pod_groups.remove(victims)
            group = _without_victims(session, self.key, pods)
        goes_to = self._placed_again(session, group, change.leaving)
        if not group.status.is_success or goes_to is None:
            return GroupEnd(fit=fit)
        return GroupEnd(sum(member.row is not None for member in group.members), fit, victims, goes_to)

    def misfits(self, change: GroupChange = NO_CHANGE) -> Iterator[tuple[Session, CycleResult]]:
        """Yield the decision about the first member of each kind that fits nowhere, live, with a session to fork."""
        session, rows = self._fork(change)
        pods = self._in_turn(session, rows)
        self.left -= 2 * len(pods)
        if not pods or self.left < 0:
            return
        kinds: set[bytes] = set()
        for result in live_decisions(session, _without_victims(session, self.key, pods), pods):
            kind = kind_of(session.cluster.pods.infos[result.pod].pod)
            if result.row is None and not result.held_back and result.filter is not None and kind not in kinds:
                kinds.add(kind)
                yield session, result

    def decisions(self) -> Iterator[tuple[Session, CycleResult]]:
        """Yield the decisions about all members that are tried, live, each with its session: nothing is changed."""
        session, rows = self._fork(NO_CHANGE)
        pods = self._in_turn(session, rows)
        if pods:
            group = try_group(session, self.key, pods, looks_for_victims=True)
            yield from ((session, result) for result in live_decisions(session, group, pods))

    def _in_turn(self, session: Session, rows: Sequence[int]) -> list[int]:
        """Return the members that the scheduler tries: those that nothing keeps out of the queue."""
        infos, pods = session.cluster.pods.infos, []
        for row in rows:
            framework = session.framework_for(infos[row])
            if framework is not None and framework.run_pre_enqueue(infos[row]).is_success:
                pods.append(row)
        names = [infos[row].pod.spec.scheduler_name for row in pods]
        return [] if names and error_of_several_schedulers(names) else pods

    def _units(self, session: Session) -> int:
        """Return how often the group is tried while its victims are looked for, at most."""
        if not session.config.release.is_on(PREEMPTION_GATE):
            return 1
        group = session.pod_groups.groups.get(self.key)
        priority = 0 if group is None else group.spec.priority or 0
        return sum(unit.priority < priority for unit in units_of(session.cluster, session.pod_groups.groups)) + 1

    def _fork(self, change: GroupChange) -> tuple[Session, list[int]]:
        """Return a fork of the session with a change, and the rows of the pending members in it."""
        live = self.live
        listers = live.listers.fork()
        listers.device_claims = list(live.listers.device_claims)
        reserved = live.reserved_objects()
        if reserved or listers.device_claims:
            listers.store(reserved)
        uncordoned = without_taints(live, change.uncordoned, [UNSCHEDULABLE_TAINT.key]) if change.uncordoned else None
        session = live.fork(listers, uncordoned)
        if change.like is not None and change.number:
            nodes, daemons = added_nodes(change.like, change.number, live.listers.snapshot)
            session.grow(nodes)
            for pod in daemons:
                session.cluster.bind(session.add_pod(PodInfo(pod)), session.cluster.nodes.row_of[pod.spec.node_name])
        for plugin in preemptors(session):
            plugin.budgets = budgets_of(live)
        for row in change.leaving:
            session.evict(row)
        groups = session.pod_groups
        groups.groups |= live.pod_groups.groups
        known = live.pod_groups.members(self.key)
        groups.remove([row for row in groups.members(self.key) if row not in set(known)])
        groups.remove(change.leaving)
        if change.group is not None:
            groups.groups[self.key] = change.group
        return session, self._changed(session, change)

    def _changed(self, session: Session, change: GroupChange) -> list[int]:
        """Put the changed members into a session, in place of those that they were; return the rows of all."""
        infos, groups = session.cluster.pods.infos, session.pod_groups
        rows = []
        for row in self.pending:
            session.nominator.drop(row)
            if change.edit is None or (change.edited is not None and row not in change.edited):
                rows.append(row)
                continue
            pod = change.edit(infos[row].pod)
            groups.remove([row])
            rows.append(session.add_pod(PodInfo(pod)))
        for number in range(change.more if rows else 0):
            pod = infos[rows[-1]].pod
            metadata = replace(pod.metadata, name=f"{pod.metadata.name}-more-{number}", uid=f"more-{number}")
            rows.append(session.add_pod(PodInfo(replace(pod, metadata=metadata))))
        return rows

    def _placed_again(self, session: Session, group: GroupResult, leaving: Sequence[int]) -> tuple[str, ...] | None:
        """Return where pods go that have left, once the group runs; None unless all find a node."""
        if not leaving:
            return ()
        for member in group.members:
            if member.row is not None and reserve_again(member).is_success:
                session.bind(member.pod, member.row)
        goes_to = []
        for row in leaving:
            pod = session.cluster.pods.infos[row].pod
            again = session.add_pod(PodInfo(replace(pod, spec=replace(pod.spec, node_name=""))))
            self.left -= 1
            result = schedule_pod(session, again, looks_for_victims=False)
            if result.row is None:
                return None
            session.bind(again, result.row)
            goes_to.append(session.cluster.nodes.names[result.row])
        return tuple(goes_to)


def kind_of(pod: Pod) -> bytes:
    """Return what members of one kind share: all that they ask for, save what each may have of its own."""
    return _encoder.encode(replace(pod.spec, volumes=(), resource_claims=(), node_name=""))


def _without_victims(session: Session, key: Key, pods: Sequence[int]) -> GroupResult:
    return try_group(session, key, pods, looks_for_victims=False)
