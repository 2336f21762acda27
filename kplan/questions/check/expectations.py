"""What the answer to a question must say, and what in a document breaks it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import camel_case
from kplan.api.quantity import clause, count, natural
from kplan.changes.remedy import Remedy
from kplan.documents.base import Head, Report
from kplan.documents.capacity import HeadroomReport
from kplan.documents.checks import BudgetsReport, Finding, Level
from kplan.documents.drains import DrainOutcome, DrainsReport
from kplan.documents.placement import PlacementReport
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.documents.remedies import NodesReport
from kplan.errors import UsageError
from kplan.framework.results import Outcome
from kplan.health.words import shortage_text
from kplan.questions.base import Question
from kplan.questions.plan import Plan
from kplan.questions.what_if import WhatIf
from kplan.reading.arguments import Number, seconds_of


class Least(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A lower bound, such as ``min: 80%``."""

    min: str | int = "100%"


class Most(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An upper bound, such as ``max: 3``."""

    max: Number = 0


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
    pending: Number | None = None
    blocked: Number | None = None
    ready: Least | None = None
    within: str | None = None
    new_nodes: Most | None = None
    remediable: Number | None = None
    missing: Number | None = None


Judgement = tuple[Level, int, list[Finding]]  #: what was looked at, how many of them, and those that break the promise

_EVERYTHING = frozenset(Expect.__struct_fields__)
_TOLD: Mapping[str, frozenset[str]] = {
    "PlanReport": _EVERYTHING,
    "DrainsReport": frozenset({"placed", "pending", "blocked", "within"}),
    "PlacementReport": frozenset({"placed", "pending"}),
    "HeadroomReport": frozenset({"placed", "pending"}),
    "BudgetsReport": frozenset({"blocked"}),
    "NodesReport": frozenset({"placed", "new_nodes"}),
}
"""Kind of an answer -> the expectations that it can be held against."""


def untold(question: Question, expect: Expect, *kinds: str) -> Iterator[tuple[str, UsageError]]:
    """Yield the expectations of which no answer of these kinds tells whether they hold, as documents name them."""
    judged = frozenset[str]().union(*(_TOLD.get(kind, {"placed"}) for kind in kinds))
    plain = plain_question(question)
    if not isinstance(plain, Plan) or plain.manifests or plain.only_these:
        judged -= {"missing"}  # a plan of the whole cluster alone looks at all workloads
    hint = "expect something else, or ask another question"
    why = UsageError(f"cannot be expected of an answer of kind {kinds[0]}", hint=hint)
    for name in expect.__struct_fields__:
        if getattr(expect, name) is not None and name not in judged:
            yield camel_case(name), why


def plain_question(question: Question) -> Question:
    """Return a question without what would be different about the cluster."""
    return question.question if isinstance(question, WhatIf) else question


def judge(question: Question, expect: Expect, document: Head) -> Judgement:
    """Return what breaks a promise; raises UsageError when the answer does not tell what is expected."""
    for name, why in untold(question, expect, document.kind):
        raise UsageError(f"{name} {why.message}", hint=why.hint)
    judgement = _judgement(document, expect)
    if expect == Expect() and not judgement[2] and isinstance(document, Report) and document.verdict.failed:
        return _verdict(document)
    return judgement


def _judgement(document: Head, expect: Expect) -> Judgement:  # noqa: PLR0911 - one case a kind of document
    match document:
        case DrainsReport():
            return _drains(document, expect)
        case PlanReport():
            return _plan(document, expect)
        case PlacementReport(placements=placements):
            unplaced = (one for one in placements if one.outcome is not Outcome.SCHEDULED)
            findings = [Finding(name=one.pod.key, message=one.why.removesuffix(".")) for one in unplaced]
            return "pod", document.summary.pods, _beyond(_most(expect.pending, expect) or 0, findings)
        case HeadroomReport():
            return _headroom(document, expect)
        case BudgetsReport(budgets=budgets):
            never = (one for one in budgets if one.never_allows)
            why = {one.budget: f"{one.desired} of {count(one.expected or 0, 'pod')} must stay healthy" for one in never}
            findings = [Finding(name=budget, message=text) for budget, text in why.items()]
            return "budget", len(budgets), _beyond(expect.blocked or 0, findings)
        case NodesReport() if expect.new_nodes is not None:
            added = [Finding(name=node.name) for node in document.adds]
            return "node", len(added), added[expect.new_nodes.max :]
        case Report():
            return _verdict(document)
        case _:
            message = f"nothing can be expected of an answer of kind {document.kind}"
            raise UsageError(message, hint="ask another question")


def _verdict(document: Report) -> Judgement:
    findings = [Finding(name=counted.object, message=counted.text) for counted in document.verdict.counted]
    if document.verdict.failed and not findings:
        findings = [Finding(name=line) for line in document.verdict.because]
    return "answer", max(len(findings), 1), findings


def _most(limit: int | None, expect: Expect) -> int | None:
    """Return how many are allowed; None where nothing is said of them, and something of others."""
    if limit is not None or expect.placed == "all":
        return limit or 0
    return 0 if expect == Expect() else None


def _drains(document: DrainsReport, expect: Expect) -> Judgement:
    pending, blocked = _most(expect.pending, expect), _most(expect.blocked, expect)
    limit = _time_limit(expect, has_times=all(drain.restored is not UNSET for drain in document.drains))
    findings = []
    for drain in document.drains:
        # Where none waits, and some are not replaced, that is one without a place.
        is_pending = pending is not None and (drain.pending or drain.state == "pending") > pending
        if is_pending or (blocked is not None and drain.blocked > blocked):
            findings.append(Finding(name=drain.name, message=drain.trouble or ", ".join(drain.budgets)))
        elif limit is not None and (end := _end_of(drain)) > limit:
            findings.append(Finding(name=drain.name, message="never at rest" if end == math.inf else f"{end:g} s"))
    subject: Level = "node" if document.label is None else "zone" if "zone" in document.label else "group"
    return subject, len(document.drains), findings


def _time_limit(expect: Expect, *, has_times: bool) -> float | None:
    """Return within how many seconds an answer is to be at rest; raises UsageError where it has no times."""
    if expect.within is None:
        return None
    seconds = seconds_of(expect.within, "within")
    if not has_times:
        raise UsageError("the answer has no times", hint="within needs a question with a timeline")
    return seconds


def _end_of(drain: DrainOutcome) -> float:
    """Return after how many seconds the nodes are empty, and all that has left them is replaced; inf for never."""
    times = (time for time in (drain.emptied, drain.restored) if time is not UNSET)
    return max((math.inf if time is None else float(time) for time in times), default=0.0)


def _plan(document: PlanReport, expect: Expect) -> Judgement:
    own = (change for change in document.changes if change.action is Action.PENDING and change.caused_by == "change")
    findings = [*_beyond(_most(expect.pending, expect), [_pending(document, change) for change in own])]
    why = {obstacle.pod: obstacle.why for obstacle in document.obstacles}
    blocked = [Finding(name=pod, message=why.get(pod, message)) for pod, message in document.blocked.items()]
    findings += _beyond(_most(expect.blocked, expect), blocked)
    if expect.remediable is not None:
        remedies = ((change, _remedy(document, change)) for change in document.changes)
        helped = [replace(_pending(document, change), remedy=remedy) for change, remedy in remedies if remedy]
        findings += _beyond(expect.remediable, helped)
    if expect.missing is not None:
        present = document.at_present.workloads if document.at_present else ()
        short = [Finding(name=one.workload, message=shortage_text(one)) for one in present if one.is_short]
        findings += _beyond(expect.missing, short)
        if expect == Expect(missing=expect.missing):
            return ("workload", 0, findings) if findings else ("answer", 1, [])  # the plan tells of no others
    if expect.ready is not None:
        findings += [
            Finding(name=workload.key, message=f"{workload.ready} of {workload.desired}")
            for workload in document.workloads
            if workload.ready < share_of(expect.ready.min, workload.desired)
        ]
    limit = _time_limit(expect, has_times=bool(document.timeline))
    if limit is not None and document.timeline and (end := document.timeline.end) > limit:
        findings.append(Finding(name="end", message=f"{end:g} s"))
    if expect.new_nodes is not None and document.nodes:
        findings += [Finding(name=node.name) for node in document.nodes.added[expect.new_nodes.max :]]
    return "pod", len(document.changes), findings


def _beyond(most: int | None, findings: list[Finding]) -> list[Finding]:
    """Return findings where they are more than so many; none where nothing is said of their number."""
    return findings if most is not None and len(findings) > most else []


def _pending(document: PlanReport, change: PodChange) -> Finding:
    return Finding(name=change.pod, message=document.why_pending(change).removesuffix("."))


def _remedy(document: PlanReport, change: PodChange) -> Remedy | None:
    """Return the first change that was tried and lets a pending pod run; None where there is none."""
    decision = document.decision(change)
    if change.action is not Action.PENDING or decision is None or change.outcome == "Gated":
        return None
    return next((remedy for remedy in decision.remedies or () if remedy.checked), None)


def share_of(least: str | int, total: int) -> int:
    """Return how many of a total are so many, or such a share; raises UsageError for what is neither."""
    if isinstance(least, int):
        return least
    percent = natural(least[:-1], 100) if least.endswith("%") else None
    if percent is None:
        raise UsageError(f"{least} is neither a number nor a share", hint="write min: 3 or min: 80%")
    return -(-percent * total // 100)


def _headroom(document: HeadroomReport, expect: Expect) -> Judgement:
    findings, n_without_room = [], 0
    for workload in document.workloads:
        wanted = workload.wanted if isinstance(workload.wanted, int) else document.wanted
        if wanted is None or workload.fits >= wanted:
            continue
        name, what = workload.workload, f"reaches {workload.running + workload.fits} of {workload.running + wanted}"
        if isinstance(workload.pool, str):
            name, what = workload.pool, f"no room for another pod as large as {name.removeprefix('Pod/')}"
        why = clause(workload.stop.why) if workload.stop is not None else ""
        findings.append(Finding(name=name, message=f"{what}: {why}" if why else what))
        n_without_room += wanted - workload.fits
    findings = findings if n_without_room > (expect.pending or 0) else []
    is_of_pools = any(workload.pool is not UNSET for workload in document.workloads)
    return "pool" if is_of_pools else "workload", len(document.workloads), findings
