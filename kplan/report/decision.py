"""The decision about one pod: the node and why it wins, or why every node is rejected and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UnsetType
from msgspec.structs import replace

from kplan.api.quantity import behind_colon, clause, count, grouped, listing
from kplan.changes import remedy as r
from kplan.changes.remedy_words import of_members, remedy_words, untried
from kplan.documents.nodes import new_node_text
from kplan.documents.placement import Current, Failure, PodPlacement, ReasonCount, Rejection
from kplan.framework.results import Outcome, Preemption, WhyNot
from kplan.health.advice import pod_advice
from kplan.health.pods import PodHealth
from kplan.health.words import NOT_SCHEDULING, pod_text
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Style, Table, line
from kplan.report.details import DetailsByReason, failure_lines
from kplan.report.options import DEFAULT_TOP, ReportOptions
from kplan.report.view import Case
from kplan.report.words import ENDINGS, Ending, as_argument, left_out, scored_by

if TYPE_CHECKING:
    from kplan.diagnosis.causes import NodesOut

OUTCOME_STYLES: Mapping[Outcome, Style] = {
    Outcome.SCHEDULED: "good",
    Outcome.UNSCHEDULABLE: "bad",
    Outcome.GATED: "warn",
    Outcome.ERROR: "bad",
}

_NO_PLUGIN = "PreFilter"
_MOST_REASONS = 3
_LONGEST_WHY = 240  #: a longer diagnosis stands below the answer, which only counts nodes by reason
_LONGEST_REASONS = 240
_MOST_DETAIL_LINES = 2
_MOST_REMEDIES = 3


def decision_heading(name: str, placement: PodPlacement, level: int = 1) -> Heading:
    """Return the line that says where a pod goes; with level 0 it is the answer, and says why, too."""
    spans = _decision(name, placement)
    if not level and not placement.current and (why := why_nowhere(placement)):
        spans += (f": {why}",)
    elif not level and placement.node is not None and not (placement.current or placement.new_node):
        feasible, others = placement.feasible_count, [tie for tie in placement.ties if tie != placement.node]
        best = f"as good as {listing(others)}" if others else f"the best of {feasible} nodes that can take it"
        spans += (f", {'the only node that can take it' if feasible == 1 else best}",) if feasible else ()
    return Heading(spans, level, placement.pod.key)


def why_nowhere(placement: PodPlacement) -> str:
    """Return why a pod has no node, to stand behind a colon; empty where nothing tells."""
    if (eviction := placement.eviction) and not _waits_for_victims(placement):
        return f"{listing([victim.key for victim in eviction.victims], most=2)} on {eviction.nominated_node}"
    if placement.node is not None or is_leaving(placement):
        return ""
    if len(placement.why) - len(placement.no_new_node or "") > _LONGEST_WHY and placement.rejection_summary:
        return _short_reasons(placement)
    return clause(placement.why)


def _short_reasons(placement: PodPlacement) -> str:
    """Return the reasons of most nodes, and the correction of a mistake; the whole diagnosis stands below."""
    from kplan.diagnosis.sentence import group_text

    texts, left = list[str](), sum(group.nodes for group in placement.rejection_summary)
    closest = {node for group in placement.rejection_summary for node in group.closest}
    details = {node: DetailsByReason(one) for node, one in placement.rejections.items() if node in closest}
    groups = (out for group in placement.rejection_summary for out in _nodes_out(details, group))
    for group in sorted(groups, key=lambda group: -group.nodes):
        nodes = group.nodes if texts or placement.nodes_count else count(group.nodes, "node")
        text = f"{nodes} {group_text(group, {}, is_single=group.nodes == 1)}"
        if texts and sum(map(len, texts)) + len(text) > _LONGEST_REASONS:
            texts.append(f"{left} for other reasons")
            break
        texts.append(text)
        left -= group.nodes
    of = f"of {count(placement.nodes_count, 'node')} " if placement.nodes_count else ""
    first = placement.remedies[0] if placement.remedies else None
    meant = f" (did you mean {first.change.to}?)" if isinstance(first, r.CorrectName | r.CorrectSelector) else ""
    no_node = f"; {placement.no_new_node}" if placement.no_new_node else ""
    return f"{of}{', '.join(texts)}{meant}{no_node}"


def _nodes_out(details: Mapping[str, DetailsByReason], group: ReasonCount) -> list[NodesOut]:
    """Return the nodes of one reason, by taint where the details of a node say which node has which."""
    from kplan.diagnosis.causes import NodesOut
    from kplan.diagnosis.sentence import is_set_by_people, with_taints_together

    known = list[NodesOut]()
    for closest in group.closest or ("",):
        own = details[closest].of(group.reason) if closest in details else ()
        known.append(NodesOut(1, closest, group.plugin or "", (group.reason,), own))
    taints = (out.details[:1] if group.plugin == "TaintToleration" else () for out in known)
    alike = grouped(zip(taints, known, strict=True))
    outs = with_taints_together([replace(same[0], nodes=len(same)) for same in alike.values()])
    if sum(out.nodes for out in outs) == group.nodes:
        return outs
    one = next(filter(is_set_by_people, outs), outs[0])
    is_of_all = len(outs) == 1 or is_set_by_people(one)
    return [replace(one, nodes=group.nodes, details=one.details if is_of_all else ())]


def ending_of(placement: PodPlacement) -> Ending:
    """Return in words how a pod ends, and where it has no node of what that comes."""
    if _waits_for_victims(placement):
        return ENDINGS[""]
    why = "waits" if placement.held_back_by else placement.undecided or ("evicts" if placement.eviction else "")
    return ENDINGS[why or placement.outcome]


def _waits_for_victims(placement: PodPlacement) -> bool:
    """Tell of a pod of the cluster whether those that it would evict are being deleted already, and soon gone."""
    first, eviction = next(iter(placement.remedies or ()), None), placement.eviction
    is_wait = isinstance(first, r.Await) and first.change.what == "pod"
    return bool(placement.health and eviction and first and is_wait and first.then == eviction.nominated_node)


def _decision(name: str, placement: PodPlacement) -> tuple[Cell, ...]:
    style = OUTCOME_STYLES[placement.outcome]
    health = placement.health
    if health and (placement.current or is_leaving(placement)):
        style = "good" if health.is_well else "warn" if health.state == "starting" else "bad"
        return (Span(pod_text(health), style),)
    if placement.node is None:
        return (f"{name} ", Span(ending_of(placement).one, style))
    if not placement.new_node:
        return (f"{name} -> ", Span(placement.node, style))
    return (f"{name} -> ", Span(placement.node, style), f", a new node: {new_node_text(placement.new_node)}")


def is_leaving(placement: PodPlacement) -> bool:
    """Tell whether a pod is being deleted, so that what becomes of it is more than that nothing schedules it."""
    return bool(placement.health and placement.health.state == "being-deleted")


def decision_blocks(
    placement: PodPlacement, n_nodes: int, options: ReportOptions, *, is_brief: bool = False, is_answer: bool = False
) -> Iterator[Block]:
    """Yield what stands below the heading of a pod; the brief form leaves single nodes out.

    `is_answer`: the heading is the answer, and has said why the pod is nowhere.
    """
    outcome = placement.outcome
    n_nodes = placement.nodes_count or n_nodes
    if placement.health and (placement.current or is_leaving(placement)):
        yield from _present(placement, placement.health, options)
        if not (options.in_full and placement.current):
            return
        yield from _current(placement, placement.current)
    diagnosis = placement.diagnosis or ""
    yield from diagnosis_blocks(placement, options, in_answer=is_answer)
    if outcome in (Outcome.GATED, Outcome.ERROR):
        is_known = placement.undecided or is_leaving(placement) or outcome is Outcome.GATED
        says_it = (diagnosis and is_known) or placement.message in diagnosis
        if not (says_it or (is_answer and why_nowhere(placement) == clause(placement.message))):
            yield line(placement.message)
        return
    if outcome is Outcome.SCHEDULED:
        if placement.scores or not (is_answer and placement.feasible_count == 1 and not placement.current):
            yield from _winner(placement, n_nodes, options)
    elif placement.preemption is not None and not _waits_for_victims(placement):
        yield preemption_line(placement.preemption)
    if not is_brief:
        yield from _passed_over(placement)
        yield from _rejected(placement, n_nodes, options)
    if placement.message and options.in_full:
        yield Preformatted("kube-scheduler writes", placement.message)


def _present(placement: PodPlacement, health: PodHealth, options: ReportOptions) -> Iterator[Block]:
    """Yield what helps a pod that has its node or is being deleted, and that scheduling is none of it."""
    yield from (line(text) for text in pod_advice(health))
    current = placement.current
    if not current:
        return
    if health.state in ("not-ready", "starting", "being-deleted"):
        yield line(NOT_SCHEDULING)
    elif health.state == "ready" and not (current.still_fits or health.resize) and current.node in placement.rejections:
        why = "; ".join(failure_lines(placement.rejections[current.node]))
        yield line(f"It would no longer fit there: {why}.")
    if not (options.in_full or health.is_mirror) and health.state in ("ready", "not-ready", "starting"):
        yield line(Span("--explain shows where it would go if it were scheduled again", "hint"))


def _current(placement: PodPlacement, current: Current) -> Iterator[Block]:
    """Yield how the node that a pod runs on compares with the one where it would be placed now."""
    node = current.node
    yield line("If it were scheduled again, in the cluster as it is now:")
    if current.still_best:
        return
    mine, best = placement.scores.get(node), placement.scores.get(placement.node or "")
    if mine is not None and best is not None:
        fewer = f"{best.total - mine.total} fewer than {placement.node}: {_sources(best.plugins, mine.plugins)}"
        yield line(f"{node} has {mine.total} points, {fewer}.")
    elif rejection := placement.rejections.get(node):
        why = "; ".join(failure_lines(rejection))
        yield line(f"{node} is rejected by {rejection.plugin or _NO_PLUGIN}: {why}.")
    else:
        yield line(f"{node} is not a node of this cluster any more.")


_RULES: Mapping[str, str] = {
    "scheduler": "chosen is the one that this release takes most often, of equally likely ones the first by name",
    "name": "chosen is the first by name",
    "even": "chosen is the one that was drawn",
}
"""Which of the equally good nodes is chosen, by --ties."""


def _winner(placement: PodPlacement, n_nodes: int, options: ReportOptions) -> Iterator[Block]:
    feasible = placement.feasible_count
    of_all = f"{feasible} of {count(n_nodes, 'node')} can take it"
    if not placement.scores:
        only = f"{placement.node or 'One'} is the only node that can take it"
        sentence = only if feasible == 1 else f"{of_all}; nothing scores them"
        note = ", so nothing is scored" if feasible == 1 and not placement.not_evaluated_count else ""
        yield line(f"{sentence}{note}.")
        return
    scores = placement.scores
    # The chosen one comes first, then by total, then by name.
    ranked = sorted(scores, key=lambda node: (node != placement.node, -scores[node].total, node))
    yield line(f"{of_all}. ", *_margin(placement, ranked, options.ties))
    shown = ranked[: options.top]
    yield _score_table(placement, ranked[0], shown, options)
    rows: list[tuple[Cell, ...]] = []
    for node in shown:
        name = node
        for plugin, lines in placement.score_details.get(node, {}).items():
            rows.append((name, plugin, str(scores[node].plugins.get(plugin, 0)), "; ".join(lines)))
            name = ""
    if rows:
        yield Table(("NODE", "PLUGIN", "SCORE", "DETAILS"), tuple(rows), "<<><")


def _margin(placement: PodPlacement, ranked: Sequence[str], rule: str) -> list[Cell]:
    scores, ties, node = placement.scores, placement.ties, ranked[0]
    total = scores[node].total
    if len(ties) > 1:
        others = listing([tie for tie in ties if tie != node])
        same = "has the same score" if len(ties) == 2 else "have the same best score"
        chance = f"kube-scheduler may choose any of them; {_RULES.get(rule, _RULES['name'])}."
        return [Span("A tie", "warn"), f": {others} {same}, {total} points. {chance}"]
    if len(ranked) < 2:
        return [f"{node} scores best with {total} points."]
    runner_up = ranked[1]
    ahead = total - scores[runner_up].total
    sources = _sources(scores[node].plugins, scores[runner_up].plugins)
    return [f"{node} wins with {total} points, {ahead} ahead of {runner_up}: {sources}."]


def _differences(mine: Mapping[str, int], theirs: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the plugins that score two nodes differently, the greatest difference first."""
    deltas = [(plugin, delta) for plugin, score in mine.items() if (delta := score - theirs.get(plugin, 0))]
    return sorted(deltas, key=lambda item: (-abs(item[1]), item[0])) if len(deltas) > 1 else deltas


