"""The PreemptionReport for people: whom a pod would evict, why those, what it breaks, and where the victims go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kplan.report.age import age_text, moment_text
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Table, line
from kplan.report.decision import decision_blocks, decision_heading
from kplan.report.details import listing
from kplan.report.footer import footer_blocks, opening_blocks, summary_text
from kplan.report.options import ReportOptions
from kplan.report.placement_cases import placement_cases
from kplan.report.preemption_line import why_no_eviction
from kplan.report.view import View
from kplan.report.words import count, pod_key, readable

__all__ = ["VIEW", "preemption_blocks"]

Document = Mapping[str, Any]

_DECIDED_BY: Mapping[str, str] = {
    "only-candidate": "it is the only node on which evicting pods makes room",
    "pdb-violations": "it breaks the fewest disruption budgets",
    "lowest-highest-victim-priority": "its most important victim is the least important",
    "lowest-priority-sum": "the priorities of its victims add up to the least",
    "fewest-victims": "it needs the fewest victims",
    "latest-start-time": "its most important victims have run the shortest",
    "tie": "it is the first by name of those that are equal in every respect",
}
_LOST_BY: Mapping[str | None, str] = {
    "pdb-violations": "more disruption budgets broken",
    "lowest-highest-victim-priority": "a more important victim",
    "lowest-priority-sum": "a higher sum of priorities",
    "fewest-victims": "more victims",
    "latest-start-time": "victims that have run longer",
    None: "nothing: equal",
}
_MOST_FREED = 3


def preemption_blocks(document: Document, options: ReportOptions) -> Iterator[Block]:
    """Tell a PreemptionReport."""
    yield from opening_blocks(document, options)
    if not document["placements"]:
        yield line("No pod needs to evict another: every pending pod that is looked at fits somewhere.", indent=0)
    for placement in document["placements"]:
        yield from _one(document, placement, options)
    if document["aftermath"]:
        yield from _aftermath(document["aftermath"])
    yield from footer_blocks(document, options)


def _one(document: Document, placement: Document, options: ReportOptions) -> Iterator[Block]:
    key, found = pod_key(placement["pod"]), placement.get("preemption")
    if found is None:
        yield decision_heading(key, placement)
        if "feasibleCount" in placement:
            yield from decision_blocks(placement, document["snapshot"]["nodes"], options)
        return
    if found["nominatedNode"] is None:
        yield Heading((f"{key}: ", Span("no eviction helps", "bad")))
        yield line(f"{_sentence(why_no_eviction(found))}.")
    else:
        victims = found["victims"]
        names = count(len(victims), "pod")
        yield Heading((f"{key}: ", Span(f"evicts {names} on {found['nominatedNode']}", "warn")))
        yield from _choice(found)
        yield from _victims(document, victims, options)
        yield from _broken_budgets(victims)
        yield from _runners_up(found, options)
        if options.explain:
            yield from _reprieves(found, options)
    yield from _not_helpful(found)
    if found["clearedNominations"]:
        names = listing(found["clearedNominations"])
        yield line(f"Pods of lower priority that lose their nomination to that node: {names}.")
    if placement["message"]:
        yield Preformatted("kube-scheduler writes", placement["message"])


def _choice(found: Document) -> Iterator[Block]:
    number = len(found["candidates"])
    if number == 1:
        yield line(f"{found['nominatedNode']} is taken: {_DECIDED_BY['only-candidate']}.")
        return
    ties = [node for node in found["ties"] if node != found["nominatedNode"]]
    also = f" (equal: {listing(ties)}; kube-scheduler may take any of them)" if ties else ""
    why = _DECIDED_BY[found["decidedBy"]]
    yield line(f"{found['nominatedNode']} is taken out of {number} nodes where it would help: {why}{also}.")


def _victims(document: Document, victims: Sequence[Document], options: ReportOptions) -> Iterator[Block]:
    now = document["snapshot"]["takenAt"]
    if not options.is_wide:
        yield from (_victim(victim, now) for victim in victims)
        return
    rows: list[tuple[Cell, ...]] = [
        (
            Span(pod_key(victim), "strong"),
            str(victim["priority"]),
            victim["owner"] or "none",
            age_text(victim["startTime"], now),
            _grace(victim) or "-",
            _budget(victim),
            _freed(victim),
        )
        for victim in victims
    ]
    header = ("VICTIM", "PRIORITY", "OWNER", "AGE" if now else "SINCE", "GRACE", "BUDGET", "FREES OF THE NODE")
    yield Table(header, tuple(rows), "<><>><<")


def _victim(victim: Document, now: str | None) -> Line:
    owner = victim["owner"] or "no controller"
    age = age_text(victim["startTime"], now)
    grace = f", {_grace(victim)} of grace" if _grace(victim) else ""
    text = (
        f" ({owner}): priority {victim['priority']}, {'runs for' if now else 'runs since'} {age}{grace}; "
        f"frees {_freed(victim)}; "
    )
    budget = _budget(victim)
    return line(
        Span(pod_key(victim), "strong"), text, "no disruption budget" if budget == "-" else budget, is_item=True
    )


def _grace(victim: Document) -> str:
    seconds = victim.get("terminationGracePeriodSeconds")
    return "" if seconds is None else f"{seconds}s"


def _budget(victim: Document) -> Cell:
    names = listing([name.partition("/")[2] for name in victim.get("budgets", ())], most=2)
    if not names:
        return "-"
    return Span(f"{names}: violated", "bad") if victim["pdbViolation"] else f"{names}: allows it"


def _freed(victim: Document) -> str:
    shares = [
        f"{readable(freed['amount'])} {name}" + ("" if freed["percent"] is None else f" ({freed['percent']}%)")
        for name, freed in victim.get("frees", {}).items()
    ]
    return listing(shares, most=_MOST_FREED) or "nothing but its place"


def _broken_budgets(victims: Sequence[Document]) -> Iterator[Block]:
    broken = [pod_key(victim) for victim in victims if victim["pdbViolation"]]
    if broken:
        yield line(
            Span("Disruption budgets", "bad"),
            f" do not allow the eviction of {listing(broken)}; kube-scheduler evicts in spite of them.",
        )


def _runners_up(found: Document, options: ReportOptions) -> Iterator[Block]:
    others = {node: each for node, each in found["candidates"].items() if node != found["nominatedNode"]}
    if not others:
        return
    ranked = sorted(others, key=lambda node: (_rank(others[node]["criteria"]), node))
    shown = ranked if options.top is None else ranked[: options.top]
    rows = [_candidate_row(found, node, options) for node in (found["nominatedNode"], *shown)]
    left_out = len(ranked) - len(shown)
    note = f"and {count(left_out, 'more node')} (--all-nodes shows all)" if left_out else ""
    header = ("CANDIDATE", "VICTIMS", "BUDGETS BROKEN", "TOP PRIORITY", "THAT ONE SINCE", "LOST BY")
    if options.is_wide or options.explain:
        yield Table((*header[:-1], "PRIORITY SUM", header[-1], "WHO"), tuple(rows), "<>>>>><<", note=note)
    else:
        yield Table(header, tuple(rows), "<>>>><", note=note)


def _candidate_row(found: Document, node: str, options: ReportOptions) -> tuple[Cell, ...]:
    candidate = found["candidates"][node]
    criteria = candidate["criteria"]
    is_taken = node == found["nominatedNode"]
    started = criteria["latestStartTime"]
    values: tuple[Cell, ...] = (
        Span(node, "good") if is_taken else node,
        str(criteria["victims"]),
        str(criteria["pdbViolations"]),
        str(criteria["highestVictimPriority"]),
        moment_text(started) if started else "unknown",
    )
    lost = "taken" if is_taken else _LOST_BY.get(candidate.get("lostBy"), str(candidate.get("lostBy")))
    if options.is_wide or options.explain:
        return (*values, str(criteria["prioritySum"]), lost, listing(candidate["victims"]))
    return (*values, lost)


def _rank(criteria: Document) -> tuple[int, int, int, int]:
    return (
        criteria["pdbViolations"],
        criteria["highestVictimPriority"],
        criteria["prioritySum"],
        criteria["victims"],
    )


def _reprieves(found: Document, options: ReportOptions) -> Iterator[Block]:
    """Tell for the candidates how each of their pods of lower priority fared when it was tried to be kept."""
    order = [found["nominatedNode"], *(node for node in found["candidates"] if node != found["nominatedNode"])]
    shown = order if options.top is None else order[: options.top]
    rows: list[tuple[Cell, ...]] = []
    for node in shown:
        name: Cell = node
        for step in found["candidates"][node].get("reprieve", ()):
            fate: Cell = "kept: it still fits with it" if step["kept"] else Span("evicted: no room with it", "warn")
            first = "first, since its budget would be violated" if step["pdbViolation"] else ""
            rows.append((name, str(step["step"]), step["pod"], fate, first))
            name = ""
    if rows:
        yield Heading(("Who could stay, tried from the most important down with all of lower priority gone",), 2)
        yield Table(("NODE", "STEP", "POD", "FATE", "NOTE"), tuple(rows), "<><<<")


def _not_helpful(found: Document) -> Iterator[Block]:
    groups = found.get("notHelpful", ())
    if not groups:
        return
    yield Heading(("Where no eviction helps",), 2)
    for group in groups:
        why = "even without the pods of lower priority" if group["tried"] else "no eviction changes that"
        nodes = listing(group["examples"], group["nodes"] - len(group["examples"]), most=5)
        yield Line(
            (f"{count(group['nodes'], 'node')}: {group['reason']}, {why} ", Span(f"({nodes})", "dim")), is_item=True
        )


def _aftermath(aftermath: Sequence[Document]) -> Iterator[Block]:
    yield Heading(("Where the victims go, if all of these take place in queue order",))
    for each in aftermath:
        yield line(
            Span(each["victim"], "strong"), f" (from {each['from']}, for {each['by']}) ", *_fate(each), is_item=True
        )


def _fate(each: Document) -> tuple[Cell, ...]:
    placement = each["placement"]
    if each["circling"]:
        return Span("goes round", "bad"), ": its replacements are evicted again and again"
    if each["recreatedAs"] is None or placement is None:
        return Span("is gone", "bad"), ": no controller makes it again"
    if placement["node"] is not None:
        return "-> ", Span(placement["node"], "good"), f", made again as {each['recreatedAs']}"
    preemption = placement["preemption"]
    if preemption is not None and preemption["nominatedNode"]:
        return Span("evicts others", "warn"), f" on {preemption['nominatedNode']}, made again as {each['recreatedAs']}"
    return Span("stays pending", "bad"), f", made again as {each['recreatedAs']}: {placement['message']}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _names(document: Document) -> Iterator[str]:
    """List pods with the node where they get in and whom they evict; ``-`` for nowhere and nobody."""
    for placement in document["placements"]:
        found = placement.get("preemption") or {"nominatedNode": None, "victims": ()}
        victims = ",".join(pod_key(victim) for victim in found["victims"])
        yield f"{pod_key(placement['pod'])} {placement['node'] or found['nominatedNode'] or '-'} {victims or '-'}"


def _title(document: Document) -> str:
    return f"kplan preempt: {summary_text(document)}"


VIEW = View(_title, preemption_blocks, placement_cases, _names)
