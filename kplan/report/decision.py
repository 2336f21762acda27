"""One placement told to people: the winner and why it won, or why every node was turned down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Style, Table, line
from kplan.report.details import failure_lines, listing
from kplan.report.options import ReportOptions
from kplan.report.preemption_line import preemption_line
from kplan.report.words import count, points, scored_by

__all__ = ["OUTCOME_STYLES", "decision_blocks", "decision_heading"]

Placement = Mapping[str, Any]

OUTCOME_STYLES: Mapping[str, Style] = {"Scheduled": "good", "Unschedulable": "bad", "Gated": "warn", "Error": "bad"}
_NO_PLUGIN = "PreFilter"
_MOST_DETAIL_LINES = 2
_ERRORS = {
    "profile not found for scheduler name": "No profile here has this name: the pod waits for another scheduler.",
    "skip schedule deleting pod": "The pod is being deleted, so kube-scheduler leaves it alone.",
}
"""What kube-scheduler's own words mean, by how they begin."""


def decision_heading(name: str, placement: Placement) -> Heading:
    """Say in one line what came of a pod."""
    style = OUTCOME_STYLES[placement["outcome"]]
    if placement.get("current"):
        return _current_heading(name, placement["current"])
    if placement["outcome"] == "Scheduled":
        return Heading((f"{name} -> ", Span(placement["node"], style)))
    preemption = placement["preemption"]
    if preemption is not None and preemption["nominatedNode"]:
        return Heading((f"{name}: ", Span("fits nowhere as things are", style)))
    words = {"Unschedulable": "fits nowhere", "Gated": "waits for its scheduling gates", "Error": "cannot be scheduled"}
    return Heading((f"{name}: ", Span(words[placement["outcome"]], style)))


def _current_heading(name: str, current: Mapping[str, Any]) -> Heading:
    if current["stillBest"]:
        return Heading((f"{name} runs on {current['node']}, ", Span("where it would go again", "good")))
    if current["stillFits"]:
        return Heading((f"{name} runs on {current['node']}; ", Span("today it would go elsewhere", "warn")))
    return Heading((f"{name} runs on {current['node']}, ", Span("which would not take it again", "bad")))


def decision_blocks(placement: Placement, n_nodes: int, options: ReportOptions) -> Iterator[Block]:
    """Tell what came of one pod, below its heading."""
    outcome = placement["outcome"]
    if placement.get("current"):
        yield from _current(placement)
    if outcome == "Gated":
        yield line(f"{placement['message']}. kube-scheduler does not look at it until they are removed.")
        return
    if outcome == "Error":
        yield line(placement["message"])
        meaning = next((text for start, text in _ERRORS.items() if placement["message"].startswith(start)), "")
        if meaning:
            yield line(meaning)
        return
    if outcome == "Scheduled":
        yield from _winner(placement, n_nodes, options)
    elif placement["preemption"] is not None:
        yield preemption_line(placement)
    yield from _passed_over(placement)
    yield from _rejected(placement, n_nodes, options)
    if placement["message"]:
        yield Preformatted("kube-scheduler writes", placement["message"])


def _current(placement: Placement) -> Iterator[Block]:
    """Compare the node that a pod runs on with where it would go if it were placed now."""
    current = placement["current"]
    node = current["node"]
    yield line("Asked again as if it did not run yet, in the cluster as it is now:")
    if current["stillBest"]:
        return
    if current["stillFits"]:
        differences = _differences(
            placement["scores"][placement["node"]]["plugins"], placement["scores"].get(node, {}).get("plugins", {})
        )
        made = ", ".join(f"{scored_by(plugin)} {points(delta)}" for plugin, delta in differences)
        behind = current["bestScore"] - current["score"]
        yield line(f"{node} has {current['score']} points, {behind} fewer than {placement['node']}: {made}.")
    elif node in placement["rejections"]:
        rejection = placement["rejections"][node]
        why = "; ".join(failure_lines(rejection))
        yield line(f"{node} is turned down by {rejection['plugin'] or _NO_PLUGIN}: {why}.")
    else:
        yield line(f"{node} is not a node of this cluster any more.")


# --- nodes that can take the pod --------------------------------------------------------------------------------------