def _sources(mine: Mapping[str, int], theirs: Mapping[str, int]) -> str:
    return ", ".join(f"{scored_by(plugin)} {delta:+d}" for plugin, delta in _differences(mine, theirs))


def _score_table(placement: PodPlacement, chosen: str, nodes: Sequence[str], options: ReportOptions) -> Table:
    scores = placement.scores
    best = scores[chosen]
    note = left_out(placement.feasible_count - len(nodes), "node")
    has_columns = options.explain or options.is_wide
    rows: list[tuple[Cell, ...]] = []
    for node in nodes:
        score = scores[node]
        if has_columns:
            more = [str(score.plugins.get(plugin, 0)) for plugin in best.plugins]
        else:
            parts = (f"{plugin} {-delta:+d}" for plugin, delta in _differences(best.plugins, score.plugins))
            behind = "tie" if score.total == best.total else f"{score.total - best.total:+d}"
            more = ["" if node == chosen else behind, ", ".join(parts)]
        rows.append((Span(node, "good") if node == chosen else node, str(score.total), *more))
    columns = best.plugins if has_columns else ("VS BEST", "DIFFERENCES")
    align = ">" * len(columns) if has_columns else "><"
    return Table(("NODE", "SCORE", *columns), tuple(rows), f"<>{align}", note=note)


