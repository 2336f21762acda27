"""The ChecksReport: which promises hold, the broken ones with what breaks them; and the BudgetsReport."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from kplan.api.quantity import count, grouped, listing
from kplan.documents.checks import BudgetsReport, CheckOutcome, ChecksReport, CheckState, Finding, Level
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.decision import remedy_text
from kplan.report.options import ReportOptions
from kplan.report.view import Case, Metric, State, View

_MOST_SHOWN = 5
_NOUNS: Mapping[Level, tuple[str, ...]] = {
    "node": ("node",),
    "zone": ("zone",),
    "pool": ("pool",),
    "group": ("group of nodes", "groups of nodes"),
    "workload": ("workload",),
    "budget": ("disruption budget",),
    "pod": ("pod",),
    "answer": ("answer",),
}
_STATES: Mapping[str, Span] = {
    "passed": Span("passed", "good"),
    "failed": Span("failed", "bad"),
    "unasked": Span("not asked", "dim"),
}
_CASES: Mapping[str, tuple[State, str]] = {
    "passed": ("passed", "CheckPassed"),
    "failed": ("failed", "CheckFailed"),
    "unasked": ("skipped", "CheckNotAsked"),
}


def _body(document: ChecksReport, options: ReportOptions) -> Iterator[Block]:
    has_earlier = isinstance(document.since, str)
    header = ("CHECK", "STATE", *(("BEFORE",) if has_earlier else ()), "WHAT WAS FOUND")
    rows = tuple(
        (check.name, _STATES[check.state], *((_trend(check),) if has_earlier else ()), _words(check))
        for check in document.checks
    )
    yield Table(header, rows, "<" * len(header))
    for check in (check for check in document.checks if check.state == "failed"):
        yield Heading((Span(check.name, "bad"),))
        alike = list(grouped((_because(finding), finding.name) for finding in check.findings).items())
        shown = alike if options.is_page or options.is_wide else alike[:_MOST_SHOWN]
        yield from (line(f"{listing(names)}{because}", is_item=True) for because, names in shown)
        left = check.failed - sum(len(names) for _, names in shown)
        if left > 0:
            yield line(f"and {left} more", is_item=True)
    if has_earlier:
        yield line(Span(f"Compared with the report of {document.since}.", "dim"))


def _trend(check: CheckOutcome) -> Cell:
    if not isinstance(check.before, str):
        return "new"
    if check.before == check.state == "failed" and isinstance(check.failed_before, int):
        change = check.failed - check.failed_before
        return "the same" if not change else f"{abs(change)} {'more' if change > 0 else 'fewer'} now"
    return "the same" if check.before == check.state else _STATES[check.before]


def _words(check: CheckOutcome) -> str:
    if check.state == "unasked":
        return f"{check.error}{f'; {check.hint}' if check.hint else ''}"
    if check.subject == "answer":
        return "as expected" if check.state == "passed" else ", ".join(finding.name for finding in check.findings[:3])
    if check.state == "passed":
        return f"{count(check.of, *_NOUNS[check.subject])} looked at" if check.of else "nothing to look at"
    return f"{_number(check)}: {listing([finding.name for finding in check.findings], check.more)}"


def _because(finding: Finding) -> str:
    remedy = f"{remedy_text(finding.remedy)}; now: " if finding.remedy else ""
    return f": {remedy}{finding.message}" if finding.message else ""


def _sentence(document: ChecksReport) -> str:
    summary = document.summary
    unasked = f"; {summary.unasked} not asked" if summary.unasked else ""
    broken = [check for check in document.checks if check.state == "failed"]
    if not broken:
        holds = "holds" if summary.passed == 1 else "hold"
        return f"{summary.passed} of {count(len(document.checks), 'check')} {holds}{unasked}"
    first, *others = broken
    why = f": {_words(first)}"
    if first.subject != "answer" and first.findings:
        names = listing([finding.name for finding in first.findings], first.more)
        why = f" for {names} ({_number(first)}){_because(first.findings[0])}"
    more = f"; {count(len(others), 'other check fails', 'other checks fail')} too" if others else ""
    return f'"{first.name}" does not hold{why}{more}{unasked}'


def _number(check: CheckOutcome) -> str:
    nouns = _NOUNS[check.subject]
    return (
        f"{check.failed} of {count(max(check.of, check.failed), *nouns)}" if check.of else count(check.failed, *nouns)
    )


def _cases(document: ChecksReport, options: ReportOptions) -> Iterator[Case]:
    for check in document.checks:
        texts = [f"{finding.name}{_because(finding)}" for finding in check.findings]
        state, rule = _CASES[check.state]
        message = "; ".join([_words(check), *texts[:1]])
        yield Case(check.name, state, rule, message, "\n".join(texts), kind="check")


def _metrics(document: ChecksReport) -> Iterator[Metric]:
    for check in document.checks:
        for state in get_args(CheckState):
            about = "Whether a check passed, failed, or was not asked."
            yield Metric("check_state", about, check.state == state, {"check": check.name, "state": state})
        yield Metric("check_findings", "What breaks a promise.", check.failed, {"check": check.name})


VIEW = View[ChecksReport](
    _sentence,
    _body,
    _cases,
    lambda document: (f"{check.state} {check.name}" for check in document.checks),
    metrics=_metrics,
    style=lambda document: "bad" if document.summary.failed else "good",
)


def _budgets_body(document: BudgetsReport, options: ReportOptions) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = []
    for budget in document.budgets:
        numbers = map(str, (budget.pods, budget.healthy, budget.desired, budget.allowed))
        at_best = Span(str(budget.allowed_at_best), "bad" if budget.never_allows else "")
        rows.append((budget.budget, *numbers, at_best))
    header = ("BUDGET", "PODS", "HEALTHY", "MUST STAY", "ALLOWS NOW", "ALLOWS AT BEST")
    yield Table(header, tuple(rows), "<>>>>>")


def _budgets_sentence(document: BudgetsReport) -> str:
    never = sum(budget.never_allows for budget in document.budgets)
    of = count(len(document.budgets), "disruption budget")
    return f"{never} of {of} can never allow an eviction" if never else f"{of}: each can allow an eviction"


def _budgets_cases(document: BudgetsReport, options: ReportOptions) -> Iterator[Case]:
    for budget in document.budgets:
        of = "" if budget.expected is None else f" of {count(budget.expected, 'pod')}"
        healthy = f"{budget.desired}{of} must stay healthy"
        words = f"{healthy}; it allows {count(budget.allowed, 'eviction')} now"
        state: State = "skipped" if budget.never_allows else "passed"
        yield Case(budget.budget, state, "Budget", words, kind="disruption budget")


BUDGETS_VIEW = View[BudgetsReport](
    _budgets_sentence,
    _budgets_body,
    _budgets_cases,
    lambda document: (f"{room.budget} {room.allowed} {room.allowed_at_best}" for room in document.budgets),
    style=lambda document: "bad" if any(budget.never_allows for budget in document.budgets) else "good",
)
