"""Place replicas until one does not fit, and count them; an autoscaler may add nodes for those that fit nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle, islice, repeat

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.admission.limits import QuotaLedger, Rejection
from kplan.api.core import Pod
from kplan.capacity.templates import Template
from kplan.cluster.base import Base
from kplan.cluster.runs import bind_or_evict, nominates
from kplan.course.answers.placement import Placement, last_placement, member_placement
from kplan.course.answers.pod_groups import group_plan
from kplan.course.growth import Growth, join_nodes
from kplan.documents.placement import GroupPlan
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.facts import InputWarning
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.group_cycle import GroupResult, GroupTry, reserve_again, schedule_group, try_group
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.results import CycleState, Outcome, PluginError, Status
from kplan.framework.runtime import Framework
from kplan.framework.session import Session
from kplan.remedies.replicas import ALONE
from kplan.rules.pod_info import PodInfo, unschedulable


class StoppedGroup(msgspec.Struct, frozen=True):
    """The first group that is not whole, whose pods are pending."""

    key: Key
    pods: tuple[int, ...]
    tried: GroupTry | None  #: how its cycle has ended; None where its pods are kept out of the queue

    @property
    def misfit(self) -> int:
        return self.pods[0] if self.tried is None or self.tried.misfit is None else self.tried.misfit


class Fit(msgspec.Struct):
    """The replicas that fit, and what stops the next one."""

    #: (template, node row) -> number of replicas
    placed: Counter[tuple[int, int]] = msgspec.field(default_factory=Counter)
    counts: list[int] = []  #: number of placed replicas of each template
    evicted: list[int] = []  #: pods that the replicas evict, where that is allowed
    #: the decision about the first replica that does not fit, live (see `kplan.cluster.runs`); None when all fit
    stop: CycleResult | None = None
    stopped_template: int | None = None  #: the template of that replica
    exhausted_template: int | None = None  #: the template whose last distinct replica fits, which ends the count
    n_before: int = 0  #: how many pods there were before the replicas
    stopped_group: StoppedGroup | None = None  #: the group of the replica that does not fit
    domains: list[tuple[int, str]] = []  #: template and value of the topology key of placed groups, in order

    @property
    def total(self) -> int:
        return sum(self.counts)

    def resumed(self) -> Fit:
        """Return the same replicas, to which more are to come."""
        return Fit(self.placed.copy(), [*self.counts], [*self.evicted], n_before=self.n_before, domains=[*self.domains])


def place_group(session: Session, template: Template, index: int, refused: str, fit: Fit, *, preempt: bool) -> bool:
    """Place the next group of a template as a whole; tell whether it is whole, and note in `fit` what came of it.

    `refused` is why the API server refuses one of its pods; empty if it accepts all.
    """
    copied = template.group_like(fit.counts[index])
    if copied is None:
        fit.exhausted_template = index
        return False
    group, infos = copied
    key = (group.metadata.namespace, group.metadata.name)
    session.pod_groups.groups[key] = group
    session.pod_groups.remove(session.pod_groups.unscheduled(key))  # of a try on fewer nodes
    rows = [session.add_pod(info) for info in infos]
    for row in rows if refused else ():
        session.refused[row] = refused
    tried = None if refused else _tried(session, key, rows, fit, preempt=preempt)
    fits = tried is not None and tried.status.is_success and all(member.fits for member in tried.members)
    if tried is None or not fits or len(tried.members) < len(rows) or template.n_more:
        fit.stopped_group = StoppedGroup(key, tuple(rows), None if tried is None else GroupTry.of(tried))
        fit.stop = schedule_pod(session, fit.stopped_group.misfit, looks_for_victims=False)
        if fit.stop.row is not None:  # it fits where its group may not run
            fit.stop.outcome, fit.stop.row = Outcome.UNSCHEDULABLE, None
        fit.stopped_template = index
        return False
    for member in tried.members:
        if member.row is not None and reserve_again(member).is_success:
            session.bind(member.pod, member.row)
            fit.placed[index, member.row] += 1
    if tried.placement is not None and tried.placement.key:
        fit.domains.append((index, tried.placement.value))
    fit.counts[index] += 1
    return True


def _tried(session: Session, key: Key, rows: Sequence[int], fit: Fit, *, preempt: bool) -> GroupResult | None:
    """Try a group, after its victims have left where it may evict; None where its pods are kept out of the queue."""
    infos = session.cluster.pods.infos
    for row in rows:
        framework = session.framework_for(infos[row])
        if framework is None or not framework.run_pre_enqueue(infos[row]).is_success:
            return None
    pods = sorted(rows, key=lambda row: -infos[row].priority)
    group = schedule_group(session, key, pods) if preempt else try_group(session, key, pods, looks_for_victims=False)
    if not group.waits:
        return group
    victims = list(dict.fromkeys(group.victims))
    if any(victim >= fit.n_before for victim in victims):
        return group  # it would only take the place of another group that is counted
    for victim in victims:
        session.evict(victim)
    session.pod_groups.remove(victims)
    again = try_group(session, key, pods, looks_for_victims=False)
    if again.status.is_success:
        fit.evicted += victims
    return again


def stop_of(
    session: Session, templates: Sequence[Template], fit: Fit
) -> tuple[Placement, GroupPlan | None] | tuple[None, None]:
    """Return the decision about the first pod that does not fit, and what becomes of its group, if it has one.

    The session never changes after that.
    """
    origin, stopped = templates[fit.stopped_template or 0].origin, fit.stopped_group
    if fit.stop is None:
        return None, None
    if stopped is None:
        return last_placement(session, fit.stop, origin), None
    placement = member_placement(session, stopped.misfit, stopped.pods, ALONE, origin)
    tried = stopped.tried or GroupTry(Status.unschedulable(), frozenset(), waits=False)
    last = replace(tried, victims=(), violating=(), n_violating=0)
    ends, messages = dict.fromkeys(stopped.pods, False), {stopped.misfit: placement.message}
    is_gated = stopped.tried is None and placement.outcome is Outcome.GATED
    return placement, group_plan(session, stopped.key, ends, last, messages, is_gated=is_gated, n_groups=1)


def fill_at_once(session: Session, info: PodInfo, limit: int | None) -> dict[int, int] | None:
    """Place replicas of a pod until none fits any more, where that gives what cycles give.

    If no filter looks beyond its own node, a replica changes nothing for other nodes: each node fills up to the same
    number in any order, and scores only decide the order. So in each round every feasible node takes one replica.

    Returns node row -> number of replicas; None if the order matters, none fits at all, or more than `limit` fit; then
    the session is partly filled.
    """
    framework = session.framework_for(info)
    # Draws, extenders and nominated pods leave it to each cycle where such a pod runs.
    is_plain = session.is_certain and not session.nominator and not info.affinity_error
    if framework is None or not is_plain or not framework.run_pre_enqueue(info).is_success:
        return None
    try:
        cluster = session.cluster
        placed = np.zeros(len(cluster), np.int64)
        n_placed = 0
        while len(cluster):
            cycle = CycleState(info, len(cluster.pods), cluster)
            skipped = local_filters(framework, cycle)
            if skipped is None:
                return None
            cycle.skipped_filters = skipped
            _, passes = framework.filter_all(cycle, framework.shape(info), skipped)
            (rows,) = passes.nonzero()
            if not len(rows):
                break
            if limit is not None and n_placed + max(len(rows), _free_capacity(cluster, info, rows)) > limit:
                return None
            n_placed += len(rows)
            placed[rows] += 1
            cluster.add_replicas(info, rows)
        return {row: int(placed[row]) for row in placed.nonzero()[0].tolist()} or None
    except PluginError:
        return None


def local_filters(framework: Framework, cycle: CycleState) -> frozenset[str] | None:
    """Return the filters that skip a pod; None if another one looks beyond its node, or a plugin reserves things."""
    outcome = framework.run_pre_filter(cycle, framework.shape(cycle.pod))
    if outcome.status is not None or outcome.nodes is not None:
        return None
    reserving = {plugin.name for plugin in chain(framework.reserve_plugins, framework.permit_plugins)}
    return outcome.skipped if outcome.skipped >= framework.cluster_filters | reserving else None


def is_local(session: Session, info: PodInfo) -> bool:
    """Return whether no filter looks beyond its own node for such a pod, in the present cluster."""
    framework = session.framework_for(info)
    if framework is None or info.affinity_error:
        return False
    try:
        return local_filters(framework, CycleState(info, len(session.cluster.pods), session.cluster)) is not None
    except PluginError:
        return False


def _free_capacity(cluster: Cluster, info: PodInfo, rows: RowArray) -> int:
    """Return for how many replicas some nodes have resources, so that a number above the limit shows at once."""
    free = cluster.nodes.allowed_pods[rows] - cluster.pod_count[rows]
    for name, amount in info.requests.items():
        if amount > 0:
            free = np.minimum(free, (cluster.nodes.allocatable(name)[rows] - cluster.requested(name)[rows]) // amount)
    return int(free.clip(0).sum())


_PROGRESS_EVERY = 256


def fill_from(
    start: Session,
    templates: Sequence[Template],
    *,
    limit: int | None = None,
    sequential_limit: int | None = None,
    preempt: bool = False,
    progress: Callable[[int], None] | None = None,
    since: Fit | None = None,
    tells_where: bool = True,
) -> tuple[Session, Fit]:
    """Place replicas in a fork until one does not fit, many at a time where that gives the same answer.

    Parameters as for `fill`; a `sequential_limit` replaces a limit of None where they have to be placed one by one.
    Unless it `tells_where`, only the number of replicas counts.
    """
    session, template = start.fork(), templates[0]
    stop_at = sequential_limit if limit is None else limit
    is_alone = not preempt and len(templates) == 1 and template.group is None
    if is_alone and not (template.are_distinct or template.refused or _quotas(session, templates)):
        info = template.replicas[0]
        placed = fill_at_once(session, info, limit if tells_where else None)
        if placed is not None:
            fit, number = (since or Fit(counts=[0])).resumed(), sum(placed.values())
            fit.placed.update({(0, row): n for row, n in placed.items()})
            fit.counts[0] += number if limit is None else min(number, limit)
            if limit is None or number < limit:
                fit.stop, fit.stopped_template = schedule_pod(session, session.add_pod(info)), 0
            return session, fit
        session = start.fork()
    return session, fill(session, templates, limit=stop_at, preempt=preempt, progress=progress, since=since)


def fill(
    session: Session,
    templates: Sequence[Template],
    *,
    limit: int | None = None,
    preempt: bool = False,
    progress: Callable[[int], None] | None = None,
    since: Fit | None = None,
) -> Fit:
    """Place replicas one by one until one does not fit, or as many as `limit` are placed; changes the session.

    With `preempt` they evict pods of lower priority, which nothing recreates. `progress` is called now and then with
    the number of replicas placed so far. Those that the session has already are `since`.
    """
    fit = (since or Fit(counts=[0] * len(templates), n_before=len(session.cluster.pods.infos))).resumed()
    quotas = _quotas(session, templates)
    for n_placed, index in enumerate(_turns(templates, fit)):
        if limit is not None and n_placed >= limit:
            break
        if templates[index].group is not None:
            members = templates[index].replicas[: templates[index].group_size] if quotas is not None else ()
            charged = (_charge(quotas, info) for info in members if quotas is not None)
            refused = templates[index].refused or next(filter(None, charged), "")
            if not place_group(session, templates[index], index, refused, fit, preempt=preempt):
                break
            continue
        info = templates[index].replica(fit.counts[index])
        if info is None:
            fit.exhausted_template = index
            break
        pod = session.cluster.add_pod(info)
        refused = templates[index].refused or ("" if quotas is None else _charge(quotas, info))
        if refused:
            session.refused[pod] = refused
        result = _place_replica(session, pod, fit, preempt=preempt)
        if result.outcome is not Outcome.SCHEDULED or result.row is None:
            fit.stop, fit.stopped_template = result, index
            break
        fit.placed[index, result.row] += 1
        fit.counts[index] += 1
        if progress is not None and n_placed % _PROGRESS_EVERY == 0:
            progress(fit.total)
    return fit


def _turns(templates: Sequence[Template], fit: Fit) -> Iterator[int]:
    """Yield which template is next, and next after that, without end; those that fit have had their turns."""
    shares = (repeat(index, template.share) for index, template in cycle(enumerate(templates)))
    return islice(chain.from_iterable(shares), fit.total, None)


def _quotas(session: Session, templates: Sequence[Template]) -> QuotaLedger | None:
    """Return the quotas that the replicas count against; None when their namespaces have none."""
    snapshot = session.listers.snapshot
    namespaces = {template.replicas[0].namespace for template in templates}
    has_any = any(quota.metadata.namespace in namespaces for quota in snapshot.resource_quotas)
    return QuotaLedger(snapshot) if has_any else None


def _charge(quotas: QuotaLedger, info: PodInfo) -> str:
    """Count a replica against the quotas; return the API server's message when they forbid it, else ``""``."""
    try:
        quotas.charge(info.pod)
    except Rejection as rejection:
        return rejection.answer("", "pods", info.name)
    return ""