def _passed_over(placement: PodPlacement) -> Iterator[Block]:
    why = "kube-scheduler stops when it has found enough"
    if placement.among:
        why = f"this is how its group ends where {placement.among.key} is {placement.among.value}"
    elif placement.feasible_count == 1 and not placement.rejection_summary:
        why = "its nominated node is tried first, and fits"
    if number := placement.not_evaluated_count:
        yield line(f"{count(number, 'node was', 'nodes were')} not evaluated: {why}.")


def _rejected(placement: PodPlacement, n_nodes: int, options: ReportOptions) -> Iterator[Block]:
    summary = placement.rejection_summary
    if not summary:
        return
    if placement.outcome is Outcome.SCHEDULED:
        number = n_nodes - placement.feasible_count - placement.not_evaluated_count
        yield Heading((f"{number} of {count(n_nodes, 'node')} cannot take it",), 2)
    else:
        yield Heading(("Why nodes reject it",), 2)

    def is_hopeless(group: ReasonCount) -> bool:  # nothing that happens on the closest node can help
        closest = placement.rejections.get(group.closest[0]) if group.closest else None
        return closest is not None and closest.code == "UnschedulableAndUnresolvable"

    ordered = sorted(summary, key=is_hopeless)
    if not options.tells_all and options.top == DEFAULT_TOP:
        yield from _reasons_that_matter(placement, ordered)
        return
    best, is_marked = _closest_of_all(placement), False
    for group in ordered:
        by = group.plugin or _NO_PLUGIN
        yield line(f"{count(group.nodes, 'node')}: {group.reason} ", Span(f"({by})", "dim"))
        if not options.explain:
            yield from _closest(placement, group, options, "" if is_marked else best)
            is_marked = is_marked or best in group.closest[:1]
    if options.explain:
        yield from _node_by_node(placement, options)


