"""Checks: questions with expectations; and those about surges, autoscalers at their maximum, budgets, room in pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.course.asking import PLAIN, Showing
from kplan.course.watching import at_rest
from kplan.errors import KplanError, NotFoundError, Problem, UsageError
from kplan.questions.base import Question
from kplan.questions.check.judging import Expect, judge
from kplan.questions.drain import Drain
from kplan.questions.in_turn import InTurn
from kplan.questions.plan import Plan
from kplan.questions.reading import API_VERSION, converted, refuse
from kplan.questions.what_if import Plain, WhatIf
from kplan.reading.arguments import FilePath, Option
from kplan.reading.documents import read_contents

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.asking import AskAll
    from kplan.course.simulation.disruption import BudgetState
    from kplan.course.subject import Subject
    from kplan.documents.base import Condition
    from kplan.documents.capacity import HeadroomReport
    from kplan.documents.checks import BudgetRoom, BudgetsReport, CheckOutcome, ChecksReport
    from kplan.documents.placement import PlacementReport


def _fail_on(fail_on: Sequence[Condition] | None) -> Sequence[Condition]:
    from kplan.course.answers.verdict import DEFAULT_FAIL_ON

    return DEFAULT_FAIL_ON["capacity"] if fail_on is None else fail_on


class Budgets(Question, frozen=True):
    """Asks what each disruption budget allows, now and at best."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> BudgetsReport:
        from kplan.course.answers.verdict import NONE, opening
        from kplan.documents.checks import BudgetsReport

        fail_on = (NONE,) if showing.fail_on is None else showing.fail_on
        rooms = sorted(
            map(_room, at_rest(subject.base).disruptions.budgets), key=lambda room: (room.allowed_at_best, room.budget)
        )
        return BudgetsReport(**opening(subject.base.context(), fail_on), budgets=tuple(rooms))


def _room(budget: BudgetState) -> BudgetRoom:
    from kplan.documents.checks import BudgetRoom

    expected = budget.expected
    return BudgetRoom(
        budget=budget.key,
        pods=len(budget.pods),
        healthy=max(budget.healthy, 0),
        expected=expected,
        desired=budget.desired,
        allowed=budget.allowed,
        allowed_at_best=max(expected - budget.desired, 0) if expected else 0,
    )


class Surge(Question, frozen=True):
    """Asks whether the pods fit that a rollout of each Deployment creates above its replicas."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where no Deployment has a surge."""
        from kplan.capacity.headroom import alone, surges

        wanted = surges(subject.base)
        if not wanted:
            raise NotFoundError("no Deployment has a surge", hint="rollouts then replace pods without further room")
        return alone(subject.base, wanted, fail_on=_fail_on(showing.fail_on), showing=showing)


class AtMaximum(Question, frozen=True):
    """Asks whether the replicas fit that autoscalers may still add.

    Attributes
    ----------
    how : ``each``: every workload alone; ``together``: all at once
    """

    how: Literal["each", "together"] = "each"

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport | PlacementReport:
        """Return a HeadroomReport, or together a PlacementReport; raises NotFoundError without such autoscalers."""
        from kplan.capacity.headroom import alone, fit_together, maxima, next_pods
        from kplan.course.answers.placement_report import placement_report
        from kplan.course.in_order import place_in_order
        from kplan.framework.results import Outcome

        wanted = maxima(subject.base)
        if not subject.base.objects.horizontal_pod_autoscalers:
            raise NotFoundError("the cluster has no HorizontalPodAutoscaler", hint="see kubectl get hpa -A")
        if not wanted:
            raise NotFoundError(
                "no autoscaler is below its maximum", hint="every autoscaled workload has its maximum of replicas"
            )
        if self.how == "each":
            return alone(subject.base, wanted, fail_on=_fail_on(showing.fail_on), showing=showing)
        if showing.only_outcomes and (n_pods := fit_together(subject.base, wanted)):
            report = placement_report(subject.base.context(), (), fail_on=showing.fail_on)
            return replace(report, summary=replace(report.summary, pods=n_pods, scheduled=n_pods))
        base, pods = next_pods(subject.base, wanted)
        plan = place_in_order(base, pods)
        # Why the first of them fits nowhere is told of all; each on its own would be diagnosed once more.
        first = next((n for n, one in enumerate(plan.placements) if one.outcome is not Outcome.SCHEDULED), None)
        some = {} if first is None else {first: None}
        return plan.report(fail_on=showing.fail_on, nodes_of=some if showing.only_outcomes else None)


class PoolRoom(Question, frozen=True):
    """Asks whether one more pod as large as its largest one fits in each node pool."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where nodes do not name their pool."""
        from kplan.capacity.headroom import room_for_largest

        return room_for_largest(subject.base, fail_on=_fail_on(showing.fail_on))


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
    Check("every workload has the pods that it wants", Plan(), Expect(missing=0)),
    Check("every node pool has room for its largest pod", PoolRoom(), Expect(placed="all")),
)
"""What ``kplan check`` asks without a file."""


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
        from kplan.documents.checks import ChecksReport
        from kplan.report.saved import read_report

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
        fail_on = ("check",) if showing.fail_on is None else showing.fail_on
        return _report(subject.base, outcomes, earlier, fail_on)


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
    from kplan.documents.checks import CheckOutcome

    kind = str(type(check.question).__struct_config__.tag)
    try:
        if isinstance(answer, KplanError):
            raise answer
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
    from collections import Counter

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


