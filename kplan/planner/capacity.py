"""How many replicas fit, where, what stops the next one, and what would have to be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kplan.admission.quota import QuotaLedger
from kplan.admission.rejection import Rejection
from kplan.documents.placement import Origin, Outcome
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.session import Session
from kplan.planner.at_once import fill_at_once
from kplan.planner.sequence import nominates, settle
from kplan.rules.pod_info import PodInfo

_TOLD_EVERY = 256


@dataclass(frozen=True, slots=True)
class Template:
    """Pods to fit."""

    name: str  #: for reports
    replicas: tuple[PodInfo, ...]  #: pods one after another
    share: int = 1  #: how many are placed in a row before it is the next template's turn
    refused: str = ""  #: why the API server would not take such a pod; empty when it would
    are_distinct: bool = False  #: each replica is a pod of its own, and there are no more; else they all are the first
    origin: Origin | None = None  #: the manifest that they come from

    def replica(self, index: int) -> PodInfo | None:
        """Return the pod of a replica, or None when there are no more."""
        if not self.are_distinct:
            return self.replicas[0]
        return self.replicas[index] if index < len(self.replicas) else None


@dataclass
class Fit:
    """What fitted."""

    placed: Counter[tuple[int, int]] = field(default_factory=Counter)  #: (template, node row) -> number of replicas
    counts: list[int] = field(default_factory=list)  #: replicas of each template
    evicted: list[int] = field(default_factory=list)  #: pods that had to go, where that is allowed
    #: the decision about the first replica that did not fit; live, see `kplan.planner.sequence`; None when all did
    stop: CycleResult | None = None
    stopped_template: int | None = None  #: whose replica that was
    exhausted_template: int | None = None  #: whose replicas were all placed before the count was over; None for none

    @property
    def total(self) -> int:
        """Replicas of all templates."""
        return sum(self.counts)


def fill_from(
    start: Session,
    templates: Sequence[Template],
    *,
    limit: int | None = None,
    one_by_one: int | None = None,
    preempt: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[Session, Fit]:
    """Place replicas in a fork until one does not fit, many at a time where that makes no difference.

    Parameters
    ----------
    start : stays as it is
    limit, preempt, progress : as for `fill`
    one_by_one : the limit where none is given and replicas have to be placed one by one
    """
    session = start.fork()
    fit = None if preempt or len(templates) > 1 else _fill_at_once(session, templates[0], limit)
    if fit is None:
        session = start.fork()
        stop_at = one_by_one if limit is None else limit
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


def fill(
    session: Session,
    templates: Sequence[Template],
    *,
    limit: int | None = None,
    preempt: bool = False,
    progress: Callable[[int], None] | None = None,
    course: list[tuple[int, int]] | None = None,
) -> Fit:
    """Place replicas in a session of its own until one does not fit.

    Parameters
    ----------
    limit : stop after so many
    preempt : make room by evicting pods of lower priority; they do not come back
    progress : told how many fit so far, now and then
    course : takes the template and the node row of each replica, in order
    """
    found = Fit(counts=[0] * len(templates))
    quotas = _quotas(session, templates)
    for n_placed, index in enumerate(_turns(templates)):
        if limit is not None and n_placed >= limit:
            break
        info = templates[index].replica(found.counts[index])
        if info is None:
            found.exhausted_template = index
            break
        pod = session.cluster.add_pod(info)
        refused = templates[index].refused or ("" if quotas is None else _charge(quotas, info))
        if refused:
            session.refused[pod] = refused
        result = _fit_one(session, pod, found, preempt=preempt)
        if result.outcome is not Outcome.SCHEDULED or result.row is None:
            found.stop, found.stopped_template = result, index
            break
        found.placed[index, result.row] += 1
        if course is not None:
            course.append((index, result.row))
        found.counts[index] += 1
        if progress is not None and n_placed % _TOLD_EVERY == 0:
            progress(n_placed)
    return found


def _quotas(session: Session, templates: Sequence[Template]) -> QuotaLedger | None:
    """Return the quotas that the replicas use up; None when no namespace of theirs has any."""
    world = session.listers.snapshot
    namespaces = {template.replicas[0].namespace for template in templates}
    has_any = any(quota.metadata.namespace in namespaces for quota in world.resource_quotas)
    return QuotaLedger(world) if has_any else None


def _charge(quotas: QuotaLedger, info: PodInfo) -> str:
    """Count a replica in the quotas; return why they do not allow it."""
    try:
        quotas.charge(info.pod)
    except Rejection as rejection:
        return f'pods "{info.name}" is forbidden: {rejection}'
    return ""


def _fit_one(session: Session, pod: int, found: Fit, *, preempt: bool) -> CycleResult:
    result = schedule_pod(session, pod)
    if result.outcome is Outcome.SCHEDULED and result.row is not None:
        session.bind(pod, result.row)
    elif preempt and nominates(result) and result.post_filter is not None:
        leaving = result.post_filter.victims
        settle(session, result)
        again = schedule_pod(session, pod)
        if again.outcome is Outcome.SCHEDULED:
            found.evicted += leaving
            settle(session, again)
            return again
    return result


def _turns(templates: Sequence[Template]) -> Iterator[int]:
    while True:
        for index, template in enumerate(templates):
            for _ in range(template.share):
                yield index