def _winner(placement: Placement, n_nodes: int, options: ReportOptions) -> Iterator[Block]:
    feasible = placement["feasibleCount"]
    of_all = f"{feasible} of {count(n_nodes, 'node')} can take it"
    if not placement["scores"]:
        only = "The only node that can take it" if feasible == 1 else f"{of_all}; nothing scores them"
        note = ", so nothing is scored" if feasible == 1 and not placement["notEvaluatedCount"] else ""
        yield line(f"{only}{note}.")
        return
    ranked = _ranked(placement)
    yield line(f"{of_all}. ", *_margin(placement, ranked))
    shown = ranked if options.top is None else ranked[: options.top]
    yield _score_table(placement, shown, options)
    yield from _score_details(placement, shown)


def _ranked(placement: Placement) -> list[str]:
    """Sort nodes with a score: the chosen one, then by total, then by name."""
    scores = placement["scores"]
    return sorted(scores, key=lambda node: (node != placement["node"], -scores[node]["total"], node))


def _margin(placement: Placement, ranked: Sequence[str]) -> list[Cell]:
    scores, ties, node = placement["scores"], placement["ties"], placement["node"]
    total = scores[node]["total"]
    if len(ties) > 1:
        others = listing([tie for tie in ties if tie != node])
        same = "the same score" if len(ties) == 2 else "the same best score"
        verb = "has" if len(ties) == 2 else "have"
        chance = "kube-scheduler may take any of them; --ties says which one is taken here, --seed draws one."
        return [Span("A tie", "warn"), f": {others} {verb} {same}, {total} points. {chance}"]
    if len(ranked) < 2:
        return [f"{node} scores best with {total} points."]
    runner_up = ranked[1]
    ahead = total - scores[runner_up]["total"]
    why = _differences(scores[node]["plugins"], scores[runner_up]["plugins"])
    made = ", ".join(f"{scored_by(plugin)} {points(delta)}" for plugin, delta in why)
    return [f"{node} wins with {total} points, {ahead} ahead of {runner_up}: {made}."]


def _differences(mine: Mapping[str, int], theirs: Mapping[str, int]) -> list[tuple[str, int]]:
    """List plugins that score two nodes differently, the greatest difference first."""
    deltas = [(plugin, score - theirs.get(plugin, 0)) for plugin, score in mine.items()]
    return sorted(((plugin, delta) for plugin, delta in deltas if delta), key=lambda each: (-abs(each[1]), each[0]))


def _score_table(placement: Placement, nodes: Sequence[str], options: ReportOptions) -> Table:
    scores, chosen = placement["scores"], placement["node"]
    best = scores[chosen]
    note = _left_out(placement["feasibleCount"] - len(nodes))
    if options.explain or options.is_wide:
        plugins = list(best["plugins"])
        rows = [
            (_marked(node, chosen), str(scores[node]["total"]), *(str(scores[node]["plugins"][p]) for p in plugins))
            for node in nodes
        ]
        return Table(("NODE", "SCORE", *plugins), tuple(rows), "<" + ">" * (len(plugins) + 1), note=note)
    rows = [
        (
            _marked(node, chosen),
            str(scores[node]["total"]),
            "" if node == chosen else _behind(best["total"], scores[node]["total"]),
            ", ".join(f"{p} {points(-delta)}" for p, delta in _differences(best["plugins"], scores[node]["plugins"])),
        )
        for node in nodes
    ]
    return Table(("NODE", "SCORE", "TO BEST", "WHERE IT DIFFERS"), tuple(rows), "<>><", note=note)


def _behind(best: int, total: int) -> str:
    return "tie" if total == best else points(total - best)


def _left_out(number: int) -> str:
    return f"and {count(number, 'more node')} (--all-nodes shows all)" if number > 0 else ""


def _marked(node: str, chosen: str) -> Cell:
    return Span(node, "good") if node == chosen else node


def _score_details(placement: Placement, nodes: Sequence[str]) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = []
    for node in nodes:
        name = node
        for plugin, lines in placement["scoreDetails"].get(node, {}).items():
            score = placement["scores"][node]["plugins"][plugin]
            rows.append((name, plugin, str(score), "; ".join(lines)))
            name = ""
    if rows:
        yield Table(("NODE", "PLUGIN", "SCORE", "WHERE IT COMES FROM"), tuple(rows), "<<><")


def _passed_over(placement: Placement) -> Iterator[Block]:
    number = placement["notEvaluatedCount"]
    if number:
        yield line(
            f"{count(number, 'node')} {'was' if number == 1 else 'were'} not looked at: {_why_passed(placement)}."
        )


