"""Checks: promises, each a question and what its answer must say, and whether they hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.meta import controller_of
from kplan.api.names import camel_case
from kplan.api.quantity import clause, count, grouped
from kplan.capacity.headroom import alone, fit_together, maxima, next_pods, room_for_largest, surges
from kplan.changes.remedy import Remedy
from kplan.cluster.incoming import IncomingPod
from kplan.course.answers.plan import placement_report
from kplan.course.answers.verdict import conditions, judged, opening
from kplan.course.asking import PLAIN, AskAll, Showing
from kplan.course.in_order import place_in_order
from kplan.course.watching import unmoved
from kplan.documents.base import Counted, Head, Report, Verdict
from kplan.documents.capacity import HeadroomReport
from kplan.documents.checks import BudgetRoom, BudgetsReport, CheckOutcome, ChecksReport, ChecksSummary, Finding, Level
from kplan.documents.drains import DrainOutcome, DrainsReport
from kplan.documents.placement import PlacementReport
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.documents.remedies import NodesReport
from kplan.errors import KplanError, NotFoundError, ParameterError, UsageError
from kplan.framework.results import Outcome
from kplan.health.words import shortage_text
from kplan.questions.base import Question
from kplan.questions.drain import Drain
from kplan.questions.in_turn import InTurn
from kplan.questions.plan import Plan
from kplan.questions.what_if import Plain, WhatIf
from kplan.reading.arguments import FilePath, Number, Option, seconds_of

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.subject import Subject

_MOST_FINDINGS = 20


class Budgets(Question, frozen=True):
    """Asks what each disruption budget allows, now and at best."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> BudgetsReport:
        fail_on = conditions(showing.fail_on, None)
        rooms = (
            BudgetRoom(
                budget=budget.key,
                pods=len(budget.pods),
                healthy=max(budget.healthy, 0),
                expected=budget.expected,
                desired=budget.desired,
                allowed=budget.allowed,
                allowed_at_best=max(budget.expected - budget.desired, 0) if budget.expected else 0,
            )
            for budget in unmoved(subject.base).disruptions.budgets
        )
        ordered = tuple(sorted(rooms, key=lambda room: (room.allowed_at_best, room.budget)))
        return BudgetsReport(**opening(subject.base.context(), fail_on), budgets=ordered)


class Surge(Question, frozen=True):
    """Asks whether the pods fit that a rollout of each Deployment creates above its replicas."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where no Deployment has a surge."""
        wanted = surges(subject.base)
        if not wanted:
            raise NotFoundError("no Deployment has a surge", hint="rollouts then replace pods without further room")
        return alone(subject.base, wanted, fail_on=conditions(showing.fail_on, "capacity"), showing=showing)


class AtMaximum(Question, frozen=True):
    """Asks whether the replicas fit that autoscalers may still add.

    Attributes
    ----------
    how : ``each``: every workload alone; ``together``: all at once
    """

    how: Literal["each", "together"] = "each"

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport | PlacementReport:
        """Return a HeadroomReport, or together a PlacementReport; raises NotFoundError without such autoscalers."""
        wanted = maxima(subject.base)
        if not subject.base.objects.horizontal_pod_autoscalers:
            raise NotFoundError("the cluster has no HorizontalPodAutoscaler", hint="see kubectl get hpa -A")
        if not wanted:
            hint = "every autoscaled workload has its maximum of replicas"
            raise NotFoundError("no autoscaler is below its maximum", hint=hint)
        if self.how == "each":
            return alone(subject.base, wanted, fail_on=conditions(showing.fail_on, "capacity"), showing=showing)
        if showing.only_outcomes and (n_pods := fit_together(subject.base, wanted)):
            report = placement_report(subject.base.context(), (), fail_on=showing.fail_on)
            return replace(report, summary=replace(report.summary, pods=n_pods, scheduled=n_pods))
        base, pods = next_pods(subject.base, wanted)
        plan = place_in_order(base, pods)
        if not showing.only_outcomes:
            return plan.report(fail_on=showing.fail_on)
        # Why one fits nowhere is told of all of its workload; each on its own would be diagnosed once more.
        unplaced = (n for n, one in enumerate(plan.placements) if one.outcome is not Outcome.SCHEDULED)
        owners = [controller_of((pod.pod if isinstance(pod, IncomingPod) else pod).metadata) for pod in pods]
        alike = grouped(((owners[n], plan.placements[n].message), n) for n in islice(unplaced, _MOST_FINDINGS))
        report = plan.report(fail_on=showing.fail_on, nodes_of={own[0]: None for own in alike.values()})
        placements = list(report.placements)
        for first, *others in alike.values():
            for n in others:
                placements[n] = replace(placements[n], diagnosis=placements[first].diagnosis)
        return replace(report, placements=tuple(placements))


