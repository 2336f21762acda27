"""Whether an answer keeps a promise: each kind of document against an expectation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import UNSET

from kplan.api.quantity import clause, count
from kplan.changes.remedy import Remedy
from kplan.documents.base import Head, Report
from kplan.documents.capacity import HeadroomReport, WorkloadHeadroom
from kplan.documents.checks import BudgetsReport, Finding, Level
from kplan.documents.drains import DrainOutcome, DrainsReport
from kplan.documents.nodes_report import NodesReport
from kplan.documents.placement import PlacementReport
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.errors import UsageError
from kplan.framework.results import Outcome
from kplan.health.words import shortage_text


class Least(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A lower bound, such as ``min: 80%``."""

    min: str | int = "100%"


class Most(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An upper bound, such as ``max: 3``."""

    max: int = 0


class Expect(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an answer must say; without any expectation, what its verdict says by default.

    Attributes
    ----------
    placed : ``all``: every pod of the question finds a place
    pending : at most so many pods stay pending
    blocked : at most so many evictions are refused
    ready : at least so many pods of each workload are ready at the end: a number, or a share
    within : the answer is at rest after at most such a time, such as ``20m``; needs a timeline
    new_nodes : at most so many nodes are added
    remediable : at most so many pods stay pending that a change of one step would place
    missing : at most so many workloads have fewer pods than they want, before anything happens
    """

    placed: Literal["all"] | None = None
    pending: int | None = None
    blocked: int | None = None
    ready: Least | None = None
    within: str | None = None
    new_nodes: Most | None = None
    remediable: int | None = None
    missing: int | None = None


Judgement = tuple[Level, int, list[Finding]]
"""What was looked at, how many of them, and those that break the promise."""


_UNITS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"((?<![0-9.])\d++(?:\.\d++)?+[smh])+")


def judge(document: Head, expect: Expect) -> Judgement:
    """Return what breaks a promise; raises UsageError when the answer does not tell what is expected."""
    match document:
        case DrainsReport():
            judgement = _drains(document, expect)
        case PlanReport():
            judgement = _plan(document, expect)
        case PlacementReport():
            judgement = _placements(document, expect)
        case HeadroomReport():
            judgement = _headroom(document)
        case BudgetsReport():
            judgement = _budgets(document)
        case NodesReport() if expect.new_nodes is not None:
            added = [Finding(name=node.name) for node in document.adds]
            judgement = "node", len(added), added[expect.new_nodes.max :]
        case Report():
            judgement = _verdict(document)
        case _:
            message = f"nothing can be expected of an answer of kind {document.kind}"
            raise UsageError(message, hint="ask another question")
    return judgement


def _verdict(document: Report) -> Judgement:
    findings = [Finding(name=counted.object, message=counted.text) for counted in document.verdict.counted]
    if document.verdict.failed and not findings:
        findings = [Finding(name=line) for line in document.verdict.because]
    return "answer", max(len(findings), 1), findings


def _most(limit: int | None, expect: Expect) -> int | None:
    """Return how many are allowed; None where nothing is said of them, and something of others."""
    if limit is not None or expect.placed == "all":
        return limit or 0
    others = (
        expect.pending,
        expect.blocked,
        expect.ready,
        expect.within,
        expect.new_nodes,
        expect.remediable,
        expect.missing,
    )
    return 0 if all(bound is None for bound in others) else None


def _drains(document: DrainsReport, expect: Expect) -> Judgement:
    pending, blocked = _most(expect.pending, expect), _most(expect.blocked, expect)
    findings = [
        Finding(name=drain.name, message=drain.trouble or ", ".join(drain.budgets))
        for drain in document.drains
        if (pending is not None and _short(drain) > pending) or (blocked is not None and drain.blocked > blocked)
    ]
    subject: Level = "node" if document.label is None else "zone" if "zone" in document.label else "group"
    return subject, len(document.drains), findings


def _short(drain: DrainOutcome) -> int:
    """Return how many pods find no place; where none waits, and some are not replaced, that is one."""
    return drain.pending or drain.state == "pending"


def _plan(document: PlanReport, expect: Expect) -> Judgement:
    pending = [
        change for change in document.changes if change.action is Action.PENDING and change.caused_by == "change"
    ]
    findings: list[Finding] = []
    most = _most(expect.pending, expect)
    if most is not None and len(pending) > most:
        findings += [
            Finding(name=change.recreated_as or change.pod, message=_why(document, change)) for change in pending
        ]
    most = _most(expect.blocked, expect)
    if most is not None and document.blocked and len(document.blocked) > most:
        why = {obstacle.pod: obstacle.why for obstacle in document.obstacles}
        findings += [Finding(name=pod, message=why.get(pod, message)) for pod, message in document.blocked.items()]
    if expect.remediable is not None:
        helped = list(_remediable(document))
        findings += helped if len(helped) > expect.remediable else []
    if expect.missing is not None:
        short = [health for health in (document.at_present.workloads if document.at_present else ()) if health.is_short]
        findings = [Finding(name=health.workload, message=shortage_text(health)) for health in short]
        return ("workload", len(findings), findings) if len(findings) > expect.missing else ("answer", 1, [])
    if expect.ready is not None:
        findings += _unready(document, expect.ready.min)
    if expect.within is not None:
        findings += _late(document, seconds_of(expect.within))
    if expect.new_nodes is not None and document.nodes:
        findings += [Finding(name=node.name) for node in document.nodes.added[expect.new_nodes.max :]]
    return "pod", len(document.changes), findings