def _place_replica(session: Session, pod: int, fit: Fit, *, preempt: bool) -> CycleResult:
    result = schedule_pod(session, pod)
    if result.row is not None:
        session.bind(pod, result.row)
    elif preempt and nominates(result) and result.post_filter is not None:
        leaving = result.post_filter.victims
        bind_or_evict(session, result)
        retry = schedule_pod(session, pod)
        if retry.outcome is Outcome.SCHEDULED:
            fit.evicted += leaving
            bind_or_evict(session, retry)
            return retry
    return result


MOST_NODES = 1_000
"""So many nodes are added at most where no number of replicas is wanted, since a pool may have no limit."""

_FIRST_WAITING = 64  #: so many replicas wait for nodes at first, and twice as many each time after that


def fill_growing(
    base: Base, templates: Sequence[Template], growth: Growth, limit: int | None, progress: Callable[[int], None] | None
) -> tuple[Session, Fit]:
    """Place replicas until one fits nowhere, and no node comes for it; `growth` receives the nodes."""
    session, fit = fill_from(base.session, templates, limit=limit, progress=progress)
    if _quotas(session, templates):
        message = "quotas limit its replicas, which are counted on the present nodes only"
        growth.warnings[InputWarning("NotFollowed", templates[0].name, message)] = None
        return session, fit
    n_waiting = _FIRST_WAITING
    while len(growth.adds) < MOST_NODES and not growth.is_stopped:
        if fit.stop is None or fit.stop.outcome is not Outcome.UNSCHEDULABLE:
            break
        left = None if limit is None else limit - fit.total
        pods = [*_running(base, session, templates, fit), *_waiting(templates, fit, n_waiting, left)]
        n_waiting *= 2
        present = tuple(pod for pod in base.objects.pods if pod.spec.node_name)
        snapshot = growth.as_seen(replace(base.objects, pods=(*present, *pods)), session)
        adds = growth.look(snapshot, session, () if fit.stopped_group is None else fit.stopped_group.pods, base.now)
        if not adds:
            break
        join_nodes(session, adds)
        session, more = fill_from(session, templates, limit=left, progress=progress, since=fit)
        if more.total == fit.total and more.stopped_group is None:
            break
        fit = more
    if len(growth.adds) >= MOST_NODES:
        message = f"more nodes may come; the count ends after {len(growth.adds):,} of them"
        growth.warnings[InputWarning("AutoscalerStopped", growth.autoscaler.name, message)] = None
    return session, fit


