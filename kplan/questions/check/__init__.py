"""Checks: promises, each a question and what its answer must say, whether they hold, and how files write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.meta import OwnerReference, controller_of
from kplan.api.names import camel_case
from kplan.api.quantity import capitalized, grouped
from kplan.capacity.headroom import alone, fit_together, maxima, next_pods, room_for_largest, surges
from kplan.cluster.incoming import IncomingPod
from kplan.course.answers.plan import placement_report
from kplan.course.answers.verdict import conditions, head_of, judged
from kplan.course.asking import PLAIN, AskAll, Showing
from kplan.course.beginning import unmoved
from kplan.course.in_order import place_in_order
from kplan.documents.base import Counted, Verdict
from kplan.documents.capacity import HeadroomReport
from kplan.documents.checks import BudgetRoom, BudgetsReport, CheckOutcome, ChecksReport, ChecksSummary
from kplan.documents.placement import PlacementReport
from kplan.errors import KplanError, NotFoundError, ParameterError, Problem, UsageError
from kplan.framework.results import Outcome
from kplan.questions.base import Question
from kplan.questions.check.expectations import Expect, judge, plain_question, share_of, untold
from kplan.questions.drain import Drain, InTurn
from kplan.questions.plan import Plan
from kplan.questions.reading import API_VERSION, converted, refuse
from kplan.questions.what_if import Plain, WhatIf
from kplan.reading.arguments import FilePath, Option, seconds_of
from kplan.reading.documents import read_contents

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
        return BudgetsReport(**head_of(subject.base.context(), fail_on), budgets=ordered)


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
        alike = grouped(((_owner(pods[n]), plan.placements[n].message), n) for n in islice(unplaced, _MOST_FINDINGS))
        report = plan.report(fail_on=showing.fail_on, nodes_of={own[0]: None for own in alike.values()})
        placements = list(report.placements)
        for first, *others in alike.values():
            for n in others:
                placements[n] = replace(placements[n], diagnosis=placements[first].diagnosis)
        return replace(report, placements=tuple(placements))


def _owner(pod: Pod | IncomingPod) -> OwnerReference | None:
    return controller_of((pod.pod if isinstance(pod, IncomingPod) else pod).metadata)


class PoolRoom(Question, frozen=True):
    """Asks whether one more pod as large as its largest one fits in each node pool."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where nodes do not name their pool."""
        return room_for_largest(subject.base, fail_on=conditions(showing.fail_on, "capacity"))


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
        subject, of, findings = judge(check.question, check.expect, answer)
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


_EXPECTED = "checks, with apiVersion: kplan/v1 and kind: Checks"
_SHORT = ("drain", "lose", "headroom", "capacity", "surge", "autoscalersAtMax", "budgets", "poolRoom")
MAX_CHECKS = 500


def read_checks(source: str) -> list[Check]:
    """Read the checks of a file, or ``-``; raises InputError with all problems of it, each with line and path."""
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
    complete = []
    for index, entry in enumerate(content["checks"]):
        if isinstance(entry, dict):
            problems += _problems_of_entry(entry, f"$.checks[{index}]")
        complete.append(_complete(entry, index) if isinstance(entry, dict) else entry)
    question, wrong = converted({"apiVersion": API_VERSION, "kind": "ChecksQuestion", "checks": complete}, Checks)
    problems += wrong
    checks = question.checks if isinstance(question, Checks) and not problems else ()
    for index, check in enumerate(checks):
        problems += _problems_of_expectations(check, f"$.checks[{index}].expect")
    return ([], problems) if problems else ([*checks], [])


def _problems_of_expectations(check: Check, path: str) -> Iterator[Problem]:
    """Yield what no answer would tell: a check that expects it in vain must not pass."""
    kinds = type(plain_question(check.question)).answer_about.__annotations__["return"].split(" | ")
    for name, why in untold(check.question, check.expect, *kinds):
        yield Problem(why.message, json_path=f"{path}.{name}", hint=why.hint)
    values: tuple[tuple[str, Any, Callable[[Any], object]], ...] = (
        ("within", check.expect.within, partial(seconds_of, option="within")),
        ("ready.min", check.expect.ready and check.expect.ready.min, partial(share_of, total=0)),
    )
    for name, value, read in values:
        try:
            if value is not None:
                read(value)
        except UsageError as error:
            yield Problem(error.message.removeprefix(f"{name}: "), json_path=f"{path}.{name}", hint=error.hint)


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
    name = next((short for short in _SHORT if short in entry), None)
    question = entry.get("question") if name is None else _question(name, entry[name])
    expect = {"expect": entry["expect"]} if "expect" in entry else {}
    return {"name": entry.get("name", f"check {index + 1}"), "question": question, **expect}


def _question(name: str, value: Any) -> dict[str, Any]:
    fields = value if isinstance(value, dict) else {}
    drain = {"kind": "DrainQuestion", "nodes": []}
    match name:
        case "drain":
            drain |= {key: item for key, item in fields.items() if key != "each"}
            return {"kind": "InTurnQuestion", "by": fields.get("each", "node"), "question": drain}
        case "lose":
            drain |= {"how": "lost"}
            return {"kind": "InTurnQuestion", "by": "zone" if "zones" in fields else "node", "question": drain}
        case "headroom" | "capacity":
            return {"kind": f"{name.title()}Question", **fields}
        case "autoscalersAtMax":
            return {"kind": "AtMaximumQuestion", **({} if value is True else {"how": value})}
        case _:
            return {"kind": f"{capitalized(name)}Question"}
