"""Schedule waiting pods again with something changed: a pod with its replicas, or a whole pod group.

A case is a pod that fits nowhere, for itself and its replicas or for the members of its group, and offers what helps.
Every trial is made in a fork of the session, so that nothing that is tried is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.scheduling import PodGroup
from kplan.changes import remedy as r
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.details import Detail
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Verdicts
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.group_cycle import (
    GroupResult,
    error_of_several_schedulers,
    live_decisions,
    reserve_again,
    schedule_group,
    try_group,
)
from kplan.framework.listers import Key
from kplan.framework.pod_groups import PREEMPTION_GATE, WORKLOAD_GATE, group_of
from kplan.framework.session import Session
from kplan.preemption.default_preemption import preemptors, units_of
from kplan.preemption.dry_run import AllowedDisruptions
from kplan.remedies.node_shapes import NodeShape, added_nodes
from kplan.rules.pod_info import PodInfo

# The filter plugins whose rejections suggest what would help.
FIT, TAINTS, CORDON, HOST_PORTS = "NodeResourcesFit", "TaintToleration", "NodeUnschedulable", "NodePorts"
NODE_AFFINITY, POD_AFFINITY, SPREAD = "NodeAffinity", "InterPodAffinity", "PodTopologySpread"

MOST_TRIED = 3  #: at most so many changes of one sort are tried
MOST_TRIALS, MOST_PLACED = 48, 160
"""At most so many trials of one pod, and so many decisions about its replicas in all of them."""

MOST_DECISIONS = 4000  #: at most this many decisions about the members of a group, over all trials

_encoder = msgspec.json.Encoder(order="deterministic")


Rows = tuple[int, ...]  #: rows of pods, or of nodes


class Trial(msgspec.Struct, frozen=True, eq=False):
    """What a trial changes; nothing by default."""

    edit: Callable[[Pod], Pod] | None = None  #: of the pending pods in `edited`
    edited: frozenset[int] | None = None  #: rows of pods; None for all
    group: PodGroup | None = None  #: what the group is instead
    like: NodeShape | None = None  #: nodes that are added
    number: int = 0  #: how many of these
    nodes: NodeTable | None = None  #: the nodes as they are instead
    leaving: Rows = ()  #: running pods that run elsewhere afterwards
    ended: Rows = ()  #: running pods that are gone
    objects: tuple[msgspec.Struct, ...] = ()  #: claims that are replaced, or added
    more: int = 0  #: further members like the last one
    preempts: bool = False  #: the pods may evict others


NO_CHANGE = Trial()


class End(msgspec.Struct, frozen=True):
    """How a trial has ended."""

    runs: int = 0  #: how many of the pending pods run
    fit: int = 0  #: how many of them find a node, whether or not their group runs then
    node: str = ""  #: of the first pod, where it is no member of a group
    victims: Rows = ()  #: pods that are evicted for it
    goes_to: tuple[str, ...] = ()  #: the new nodes of the pods that left, in their order
    is_known: bool = True  #: not more pods run than `runs`, for certain


NOBODY = End()


class Trials:
    """Tries pods again that wait.

    `live`: the session after which they wait; it is only forked. `pending`: rows of the members of a group without a
    node, or the row of a pod. `key`: of the group; None for a pod. `of`: how many pods like that one wait, in all.
    `most`: how many decisions about members may be made.
    """

    def __init__(
        self, live: Session, pending: Sequence[int], key: Key | None = None, *, of: int = 1, most: int = MOST_DECISIONS
    ) -> None:
        infos = live.cluster.pods.infos
        self.live, self.key, self.left_to_place = live, key, MOST_PLACED
        self.left = MOST_TRIALS if key is None else most
        self.pending = sorted(
            (row for row in pending if key is None or not (row in live.refused or infos[row].is_terminating)),
            key=lambda row: -infos[row].priority,
        )
        self.of = of if key is None else len(self.pending)
        self.rests = self.fits = 0  #: how many pods run, and find a node, without a change

    @property
    def group(self) -> PodGroup | None:
        """The group without any change."""
        return None if self.key is None else self.live.pod_groups.groups.get(self.key)

    @cached_property
    def budgets(self) -> AllowedDisruptions:
        """The disruption budgets, with what they allow now."""
        known = (plugin.budgets for plugin in preemptors(self.live))
        return next(known, None) or AllowedDisruptions(self.live.listers.pod_disruption_budgets)

    def all_run(self, trial: Trial) -> bool:
        return self.end(trial).runs == self.of

    def end(self, trial: Trial) -> End:
        """Return how a trial ends; as if nobody ran after the last decision that is allowed."""
        if trial.more > self.left or self.left <= 0:
            return NOBODY
        return self._end_of_pods(trial) if self.key is None else self._end_of_group(self.key, trial)

    def _end_of_pods(self, trial: Trial) -> End:
        self.left -= 1
        session, (row, *_) = self._fork(trial)
        first = _schedule(session, row, looks_for_victims=trial.preempts)
        node_row, victims = first.row, tuple[int, ...]()
        if trial.preempts:
            post_filter = first.post_filter
            findings = None if post_filter is None else post_filter.findings
            breaks = findings is not None and any(victim.pdb_violation for victim in findings.victims())
            if post_filter is None or breaks:
                return NOBODY
            node_row, victims = post_filter.nominated_row, tuple(post_filter.victims)
        if node_row is None:
            return NOBODY
        for victim in victims:
            session.evict(victim)
        session.bind(row, node_row)
        goes_to = self.places_of(session, trial.leaving)
        if goes_to is None:
            return End(fit=1)
        further = 0 if trial.preempts else min(self.of - 1, self.left_to_place)
        placed = self._place(session, session.cluster.pods.infos[row].pod, further)
        is_known = placed < further or further == self.of - 1
        name = session.cluster.nodes.names[node_row]
        return End(1 + placed, 1 + placed, name, victims, goes_to, is_known)

    def _place(self, session: Session, pod: Pod, number: int) -> int:
        """Place copies of a pod until one finds no node, and return how many do."""
        for done in range(number):
            self.left_to_place -= 1
            metadata = replace(pod.metadata, name=f"{pod.metadata.name}-{done}", uid=f"{pod.metadata.uid}-{done}")
            row = session.add_pod(PodInfo(replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""))))
            result = schedule_pod(session, row, looks_for_victims=False)
            if result.row is None:
                return done
            session.bind(row, result.row)
        return number

    def places_of(self, session: Session, rows: Iterable[int]) -> tuple[str, ...] | None:
        """Return where pods go that have left their nodes, one after the other; None unless all find one."""
        goes_to = []
        for row in rows:
            pod = session.cluster.pods.infos[row].pod
            again = session.add_pod(PodInfo(replace(pod, spec=replace(pod.spec, node_name=""))))
            self.left -= self.key is not None
            result = schedule_pod(session, again, looks_for_victims=False)
            if result.row is None:
                return None
            session.bind(again, result.row)
            goes_to.append(session.cluster.nodes.names[result.row])
        return tuple(goes_to)

    def _end_of_group(self, key: Key, trial: Trial) -> End:
        session, rows = self._fork(trial)
        pods = _in_turn(session, rows)
        units = self._units(session, key) if trial.preempts else 0
        self.left -= len(pods) * (1 + units)
        if not pods or self.left < 0:
            return NOBODY
        group = schedule_group(session, key, pods) if trial.preempts else _without_victims(session, key, pods)
        fit = sum(member.fits for member in group.members)
        if not (group.status.is_success or group.waits):
            return End(fit=fit)
        victims = tuple(dict.fromkeys(group.victims))
        if group.waits:
            for victim in victims:
                session.evict(victim)
            session.pod_groups.remove(victims)
            group = _without_victims(session, key, pods)
        for member in group.members if trial.leaving else ():
            if member.row is not None and reserve_again(member).is_success:
                session.bind(member.pod, member.row)
        goes_to = self.places_of(session, trial.leaving)
        if not group.status.is_success or goes_to is None:
            return End(fit=fit)
        return End(sum(member.row is not None for member in group.members), fit, "", victims, goes_to)

    def misfits(self, trial: Trial = NO_CHANGE) -> Iterator[tuple[Session, CycleResult]]:
        """Yield the decision about the first pod of each kind that fits nowhere, live, with a session to fork."""
        session, rows = self._fork(trial)
        if self.key is None:
            self.left -= 1
            result = _schedule(session, rows[0], looks_for_victims=False)
            if result.row is None:
                yield session, result
            return
        pods = _in_turn(session, rows)
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
        pods = _in_turn(session, rows)
        if pods and self.key is not None:
            group = try_group(session, self.key, pods, looks_for_victims=True)
            yield from ((session, result) for result in live_decisions(session, group, pods))

    def _units(self, session: Session, key: Key) -> int:
        """Return how often the group is tried while its victims are looked for, at most."""
        if not session.config.release.is_on(PREEMPTION_GATE):
            return 1
        group = session.pod_groups.groups.get(key)
        priority = 0 if group is None else group.spec.priority or 0
        return sum(unit.priority < priority for unit in units_of(session.cluster, session.pod_groups.groups)) + 1

    def _fork(self, trial: Trial) -> tuple[Session, list[int]]:
        """Return a fork of the session with a change, and the rows of the pending pods in it."""
        live = self.live
        listers = None
        objects = [*live.reserved_objects().objects, *trial.objects]
        if objects or live.listers.device_claims or trial.like is not None:
            listers = live.listers.fork()
            listers.device_claims = list(live.listers.device_claims)
            if objects or listers.device_claims:
                listers.store(objects)
        session = live.fork(listers, trial.nodes)
        if trial.like is not None and trial.number:
            added = added_nodes(trial.like, trial.number, live.listers.snapshot)
            session.grow(added.nodes, added.published)
            for pod in added.daemons:
                session.cluster.bind(session.add_pod(PodInfo(pod)), session.cluster.nodes.row_of[pod.spec.node_name])
        for plugin in preemptors(session):
            plugin.budgets = self.budgets
        for row in (*trial.leaving, *trial.ended):
            session.evict(row)
        if self.key is not None:
            groups = session.pod_groups
            groups.begin_as(live.pod_groups)
            groups.remove(trial.leaving)
            if trial.group is not None:
                groups.groups[self.key] = trial.group
        return session, self._changed(session, trial)

    def _changed(self, session: Session, trial: Trial) -> list[int]:
        """Put the changed pods into a session, in place of those that they were; return the rows of all."""
        infos, rows = session.cluster.pods.infos, list[int]()
        for row in self.pending:
            session.nominator.drop(row)
            if trial.edit is None or (trial.edited is not None and row not in trial.edited):
                rows.append(row)
                continue
            if self.key is not None:
                session.pod_groups.remove([row])
            rows.append(session.add_pod(PodInfo(trial.edit(infos[row].pod))))
        for number in range(trial.more if rows else 0):
            pod = infos[rows[-1]].pod
            metadata = replace(pod.metadata, name=f"{pod.metadata.name}-more-{number}", uid=f"more-{number}")
            rows.append(session.add_pod(PodInfo(replace(pod, metadata=metadata))))
        return rows


def kind_of(pod: Pod) -> bytes:
    """Return what members of one kind share: all that they ask for, save what each may have of its own."""
    return _encoder.encode(replace(pod.spec, volumes=(), resource_claims=(), node_name=""))


def _in_turn(session: Session, rows: Sequence[int]) -> list[int]:
    """Return the members that the scheduler tries: those that nothing keeps out of the queue."""
    infos = session.cluster.pods.infos
    known = ((row, session.framework_for(infos[row])) for row in rows)
    pods = [row for row, own in known if own is not None and own.run_pre_enqueue(infos[row]).is_success]
    names = [infos[row].pod.spec.scheduler_name for row in pods]
    return [] if names and error_of_several_schedulers(names) else pods


def _without_victims(session: Session, key: Key, pods: Sequence[int]) -> GroupResult:
    return try_group(session, key, pods, looks_for_victims=False)


def _schedule(session: Session, row: int, *, looks_for_victims: bool) -> CycleResult:
    """Schedule a pod; one of a group as in its group's cycle, in which it does not wait for the others."""
    is_member = session.config.release.is_on(WORKLOAD_GATE) and group_of(session.cluster.pods.infos[row]) is not None
    return schedule_pod(session, row, looks_for_victims=looks_for_victims, is_member=is_member)