class PoolRoom(Question, frozen=True):
    """Asks whether one more pod as large as its largest one fits in each node pool."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where nodes do not name their pool."""
        return room_for_largest(subject.base, fail_on=conditions(showing.fail_on, "capacity"))


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


Checkable = Plain | WhatIf | Budgets | Surge | AtMaximum | PoolRoom  #: questions that can be part of a check


class Check(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A promise: a question, and what its answer must say."""

    name: str
    question: Checkable
    expect: Expect = Expect()


STANDARD: tuple[Check, ...] = (
    Check("every node drains alone", InTurn(), Expect(pending=0, blocked=0)),
    Check("every zone may be lost", InTurn(question=Drain((), how="lost"), by="zone"), Expect(pending=0)),
    Check("the surge of every Deployment fits", Surge(), Expect(placed="all")),
    Check("every autoscaler can reach its maximum alone", AtMaximum(), Expect(placed="all")),
    Check("all autoscalers can reach their maximum together", AtMaximum(how="together"), Expect(placed="all")),
    Check("every disruption budget can allow an eviction", Budgets(), Expect(blocked=0)),
    Check("nothing is pending that one change would place", Plan(), Expect(remediable=0)),
    Check("every workload has the pods that it wants", Plan(), Expect(missing=0)),
    Check("every node pool has room for its largest pod", PoolRoom(), Expect(placed="all")),
)
"""What ``kplan check`` asks without a file."""


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


def untold(check: Check, *kinds: str) -> Iterator[tuple[str, UsageError]]:
    """Yield the expectations of which no answer of these kinds tells whether they hold, as documents name them."""
    judged = frozenset[str]().union(*(_TOLD.get(kind, {"placed"}) for kind in kinds))
    plain = plain_question(check.question)
    if not isinstance(plain, Plan) or plain.manifests or plain.only_these:
        judged -= {"missing"}  # a plan of the whole cluster alone looks at all workloads
    hint = "expect something else, or ask another question"
    why = UsageError(f"cannot be expected of an answer of kind {kinds[0]}", hint=hint)
    for name in check.expect.__struct_fields__:
        if getattr(check.expect, name) is not None and name not in judged:
            yield camel_case(name), why


def plain_question(question: Checkable) -> Checkable:
    """Return a question without what would be different about the cluster."""
    return question.question if isinstance(question, WhatIf) else question


def judge(check: Check, document: Head) -> Judgement:
    """Return what breaks a promise; raises UsageError when the answer does not tell what is expected."""
    expect = check.expect
    for name, why in untold(check, document.kind):
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
        case PlacementReport():
            return _placements(document, expect)
        case HeadroomReport():
            return _headroom(document, expect)
        case BudgetsReport():
            return _budgets(document, expect)
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
    digits = least.removesuffix("%")
    if digits == least or not digits.isdecimal() or len(digits) > 3 or int(digits) > 100:
        raise UsageError(f"{least} is neither a number nor a share", hint="write min: 3 or min: 80%")
    return -(-int(digits) * total // 100)


def _placements(document: PlacementReport, expect: Expect) -> Judgement:
    unplaced = (placement for placement in document.placements if placement.outcome is not Outcome.SCHEDULED)
    findings = [Finding(name=one.pod.key, message=one.why.removesuffix(".")) for one in unplaced]
    return "pod", document.summary.pods, _beyond(_most(expect.pending, expect) or 0, findings)


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


def _budgets(document: BudgetsReport, expect: Expect) -> Judgement:
    findings = [
        Finding(name=one.budget, message=f"{one.desired} of {count(one.expected or 0, 'pod')} must stay healthy")
        for one in document.budgets
        if one.never_allows
    ]
    return "budget", len(document.budgets), _beyond(expect.blocked or 0, findings)


class Checks(Question, frozen=True):
    """Asks which promises hold.

    Attributes
    ----------
    checks : the promises; if empty, the standard ones
    since : compare with an earlier report, saved with -o json
    """

    checks: tuple[Check, ...] = ()
    since: Annotated[FilePath, Option("FILE")] = ""

    def earlier(self) -> ChecksReport | None:
        """Return the earlier report; raises KplanError for a file that holds none."""
        from kplan.documents.kinds import read_report

        report = read_report(self.since) if self.since else None
        if report is None or isinstance(report, ChecksReport):
            return report
        raise UsageError(f"{self.since}: is no report of kplan check", hint="save one with kplan check -o json")

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> ChecksReport:
        earlier, checks = self.earlier(), self.checks or STANDARD
        outcomes: list[CheckOutcome] = []
        for outcome in outcomes_of(checks, subject.base, showing.ask_all):
            outcomes.append(outcome)
            if showing.progress is not None:
                showing.progress(len(outcomes), len(checks))
        known = {} if earlier is None else {check.name: check for check in earlier.checks}
        for index, outcome in enumerate(outcomes):
            if was := known.get(outcome.name):
                outcomes[index] = replace(outcome, before=was.state, failed_before=was.failed)
        states = Counter(check.state for check in outcomes)
        fail_on = ("check",) if showing.fail_on is None else showing.fail_on
        failed = [Counted(check.name, "CheckFailed") for check in outcomes if check.state == "failed"]
        verdict = Verdict.of(fail_on, failed if "check" in fail_on else ())
        return ChecksReport(
            **judged(subject.base.context(), verdict),
            since=UNSET if earlier is None else earlier.generated_at,
            summary=ChecksSummary(passed=states["passed"], failed=states["failed"], unasked=states["unasked"]),
            checks=tuple(outcomes),
        )


def outcomes_of(checks: Iterable[Check], base: Base, ask_all: AskAll | None = None) -> Iterator[CheckOutcome]:
    """Ask the questions of checks, the same one once, and hold the answers against their expectations."""
    showing = Showing(ask_all=ask_all, only_outcomes=True)
    answers: list[tuple[Checkable, Any]] = []
    for check in checks:
        answer = next((answer for question, answer in answers if question == check.question), None)
        if answer is None:
            try:
                answer = check.question.answer(base, showing)
            except KplanError as error:
                answer = error
            answers.append((check.question, answer))
        yield _outcome_of(check, answer)


def _outcome_of(check: Check, answer: Any) -> CheckOutcome:
    kind = str(type(check.question).__struct_config__.tag)
    try:
        if isinstance(answer, KplanError):
            raise answer
        subject, of, findings = judge(check, answer)
    except KplanError as error:
        why = error.naming(camel_case) if isinstance(error, ParameterError) else error
        return CheckOutcome(name=check.name, question=kind, state="unasked", error=str(why), hint=why.hint)
    return CheckOutcome(
        name=check.name,
        question=kind,
        state="failed" if findings else "passed",
        subject=subject,
        of=of,
        findings=tuple(findings[:_MOST_FINDINGS]),
        more=max(len(findings) - _MOST_FINDINGS, 0),
    )
