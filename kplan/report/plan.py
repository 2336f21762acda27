"""The PlanReport for people: what changes, what stays pending and why, and how full the cluster gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kplan.documents.change import Change
from kplan.documents.placement import PodPlacement
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.report.blocks import Block, Cell, Heading, Preformatted, Span, Style, Table, line, plain
from kplan.report.change import change_blocks, change_cases, change_sentence, is_change, step_blocks
from kplan.report.decision import decision_blocks, decision_heading
from kplan.report.details import listing
from kplan.report.footer import closing_blocks, opening_blocks
from kplan.report.options import ReportOptions
from kplan.report.remedies import located
from kplan.report.text import layout
from kplan.report.unlisted import unlisted_blocks, unlisted_cases, unlisted_names
from kplan.report.utilisation import largest_fit_blocks, utilisation_blocks
from kplan.report.view import Case, State, View
from kplan.report.words import count, name_ranges

_STYLES: Mapping[Action, Style] = {
    Action.PLACED: "good",
    Action.MOVED: "warn",
    Action.EVICTED: "bad",
    Action.PENDING: "bad",
}
_MOST_TOLD = 5
"""Of pods that stay pending for different reasons, so many are told about in full."""

_MOST_NODES = 3

_PENDING_WORDS: Mapping[str, str] = {
    "Unschedulable": "fits nowhere",
    "Gated": "waits for its scheduling gates",
    "Error": "cannot be scheduled",
}


def plan_blocks(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    """Tell a PlanReport."""
    yield from opening_blocks(document, options)
    changes = document.changes
    if is_change(document):
        yield from change_blocks(document, options)
    else:
        yield Heading((plan_sentence(document),))
    if changes:
        yield line("+ placed   ~ moved (evicted and placed elsewhere)   - evicted for good   ! stays pending")
        yield _changes_table(changes, options, by_workload=is_change(document))
    yield from _new(document, options)
    yield from _pending(document, options)
    yield from unlisted_blocks(document.unlisted, options)
    if options.explain:
        yield from step_blocks(document.steps)
    yield from utilisation_blocks(document.utilisation, options)
    yield from largest_fit_blocks(document.largest_fit, options)
    yield from closing_blocks(document, plan_sentence(document) if document.verdict.failed else "")


def plan_sentence(document: PlanReport) -> str:
    """Count what becomes of the pods, in one sentence."""
    if is_change(document):
        return change_sentence(document)
    summary = document.summary
    if not document.changes:
        return "Nothing to do: no pod is pending"
    stay = "stays pending" if summary.pending == 1 else "stay pending"
    counts = ((summary.moved, "moved"), (summary.evicted, "evicted for good"), (summary.pending, stay))
    parts = [f"{summary.placed} placed", *(f"{number} {word}" for number, word in counts if number)]
    if summary.pdb_violations:
        parts.append(count(summary.pdb_violations, "disruption budget violation"))
    n_pods = len(document.changes) + sum(each.pods for each in document.unlisted)
    return f"{count(n_pods, 'pod')}: {', '.join(parts)}"


def _changes_table(changes: Sequence[PodChange], options: ReportOptions, *, by_workload: bool) -> Table:
    """Table the changes; of many pods with `by_workload` only whose they are, as they are all alike."""
    most = 1 if by_workload else _MOST_NODES
    groups = [[change] for change in changes] if options.is_wide else _alike(changes)
    rows: list[tuple[Cell, ...]] = [
        (
            Span(group[0].action, _STYLES[group[0].action]),
            _pods(group, by_workload=by_workload),
            _nodes([each.from_node for each in group], most),
            _nodes([each.to_node for each in group], most),
            _note(group, is_wide=options.is_wide),
        )
        for group in groups
    ]
    return Table(("", "POD", "FROM", "TO", "NOTE"), tuple(rows), "<<<<<")


def _alike(changes: Sequence[PodChange]) -> list[list[PodChange]]:
    """Group pods of one workload with the same fate, in the order in which the first of them comes."""
    groups: dict[tuple[str, ...], list[PodChange]] = {}
    for change in changes:
        namespace = change.pod.partition("/")[0]
        who = f"{namespace}/{change.workload}" if change.workload else change.pod
        fate = (change.action, who, str(change.by), change.outcome, change.reason, change.because)
        groups.setdefault(fate, []).append(change)
    return list(groups.values())


def _pods(group: Sequence[PodChange], *, by_workload: bool) -> str:
    if len(group) == 1:
        return str(group[0].pod)
    namespace = group[0].pod.partition("/")[0]
    if by_workload and group[0].workload:
        kind, _, name = group[0].workload.partition("/")
        return f"{count(len(group), 'pod')} of {kind} {namespace}/{name}"
    names = name_ranges([each.pod.partition("/")[2] for each in group], most=2)
    return f"{namespace}/{names} ({count(len(group), 'pod')} of {group[0].workload})"


def _nodes(names: Sequence[str | None], most: int) -> str:
    known = Counter(name for name in names if name is not None)
    texts = [name if n == 1 and len(names) == 1 else f"{name} ({n})" for name, n in known.most_common()]
    return listing(texts, most=most) if texts else "-"


def _note(group: Sequence[PodChange], *, is_wide: bool) -> str:
    change = group[0]
    parts = []
    if change.by is not None:
        parts.append(f"evicted for {change.by}")
    if change.because:
        parts.append(change.because)
    elif change.action is Action.EVICTED:
        parts.append("no controller recreates it")
    if change.action is Action.PENDING:
        parts.append(_PENDING_WORDS.get(change.outcome, change.reason))
    if is_wide and change.recreated_as not in (None, change.pod):
        parts.append(f"recreated as {change.recreated_as}")
    return ", ".join(parts)


def _new(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    """Tell for each new workload why its first pod goes where it goes."""
    placed: dict[tuple[str, str], list[PodPlacement]] = {}
    for change in document.changes:
        if change.action is Action.PLACED and change.attempt is not None:
            namespace, _, name = change.pod.partition("/")
            key = (namespace, change.workload or f"Pod/{name}")
            placed.setdefault(key, []).append(document.placements[change.attempt])
    for each in document.workloads:
        if each.change is not Change.NEW:
            continue
        members = placed.get((each.namespace, f"{each.kind}/{each.name}"), [])
        first = next((member for member in members if member.feasible_count), None)
        if first is not None:
            yield decision_heading(f"{first.pod.key} (the first of them)" if len(members) > 1 else first.pod.key, first)
            yield from decision_blocks(first, document.snapshot.nodes, options)


def told_attempts(changes: Sequence[PodChange]) -> list[int]:
    """List the placements that tables tell about in full: of pods that stay pending, the first of some messages."""
    first: dict[tuple[str, str], int] = {}
    for change in changes:
        if change.action is Action.PENDING and change.attempt is not None:
            first.setdefault((change.outcome, change.reason), change.attempt)
    return sorted([*first.values()][:_MOST_TOLD])


def _pending(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    n_nodes = document.snapshot.nodes
    in_full = set(told_attempts(document.changes))
    groups: dict[tuple[str, str], list[PodChange]] = {}
    for change in document.changes:
        if change.action is Action.PENDING:
            groups.setdefault((change.outcome, change.reason), []).append(change)
    for (outcome, reason), members in groups.items():
        names = listing([each.pod for each in members])
        words = _PENDING_WORDS.get(outcome, reason if outcome else "stays pending")
        yield Heading((f"{names}: ", Span(words, "bad")))
        attempt = members[0].attempt
        placement = None if attempt is None else document.placements[attempt]
        if placement is not None and attempt in in_full:
            yield from decision_blocks(placement, n_nodes, options)
        elif placement is not None:
            yield Preformatted("kube-scheduler writes", placement.message)
        else:
            yield line(f"{reason}.")


_DETAIL_WIDTH = 120


def plan_cases(document: PlanReport, options: ReportOptions) -> Iterator[Case]:
    """Yield a case a pod that was pending or had to move."""
    for change in document.changes:
        yield _case(document, change, options)
    yield from unlisted_cases(document)
    yield from change_cases(document)


def _case(document: PlanReport, change: PodChange, options: ReportOptions) -> Case:
    attempt = change.attempt
    placement = None if attempt is None else document.placements[attempt]
    counted = document.verdict.counted_of(change.pod)
    if change.recreated_as is not None and change.recreated_as != change.pod:
        counted += document.verdict.counted_of(change.recreated_as)
    is_placed = change.action in (Action.PLACED, Action.MOVED)
    state: State = "failed" if counted else "passed" if is_placed else "skipped"
    message = _message(change, placement.diagnosis or "" if placement is not None else "")
    if counted and change.action is not Action.PENDING:
        message = f"{', '.join(each.text for each in counted)}; {message}"
    rule = counted[0].rule if counted else _RULES[change.action]
    detail = message
    if change.action is Action.PENDING and placement is not None:
        blocks = decision_blocks(placement, document.snapshot.nodes, options)
        detail = "\n".join([message, *(plain(each).rstrip() for each in layout(blocks, _DETAIL_WIDTH))])
    case = Case(change.pod, state, rule, message, detail)
    if placement is None:
        return case
    found = located(case, placement)
    # Of a pod that is made anew in the plan only the plan itself tells more.
    return found if placement.pod.key == change.pod else replace(found, more="")


_RULES: Mapping[Action, str] = {
    Action.PLACED: "Placed",
    Action.MOVED: "Moved",
    Action.EVICTED: "Evicted",
    Action.PENDING: "Pending",
}


def _message(change: PodChange, diagnosis: str) -> str:
    evicted = f"evicted from {change.from_node} for {change.by}" if change.by else ""
    if change.because and change.from_node is not None:
        evicted = f"leaves {change.from_node}: {change.because}"
    match change.action:
        case Action.PLACED:
            return f"placed on {change.to_node}"
        case Action.MOVED:
            return f"{evicted}, placed on {change.to_node}"
        case Action.EVICTED:
            return evicted if change.because else f"{evicted}; no controller recreates it"
    reason = diagnosis or change.reason
    return f"{evicted}; {reason}" if evicted else reason


def _title(document: PlanReport) -> str:
    return f"kplan {document.command}: {plan_sentence(document)}"


def _names(document: PlanReport) -> list[str]:
    listed = [f"{each.action} {each.pod} {each.to_node or '-'}" for each in document.changes]
    blocked = [f"x {each.pod} {each.node or '-'}" for each in document.obstacles]
    return [*listed, *unlisted_names(document.unlisted), *blocked]


VIEW = View(_title, plan_blocks, plan_cases, _names)