def _reasons_that_matter(placement: PodPlacement, groups: Sequence[ReasonCount]) -> Iterator[Block]:
    """Yield a line for each of the first reasons: how many nodes it rejects, and what the closest of them lacks."""
    for group in groups[:_MOST_REASONS]:
        closest = next((node for node in group.closest if node in placement.rejections), "")
        lines = failure_lines(placement.rejections[closest], group.reason) if closest else []
        which = closest if group.nodes == 1 else f"such as {closest}"
        why = f"{which}: {'; '.join(lines)}" if lines else f"{group.reason} ({group.plugin or _NO_PLUGIN})"
        yield Line((Span(count(group.nodes, "node"), "strong"), f", {why}"), 2, is_item=True)
    left = len(groups) - _MOST_REASONS
    more = f"{count(left, 'more reason')}; --explain has them all," if left > 0 else "--explain tells it"
    yield line(Span(f"{more} node by node", "hint"), indent=2)


def _closest_of_all(placement: PodPlacement) -> str:
    """Return the node with the fewest reasons against it, nodes where evictions can help first; empty for none."""

    def rank(node: str) -> tuple[bool, int]:
        one = placement.rejections[node]
        others = sum(len(other.reasons) for other in one.also_failing.values())
        return one.code != "Unschedulable", len(one.reasons) + others

    heads = (group.closest[0] for group in placement.rejection_summary if group.closest)
    return min((node for node in heads if node in placement.rejections), key=rank, default="")