def _why_passed(placement: Placement) -> str:
    if placement["feasibleCount"] == 1 and not placement["rejectionSummary"]:
        return "it was promised this node, and the node passed"
    return "kube-scheduler stops when it has found enough"


# --- nodes that cannot ------------------------------------------------------------------------------------------------


def _rejected(placement: Placement, n_nodes: int, options: ReportOptions) -> Iterator[Block]:
    summary = placement["rejectionSummary"]
    if not summary:
        return
    if placement["outcome"] == "Scheduled":
        number = n_nodes - placement["feasibleCount"] - placement["notEvaluatedCount"]
        yield Heading((f"{number} of {count(n_nodes, 'node')} cannot take it",), 2)
    else:
        yield Heading(("What stands in the way",), 2)
    for group in sorted(summary, key=lambda group: _is_hopeless(placement, group)):
        by = group["plugin"] or _NO_PLUGIN
        yield line(f"{count(group['nodes'], 'node')}: {group['reason']} ", Span(f"({by})", "dim"))
        if not options.explain:
            yield from _closest(placement, group, options)
    if options.explain:
        yield from _node_by_node(placement, options)


def _is_hopeless(placement: Placement, group: Mapping[str, Any]) -> bool:
    """Tell whether nothing that happens on the closest node can help, so that other groups are told first."""
    rejection = placement["rejections"].get(group["closest"][0]) if group["closest"] else None
    return rejection is not None and rejection["code"] == "UnschedulableAndUnresolvable"


def _closest(placement: Placement, group: Mapping[str, Any], options: ReportOptions) -> Iterator[Block]:
    """Tell about the closest nodes of a group; nodes with the same to say share a line."""
    told: dict[str, list[str]] = {}
    nodes = _nodes_of(placement, group, options.top)
    for node in nodes:
        told.setdefault(_about(placement["rejections"][node], group["reason"]), []).append(node)
    if list(told) in ([], [""]):
        return
    for index, (text, names) in enumerate(told.items()):
        closest = " (closest)" if index == 0 and len(told) > 1 and len(names) == 1 and group["nodes"] > 1 else ""
        yield Line((Span(listing(names, most=len(names)) + closest, "strong"), f": {text}"), 2, is_item=True)
    left_out = _left_out(group["nodes"] - len(nodes))
    if left_out:
        yield Line((Span(left_out, "dim"),), 2, is_item=True)


def _nodes_of(placement: Placement, group: Mapping[str, Any], top: int | None) -> list[str]:
    """List the nodes of a group that are told about: the closest, then by name."""
    rejections = placement["rejections"]
    known = [
        node
        for node, rejection in rejections.items()
        if rejection["plugin"] == group["plugin"] and group["reason"] in rejection["reasons"]
    ]
    ordered = [*(node for node in group["closest"] if node in rejections), *known]
    return list(dict.fromkeys(ordered))[: len(ordered) if top is None else top]


def _about(rejection: Mapping[str, Any], reason: str) -> str:
    """Say what a node lacks for one reason, and which other plugins reject it too."""
    lines = failure_lines(rejection, reason)
    text = "; ".join(lines)
    others = [other for other in rejection["alsoFailing"] if other]
    more = [each for each in rejection["reasons"] if each != reason]
    also = [*more, *others]
    if not text and others and rejection["plugin"] is None:
        # PreFilter left the node out for plugins that can tell why.
        text = "; ".join(failure_lines(rejection["alsoFailing"][others[0]])[:_MOST_DETAIL_LINES])
        also = others[1:]
    return text + (f" (also: {', '.join(also)})" if also and text else "")


def _node_by_node(placement: Placement, options: ReportOptions) -> Iterator[Block]:
    rejections = placement["rejections"]
    shown: dict[str, None] = {}
    for group in placement["rejectionSummary"]:
        shown.update(dict.fromkeys(_nodes_of(placement, group, options.top)))
    rows: list[tuple[Cell, ...]] = []
    for node in sorted(shown):
        name = node
        rejection = rejections[node]
        failures = [(rejection["plugin"] or _NO_PLUGIN, rejection), *rejection["alsoFailing"].items()]
        for plugin, failure in failures:
            label = plugin
            for text in failure_lines(failure):
                rows.append((name, label, text))
                name = label = ""
    if rows:
        note = _left_out(len(rejections) - len(shown))
        yield Table(("NODE", "PLUGIN", "WHY NOT"), tuple(rows), "<<<", note=note)