class NearMisses:
    """The verdicts of the filters on a pod, by plugin; live as long as the decision is.

    Attributes
    ----------
    rows : node row of each position in the verdicts
    verdicts : plugin -> its verdicts
    """

    def __init__(self, outcome: FilterOutcome) -> None:
        self.rows = outcome.filtered_rows
        self.verdicts: dict[str, Verdicts] = dict(outcome.verdicts)

    @cached_property
    def _n_rejecting(self) -> Int64Array:
        return self._number_of(self.verdicts)

    def _number_of(self, plugins: Iterable[str]) -> Int64Array:
        """Return how many of some plugins reject each position."""
        total = np.zeros(len(self.rows), np.int64)
        for name in plugins:
            if name in self.verdicts:
                total += self.verdicts[name].bits != 0
        return total

    def only(self, *plugins: str) -> RowArray:
        """Return the positions that one or more of these plugins reject and no other plugin does."""
        rejecting = self._number_of(plugins)
        return np.flatnonzero((rejecting > 0) & (rejecting == self._n_rejecting))

    def rejected(self, plugin: str, *, but_not: str) -> RowArray:
        """Return the positions that a plugin rejects, and another one does not."""
        other = self.verdicts.get(but_not)
        is_rejected = self.verdicts[plugin].bits != 0
        return np.flatnonzero(is_rejected if other is None else is_rejected & (other.bits == 0))

    @cached_property
    def rejecting(self) -> set[str]:
        """The plugins that reject any node."""
        return {name for name, verdict in self.verdicts.items() if verdict.bits.any()}

    def details_at(self, plugin: str, position: int) -> Iterator[Detail]:
        for reason in self.verdicts[plugin].reasons_at(position):
            yield from () if reason.details is None else reason.details(position)

    def details(self) -> Iterator[Detail]:
        """Yield the details of the first node that each plugin rejects."""
        for plugin in self.rejecting:
            yield from self.details_at(plugin, int(np.flatnonzero(self.verdicts[plugin].bits)[0]))

    def by_single_reason(self, plugin: str) -> list[tuple[int, int]]:
        """List the closest node for each reason of a plugin, where the node is rejected for this reason alone.

        Returns
        -------
        (position, shortfall) of these nodes; reasons whose shortfall cannot be measured are left out
        """
        if (verdict := self.verdicts.get(plugin)) is None:
            return []
        positions, closest = self.only(plugin), []
        for k, reason in enumerate(verdict.reasons):
            rejected = positions[verdict.bits[positions] == 1 << k]
            if reason.shortfall is not None and len(rejected):
                missing = reason.shortfall(rejected)
                best = int(missing.argmin())
                closest.append((int(rejected[best]), int(missing[best])))
        return closest


