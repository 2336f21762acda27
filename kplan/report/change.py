"""A change for people: what becomes of each workload first, then what needs attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kplan.documents.change import Change, Obstacle, Step, StepEvent, WorkloadChange, WorkloadState
from kplan.documents.plan import PlanReport
from kplan.report.blocks import Block, Cell, Heading, Preformatted, Span, Style, Table, line
from kplan.report.details import listing
from kplan.report.options import ReportOptions
from kplan.report.view import Case, State
from kplan.report.words import count

_WORDS: Mapping[Change, str] = {
    Change.ROLLOUT: "rolled",
    Change.SCALE: "scaled",
    Change.NEW: "new",
    Change.NONE: "unchanged",
    Change.DELETED: "deleted",
}
_ASSUMED = "Assumed: a pod that is bound is ready at once, and a pod that is told to go is gone at once."
_MOST_STEPS = 200
_STYLES: Mapping[StepEvent, Style] = {
    StepEvent.BOUND: "good",
    StepEvent.EVICTED: "warn",
    StepEvent.BLOCKED: "bad",
    StepEvent.STUCK: "bad",
    StepEvent.REFUSED: "bad",
}


def is_change(document: PlanReport) -> bool:
    """Tell whether a report is about a change that controllers carried through."""
    return document.command == "drain" or bool(document.workloads)


def change_sentence(document: PlanReport) -> str:
    """Count what becomes of the workloads and their pods, in one sentence."""
    asked = [each for each in document.workloads if each.change is not Change.NONE or _is_asked(each)]
    parts: list[str] = []
    if document.command != "drain":
        counts = Counter("refused" if each.refused else _WORDS[each.change] for each in asked)
        parts = [
            f"{word} {counts[word]}" for word in ("unchanged", "scaled", "rolled", "new", "refused") if counts[word]
        ]
    summary = document.summary
    n_pods = summary.placed + summary.moved + summary.pending
    if not n_pods and not summary.evicted and not document.obstacles:
        what = "nothing to place" if document.command != "drain" else "no pod has to move"
        return f"{', '.join(parts)}: {what}" if parts else what.capitalize()
    stuck = sum(each.state is WorkloadState.STUCK for each in document.workloads)
    done = f"{summary.placed + summary.moved} of {n_pods} placed, stuck {stuck}"
    if document.obstacles:
        done += f", blocked {len(document.obstacles)}"
    if summary.evicted:
        done += f", gone for good {summary.evicted}"
    if summary.victims:
        done += f", preempted {summary.victims}"
    return f"{', '.join(parts)}: {done}" if parts else done


def _is_asked(each: WorkloadChange) -> bool:
    return each.state is WorkloadState.UNCHANGED or bool(each.refused)


def change_blocks(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    """Tell what becomes of the workloads, and what stands in the way."""
    told = [each for each in document.workloads if options.is_wide or not _is_quiet(each)]
    if told:
        yield Table(("WORKLOAD", "CHANGE", "WANTED", "READY", "PENDING", "STATE"), tuple(map(_row, told)), "<<>>><")
    quiet = [each for each in document.workloads if _is_quiet(each)]
    if quiet and not options.is_wide:
        names = listing([f"{each.kind} {each.namespace}/{each.name}" for each in quiet])
        yield line(f"Unchanged: {names}")
    for each in document.workloads:
        name = f"{each.kind} {each.namespace}/{each.name}"
        if each.refused:
            yield Heading((f"{name}: ", Span("refused", "bad")))
            yield Preformatted("the API server answers", each.refused)
        elif each.state is WorkloadState.STUCK and each.because:
            yield Heading((f"{name}: ", Span(f"stuck after {each.ready} of {each.desired}", "bad")))
            yield Preformatted(each.pod or "its controller gets", each.because)
    yield from _obstacles(document.obstacles)
    if any(step.pod for step in document.steps):
        yield line(Span(_ASSUMED, "dim"))


def _is_quiet(each: WorkloadChange) -> bool:
    return each.state is WorkloadState.UNCHANGED and not each.refused and not each.unseen


def _row(each: WorkloadChange) -> tuple[Cell, ...]:
    moved = "moved" if each.change is Change.NONE and each.state is not WorkloadState.UNCHANGED else _WORDS[each.change]
    style: Style = "bad" if each.state is WorkloadState.STUCK or each.refused else "good"
    return (
        f"{each.kind} {each.namespace}/{each.name}",
        "refused" if each.refused else moved,
        str(each.desired),
        str(each.ready),
        str(each.pending),
        Span(each.state, style),
    )


def _obstacles(obstacles: Sequence[Obstacle]) -> Iterator[Block]:
    if not obstacles:
        return
    yield Heading((Span(f"{count(len(obstacles), 'pod')} may not go", "bad"),))
    rows: list[tuple[Cell, ...]] = [(each.pod, each.node, each.words) for each in obstacles]
    yield Table(("POD", "NODE", "WHY"), tuple(rows), "<<<")
    seen: set[str] = set()
    for each in obstacles:
        text = obstacle_text(each)
        if text and text not in seen:
            seen.add(text)
            yield line(text, is_item=True)


def obstacle_text(obstacle: Obstacle) -> str:
    """Say what it would take for a pod to go."""
    if len(obstacle.budgets) > 1:
        names = listing([each.name for each in obstacle.budgets])
        return f"{obstacle.pod} is covered by {names}; leave it to one of them"
    if not obstacle.budgets:
        return ""
    budget = obstacle.budgets[0]
    missing = budget.desired + 1 - budget.healthy
    return (
        f"budget {budget.name} wants {budget.desired} healthy pods and has {budget.healthy}: "
        f"{count(max(missing, 1), 'more healthy pod')} elsewhere, or a budget that asks for fewer, lets one go"
    )


def step_blocks(steps: Sequence[Step]) -> Iterator[Block]:
    """Tell everything that happens, in order."""
    if not steps:
        return
    yield Heading(("Steps",))
    rows: list[tuple[Cell, ...]] = [
        (
            str(each.step),
            Span(each.event, _STYLES.get(each.event, "")),
            each.pod or each.workload,
            each.node or "-",
            each.because,
        )
        for each in steps[:_MOST_STEPS]
    ]
    note = f"and {count(len(steps) - _MOST_STEPS, 'more step')} (JSON has all)" if len(steps) > _MOST_STEPS else ""
    yield Table(("STEP", "EVENT", "WHAT", "NODE", "BECAUSE"), tuple(rows), "><<<<", note=note)


def change_cases(document: PlanReport) -> Iterator[Case]:
    """Yield a case a pod that may not go, and one a workload that is refused or says nothing new."""
    for obstacle in document.obstacles:
        counted = document.verdict.counted_of(obstacle.pod)
        yield _blocked(obstacle, "failed" if counted else "skipped")
    for each in document.workloads:
        counted = document.verdict.counted_of(f"{each.kind}/{each.namespace}/{each.name}")
        if each.refused:
            yield _of_workload(each, "failed" if counted else "skipped", "Refused", each.refused)
        elif each.state is WorkloadState.UNCHANGED:
            yield _of_workload(each, "passed", "Unchanged", "says nothing new")


def _blocked(obstacle: Obstacle, state: State) -> Case:
    kind, _, name = obstacle.workload.partition("/")
    text = obstacle_text(obstacle)
    return Case(
        obstacle.pod,
        state,
        "Blocked",
        f"{obstacle.pod} may not leave {obstacle.node}: {obstacle.words}",
        "\n".join(each for each in (obstacle.words, text) if each),
        workload=f"{kind} {name}" if name else "",
        hint=text,
    )


def _of_workload(each: WorkloadChange, state: State, rule: str, words: str) -> Case:
    name = f"{each.kind} {each.namespace}/{each.name}"
    origin = each.origin
    if not origin:
        return Case(name, state, rule, words, words)
    return Case(name, state, rule, words, words, origin.file, origin.document, origin.line or None)
