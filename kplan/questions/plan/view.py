"""The PlanReport: what changes, what stays pending and why, and how full the cluster gets; and the QueueReport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from kplan.api.quantity import clause, count, grouped, readable
from kplan.documents import plan as p
from kplan.documents.base import MOST_DAEMONS
from kplan.documents.change import Change
from kplan.health import advice
from kplan.health import words as health_words
from kplan.health.workloads import SHORT_STATES
from kplan.questions.plan import effects_view as effects
from kplan.report import overview
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Style, Table, line
from kplan.report.decision import decision_blocks, decision_heading, located
from kplan.report.new_nodes import added_cases, added_text, growth_blocks, right_sizing_blocks
from kplan.report.options import ReportOptions
from kplan.report.text import detail_of
from kplan.report.timeline import end_line, step_blocks
from kplan.report.view import Case, State, View, state_of
from kplan.report.words import left_out, owner_title

_MOST_RESOURCES = 6
_NEARLY_FULL = 90.0
_MOST_FITS = 2


def fullness_blocks(utilisation: p.Utilisation, fits: Sequence[p.LargestFit]) -> Iterator[Block]:
    whole = utilisation.cluster
    if not whole.nodes:
        return
    shares = [f"{name} {text}" for name, usage in whole.resources.items() if (text := _percent(usage))]
    if not shares:
        return
    yield line(Span(f"Utilisation, before -> after: {', '.join(shares[:_MOST_RESOURCES])} (-o wide shows more)", "dim"))
    largest = [f"{readable(fit.after.free)} {fit.resource}" for fit in fits[:_MOST_FITS] if fit.after.free != "0"]
    if largest:
        yield line(Span(f"Largest request that still fits: {', '.join(largest)}", "dim"))


def _percent(usage: p.Usage) -> str:
    if usage.allocatable == "0" and usage.after == "0":
        return ""
    then, now = f"{usage.percent_before:.0f}%", f"{usage.percent_after:.0f}%"
    return now if then == now else f"{then} -> {now}"


def utilisation_blocks(utilisation: p.Utilisation, options: ReportOptions) -> Iterator[Block]:
    """Yield a table of how full the cluster, its zones and its pools are; with -o wide every node, too."""
    whole = utilisation.cluster
    if not whole.nodes:
        return
    resources = list(whole.resources)
    if not options.is_wide and len(resources) > _MOST_RESOURCES:
        resources = [*resources[: _MOST_RESOURCES - 1], resources[-1]]
    where = {"cluster": whole}
    for kind, groups in (("zone", utilisation.zones), ("pool", utilisation.pools)):
        if len(groups) > 1 or options.is_wide:
            where |= {f"{kind} {name or '(none)'}": group for name, group in groups.items()}
    if options.is_wide:
        where |= {name: p.NodeGroup(nodes=1, resources=group) for name, group in utilisation.nodes.items()}
    rows = tuple(
        (name, str(group.nodes), *(_share(group.resources.get(resource), options) for resource in resources))
        for name, group in where.items()
    )
    yield Heading(("Utilisation of nodes, before -> after",))
    has_pools = len(utilisation.pools) > 1 or (options.is_wide and utilisation.pools)
    note = f"pools: label {utilisation.pool_label}" if has_pools else ""
    yield Table(("WHERE", "NODES", *resources), rows, "<>" + ">" * len(resources), note=note)


def _share(usage: p.Usage | None, options: ReportOptions) -> Cell:
    text = "" if usage is None else _percent(usage)
    if usage is None or not text:
        return "-"
    has_moved = round(usage.percent_before) != round(usage.percent_after)
    if options.is_wide:
        text += f" ({readable(usage.after)} of {readable(usage.allocatable)})"
    return Span(text, "warn") if usage.percent_after >= _NEARLY_FULL and has_moved else text


def largest_fit_blocks(fits: Sequence[p.LargestFit], options: ReportOptions) -> Iterator[Block]:
    shown = [fit for fit in fits if fit.before.node is not None or fit.after.node is not None]
    if not shown:
        return
    rows = []
    for fit in shown if options.is_wide else shown[:_MOST_RESOURCES]:
        before, after, in_all = map(readable, (fit.before.free, fit.after.free, fit.after.total_free))
        rows.append((fit.resource, before, after, "-" if after == "0" else fit.after.node or "-", in_all))
    yield Heading(("The largest pod that still fits",))
    note = "on nodes open to any pod: not cordoned, not tainted, and below their limit of pods"
    yield Table(("RESOURCE", "BEFORE", "AFTER", "ON NODE", "FREE IN ALL"), tuple(rows), "<>><>", note=note)


_MOST_TOLD = 5  #: for so many of the different reasons why pods stay pending, one pod is shown in full
_STAYING_SHORT = SHORT_STATES - {"misses-pods", "misses-nodes"}
_OF_NODES = frozenset({"pods-not-ready", "pods-pending"})  #: states that nodes which do not answer may have caused
_MOST_PRESENT = 10


def _present_texts(document: p.PlanReport, *, is_sentence: bool = False) -> list[str]:
    """Return what is not well before anything happens, workloads with too few pods first.

    Nodes that somebody cordoned, or that are full, are none of the first sentence.
    """
    present = document.at_present
    if not present:
        return []
    silent = {node.node for node in present.nodes if node.is_silent}
    # Where all that is wrong with a workload is that its pods are on nodes that do not answer, the nodes are told.
    mild_ones = (health for health in present.workloads if _OF_NODES.issuperset(health.states))
    of_nodes = {health.workload for health in mild_ones if all(pod.node in silent for pod in health.troubled)}
    workloads = [health for health in present.workloads if health.workload not in of_nodes]
    short = [health_words.workload_text(health) for health in workloads if health.is_short]
    others = [health_words.workload_text(health) for health in workloads if not health.is_short]
    well = (pod for pod in present.pods if pod.node not in silent or pod.state == "being-deleted")
    pods = [health_words.pod_text(pod) for pod in well]
    mild = [node for node in present.nodes if not node.unusable and set(node.states) <= {"cordoned", "full"}]
    nodes = [*(node for node in present.nodes if node not in mild), *([] if is_sentence else mild)]
    return [*short, *(f"node {health_words.node_text(node)}" for node in nodes), *others, *pods]


def _is_short(document: p.PlanReport) -> bool:
    """Tell whether workloads lack pods that no controller makes."""
    present = document.at_present.workloads if document.at_present else ()
    return any(not _STAYING_SHORT.isdisjoint(health.states) for health in present)


def _present_blocks(document: p.PlanReport, options: ReportOptions) -> Iterator[Block]:
    """Yield what is not well besides what the first line says, with the commands that have workloads go on."""
    present, texts = document.at_present, _present_texts(document)
    if not present or not texts:
        return
    first = _present_texts(document, is_sentence=True)[:1]
    if texts := [text for text in texts if text not in first]:
        yield Heading(("At present",), 2)
        shown = texts if options.is_wide or options.in_full else texts[:_MOST_PRESENT]
        yield from (line(text, is_item=True) for text in shown)
        if more := left_out(len(texts) - len(shown), flag="-o wide"):
            yield Line(more, is_item=True)
    yield from map(line, advice.ways_on(present.workloads, present.pods))
    ways = ((one.ref.path, *advice.way_on(one)) for one in present.workloads)
    for name, words, command in islice((way for way in ways if way[-1]), _MOST_PRESENT):
        yield line(f"{words} ({name}): {command}")


def _body(document: p.PlanReport, options: ReportOptions) -> Iterator[Block]:
    if document.timeline:
        not_replaced = {change.pod for change in document.changes if change.action is p.Action.EVICTED}
        present = document.at_present.workloads if document.at_present else ()
        yield end_line(document.timeline, present, not_replaced)
    begins_with_present = not (document.changes or document.workloads) or _is_short(document)
    if begins_with_present:
        yield from _present_blocks(document, options)
    yield from overview.group_blocks(document.groups or (), options)
    if effects.is_change(document):
        yield from effects.workloads_blocks(document, options)
    yield from effects.changes_blocks(document, options)
    if not options.tells_all and document.changes:
        yield from fullness_blocks(document.utilisation, document.largest_fit)
    if effects.is_change(document):
        yield from effects.obstacles_blocks(document, options)
    if document.nodes:
        yield from growth_blocks(document.nodes, options)
    yield from right_sizing_blocks(document.right_sizing)
    yield from _new(document, options)
    yield from _pending(document, options)
    yield from overview.unlisted_blocks(document.unlisted, options)
    if not begins_with_present:
        yield from _present_blocks(document, options)
    if options.explain or (options.is_wide and document.timeline):
        yield from step_blocks(document.steps)
    if options.tells_all:
        yield from utilisation_blocks(document.utilisation, options)
        yield from largest_fit_blocks(document.largest_fit, options)


def _sentence(document: p.PlanReport) -> str:
    present = _present_texts(document, is_sentence=True)
    if not present:
        return _ends_sentence(document)
    also = f"; {len(present) - 1} more not well" if len(present) > 1 else ""
    if not document.changes and (not document.workloads or document.is_about_queue):
        return f"{present[0]}{also}"
    is_well = document.is_about_queue and not effects.waits_text(document, document.changes)
    if not document.named_pods and (is_well or _is_short(document)):
        ends = _ends_sentence(document)
        ends = ends if ends.partition(" ")[0] not in ("The", "Nothing") else f"{ends[:1].lower()}{ends[1:]}"
        return f"{present[0]}{also}; {ends}"
    return f"{_ends_sentence(document)}; at present {present[0]}{also}"


def _ends_sentence(document: p.PlanReport) -> str:
    if sentence := effects.change_sentence(document):
        return sentence + added_text(document.nodes)
    summary = document.summary
    if not document.changes:
        if refused := next((warning for warning in document.warnings if warning.code == "Refused"), None):
            return f"The API server refuses {refused.object.replace('/', ' ', 1)}: {refused.message}"
        covers_all = document.command == "plan" and not document.at_present
        wants = ", and every workload has what it wants" if covers_all else ""
        return f"Nothing to do: no pod is pending{wants}"
    own = [change for change in document.changes if change.caused_by == "change"]
    further = sum(unlisted.pods for unlisted in document.unlisted)
    is_apart = bool(own) and len(own) < len(document.changes) and not further and not document.is_about_queue
    actions = Counter(change.action for change in own)
    numbers = [summary.placed, summary.moved, summary.evicted, summary.pending]
    if is_apart:
        numbers = [actions[action] for action in (p.Action.PLACED, p.Action.MOVED, p.Action.EVICTED, p.Action.PENDING)]
    stay = "stays pending" if numbers[3] == 1 else "stay pending"
    words = ("placed", "moved", "not replaced", stay)
    shown_ones = () if is_apart else ("placed",)
    parts = [f"{number} {word}" for number, word in zip(numbers, words, strict=True) if number or word in shown_ones]
    if summary.pdb_violations:
        parts.append(count(summary.pdb_violations, "disruption budget violation"))
    n_pods = len(own) if is_apart else len(document.changes) + further
    beside = effects.beside_text(document) if is_apart else ""
    first = effects.named_pods_text(document)
    first = first or effects.waits_text(document, document.changes if document.is_about_queue else own)
    in_all = " in all" if first and n_pods > len(document.named_pods or ()) > 0 else ""
    numbers_text = f"{count(n_pods, 'pod')}{in_all}: {', '.join(parts)}{beside}{added_text(document.nodes)}"
    return f"{first}; {numbers_text}" if first else numbers_text


def _new(document: p.PlanReport, options: ReportOptions) -> Iterator[Block]:
    """Yield why the first pod of the only new workload goes where it goes; with --explain that of every workload."""
    placed = grouped(
        (change.owner_key, decision)
        for change in document.changes
        if change.action in (p.Action.PLACED, p.Action.MOVED) and (decision := document.decision(change))
    )
    new = [workload for workload in document.workloads if options.in_full or workload.change is Change.NEW]
    for workload in new if options.in_full or len(new) == 1 else ():
        members = placed.get(workload.key, [])
        if first := next((member for member in members if member.feasible_count), None):
            number = f" (the first of {len(members)})" if len(members) > 1 else ""
            yield decision_heading(f"{first.pod.key}{number}", first)
            yield from decision_blocks(first, document.snapshot.nodes, options)


def attempts_in_full(changes: Sequence[p.PodChange]) -> list[int]:
    """Return the indices of the placements that are shown in full: of pending pods the first with each message.

    Every pending pod of a DaemonSet is among them, since each is meant for another node.
    """
    first: dict[tuple[str, ...], int] = {}
    daemons: list[int] = []
    for change in changes:
        if change.action is p.Action.PENDING and change.attempt is not None:
            first.setdefault(change.end, change.attempt)
            if change.is_daemon:
                daemons.append(change.attempt)
    return sorted({*[*first.values()][:_MOST_TOLD], *daemons[:MOST_DAEMONS]})


def _pending(document: p.PlanReport, options: ReportOptions) -> Iterator[Block]:
    """Yield why pods stay pending: once for all that share a reason, and once for the pods of a DaemonSet."""
    in_full = set(attempts_in_full(document.changes))

    def end(change: p.PodChange) -> tuple[str, ...]:
        if change.is_daemon:
            return change.owner_key, change.outcome
        return change.end

    pending = (change for change in document.changes if change.action is p.Action.PENDING)
    groups = grouped((end(change), change) for change in pending)
    for members in groups.values():
        first = members[0]
        if first.is_daemon and any(member.attempt is not None for member in members):
            yield from _pending_daemons(document, members, options)
        else:
            yield from _pending_alike(document, members, options, in_full=first.attempt in in_full)


def _pending_daemons(document: p.PlanReport, members: Sequence[p.PodChange], options: ReportOptions) -> Iterator[Block]:
    owner = members[0].owner_key
    own = [change for change in document.changes if change.owner_key == owner]
    unlisted = [one for one in document.unlisted if one.workload == owner]
    placed = sum(change.to_node is not None for change in own) + (members[0].siblings or 0)
    placed += sum(sum(one.nodes.values()) for one in unlisted)
    wanted = placed + len(members) + sum(one.pods - sum(one.nodes.values()) for one in unlisted)
    yield Heading((f"{owner_title(owner)}: ", Span(f"{placed} of {count(wanted, 'node')}", "bad")))
    decisions = [decision for member in members if (decision := document.decision(member))]
    yield from overview.daemon_blocks(decisions, options)


def _pending_alike(
    document: p.PlanReport, members: Sequence[p.PodChange], options: ReportOptions, *, in_full: bool
) -> Iterator[Block]:
    first, placement = members[0], document.decision(members[0])
    ending = effects.ending_of(document, first)
    of_one = " " if len(members) == 1 else ": "
    yield Heading((f"{effects.names_of(members)}{of_one}", Span(ending.of(len(members)), "bad")))
    if placement is None:
        yield line(f"{first.reason.removesuffix('.')}.")
        return
    if not in_full:
        yield Preformatted("kube-scheduler writes", placement.message)
        return
    is_in_first_line = clause(placement.why) in document.sentence
    yield from decision_blocks(
        placement, document.snapshot.nodes, options, is_brief=not options.in_full, is_answer=is_in_first_line
    )
    ends = ((document.decision(member), member) for member in members)
    whys = grouped((str(one.diagnosis or ""), member) for one, member in ends if one is not None)
    others = [f"{effects.names_of(like)}: {why}" for why, like in whys.items() if why not in ("", placement.diagnosis)]
    shown = others if options.in_full else others[:_MOST_TOLD]
    yield from (line(text, is_item=True) for text in shown)
    if len(shown) < len(others):
        yield line(f"and {len(others) - len(shown)} more", is_item=True)


def _cases(document: p.PlanReport, options: ReportOptions) -> Iterator[Case]:
    yield from overview.group_cases(document.groups or (), document.verdict)
    for change in document.changes:
        yield _case(document, change, options)
    yield from overview.unlisted_cases(document)
    yield from effects.change_cases(document)
    if document.nodes:
        yield from added_cases(document.nodes.added, document.verdict)


def _case(document: p.PlanReport, change: p.PodChange, options: ReportOptions) -> Case:
    placement = document.decision(change)
    counted = document.verdict.counted_of(change.pod)
    is_placed, is_pending = change.action in (p.Action.PLACED, p.Action.MOVED), change.action is p.Action.PENDING
    state: State = "failed" if counted else "passed" if is_placed else "skipped"
    message = _message(change, document.why_pending(change) if is_pending else "")
    if counted and not is_pending:
        message = f"{', '.join(text_line.text for text_line in counted)}; {message}"
    rule = counted[0].rule if counted else change.action.name.title()
    case = Case(change.pod, state, rule, message, message)
    if placement is None:
        return case
    if is_pending:
        blocks = decision_blocks(placement, document.snapshot.nodes, options)
        case = replace(case, detail=f"{message}\n{detail_of(blocks, options)}")
    case = located(case, placement)
    # Of a pod that is made anew in the plan only the plan itself tells more.
    return case if placement.pod.key == change.pod else replace(case, more="")


def _message(change: p.PodChange, reason: str) -> str:
    """Return what becomes of a pod; `reason`: why it stays pending."""
    left = f" from {change.from_node}" if change.from_node is not None else ""
    evicted = f"evicted{left} for {change.by}" if change.by else ""
    if change.because:
        evicted = f"{'goes' if change.from_node is None else f'leaves {change.from_node}'}: {change.because}"
    words = {
        p.Action.PLACED: f"placed on {change.to_node}",
        p.Action.MOVED: f"{evicted}, placed on {change.to_node}",
        p.Action.EVICTED: evicted if change.because else f"{evicted}; no controller recreates it",
        p.Action.PENDING: f"{evicted}. {reason}" if evicted else reason,
    }
    return words[change.action]


def _names(document: p.PlanReport) -> list[str]:
    listed = [f"{change.action} {change.pod} {change.to_node or '-'}" for change in document.changes]
    blocked = [f"x {obstacle.pod} {obstacle.node or '-'}" for obstacle in document.obstacles]
    return [*listed, *overview.unlisted_names(document.unlisted), *blocked]


VIEW = View(
    lambda document: overview.behind_groups(document.groups, _sentence(document)),
    _body,
    _cases,
    _names,
    moments={"before": "Before", "after": "After"},
)


_PLACE_STYLES: Mapping[p.QueuePlace, Style] = {
    p.QueuePlace.GATED: "warn",
    p.QueuePlace.FOREIGN: "bad",
    p.QueuePlace.DELETING: "dim",
}


def _queue_body(document: p.QueueReport, options: ReportOptions) -> Iterator[Block]:
    if not document.queue:
        return
    yield line("By priority, then by age; pods that are not active have no turn.")
    rows: list[tuple[Cell, ...]] = []
    for entry in document.queue:
        turn = str(entry.position) if entry.place is p.QueuePlace.ACTIVE else "-"
        rows.append((turn, entry.pod, Span(entry.place, _PLACE_STYLES.get(entry.place, "")), entry.reason))
    yield Table(("TURN", "POD", "PLACE", "WHY THERE"), tuple(rows), "><<<")


def _queue_sentence(document: p.QueueReport) -> str:
    summary = document.summary
    others = ((summary.gated, "gated"), (summary.foreign, "of other schedulers"), (summary.deleting, "being deleted"))
    parts = [f"{summary.active} active", *(f"{number} {words}" for number, words in others if number)]
    return f"{count(summary.pods, 'pending pod')}: {', '.join(parts)}" if summary.pods else "No pod is pending"


def _queue_cases(document: p.QueueReport, options: ReportOptions) -> Iterator[Case]:
    for entry in document.queue:
        is_active = entry.place is p.QueuePlace.ACTIVE
        message = f"turn {entry.position}: {entry.reason}" if is_active else entry.reason
        yield Case(entry.pod, state_of(document.verdict, entry.pod, is_well=is_active), entry.place, message, message)


QUEUE_VIEW = View[p.QueueReport](
    _queue_sentence,
    _queue_body,
    _queue_cases,
    lambda document: [entry.pod for entry in document.queue if entry.place is p.QueuePlace.ACTIVE],
)
