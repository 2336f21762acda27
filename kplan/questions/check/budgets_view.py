"""The BudgetsReport: what each disruption budget allows, the tightest first."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.documents.checks import BudgetRoom, BudgetsReport
from kplan.report.blocks import Block, Cell, Span, Table
from kplan.report.footer import closing_blocks, opening_blocks, verdict_heading
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View
from kplan.report.words import count


def budgets_blocks(document: BudgetsReport, options: ReportOptions) -> Iterator[Block]:
    """Yield what a BudgetsReport shows, block by block."""
    yield verdict_heading(Span(_sentence(document), "bad" if _never(document) else "good"))
    yield from opening_blocks(document, options)
    header = ("BUDGET", "PODS", "HEALTHY", "MUST STAY", "ALLOWS NOW", "ALLOWS AT BEST")
    yield Table(header, tuple(map(_row, document.budgets)), "<>>>>>")
    yield from closing_blocks(document)


def _never(document: BudgetsReport) -> list[BudgetRoom]:
    return [budget for budget in document.budgets if budget.expected and not budget.allowed_at_best]


def _sentence(document: BudgetsReport) -> str:
    never, number = len(_never(document)), len(document.budgets)
    if never:
        return f"{never} of {count(number, 'disruption budget')} can never allow an eviction"
    return f"{count(number, 'disruption budget')}: each can allow an eviction"


def _row(budget: BudgetRoom) -> tuple[Cell, ...]:
    at_best = str(budget.allowed_at_best)
    numbers = (budget.pods, budget.healthy, budget.desired, budget.allowed)
    cannot = bool(budget.expected) and not budget.allowed_at_best
    return (budget.budget, *map(str, numbers), Span(at_best, "bad") if cannot else at_best)


def _title(document: BudgetsReport) -> str:
    return f"kplan ask: {_sentence(document)}"


def _cases(document: BudgetsReport, options: ReportOptions) -> Iterator[Case]:  # noqa: ARG001 - as the others
    for budget in document.budgets:
        cannot = bool(budget.expected) and not budget.allowed_at_best
        words = (
            f"{budget.desired} of {budget.expected} pods must stay healthy; it allows {budget.allowed} evictions now"
        )
        yield Case(budget.budget, "skipped" if cannot else "passed", "Budget", words, kind="disruption budget")


def _names(document: BudgetsReport) -> Iterator[str]:
    return (f"{budget.budget} {budget.allowed} {budget.allowed_at_best}" for budget in document.budgets)


VIEW = View(_title, budgets_blocks, _cases, _names)
