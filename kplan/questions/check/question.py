"""Checks: questions with expectations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from kplan.errors import KplanError, UsageError
from kplan.questions.base import PLAIN, Question, Showing
from kplan.questions.check.expectations import Expect
from kplan.questions.check.promises import AtMaximum, Budgets, PoolRoom, Surge
from kplan.questions.drain.question import Drain
from kplan.questions.in_turn.question import InTurn
from kplan.questions.plan.question import Plan
from kplan.questions.what_if.question import Plain, WhatIf

if TYPE_CHECKING:
    from kplan.cluster.asking import AskAll
    from kplan.cluster.base import Base
    from kplan.documents.base import Condition
    from kplan.documents.checks import CheckOutcome, ChecksReport
    from kplan.effects.subject import Subject

MOST_FINDINGS = 20

Checkable = Plain | WhatIf | Budgets | Surge | AtMaximum | PoolRoom
"""Questions that can be part of a check."""


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
    Check("every node pool has room for its largest pod", PoolRoom(), Expect(placed="all")),
)
"""What ``kplan check`` asks without a file."""


class Checks(Question, frozen=True):
    """Asks which promises hold.

    Attributes
    ----------
    checks : the promises; if empty, the standard ones
    since : the file of an earlier report to compare with
    """

    checks: tuple[Check, ...] = ()
    since: str = ""

    def earlier(self) -> ChecksReport | None:
        """Return the earlier report; raises KplanError for a file that holds none."""
        from kplan.documents.checks import ChecksReport
        from kplan.report.saved import read_report

        report = read_report(self.since) if self.since else None
        if report is None or isinstance(report, ChecksReport):
            return report
        raise UsageError(f"{self.since}: is no report of kplan check", hint="save one with kplan check -o json")

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> ChecksReport:
        """Return the ChecksReport."""
        earlier, checks = self.earlier(), self.checks or STANDARD
        outcomes: list[CheckOutcome] = []
        for check in checks:
            outcomes.append(outcome_of(check, subject.base, showing.ask_all))
            if showing.progress is not None:
                showing.progress(len(outcomes), len(checks))
        fail_on = ("check",) if showing.fail_on is None else showing.fail_on
        return _report(subject.base, outcomes, earlier, fail_on)


def outcome_of(check: Check, base: Base, ask_all: AskAll | None = None) -> CheckOutcome:
    """Ask the question of a check, and hold the answer against its expectation."""
    from kplan.documents.checks import CheckOutcome
    from kplan.questions.check.judging import judge

    kind = str(type(check.question).__struct_config__.tag)
    try:
        answer = check.question.answer(base, Showing(ask_all=ask_all, only_outcomes=True))
        subject, of, findings = judge(answer, check.expect)
    except KplanError as error:
        return CheckOutcome(name=check.name, question=kind, state="unasked", error=str(error), hint=error.hint)
    return CheckOutcome(
        name=check.name,
        question=kind,
        state="failed" if findings else "passed",
        subject=subject,
        of=of,
        findings=tuple(findings[:MOST_FINDINGS]),
        more=max(len(findings) - MOST_FINDINGS, 0),
    )


def _report(
    base: Base, outcomes: Iterable[CheckOutcome], earlier: ChecksReport | None, fail_on: Sequence[Condition]
) -> ChecksReport:
    """Return the ChecksReport about outcomes, compared with an earlier one where there is one."""
    from collections import Counter

    from msgspec.structs import replace

    from kplan.documents.base import Counted, Verdict
    from kplan.documents.checks import ChecksReport, ChecksSummary

    known: Mapping[str, CheckOutcome] = {} if earlier is None else {check.name: check for check in earlier.checks}
    checks = tuple(
        outcome
        if (before := known.get(outcome.name)) is None
        else replace(outcome, before=before.state, failed_before=before.failed)
        for outcome in outcomes
    )
    states = Counter(check.state for check in checks)
    context = base.context()
    counted = [Counted(check.name, "CheckFailed") for check in checks if check.state == "failed"]
    return ChecksReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(fail_on, counted if "check" in fail_on else ()),
        warnings=context.warnings,
        since=UNSET if earlier is None else earlier.generated_at,
        summary=ChecksSummary(passed=states["passed"], failed=states["failed"], unasked=states["unasked"]),
        checks=checks,
    )
