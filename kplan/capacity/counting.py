"""Place replicas until one does not fit, and count them; many at a time, if their order makes no difference.

If no filter looks beyond its own node, a replica changes nothing for other nodes: each node fills up to the same number
in any order, and scores only decide the order. So in each round every feasible node takes one replica.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from kplan.admission.quota import QuotaLedger
from kplan.admission.rejection import Rejection
from kplan.capacity.groups import place_group
from kplan.capacity.replicas import Fit, Template
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import Cluster
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.cycle_state import CycleState
from kplan.framework.outcome import Outcome
from kplan.framework.outcomes import PluginError
from kplan.framework.replicas import local_filters, place_replicas
from kplan.framework.runtime import Framework
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo
from kplan.subjects.sequence import nominates, settle

_PROGRESS_EVERY = 256


def fill_from(
    start: Session,
    templates: Sequence[Template],
    *,
    limit: int | None = None,
    sequential_limit: int | None = None,
    preempt: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[Session, Fit]:
    """Place replicas in a fork until one does not fit, many at a time where that gives the same answer.

    Parameters
    ----------
    start : forked, not changed
    limit, preempt, progress : as for `fill`
    sequential_limit : replaces a `limit` of None where the replicas have to be placed one by one
    """
    session, template = start.fork(), templates[0]
    stop_at = sequential_limit if limit is None else limit
    is_alone = not preempt and len(templates) == 1 and template.group is None
    if is_alone and not (template.are_distinct or template.refused or has_quotas(session, templates)):
        info = template.replicas[0]
        fit = _fit_of(session, info, fill_at_once(session, info, limit), limit)
        if fit is None:
            session = start.fork()
            fit = _fit_of(session, info, place_replicas(session, info, stop_at), stop_at)
        if fit is not None:
            return session, fit
    return session, fill(session, templates, limit=stop_at, preempt=preempt, progress=progress)


def _fit_of(
    session: Session, info: PodInfo, placed: Mapping[int, int] | Sequence[int] | None, limit: int | None
) -> Fit | None:
    """Return what came of replicas that went to nodes many at a time; None where they did not."""
    if placed is None:
        return None
    counts = Counter[int](placed)
    fit = Fit(Counter({(0, row): n for row, n in counts.items()}), [counts.total()])
    if limit is None or fit.total < limit:
        fit.stop, fit.stopped_template = schedule_pod(session, session.add_pod(info)), 0
    return fit


def fill(
    session: Session,
    templates: Sequence[Template],
    *,
    limit: int | None = None,
    preempt: bool = False,
    progress: Callable[[int], None] | None = None,
    course: list[tuple[int, int]] | None = None,
) -> Fit:
    """Place replicas one by one until one does not fit; changes the session.

    Parameters
    ----------
    limit : stop after this many replicas
    preempt : evict pods of lower priority to make room; nothing recreates them
    progress : called now and then with the number of replicas placed so far
    course : the template and the node row of each placed replica are appended to it, in order
    """
    fit = Fit(counts=[0] * len(templates), n_before=len(session.cluster.pods.infos))
    quotas = _quotas(session, templates)
    for n_placed, index in enumerate(_turns(templates)):
        if limit is not None and n_placed >= limit:
            break
        if templates[index].group is not None:
            refused = templates[index].refused or _charge_all(quotas, templates[index])
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
        if course is not None:
            course.append((index, result.row))
        fit.counts[index] += 1
        if progress is not None and n_placed % _PROGRESS_EVERY == 0:
            progress(n_placed)
    return fit


def has_quotas(session: Session, templates: Sequence[Template]) -> bool:
    """Return whether quotas limit the replicas."""
    return _quotas(session, templates) is not None


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
        return f'pods "{info.name}" is forbidden: {rejection}'
    return ""


def _charge_all(quotas: QuotaLedger | None, template: Template) -> str:
    """Count the pods of a group against the quotas; return the API server's first message that forbids one."""
    pods = () if quotas is None else template.replicas[: template.group_size]
    return next((refused for info in pods if quotas is not None and (refused := _charge(quotas, info))), "")


def _place_replica(session: Session, pod: int, fit: Fit, *, preempt: bool) -> CycleResult:
    result = schedule_pod(session, pod)
    if result.outcome is Outcome.SCHEDULED and result.row is not None:
        session.bind(pod, result.row)
    elif preempt and nominates(result) and result.post_filter is not None:
        leaving = result.post_filter.victims
        settle(session, result)
        retry = schedule_pod(session, pod)
        if retry.outcome is Outcome.SCHEDULED:
            fit.evicted += leaving
            settle(session, retry)
            return retry
    return result


def _turns(templates: Sequence[Template]) -> Iterator[int]:
    while True:
        for index, template in enumerate(templates):
            for _ in range(template.share):
                yield index


def fill_at_once(session: Session, info: PodInfo, limit: int | None) -> dict[int, int] | None:
    """Place replicas of a pod until none fits any more.

    Parameters
    ----------
    session : a fork for this call alone; partly filled if the result is None
    limit : the largest number of replicas to place

    Returns
    -------
    dict or None
        Node row -> number of replicas; None if the order matters, none fits at all, or more than `limit` fit.
    """
    framework = session.framework_for(info)
    draws = session.random is not None or session.options.sample or bool(session.extenders) or bool(session.nominator)
    if framework is None or draws or info.affinity_error or not framework.run_pre_enqueue(info).is_success:
        return None
    try:
        return _fill(session, framework, info, limit)
    except PluginError:
        return None


def is_local(session: Session, info: PodInfo) -> bool:
    """Return whether no filter looks beyond its own node for such a pod, in the present cluster."""
    framework = session.framework_for(info)
    if framework is None or info.affinity_error:
        return False
    try:
        return local_filters(framework, CycleState(info, len(session.cluster.pods), session.cluster)) is not None
    except PluginError:
        return False


def _fill(session: Session, framework: Framework, info: PodInfo, limit: int | None) -> dict[int, int] | None:
    cluster = session.cluster
    placed = np.zeros(len(cluster), np.int64)
    n_placed = 0
    while len(cluster):
        cycle = CycleState(info, len(cluster.pods), cluster)
        skipped = local_filters(framework, cycle)
        if skipped is None:
            return None
        cycle.skipped_filters = skipped
        _, passes = framework.filter_all(cycle, framework.shape(info, recurs=True), skipped)
        (rows,) = passes.nonzero()
        if not len(rows):
            break
        if limit is not None and n_placed + max(len(rows), _free_capacity(cluster, info, rows)) > limit:
            return None
        n_placed += len(rows)
        placed[rows] += 1
        cluster.add_replicas(info, rows)
    return {row: int(placed[row]) for row in placed.nonzero()[0].tolist()} or None


def _free_capacity(cluster: Cluster, info: PodInfo, rows: RowArray) -> int:
    """Return for how many replicas some nodes have resources, so that a number above the limit shows at once."""
    free = cluster.nodes.allowed_pods[rows] - cluster.pod_count[rows]
    for name, amount in info.requests.items():
        if amount > 0:
            free = np.minimum(free, (cluster.nodes.allocatable(name)[rows] - cluster.requested(name)[rows]) // amount)
    return int(free.clip(0).sum())