R = TypeVar("R", bound=r.RemedyBase)


class Offer(msgspec.Struct, frozen=True, eq=False):
    """A remedy that was tried, and helps; or one that cannot be tried."""

    remedy: r.Remedy
    pod: Pod | None = None  #: the changed pod, where the pod changes


Offers = Iterator[Offer]


class Case:
    """A pod that fits nowhere, or a member of a group that waits.

    `trials`: of the pod with its replicas, or of its group. `session`: the state of the cluster in which the decision
    was made; it is only forked. `result`: the decision, while it is live; None for the group as a whole.
    """

    def __init__(self, trials: Trials, session: Session, row: int, result: CycleResult | None = None) -> None:
        self.trials, self.live, self.row, self.result = trials, session, row, result
        self.info = session.cluster.pods.infos[row]
        outcome = None if result is None else result.filter
        self.misses = None if outcome is None or outcome.pre_filter_status is not None else NearMisses(outcome)
        self.rows: frozenset[int] | None = None  #: of the members of its group that are like it; None for a pod
        self.not_enough: list[Offer] = []  #: what was tried of the pod, and does not help by itself
        if trials.key is not None:
            infos, kind = trials.live.cluster.pods.infos, kind_of(self.pod)
            self.rows = frozenset(row for row in trials.pending if kind_of(infos[row].pod) == kind)

    @property
    def pod(self) -> Pod:
        """The pod without any change."""
        return self.info.pod

    def edit(self, changed: Pod) -> Trial:
        """Return the trial in which the pod, and those like it, have become a changed pod."""
        return Trial(edit=(lambda _: changed) if self.rows is None else as_one_like(changed), edited=self.rows)

    def changed(self, remedy: R, pod: Pod) -> Offers:
        """Offer a remedy with which the pod becomes a changed pod."""
        offers = list(self.tried(replace(remedy, members=self.members_of(self.rows)), self.edit(pod)))
        yield from (replace(offer, pod=pod) for offer in offers)
        if not offers:
            self.not_enough.append(Offer(remedy, pod))  # type: ignore[arg-type] # every kind is one of Remedy

    def tried(self, remedy: R, trial: Trial) -> Offers:
        """Offer a remedy that is a trial."""
        yield from self.ended(remedy, self.trials.end(trial))

    def ended(self, remedy: R, end: End) -> Offers:
        """Offer a remedy whose trial has ended, where more pods run then."""
        trials = self.trials
        if end.runs > trials.rests:
            helps = r.Helped(end.runs, trials.of) if trials.of > 1 and end.is_known else UNSET
            fields: dict[str, Any] = {"then": end.node or None, "helps": helps}
            yield Offer(replace(remedy, **fields))  # type: ignore[arg-type] # every kind is one of Remedy

    def members_of(self, rows: Iterable[int] | None) -> tuple[str, ...] | UnsetType:
        """Return the names of members; absent where those are all that wait, or the pod is on its own."""
        if rows is None:
            return UNSET
        names = tuple(sorted(self.trials.live.cluster.pods.infos[row].key for row in rows))
        return UNSET if len(names) == self.trials.of else names


def as_one_like(changed: Pod) -> Callable[[Pod], Pod]:
    """Return what makes a pod what another one like it has become; what each has of its own stays."""

    def edit(pod: Pod) -> Pod:
        own = pod.spec
        spec = replace(changed.spec, volumes=own.volumes, resource_claims=own.resource_claims, node_name=own.node_name)
        return replace(pod, spec=spec)

    return edit


def first_that_helps(ways: Iterable[Offers]) -> Offers:
    """Offer what the first of several ways offers that has something to offer."""
    for way in ways:
        offers = list(way)
        yield from offers
        if offers:
            return


def without_needless(rows: Rows, is_enough: Callable[[Rows], bool]) -> Rows:
    """Return rows that are enough, without those that the others do not need: one after the other is left out."""
    for row in rows:
        fewer = tuple(other for other in rows if other != row)
        if fewer and is_enough(fewer):
            rows = fewer
    return rows


def least(most: int, is_enough: Callable[[int], bool]) -> int:
    """Return the least number up to `most` that is enough, where more of it never hurts; 0 where even that is not."""
    low, high = 0, 1
    while high < most and not is_enough(high):
        low, high = high, high * 2
    high = min(high, most)
    if most < 1 or (high == most and not is_enough(high)):
        return 0
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