def _remediable(document: PlanReport) -> Iterator[Finding]:
    for change in document.changes:
        remedy = _remedy(document, change) if change.action is Action.PENDING else None
        if remedy is not None:
            yield Finding(name=change.recreated_as or change.pod, message=_why(document, change), remedy=remedy)


def _why(document: PlanReport, change: PodChange) -> str:
    """Return why a pod stays pending: its diagnosis, or that of one that ends alike, or the scheduler's words."""
    like = (one for one in document.changes if (one.owner, one.reason) == (change.owner, change.reason))
    attempts = (one.attempt for one in (change, *like) if one.attempt is not None)
    diagnoses = (document.placements[attempt].diagnosis for attempt in attempts)
    return next((text for text in diagnoses if text), change.reason).removesuffix(".")


def _remedy(document: PlanReport, change: PodChange) -> Remedy | None:
    """Return the first change that was tried and lets a pending pod run; None where there is none."""
    if change.attempt is None or change.outcome == "Gated":
        return None
    remedies = document.placements[change.attempt].remedies or ()
    return next((remedy for remedy in remedies if remedy.checked), None)


def _unready(document: PlanReport, least: str | int) -> list[Finding]:
    return [
        Finding(name=workload.key, message=f"{workload.ready} of {workload.desired}")
        for workload in document.workloads
        if workload.ready < _share(least, workload.desired)
    ]


def _share(least: str | int, total: int) -> int:
    if isinstance(least, int):
        return least
    digits = least.removesuffix("%")
    if digits == least or not digits.isdecimal() or len(digits) > 3:
        raise UsageError(f"{least} is neither a number nor a share", hint="write min: 3 or min: 80%")
    return -(-int(digits) * total // 100)


def _late(document: PlanReport, most: float) -> list[Finding]:
    if not document.timeline:
        raise UsageError("the answer has no times", hint="within needs a question with a timeline")
    end = document.timeline.end
    return [Finding(name="end", message=f"{end:g} s")] if end > most else []


def seconds_of(text: str) -> float:
    """Return a duration such as ``1h30m`` in seconds; raises UsageError for anything else."""
    if not _DURATION.fullmatch(text):
        raise UsageError(f"{text} is not a duration", hint="write for example 90s, 20m or 1h30m")
    return sum(float(part[:-1]) * _UNITS[part[-1]] for part in re.findall(r"(?<![0-9.])\d++(?:\.\d++)?+[smh]", text))


def _placements(document: PlacementReport, expect: Expect) -> Judgement:
    diagnoses = {placement.message: placement.diagnosis for placement in document.placements if placement.diagnosis}
    findings = [
        Finding(
            name=placement.pod.key,
            message=(placement.diagnosis or diagnoses.get(placement.message) or placement.message).removesuffix("."),
        )
        for placement in document.placements
        if placement.outcome is not Outcome.SCHEDULED
    ]
    most = _most(expect.pending, expect) or 0
    return "pod", document.summary.pods, findings if len(findings) > most else []


def _headroom(document: HeadroomReport) -> Judgement:
    findings = []
    for workload in document.workloads:
        wanted = workload.wanted if isinstance(workload.wanted, int) else document.wanted
        if wanted is not None and workload.fits < wanted:
            stop = workload.stop
            why = "" if stop is None else (stop.diagnosis or stop.message).removesuffix(".")
            findings.append(_no_room(workload, wanted, why))
    is_of_pools = any(workload.pool is not UNSET for workload in document.workloads)
    return "pool" if is_of_pools else "workload", len(document.workloads), findings


def _no_room(workload: WorkloadHeadroom, wanted: int, why: str) -> Finding:
    if isinstance(workload.pool, str):
        what = f"no room for another pod as large as {workload.workload.removeprefix('Pod/')}"
        return Finding(name=workload.pool, message=f"{what}: {clause(why)}" if why else what)
    now = workload.running
    what = f"reaches {now + workload.fits} of {now + wanted}"
    return Finding(name=workload.workload, message=f"{what}: {clause(why)}" if why else what)


def _budgets(document: BudgetsReport) -> Judgement:
    findings = [
        Finding(name=budget.budget, message=f"{budget.desired} of {count(budget.expected, 'pod')} must stay healthy")
        for budget in document.budgets
        if budget.expected and not budget.allowed_at_best
    ]
    return "budget", len(document.budgets), findings
