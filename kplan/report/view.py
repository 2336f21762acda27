"""What every kind of document provides for the formats: a title, blocks, cases and names.

Reports for people begin with what is left to chance, cluster and scheduler, and end with warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.quantity import count, grouped, listing, natural, readable
from kplan.documents.base import Report, Verdict, now
from kplan.documents.placement import Luck
from kplan.facts import ClusterChange, InputWarning
from kplan.health.workloads import MISSING_REPLICAS, WorkloadHealth
from kplan.report.blocks import Block, Heading, Span, Style, failure_words, line, plain
from kplan.report.options import ReportOptions, Repository
from kplan.report.words import name_ranges

State = Literal["passed", "failed", "skipped", "warning"]
Severity = Literal["error", "warning", "note"]
Moment = Literal["before", "after"]


class Case(msgspec.Struct, frozen=True):
    """One result for programs: a pod, a workload or a warning."""

    name: str  #: of the pod or object, such as NAMESPACE/NAME
    state: State  #: ``failed`` when `--fail-on` lists it; ``skipped`` when it did not go well and does not count
    rule: str  #: the kind of outcome, in one word; `rules.json` beside this module says what it means
    message: str  #: in one sentence; a second line may say more
    detail: str = ""  #: everything that is known about it
    file: str = ""  #: its manifest; empty for an object of the snapshot
    #: document, line: of the object in that file, and of the field at fault or of the object's name
    document: int | None = None
    line: int | None = None
    workload: str = ""  #: the owner, such as Deployment default/web; empty for a case without one
    would_help: str = ""  #: the smallest change that would help, in a sentence; empty for none
    more: str = ""  #: the command that shows more
    hint: str = ""  #: the next step, where there is no remedy
    kind: str = "pod"  #: what several cases that are alike are counted as
    is_notable: bool = False  #: people are warned of it even where it does not count

    @property
    def level(self) -> Severity:
        """How much it matters where it did not pass."""
        if self.state == "failed":
            return "error"
        return "warning" if self.state == "warning" or self.is_notable else "note"

    @property
    def about(self) -> str:
        """The workload of a pod, or the name of the case."""
        return self.workload or self.name

    @property
    def place(self) -> str:
        """FILE:LINE of its manifest, as far as that is known; empty for no file."""
        return f"{self.file}:{self.line}" if self.file and self.line is not None else self.file


def state_of(verdict: Verdict, name: str, *, is_well: bool = False) -> State:
    """Return the state of the case of an object, which fails where the verdict counts it."""
    return "failed" if verdict.counted_of(name) else "passed" if is_well else "skipped"


class CaseReport(msgspec.Struct, frozen=True):
    """An answer as cases, for JUnit, GitHub and SARIF."""

    kind: str  #: of document, such as PlacementReport
    title: str  #: the answer in one line
    source: str  #: where the cluster comes from
    cases: Sequence[Case]
    exit_code: int = 0
    facts: Sequence[tuple[str, str]] = ()  #: further facts about the question, by name
    generated_at: str = msgspec.field(default_factory=now)


def alike(cases: Iterable[Case]) -> list[list[Case]]:
    """Return cases in groups that are reported once: the replicas of a workload that end alike."""

    def end(case: Case) -> tuple[object, ...]:
        # Two warnings about one object are two things to say.
        own = "" if case.workload else case.message
        return case.state, case.rule, case.file, case.document, case.about, own

    return list(grouped((end(case), case) for case in cases).values())


def numbered(cases: Sequence[Case]) -> list[str]:
    """Return how many cases are alike, with their names; nothing for a single one."""
    if len(cases) < 2:
        return []
    return [f"{count(len(cases), cases[0].kind)}: {name_ranges([case.name for case in cases])}"]


def brief_lines(cases: Sequence[Case]) -> list[str]:
    """Return lines about cases that are alike: how many, why, what would help, and the command that shows more."""
    case = cases[0]
    more = {"What would help": case.would_help, "Hint": case.hint, "More": case.more}
    return [
        *numbered(cases),
        *(" ".join(line.split()) for line in case.message.splitlines()),
        *(f"{label}: {text}" for label, text in more.items() if text),
    ]


def warning_case(warning: InputWarning, *, is_counted: bool = False) -> Case:
    """Return a case for a warning; it fails where `--fail-on` lists it."""
    return Case(
        warning.object or warning.code,
        "failed" if is_counted else "warning",
        warning.code,
        warning.message,
        file=warning.file or "",
        line=warning.line or None,
        kind="object",
    )


def warning_cases(document: Report) -> list[Case]:
    counted = {(event.object, event.rule) for event in document.verdict.counted}
    return [warning_case(one, is_counted=(one.object, one.code) in counted) for one in document.warnings]


def in_repository(cases: Iterable[Case], repository: Repository) -> list[Case]:
    """Return cases with their files named as the repository has them."""
    cases = list(cases)
    files = {name: repository.file(name) for name in {case.file for case in cases}}
    return [replace(case, file=files[case.file]) for case in cases]


class Metric(msgspec.Struct, frozen=True):
    """A gauge with one of its values."""

    name: str  #: without the prefix ``kplan_``
    help: str
    value: float
    labels: Mapping[str, str] = {}


def opening_blocks(document: Report, options: ReportOptions) -> Iterator[Block]:
    """Yield what depends on luck and was changed on paper; with -o wide also what cluster and scheduler it is about."""
    luck = getattr(document, "luck", UNSET)
    if isinstance(luck, Luck):
        texts = [
            f"pods that {words}: {listing([_share(pod, n, luck.runs) for pod, n in pods.items()])}"
            for words, pods in (
                ("stay pending", luck.pending),
                ("make room for others", luck.evicted),
                ("cannot be evicted", luck.blocked or {}),
            )
            if pods
        ]
        texts += [f"the answer fails in {luck.fails}"] if 0 < luck.fails < luck.runs else []
        more = "" if document.kind == "PreemptionReport" else " (--runs shows more)"
        draws = f"in {count(luck.runs, 'draw')} among equal nodes and pods"
        yield line(Span("Depends on luck", "warn"), f": {draws}, {'; '.join(texts)}{more}")
    for change in document.snapshot.changes or ():
        yield line("What if: ", change_text(change))
    if not options.is_wide:
        return
    snapshot, scheduler = document.snapshot, document.scheduler
    when = f", taken {snapshot.taken_at}" if snapshot.taken_at else ""
    yield line(f"Cluster: {snapshot.source} ({count(snapshot.nodes, 'node')}, {count(snapshot.pods, 'pod')}{when})")
    gates = "".join(f", {gate}={str(is_on).lower()}" for gate, is_on in (scheduler.feature_gates or {}).items())
    profiles = f"configuration {scheduler.config_source}, profiles {', '.join(scheduler.profiles)}"
    yield line(f"Scheduler: v{scheduler.kubernetes_version}{gates}, {profiles}")


def _share(pod: str, n: int, runs: int) -> str:
    if n == 0:
        return f"{pod} in none, though here"
    return f"{pod} in all, though not here" if n == runs else f"{pod} in {n}"


def change_text(change: ClusterChange) -> str:
    word = change.change.replace("-", " ")
    if change.change == "settle":
        return f"settled, {count(change.count, 'pod')} moved" if change.count else "settled, nothing moved"
    more = f" ({count(change.count, 'object')})" if change.count != 1 else ""
    totals = (change.requests or {}).items()
    sums = [f"{name} {readable(total.before)} -> {readable(total.after)}" for name, total in totals]
    requests = f"; requests of its running pods: {', '.join(sums)}" if sums else ""
    text, _, like = change.what.partition("=")
    number = natural(text, 2**31 - 1)
    if change.change == "add-nodes" and number is not None:
        return f"add {count(number, 'node')} like {like}{requests}"
    what = change.what.replace("=", " to ") if change.change == "scale" else change.what
    return f"{word} {what}{more}{requests}"


def warning_texts(document: Report) -> list[str]:
    """Return a sentence for everything that may make the answer differ from what the cluster does.

    A warning about several objects comes once, under the first of them; one about no object has no name before it.
    What the answer begins with is no warning any more.
    """
    present = getattr(document, "at_present", UNSET)
    workloads = present.workloads if present else getattr(document, "workloads", ())
    in_answer = {(MISSING_REPLICAS, one.workload) for one in workloads or () if isinstance(one, WorkloadHealth)}
    objects = grouped(
        ((warning.message, warning.code), warning.object)
        for warning in document.warnings
        if (warning.code, warning.object) not in in_answer
    )
    return [
        f"{f'{listing(names, most=1)}: ' if names[0] else ''}{message} [{code}]"
        for (message, code), names in objects.items()
    ]


R = TypeVar("R", bound=Report)


def reasons_of(verdict: Verdict) -> str:
    """Return why a verdict is a failure: conditions of ``--fail-on`` with the names of their objects."""
    named = (
        (verdict.condition_of(one) + (f" in {one.runs} of {one.of_runs} runs" if one.runs else ""), one.object)
        for one in verdict.counted
    )
    return failure_words(verdict.also, grouped(dict.fromkeys(named)))


def verdict_line(verdict: Verdict, reasons: str) -> Heading:
    """Return the last line of a report for people: whether anything counts as a failure, and what."""
    if not verdict.failed:
        more = " (nothing is judged: --fail-on none)" if verdict.fail_on == ("none",) else ""
        return Heading(("Verdict: ", Span("passed", "good" if not more else ""), Span(more, "dim")), 0)
    more = f"; and {verdict.more} more" if verdict.more else ""
    return Heading(("Verdict: ", Span("failed", "bad"), f" (exit code {verdict.exit_code}): {reasons}{more}"), 0)


class View(msgspec.Struct, Generic[R], frozen=True):
    """How a kind of document is told: what all formats are made of."""

    answer: Callable[[R], str | Heading]  #: in one sentence with the name and the number; a heading for a single pod
    body: Callable[[R, ReportOptions], Iterable[Block]]  #: what stands below the answer, for people
    cases: Callable[[R, ReportOptions], Iterable[Case]]  #: for programs that show what went wrong
    names: Callable[[R], Iterable[str]]  #: a line for each thing decided, for scripts
    metrics: Callable[[R], Iterable[Metric]] = lambda _document: ()  #: numbers for a monitoring system
    style: Callable[[R], Style] = lambda _document: ""  #: of an answer in one sentence
    opening: Callable[[R, ReportOptions], Iterable[Block]] = opening_blocks  #: what the answer is about
    reasons: Callable[[R], str] = lambda document: reasons_of(document.verdict)  #: why the verdict is a failure
    moments: Mapping[Moment, str] = {}  #: pictures of the cluster, and their captions; if empty, the usual ones
    marks: Callable[[R], Mapping[str, Span]] = lambda _document: {}  #: node -> what the picture says about it
    has_bars: bool = False  #: pages draw the numbers of tables as bars

    def sentence(self, document: R) -> str:
        """Return the answer in one sentence, with which every format for people begins."""
        answer = self.answer(document)
        return answer if isinstance(answer, str) else plain(answer.spans)

    def blocks(self, document: R, options: ReportOptions) -> Iterator[Block]:
        """Yield the document for people: the answer, what it is about, what there is to it, and warnings."""
        answer = self.answer(document)
        text = document.sentence or self.sentence(document)  # a document that lists some pods tells of all
        if isinstance(answer, Heading) and plain(answer.spans) == text:
            yield answer
        else:
            yield Heading((Span(text, self.style(document)),), 0)
        yield from self.opening(document, options)
        yield from self.body(document, options)
        if warnings := warning_texts(document):
            yield Heading((Span("Warnings", "warn"),), folds=False)
            yield from (line(text, is_item=True) for text in warnings)