def _closest(placement: PodPlacement, group: ReasonCount, options: ReportOptions, best: str) -> Iterator[Block]:
    """Yield a line for each of the closest nodes of a group; nodes with equal text share a line.

    `best`: the closest node of all groups; empty where it has been marked as such.
    """
    nodes = _nodes_of(placement, group, options.top)
    nodes_by_text = grouped((_about(placement.rejections[node], group.reason), node) for node in nodes)
    if list(nodes_by_text) in ([], [""]):
        return
    for index, (text, names) in enumerate(nodes_by_text.items()):
        closest = " (closest)" if index == 0 and len(nodes_by_text) > 1 and names == [best] else ""
        yield Line((Span(", ".join(names) + closest, "strong"), f": {text}"), 2, is_item=True)
    if note := left_out(group.nodes - len(nodes), "node"):
        yield Line(note, 2, is_item=True)


def _nodes_of(placement: PodPlacement, group: ReasonCount, top: int | None) -> list[str]:
    rejections = placement.rejections
    known = [node for node, one in rejections.items() if one.plugin == group.plugin and group.reason in one.reasons]
    ordered = [*(node for node in group.closest if node in rejections), *known]
    return list(dict.fromkeys(ordered))[:top]


def _about(rejection: Rejection, reason: str) -> str:
    """Return what a node lacks for one reason, and which other plugins reject it too."""
    text = "; ".join(failure_lines(rejection, reason))
    others = [other for other in rejection.also_failing if other]
    also = [*(other for other in rejection.reasons if other != reason), *others]
    if not text and others and rejection.plugin is None:
        # PreFilter left the node out for plugins that can tell why.
        text = "; ".join(failure_lines(rejection.also_failing[others[0]])[:_MOST_DETAIL_LINES])
        also = others[1:]
    return text + (f" (also: {', '.join(also)})" if also and text else "")


def _node_by_node(placement: PodPlacement, options: ReportOptions) -> Iterator[Block]:
    rejections = placement.rejections
    shown = {node for group in placement.rejection_summary for node in _nodes_of(placement, group, options.top)}
    rows: list[tuple[Cell, ...]] = []
    for node in sorted(shown):
        name, rejection = node, rejections[node]
        failures: dict[str, Failure | Rejection] = {rejection.plugin or _NO_PLUGIN: rejection}
        for plugin, failure in (failures | rejection.also_failing).items():
            label = plugin
            for text in failure_lines(failure):
                rows.append((name, label, text))
                name = label = ""
    if rows:
        note = left_out(len(rejections) - len(shown), "node")
        yield Table(("NODE", "PLUGIN", "WHY NOT"), tuple(rows), "<<<", note=note)


_WHY_NOT: Mapping[WhyNot, str] = {
    "preemption-policy-never": "it may not evict any pod, since its preemptionPolicy is Never",
    "victims-are-leaving": "it waits for pods that are already being evicted for it",
    "group-is-missing": "its pod group does not exist",
    "group-has-constraints": "a group that has scheduling constraints evicts no pod",
    "group-preempts-as-a-whole": "its pod group evicts pods as a whole",
    "no-node-helps": "evicting lower-priority pods would not make it fit on any node",
    "extenders-refuse": "evicting lower-priority pods would not make it fit on any node that the extenders accept",
}
_HOW_NOT: Mapping[WhyNot | None, str] = {
    "victims-are-leaving": "is under way",
    "group-has-constraints": "is not for this pod alone",
    "group-preempts-as-a-whole": "is not for this pod alone",
}