def _running(base: Base, session: Session, templates: Sequence[Template], fit: Fit) -> Iterator[Pod]:
    """Yield the replicas that have nodes, and the pods of groups."""
    cluster, names = session.cluster, session.cluster.nodes.names
    numbers: Counter[int] = Counter()
    for (index, row), n in sorted(fit.placed.items()):
        for _ in range(0 if templates[index].group is not None else n):
            for pod in templates[index].pods(numbers[index]):
                yield _on(names[row], pod)
            numbers[index] += 1
    for row in range(len(base.session.cluster.pods.infos), len(cluster.pods.infos)):
        place, info = cluster.node_of[row], cluster.pods.infos[row]
        if place != NOWHERE and group_of(info) is not None:
            yield _on(names[place], info.pod)


def _on(node: str, pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node), status=replace(pod.status, phase="Running"))


def _waiting(templates: Sequence[Template], fit: Fit, most_pods: int, left: int | None) -> Iterator[Pod]:
    """Yield further replicas, or pods of groups, in their shares, as pods that the scheduler has found no node for.

    It ends with the replica, or group, that reaches `most_pods`, or with the last of `left`; None for no such bound.
    """
    message = "" if fit.stop is None else fit.stop.message
    condition = unschedulable(message)
    numbers, n_pods = list(fit.counts), 0
    for n_units, index in enumerate(_turns(templates, fit)):
        pods = templates[index].pods(numbers[index]) if n_pods < most_pods and n_units != left else []
        if not pods:
            return
        numbers[index] += 1
        n_pods += len(pods)
        for pod in pods:
            yield replace(pod, status=replace(pod.status, conditions=(condition,)))
