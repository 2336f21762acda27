"""Checks: whether promises about a cluster hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import camel_case
from kplan.course.answers.verdict import judged
from kplan.course.asking import PLAIN, AskAll, Showing
from kplan.documents.base import Counted, Verdict
from kplan.documents.checks import CheckOutcome, ChecksReport, ChecksSummary
from kplan.errors import KplanError, ParameterError, UsageError
from kplan.questions.base import Question
from kplan.questions.check.judgement import judge
from kplan.questions.check.promises import STANDARD, AtMaximum, Budgets, Check, Checkable, Expect, PoolRoom, Surge
from kplan.reading.arguments import FilePath, Option

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.subject import Subject

__all__ = ["AtMaximum", "Budgets", "Check", "Checks", "Expect", "PoolRoom", "Surge", "outcomes_of"]

_MOST_FINDINGS = 20


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
