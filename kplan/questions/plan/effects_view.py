"""A change that controllers carry through: what becomes of each workload, then what needs attention."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.quantity import behind_colon, clause, count, grouped, listing
from kplan.course.answers.drains import LOST_PODS_STAY, NODE_NOT_REACHED, NOT_REPLACED, TIMED_OUT
from kplan.documents.change import Change, Forced, Obstacle, Timeline, WorkloadChange, WorkloadState
from kplan.documents.placement import Origin
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.facts import LOST_NODE_STAYS
from kplan.health.advice import quota_command
from kplan.health.words import raises_text, released_text
from kplan.health.workloads import MISSING_REPLICAS
from kplan.report.blocks import Block, Cell, Heading, Preformatted, Span, Style, Table, line
from kplan.report.decision import remedy_text, why_nowhere
from kplan.report.options import ReportOptions
from kplan.report.overview import common_suffix, own_node, suffix_line, where_text
from kplan.report.text import natural_width
from kplan.report.timeline import timeline_blocks, unavailable_cases
from kplan.report.view import Case, state_of
from kplan.report.words import ENDINGS, Ending, left_out, owner_title, workload_title
from kplan.workloads.hooks import HELD_UP


class _Told(NamedTuple):
    """How it is told what becomes of pods."""

    style: Style
    legend: str
    numbered: str  #: behind a number of pods


_TOLD: Mapping[Action, _Told] = {
    Action.PLACED: _Told("good", "+ placed", "placed"),
    Action.MOVED: _Told("warn", "~ moved to another node", "moved"),
    Action.EVICTED: _Told("bad", "- leaves, not replaced", "not replaced"),
    Action.PENDING: _Told("bad", "! stays pending", "left pending"),
}
_MOST_NODES = 3
_MOST_ROWS = 60  #: at most so many rows, unless more pods than that need attention


def changes_blocks(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    changes = document.changes
    is_in_first_line = len(changes) == 1 and changes[0].action is Action.PENDING and changes[0].from_node is None
    # Of a single pod that waits the first line tells all.
    if not changes or (is_in_first_line and not document.unlisted and not options.is_wide):
        return
    legend = [words.legend for action, words in _TOLD.items() if any(change.action is action for change in changes)]
    yield line(Span("   ".join(legend), "dim"))
    groups = [[change] for change in changes] if options.is_wide else _alike(changes)
    shown = groups if options.shows_all else _shown(groups)
    ends = (node for group in shown for change in group for node in (change.from_node, change.to_node))
    suffix = "" if options.is_wide else common_suffix({node for node in ends if node is not None})
    roomy = (_table(document, shown, suffix, most, options) for most in (_MOST_NODES, 2))
    table = next((candidate for candidate in roomy if natural_width(candidate) <= options.width), None)
    note = left_out(len(groups) - len(shown), extra=" that are placed", flag="-o wide")
    yield replace(table or _table(document, shown, suffix, 1, options), note=note)
    yield from suffix_line(suffix)


def _alike(changes: Sequence[PodChange]) -> list[list[PodChange]]:
    """Return the pods in groups: new pods of a workload, and others by how they end."""

    def kind(change: PodChange) -> tuple[str, ...]:
        of = (change.owner_key, change.caused_by)
        if change.from_node is None and change.by is None:
            return of
        return (*of, change.action, str(change.by), change.outcome, change.reason, change.because)

    return list(grouped((kind(change), change) for change in changes).values())


def _shown(groups: Sequence[list[PodChange]]) -> list[list[PodChange]]:
    """Return the groups that are shown: where there are many, without the last of those that are only placed."""
    placed = [group for group in groups if all(change.action is Action.PLACED for change in group)]
    left = set(map(id, placed[max(_MOST_ROWS - (len(groups) - len(placed)), 0) :]))
    return [group for group in groups if id(group) not in left]


def _table(
    document: PlanReport, groups: Sequence[Sequence[PodChange]], suffix: str, most: int, options: ReportOptions
) -> Table:
    # Pods that are only counted are told in the last group of their workload, since most of them come last.
    further, placed_further = Counter[str](), Counter[str]()
    for unlisted in document.unlisted:
        further[unlisted.workload] += unlisted.pods
        placed_further[unlisted.workload] += sum(unlisted.nodes.values())
    rows: list[tuple[Cell, ...]] = []
    for group in reversed(groups):
        # The sign of the end that needs attention most, where pods end differently.
        action = max((change.action for change in group), key=[*Action].index)
        owner = group[0].owner_key
        placed = sum(change.to_node is not None for change in group) + placed_further.pop(owner, 0)
        ends = ([change.from_node for change in group], [change.to_node for change in group])
        note = _note(document, group, is_wide=options.is_wide)
        who = group[0].pod if options.is_wide else _who(document, group)
        of = f"{placed}/{len(group) + further.pop(owner, 0)}"
        nodes = (where_text(Counter(name for name in names if name is not None), suffix, most) for names in ends)
        rows.append((Span(action, _TOLD[action].style), who, of, *nodes, note.replace(suffix, "") if suffix else note))
    rows.reverse()
    if any(len(group) > 1 for group in groups):
        return Table(("", "POD OR WORKLOAD", "PLACED", "FROM", "TO", "NOTE"), tuple(rows), "<<><<<")
    # Of single pods the first column says whether they are placed.
    return Table(("", "POD", "FROM", "TO", "NOTE"), tuple((*row[:2], *row[3:]) for row in rows), "<<<<<")


def _who(document: PlanReport, group: Sequence[PodChange]) -> str:
    """Return the name of a workload, or of its only pod; a pod of a manifest has only a made-up name."""
    first = group[0]
    decision = document.decision(first)
    is_of_manifest = decision is not None and bool(decision.pod.origin) and first.from_node is None
    return owner_title(first.owner_key) if len(group) > 1 or is_of_manifest else first.pod


def _note(document: PlanReport, group: Sequence[PodChange], *, is_wide: bool) -> str:
    first = group[0]
    parts = []
    if first.by is not None:
        parts.append(f"evicted for {first.by}")
    if first.because:
        rollouts = {one.key for one in document.workloads if one.change is Change.ROLLOUT}
        is_rolled_out = first.by is None and first.owner_key in rollouts
        parts.append(f"rollout, {first.because}" if is_rolled_out else first.because)
    elif first.action is Action.EVICTED:
        parts.append("no controller recreates it")
    if back := sum(change.from_node is not None and change.to_node in document.come_back for change in group):
        parts.append("comes back" if len(group) == 1 else f"{back} come back")
    new = {node.name for node in document.nodes.added} if document.nodes else set()
    if n_new := sum(change.to_node in new for change in group):
        parts.append("on a new node" if len(group) == 1 else f"{n_new} on new nodes")
    # Only where a change is asked about, so that not everything happens because pods wait.
    is_about_change = document.command == "drain" or any(change.caused_by == "change" for change in document.changes)
    if first.caused_by == "waiting" and first.from_node is None and is_about_change:
        parts.append("was pending before")
    pending = [change for change in group if change.action is Action.PENDING]
    if first.is_daemon and pending:
        parts.append(f"not on {listing([_meant_for(document, change) for change in pending])}")
    else:
        ends = ((change, ending_of(document, change)) for change in pending)
        parts += dict.fromkeys(change.reason if end is ENDINGS[""] else end.short for change, end in ends)
    if is_wide and first.recreated_as not in (None, first.pod):
        parts.append(f"recreated as {first.recreated_as}")
    return ", ".join(parts)


def ending_of(document: PlanReport, change: PodChange) -> Ending:
    decision = document.decision(change)
    undecided = "" if decision is None else decision.undecided or ""
    return ENDINGS["waits" if change.held_back_by else undecided or change.outcome]


def _meant_for(document: PlanReport, change: PodChange) -> str:
    """Return the node that a DaemonSet's pod is meant for, or the pod's name where the report does not hold it."""
    decision = document.decision(change)
    return change.from_node or (own_node(decision) if decision is not None else "") or change.key.name


_WORDS: Mapping[Change, str] = {
    Change.ROLLOUT: "rolled out",
    Change.SCALE: "scaled",
    Change.NEW: "new",
    Change.NONE: "unchanged",
    Change.DELETED: "deleted",
}
_MOST_REFUSED = 400  #: characters of a refusal in the first words, as a few lines show them
_ASSUMED = "Assumed: a pod is ready as soon as it is bound, and gone as soon as it is deleted."
_JOBS_RUN_ON = " Jobs run on; with --timeline they end, and make room."


def is_change(document: PlanReport) -> bool:
    has_subject = any(workload.is_subject for workload in document.workloads)
    return has_subject or document.command == "drain" or bool(document.timeline)


def change_sentence(document: PlanReport) -> str:
    """Return in one sentence what stands in the way, what becomes of the workloads in question, and of other pods.

    Empty where no workload is in question, and no other pod comes or goes because of the change.
    """
    if not is_change(document) or document.is_about_queue:
        return ""
    trouble = _trouble(document)
    numbers = _numbers_sentence(document, has_names=not trouble)
    return f"{trouble}; {numbers[:1].lower()}{numbers[1:]}" if trouble else numbers


def _trouble(document: PlanReport) -> str:
    """Return the first thing that stands in the way of a change, with its name and number; empty for nothing."""
    if document.obstacles:
        return _blocks(document)
    pending = Action.PENDING
    own = [change for change in document.changes if change.action is pending and change.caused_by == "change"]
    subjects = {workload.key for workload in document.workloads if workload.is_subject}
    decided = [change for change in own if change.attempt is not None]
    of_subjects = (change for change in decided if change.owner_key in subjects)
    first = next(of_subjects, decided[0] if decided else None)
    why = "" if first is None else behind_colon(_why(document, first))
    if first is not None and first.workload:
        number = sum(change.owner_key == first.owner_key for change in own)
        title = owner_title(first.owner_key)
        owner = next((one for one in document.workloads if one.key == first.owner_key), None)
        if owner is not None and owner.state is WorkloadState.STUCK and not owner.is_failed_job:
            what = "The rollout of " if owner.change is Change.ROLLOUT else ""
            return f"{what}{title} gets stuck, {owner.ready} of {owner.desired} ready{why}"
        return f"{count(number, 'pod')} of {title} {'stays' if number == 1 else 'stay'} pending{why}"
    if first is not None:
        return f"{first.pod} stays pending{why}"
    if stuck := next(filter(None, map(partial(_held_up, document), document.workloads)), ""):
        return stuck
    given_up = [warning.object.removeprefix("Node/") for warning in document.warnings if warning.code == TIMED_OUT]
    return f"{given_up[0]} is not empty in time" if given_up else ""


def _held_up(document: PlanReport, workload: WorkloadChange) -> str:
    """Return that a workload is stuck, and why, where that comes of the change; empty otherwise."""
    if workload.refused:
        head, opening, rest = workload.refused.partition("{")
        _, closing, tail = rest.rpartition("}")
        words = f"{head}{{...}}{tail}" if opening and closing else workload.refused  # it may quote a whole template
        words = textwrap.shorten(words, _MOST_REFUSED, placeholder=" ...")
        return f"The API server refuses {workload_title(workload.key)}: {words}"
    if workload.state is not WorkloadState.STUCK:
        return ""
    if any(event.rule == "NotReplaced" for event in document.verdict.counted_of(workload.key)):
        because = NOT_REPLACED
    elif workload.change is not Change.NONE or not workload.pod:
        pods = (change for change in document.changes if workload.pod in (change.pod, change.recreated_as))
        diagnosis = _why(document, pod) if workload.pod and (pod := next(pods, None)) else ""
        because = diagnosis or workload.because.removesuffix(".")
        because += f"; {raises_text(workload.raises)}" if workload.raises else ""
    else:
        because = ""
    how = "fails" if workload.is_failed_job else f"is {_stuck(workload)}"
    return f"{workload_title(workload.key)} {how}: {because}" if because else ""


def named_pods_text(document: PlanReport) -> str:
    """Return what becomes of the pods that are named; empty where none is, and where groups are told instead."""
    named = [change for change in document.changes if change.pod in (document.named_pods or ())]
    if not named or document.groups:
        return ""
    placed, gone = ([one for one in named if one.action is action] for action in (Action.PLACED, Action.EVICTED))
    parts = [waits_text(document, named)]
    if len(placed) == 1:
        victims = [change.pod for change in document.changes if change.by == placed[0].pod]
        by_evicting = f" by evicting {listing(victims, most=2)}" if victims else ""
        parts.append(f"{placed[0].pod} -> {placed[0].to_node}{by_evicting}")
    elif placed:
        parts.append(f"{names_of(placed)} find a node")
    parts.append(f"{names_of(gone)} {'is' if len(gone) == 1 else 'are'} not replaced" if gone else "")
    return "; ".join(filter(None, parts))


def names_of(members: Sequence[PodChange]) -> str:
    """Return the names of pods; several of one workload by its name."""
    by_workload = grouped((owner_title(member.owner_key), member.pod) for member in members)
    names = [pods[0] if len(pods) == 1 else f"{count(len(pods), 'pod')} of {of}" for of, pods in by_workload.items()]
    return listing(names)


def waits_text(document: PlanReport, among: Sequence[PodChange]) -> str:
    """Return which pods stay pending, the first with its reason; empty for none, and where groups are told instead."""
    pending = [change for change in among if change.action is Action.PENDING]
    if not pending or document.groups:
        return ""
    first = next((change for change in pending if _why(document, change)), pending[0])
    like = sum(change.owner_key == first.owner_key for change in pending)
    who = first.pod if like == 1 else f"{like} pods of {owner_title(first.owner_key)}"
    others = len(pending) - like
    more = f" (and {count(others, 'other pod')} too)" if others else ""
    return f"{who} {'stays' if like == 1 else 'stay'} pending{more}{behind_colon(_why(document, first))}"


def _why(document: PlanReport, change: PodChange) -> str:
    """Return why a pod has no node; empty where nothing tells."""
    decision = document.decision(change)
    has_own = decision is not None and (decision.diagnosis or decision.eviction)
    return why_nowhere(decision) if decision is not None and has_own else clause(document.why_pending(change))


def _blocks(document: PlanReport) -> str:
    obstacle, *others = document.obstacles
    who = workload_key(obstacle)
    names = [name for name in dict.fromkeys(map(workload_key, others)) if name != who]
    more = "" if not names else f"; so does {names[0]}" if len(names) == 1 else f"; so do {len(names)} others"
    if obstacle.reason == "node-silent":
        return f"{obstacle.pod} never leaves {obstacle.node}, as no kubelet answers there to end it{more}"
    if obstacle.never_ends:
        return f"{obstacle.pod} never leaves {obstacle.node}: {obstacle.why}{more}"
    if not obstacle.is_by_budget or len(obstacle.budgets) != 1 or obstacle.budgets[0].without_scale:
        return f"{who} blocks {obstacle.node}: {obstacle.why}{more}"
    (budget,) = obstacle.budgets
    unready = f": {obstacle.unready}" if obstacle.unready else ""
    needs = f"requires {count(budget.desired, 'healthy pod')}, has {budget.healthy}{unready}"
    return f"{who} blocks {obstacle.node}: its budget {budget.name} allows no eviction ({needs}){more}"


def workload_key(obstacle: Obstacle) -> str:
    """Return NAMESPACE/NAME of the workload of a pod that stays, or of a pod without one."""
    return obstacle.pod if obstacle.owner is None else f"{obstacle.owner.namespace}/{obstacle.owner.name}"


def _numbers_sentence(document: PlanReport, *, has_names: bool) -> str:
    """Return how many pods end in which way; with names, which nodes or which only workload that is about."""
    if document.command == "drain":
        nodes = f"{listing(document.named_nodes, most=_MOST_NODES)}: " if has_names and document.named_nodes else ""
        return f"{nodes}{_drain_sentence(document)}"
    subjects = [workload for workload in document.workloads if workload.is_subject]
    keys = {workload.key for workload in subjects}
    words = Counter("refused" if workload.refused else _WORDS[workload.change] for workload in subjects)
    parts = [f"{words[word]} {word}" for word in ("unchanged", "scaled", "rolled out", "new", "refused") if words[word]]
    if has_names and len(subjects) == 1:
        parts = [f"{workload_title(subjects[0].key)} is {next(iter(words))}"]
    of_subjects = grouped((one.owner_key in keys, one) for one in document.changes)
    own = of_subjects.get(True, [])
    others = Counter(change.action for change in of_subjects.get(False, ()) if change.caused_by == "change")
    stuck = sum(workload.state is WorkloadState.STUCK for workload in subjects)
    missing = sum(warning.code == MISSING_REPLICAS for warning in document.warnings)
    lacking = f"; {count(missing, 'workload')} without all replicas" if missing else ""
    if not (subjects or own or document.obstacles or stuck):
        return _others_sentence(document, others) + lacking if others else ""
    ends = _ends(own, stuck, document, keys) or ["nothing to place"]
    sentence = f"{', '.join(parts)}: {', '.join(ends)}" if parts else ", ".join(ends).capitalize()
    held_up = sum(warning.code == HELD_UP for warning in document.warnings)
    sentence += f"; {count(held_up, 'object')} behind a hook not applied" if held_up else ""
    sentence += f"; other pods: {_by_action(others)}" if others else ""
    return sentence + lacking + beside_text(document)


def _drain_sentence(document: PlanReport) -> str:
    if not document.changes and not document.obstacles:
        return _staying(document) or "no pod has to move"
    own = [change for change in document.changes if change.caused_by == "change"]
    pending = grouped((one.caused_by, one.owner_key) for one in document.changes if one.action is Action.PENDING)
    # A workload whose pods are pending because others waited before would be held up without the drain, too.
    before = {*pending.get("waiting", ())} - {*pending.get("change", ())}
    owners = {change.owner_key for change in own} - before
    held_up = (workload for workload in document.workloads if workload.state is WorkloadState.STUCK)
    stuck = sum(workload.key in owners for workload in held_up)
    return (", ".join(_ends(own, stuck, document)) or "no pod has to move") + beside_text(document)


def _others_sentence(document: PlanReport, others: Counter[Action]) -> str:
    beside, action = beside_text(document), Action.PENDING
    pending = sum(change.action is action for change in document.changes)
    if still := sum(not pod.node for pod in document.after) - pending:
        stays = count(still, "stays pending", "stay pending")
        beside += f"{',' if beside else '; of those that waited before'} {stays}"
    return f"{count(others.total(), 'pod')}: {_by_action(others)}{beside}"


def _by_action(numbers: Counter[Action]) -> str:
    return ", ".join(f"{numbers[action]} {words.numbered}" for action, words in _TOLD.items() if numbers[action])


def beside_text(document: PlanReport) -> str:
    """Return what happens in any case, to pods that waited before or whose nodes are not well; empty for nothing."""
    waiting, leaving = Counter[Action](), Counter[Action]()
    for change in document.changes:
        if change.caused_by == "waiting":
            (waiting if change.from_node is None or change.by else leaving)[change.action] += 1
    groups = (("pods that waited before", waiting), ("pods of nodes that are not well", leaving))
    return "".join(f"; {who}: {_by_action(actions)}" for who, actions in groups if actions)


def _ends(
    changes: Sequence[PodChange], stuck: int, document: PlanReport, subjects: AbstractSet[str] = frozenset()
) -> list[str]:
    """Return how many pods end in which way, also those of `subjects` that were not tried, and what is stuck."""
    counts = Counter(change.action for change in changes)
    n_placed = counts[Action.PLACED] + counts[Action.MOVED]
    untried = sum(unlisted.pods for unlisted in document.unlisted if unlisted.workload in subjects)
    n_wanted = n_placed + counts[Action.PENDING] + untried
    # Of a workload that only gets smaller no pod needs a place.
    ends = [f"{n_placed} of {count(n_wanted, 'pod')} placed"] if n_wanted else []
    n_hanging = sum(obstacle.never_ends for obstacle in document.obstacles)
    numbers = (
        (stuck, "workload", "stuck"),
        (len(document.obstacles) - n_hanging, "pod", "blocked"),
        (n_hanging, "pod", "will not leave"),
        (counts[Action.EVICTED], "pod", "not replaced"),
        (sum(change.by is not None for change in changes), "pod", "preempted"),
        (sum(warning.code == NODE_NOT_REACHED for warning in document.warnings), "node", "not drained"),
    )
    ends += [f"{count(number, noun)} {word}" for number, noun, word in numbers if number]
    for node, pods in document.come_back.items():
        ends.append(f"{count(len(pods), 'new pod goes', 'new pods go')} back to {node}, which is not empty")
    return [*ends, *filter(None, (_staying(document),))]


def _staying(document: PlanReport) -> str:
    """Return on how many lost nodes pods stay that nothing replaces; empty for none."""
    nodes = sum(warning.code == LOST_PODS_STAY for warning in document.warnings)
    return f"pods of {count(nodes, 'lost node')} not replaced" if nodes else ""


def workloads_blocks(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    quiet = [] if options.is_wide else [workload for workload in document.workloads if _is_quiet(workload)]
    if shown := [workload for workload in document.workloads if options.is_wide or not _is_quiet(workload)]:
        yield Table(("WORKLOAD", "CHANGE", "WANTED", "READY", "PENDING", "STATE"), tuple(map(_row, shown)), "<<>>><")
    if quiet:
        yield line(f"Unchanged: {listing([workload_title(workload.key) for workload in quiet])}")
    if isinstance(document.timeline, Timeline):
        yield from timeline_blocks(document.steps, document.timeline)
    elif any(step.pod for step in document.steps):
        has_jobs = any(workload.kind == "Job" for workload in document.workloads)
        yield line(Span(f"{_ASSUMED}{_JOBS_RUN_ON if has_jobs else ''}", "dim"))


def _released(document: PlanReport, workload: WorkloadChange) -> str:
    """Return when a pod of a workload starts that waits for a volume; empty where none does."""
    if (held := workload.held_volume) is UNSET:
        return ""
    stays = (LOST_NODE_STAYS, f"Node/{held.node}")  # where the node does not answer
    return released_text(held, is_lost=any((one.code, one.object) == stays for one in document.warnings))


def obstacles_blocks(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    pending = [change for change in document.changes if change.action is Action.PENDING]
    explained = {pod for change in pending for pod in (change.pod, change.recreated_as)}
    for workload in document.workloads:
        if workload.refused:
            yield Heading((f"{workload_title(workload.key)}: ", Span("refused", "bad")))
            yield Preformatted("the API server refuses it", workload.refused)
        elif workload.state is WorkloadState.STUCK and workload.because and workload.pod not in explained:
            yield Heading((f"{workload_title(workload.key)}: ", Span(_stuck(workload), "bad")))
            children = "jobs" if workload.kind == "CronJob" else "pods"
            holder = "the change ends it" if workload.is_failed_job else f"its controller cannot create {children}"
            if released := _released(document, workload):
                holder = "a pod of it does not start"
            elif workload.change is Change.ROLLOUT and workload.ready >= workload.desired:
                holder = "its old pods stay"
            yield Preformatted(workload.pod or holder, workload.because)
            if released:
                yield line(released)
            yield from (line(f"To raise the quota: {quota_command(raised)}") for raised in workload.raises or ())
    yield from _obstacles(document, options)


def _stuck(workload: WorkloadChange) -> str:
    if workload.is_failed_job:
        return "the job fails"
    return f"stuck, {workload.ready} of {workload.desired} ready" if workload.desired else "stuck"


def _is_quiet(workload: WorkloadChange) -> bool:
    return workload.state is WorkloadState.UNCHANGED and not workload.refused and not workload.unseen


def _row(workload: WorkloadChange) -> tuple[Cell, ...]:
    is_moved = workload.change is Change.NONE and workload.state in (WorkloadState.COMPLETE, WorkloadState.STUCK)
    change = "refused" if workload.refused else "moved" if is_moved else _WORDS[workload.change]
    is_bad = workload.state in (WorkloadState.STUCK, WorkloadState.BLOCKED) or bool(workload.refused)
    state = f"{count(workload.blocked, 'pod')} blocked" if workload.blocked else workload.state.value
    numbers = (workload.desired, workload.ready, workload.pending)
    return (workload_title(workload.key), change, *map(str, numbers), Span(state, "bad" if is_bad else "good"))


def _obstacles(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    obstacles = document.obstacles
    if not obstacles:
        return
    n_hanging = sum(obstacle.never_ends for obstacle in obstacles)
    numbers = ((len(obstacles) - n_hanging, "cannot be evicted"), (n_hanging, "will not leave"))
    ends = [f"{count(number, 'pod')} {word}" for number, word in numbers if number]
    yield Heading((Span(", ".join(ends), "bad"),))
    rows = tuple((obstacle.pod, obstacle.node, obstacle.why) for obstacle in obstacles)
    yield Table(("POD", "NODE", "WHY"), rows, "<<<")
    if options.in_full:
        for words in dict.fromkeys(obstacle.words for obstacle in obstacles if obstacle.is_by_budget):
            yield Preformatted("the eviction API writes", words)
    for node in document.refused_nodes:
        does = "does not evict its only pod" if node.stays == 1 else f"evicts none of the {node.stays} pods there"
        text = f"kubectl drain cordons {node.node} but {does}: it asks for {' '.join(node.flags)} first"
        yield line(text, is_item=True)
    if document.forced:
        yield line(forced_text(document.forced), is_item=True)
    helped = {budget.name for obstacle in obstacles if obstacle.remedies for budget in obstacle.budgets[:1]}
    # Where a change of a budget helps one of its pods, the others are asked about again after it.
    others = [one for one in obstacles if one.remedies or not helped.intersection(b.name for b in one.budgets[:1])]
    texts = dict.fromkeys(map(obstacle_text, others))
    yield from (line(Span("What would help", "strong"), f": {text}.") for text in texts if text)


def forced_text(forced: Forced) -> str:
    others = (
        (forced.gone, "would not be replaced"),
        (forced.pending, "would stay pending"),
        (forced.blocked, "could not be evicted even so"),
    )
    ends = [f"{count(forced.placed, 'pod')} would move"] if forced.placed else []
    ends += [f"{listing(pods)} {words}" for pods, words in others if pods]
    return f"with {' '.join(forced.flags)}: {', '.join(ends) or 'nothing would change'}"


def obstacle_text(obstacle: Obstacle) -> str:
    """Return what would let a pod be evicted; empty where no budget covers it."""
    if len(obstacle.budgets) > 1:
        return f"let only one of {listing([budget.name for budget in obstacle.budgets])} select {obstacle.pod}"
    if not obstacle.budgets or not obstacle.is_by_budget:
        return ""
    budget = obstacle.budgets[0]
    if budget.without_scale:
        ways = [remedy_text(remedy) for remedy in obstacle.remedies]
        if not budget.without_scale.startswith("Pod/"):
            ways.append(f"a selector of {budget.name} without {workload_title(budget.without_scale)}")
        return "; or ".join(ways)
    broken = [pod for pod in budget.unready if pod != obstacle.pod and pod not in budget.pending]
    ways = [
        f"repair {budget.silent[pod]}, which is unreachable, as {pod} is there"
        if pod in budget.silent
        else f"mend {pod}, which is not ready"
        for pod in broken[:1]
    ]
    ways += [remedy_text(remedy) for remedy in obstacle.remedies]
    if not obstacle.ready:
        ways.append(f"{obstacle.pod} is not ready, and may go once the budget is met")
    if ways:
        return "; or ".join(ways)
    missing = max(budget.desired - budget.healthy + obstacle.ready, 1)
    return f"{count(missing, 'more healthy pod')} elsewhere, or a budget {budget.name} that requires fewer"


def change_cases(document: PlanReport) -> Iterator[Case]:
    yield from unavailable_cases(document)
    for obstacle in document.obstacles:
        pod, text = obstacle.pod, obstacle_text(obstacle)
        stays = f"{pod} {'never leaves' if obstacle.never_ends else 'cannot be evicted from'} {obstacle.node}"
        detail = "\n".join(dict.fromkeys(filter(None, (obstacle.why, obstacle.words, text))))
        case = Case(pod, state_of(document.verdict, pod), obstacle.rule, f"{stays}: {obstacle.why}", detail, hint=text)
        yield case if obstacle.owner is None else replace(case, workload=obstacle.owner.title)
    short = {warning.object for warning in document.warnings if warning.code == MISSING_REPLICAS}
    for workload in document.workloads:
        state = state_of(document.verdict, workload.key)
        if workload.key in short and not workload.is_subject:
            continue  # the warning is a case of its own
        if workload.refused:
            rule, words = "Refused", workload.refused
        # Where a pod of its own holds it up, there is a case for that pod.
        elif workload.state is WorkloadState.STUCK and workload.because and not workload.pod:
            rule = "JobFailed" if workload.is_failed_job else "Refused"
            words = f"{_stuck(workload)}: {workload.because}"
        elif state == "failed" and workload.state is WorkloadState.STUCK:
            rule, words = "NotReplaced", f"{_stuck(workload)}: {NOT_REPLACED}"
        elif workload.state is WorkloadState.UNCHANGED:
            state, rule, words = "passed", "Unchanged", "changes nothing"
        else:
            continue
        origin = workload.origin or Origin("")
        place = (origin.file, origin.document, origin.line or None)
        hint = raises_text(workload.raises) if workload.raises else ""
        if released := _released(document, workload):
            rule, hint = "Stuck", released
        detail = f"{words}\nWhat would help: {hint}" if hint else words
        yield Case(workload_title(workload.key), state, rule, words, detail, *place, would_help=hint)
