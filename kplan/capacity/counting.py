"""Place replicas until one does not fit, and count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kplan.admission.quota import QuotaLedger
from kplan.admission.rejection import Rejection
from kplan.capacity.at_once import fill_at_once
from kplan.capacity.groups import place_group
from kplan.capacity.replicas import Fit, Template
from kplan.documents.placement import Outcome
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.replicas import place_replicas
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
    session = start.fork()
    in_turn = preempt or len(templates) > 1 or templates[0].group is not None
    fit = None if in_turn else _fill_at_once(session, templates[0], limit)
    if fit is None:
        session = start.fork()
        stop_at = sequential_limit if limit is None else limit
        fit = None if in_turn else _fill_in_turn(session, templates[0], stop_at)
    if fit is None:
        fit = fill(session, templates, limit=stop_at, preempt=preempt, progress=progress)
    return session, fit


def _fill_at_once(session: Session, template: Template, limit: int | None) -> Fit | None:
    info = template.replicas[0]
    if template.are_distinct or template.refused or _quotas(session, [template]) is not None:
        return None
    placed = fill_at_once(session, info, limit)
    if placed is None:
        return None
    total = sum(placed.values())
    fit = Fit(Counter({(0, row): n for row, n in placed.items()}), [total])
    if limit is None or total < limit:
        fit.stop, fit.stopped_template = schedule_pod(session, session.add_pod(info)), 0
    return fit


def _fill_in_turn(session: Session, template: Template, limit: int | None) -> Fit | None:
    info = template.replicas[0]
    if template.are_distinct or template.refused or _quotas(session, [template]) is not None:
        return None
    rows = place_replicas(session, info, limit)
    if rows is None:
        return None
    fit = Fit(Counter((0, row) for row in rows), [len(rows)])
    if limit is None or len(rows) < limit:
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
