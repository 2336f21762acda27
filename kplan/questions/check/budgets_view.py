"""The BudgetsReport: what each disruption budget allows, the tightest first."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.documents.checks import BudgetRoom, BudgetsReport
from kplan.report.blocks import Block, Cell, Span, Table
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View
from kplan.report.words import count


def _body(document: BudgetsReport, options: ReportOptions) -> Iterator[Block]:
    header = ("BUDGET", "PODS", "HEALTHY", "MUST STAY", "ALLOWS NOW", "ALLOWS AT BEST")
    yield Table(header, tuple(map(_row, document.budgets)), "<>>>>>")


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


def _cases(document: BudgetsReport, options: ReportOptions) -> Iterator[Case]:
    for budget in document.budgets:
        cannot = bool(budget.expected) and not budget.allowed_at_best
        words = (
            f"{budget.desired} of {budget.expected} pods must stay healthy; it allows {budget.allowed} evictions now"
        )
        yield Case(budget.budget, "skipped" if cannot else "passed", "Budget", words, kind="disruption budget")


def _names(document: BudgetsReport) -> Iterator[str]:
    return (f"{budget.budget} {budget.allowed} {budget.allowed_at_best}" for budget in document.budgets)


VIEW = View("ask", _sentence, _body, _cases, _names, style=lambda document: "bad" if _never(document) else "good")