def preemption_line(preemption: Preemption) -> Line:
    """Return which pods a pod that fits nowhere would evict, or why it evicts none."""
    if preemption.nominated_node is None:
        how = _HOW_NOT.get(preemption.why_not, "does not help")
        return line(Span("Preemption", "strong"), f" {how}: {why_no_eviction(preemption)}.")
    victims = preemption.victims
    broken = sum(victim.pdb_violation for victim in victims)
    budgets = f", {count(broken, 'disruption budget violation')}" if broken else ""
    names = listing([victim.key for victim in victims])
    return line(
        Span("Preemption", "strong"),
        f" would make room on {preemption.nominated_node} by evicting {count(len(victims), 'pod')}: {names}{budgets}.",
        Span(" See kplan preempt.", "hint"),
    )


def why_no_eviction(preemption: Preemption) -> str:
    """Return why a pod evicts no other, without a full stop."""
    if preemption.why_not == "not-tried":
        return f"another plugin ends the search before it is tried (kube-scheduler: {preemption.message})"
    if preemption.why_not is None or preemption.why_not == "failed":
        return f"kube-scheduler writes{behind_colon(preemption.message)}"
    return _WHY_NOT[preemption.why_not]


def diagnosis_blocks(placement: PodPlacement, options: ReportOptions, *, in_answer: bool = False) -> Iterator[Block]:
    if placement.diagnosis:
        if not (in_answer and why_nowhere(placement) == clause(placement.diagnosis)):
            yield line(Span(placement.diagnosis, "strong"))
        most = None if options.explain else _MOST_REMEDIES if placement.current is None else 1
        yield from remedy_blocks(placement.remedies or (), most=most)


def remedy_blocks(remedies: Sequence[r.Remedy], *, most: int | None = None) -> Iterator[Block]:
    shown = remedies[:most]
    left_out = len(remedies) - len(shown)
    more = Span(f" ({left_out} more with --explain)" if left_out else "", "hint")
    if len(shown) == 1:
        yield line(Span("What would help", "strong"), f": {remedy_text(shown[0])}.", more)
    elif shown:
        yield line(Span("What would help", "strong"), ", any one of:", more)
        yield from (Line((remedy_text(remedy),), 2, is_item=True) for remedy in shown)


def remedy_text(remedy: r.Remedy) -> str:
    """Return a remedy and its effect as a sentence without a full stop."""
    helps = _helps(remedy.helps)
    if isinstance(remedy, r.Uncordon):  # a command, which nothing may follow that is not part of it
        return f"{'for ' + helps + ': ' if helps else ''}{of_members(remedy)}{remedy_words(remedy)}"
    change = f"{of_members(remedy)}{remedy_words(remedy)}"
    if remedy.then is not None and remedy.helps and remedy.helps.pods > 1:  # the others may go elsewhere
        return f"{change} ({helps}, the first on {remedy.then})"
    then = f" -> {remedy.then}" if remedy.then is not None else ""
    return f"{change}{then}{f' ({helps})' if helps else ''}{untried(remedy)}"


def _helps(helps: r.Helped | UnsetType) -> str:
    if not helps:
        return ""
    if helps.pods < helps.of:
        return f"{helps.pods} of {helps.of} pods"
    return "both pods" if helps.of == 2 else f"all {helps.of} pods"


def located(case: Case, placement: PodPlacement) -> Case:
    """Return a case with the place of its manifest, what would help, and the command that shows more."""
    would_help = remedy_text(placement.remedies[0]) if placement.remedies else ""
    origin = placement.pod.origin
    if not origin:
        return replace(case, would_help=would_help, more=f"kplan explain {placement.pod.key}")
    return replace(
        case,
        file=origin.file,
        document=origin.document,
        line=(placement.at_fault.line if placement.at_fault else None) or origin.line or None,
        workload=f"{origin.kind} {placement.pod.namespace}/{origin.name}",
        would_help=would_help,
        more=f"kplan place {as_argument(origin.file)} --explain",
    )