_EXPECTED = "checks, with apiVersion: kplan/v1 and kind: Checks"
_SHORT = ("drain", "lose", "headroom", "capacity", "surge", "autoscalersAtMax", "budgets", "poolRoom")
_PLAIN = {"surge": "SurgeQuestion", "budgets": "BudgetsQuestion", "poolRoom": "PoolRoomQuestion"}
MAX_CHECKS = 500


def read_checks(source: str) -> list[Check]:
    """Read the checks of a file; raises InputError with all problems of the file, each with line and path.

    Parameters
    ----------
    source : a file, or ``-`` for standard input
    """
    problems: list[Problem] = []
    checks: list[Check] = []
    for document, content in read_contents(source, problems, expected=_EXPECTED):
        read, wrong = checks_of(content)
        checks += read
        problems += map(document.locate, wrong)
    refuse(source, problems, "" if checks else "no check", _EXPECTED)
    return checks


def checks_of(content: Any) -> tuple[list[Check], list[Problem]]:
    """Return the checks that a document holds, and what is wrong with it."""
    problems = list(_problems_of_head(content))
    if problems:
        return [], problems
    entries = content["checks"]
    complete = []
    for index, entry in enumerate(entries):
        path = f"$.checks[{index}]"
        if not isinstance(entry, dict):
            problems.append(Problem("is not a check", json_path=path, hint="write a name, a question and expect"))
            continue
        problems += _problems_of_entry(entry, path)
        complete.append(_complete(entry, index))
    question, wrong = converted({"apiVersion": API_VERSION, "kind": "ChecksQuestion", "checks": complete}, Checks)
    problems += wrong
    if problems or not isinstance(question, Checks):
        return [], problems
    return list(question.checks), []


def _problems_of_head(content: Any) -> Iterator[Problem]:
    if not isinstance(content, dict) or content.get("kind") != "Checks" or content.get("apiVersion") != API_VERSION:
        yield Problem("holds no checks", json_path="$", hint=f"expected {_EXPECTED}")
        return
    for name in content:
        if name not in ("apiVersion", "kind", "checks"):
            yield Problem("unknown field", json_path=f"$.{name}", hint="checks go below checks:")
    entries = content.get("checks")
    if not isinstance(entries, list) or not entries:
        yield Problem("is not a list of checks", json_path="$.checks", hint="each has a name, a question and expect")
    elif len(entries) > MAX_CHECKS:
        yield Problem(f"holds {len(entries)} checks, and at most {MAX_CHECKS}", json_path="$.checks", hint="split it")


def _problems_of_entry(entry: dict[str, Any], path: str) -> Iterator[Problem]:
    questions = [name for name in entry if name in _SHORT or name == "question"]
    if len(questions) != 1:
        words = "asks nothing" if not questions else f"asks several questions: {', '.join(questions)}"
        yield Problem(words, json_path=path, hint=f"write question, or one of {', '.join(_SHORT)}")
    for name in entry:
        if name not in (*_SHORT, "question", "name", "expect"):
            yield Problem("unknown field", json_path=f"{path}.{name}", hint=f"choose from {', '.join(_SHORT)}")
    lose = entry.get("lose")
    if lose is not None and lose not in ({"zones": 1}, {"nodes": 1}):
        hint = "write lose: {zones: 1} or lose: {nodes: 1}"
        yield Problem("is not the loss of one zone or node", json_path=f"{path}.lose", hint=hint)


def _complete(entry: dict[str, Any], index: int) -> dict[str, Any]:
    """Return a check with its question as a document."""
    name = next((short for short in _SHORT if short in entry), None)
    check: dict[str, Any] = {"name": entry.get("name", f"check {index + 1}"), "question": entry.get("question")}
    if "expect" in entry:
        check["expect"] = entry["expect"]
    if name is not None:
        value = entry[name]
        check["question"] = _question(name, value if isinstance(value, dict) else {}, value)
    return check


def _question(name: str, fields: dict[str, Any], value: Any) -> dict[str, Any]:
    """Return the question that a field stands for."""
    match name:
        case "drain":
            rest = {key: item for key, item in fields.items() if key != "each"}
            drain = {"kind": "DrainQuestion", "nodes": [], **rest}
            return {"kind": "InTurnQuestion", "by": fields.get("each", "node"), "question": drain}
        case "lose":
            drain = {"kind": "DrainQuestion", "nodes": [], "how": "lost"}
            return {"kind": "InTurnQuestion", "by": "zone" if "zones" in fields else "node", "question": drain}
        case "headroom" | "capacity":
            return {"kind": f"{name.title()}Question", **fields}
        case "autoscalersAtMax":
            return {"kind": "AtMaximumQuestion", **({} if value is True else {"how": value})}
        case _:
            return {"kind": _PLAIN[name]}
