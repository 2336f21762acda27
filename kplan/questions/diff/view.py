"""The DiffReport: which pods moved, which are newly pending or placed, and what tips the decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.documents.diff import Difference, DiffReport, Fact, FactDifference, Fate, PodDifference, Side
from kplan.questions.diff.facts import ADDED, NODE, PRICE
from kplan.questions.diff.workloads_view import (
    STYLES,
    WORDS,
    cause_text,
    cost_blocks,
    event_text,
    evicted_for_good,
    reasons,
    rule_for,
    workload_blocks,
    workload_cases,
    workloads_sentence,
)
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.head import change_text
from kplan.report.new_nodes import price_text
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View
from kplan.report.words import count, left_out

_MOST_PODS = 50
_ON_NODE = "nodes."
_FACTS = {
    "mayGo": "drainable",
    "allPlaced": "all placed",
    "evicted": "evicted",
    "gone": "gone for good",
    "position": "turn in the queue",
    "place": "place in the queue",
    NODE: "what becomes of it",
    ADDED: "nodes added",
    PRICE: "price at the end",
}


def _opening(document: DiffReport, options: ReportOptions) -> Iterator[Block]:
    yield line("Before: ", _side(document.before))
    yield line("After: ", _side(document.after))


def _body(document: DiffReport, options: ReportOptions) -> Iterator[Block]:
    if document.workloads:
        yield from workload_blocks(document, options)
    if document.pods and (options.in_full or options.is_wide or not document.workloads):
        yield from _pod_blocks(document, options)
    in_rows = {victim for row in document.workloads for victim in row.evicts}
    added = [victim for victim in evicted_for_good(document) if victim not in in_rows]
    for title, victims in (("Newly evicted", added), ("No longer evicted", document.victims_removed)):
        if victims:
            yield Heading((title,), folds=False)
            yield from (line(victim, is_item=True) for victim in victims)
    if document.capacity:
        yield Heading(("How many fit",))
        fits = ((fit.template, _number(fit.before), _number(fit.after)) for fit in document.capacity)
        yield Table(("TEMPLATE", "BEFORE", "AFTER"), tuple(fits), "<>>")
    yield from cost_blocks(document)
    rows = {row.workload for row in document.workloads}
    facts = [fact for fact in document.facts if fact.about not in rows or fact.fact != "state"]
    if facts:
        most = len(facts) if options.explain or options.top is None else _MOST_PODS
        yield Heading(("What else differs" if document.pods or document.capacity else "What differs",))
        note = left_out(len(facts) - most)
        sides = "<<" if any(fact.fact == NODE for fact in facts) else ">>"
        yield Table(("ABOUT", "FACT", "BEFORE", "AFTER"), tuple(map(_fact_row, facts[:most])), f"<<{sides}", note=note)


def _pod_blocks(document: DiffReport, options: ReportOptions) -> Iterator[Block]:
    shown = document.pods if options.explain or options.top is None else document.pods[:_MOST_PODS]
    if document.workloads:
        yield Heading(("Each pod",))
    rows = tuple(_row(pod, options) for pod in shown)
    note = left_out(len(document.pods) - len(shown))
    yield Table(("POD", "DIFFERENCE", "BEFORE", "AFTER", "WHY"), rows, "<<<<<", note=note)


def _fact_row(fact: FactDifference) -> tuple[Cell, ...]:
    name = _FACTS.get(fact.fact, fact.fact)
    if fact.fact.startswith(_ON_NODE):
        name = f"on {fact.fact.removeprefix(_ON_NODE)}"
    before, after = _fact_texts(fact)
    return (fact.about or "all pods", name, before, Span(after, "bad") if fact.worse else after)


def _fact_texts(fact: FactDifference) -> tuple[str, str]:
    """Return a fact before and after as texts."""
    before, after = (_fact_text(fact.fact, value) for value in (fact.before, fact.after))
    return before, after


def _fact_text(name: str, fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if name == PRICE and isinstance(fact, float):
        return price_text(fact)
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return f"{fact:.1%}" if isinstance(fact, float) else str(fact)


def _side(side: Side) -> str:
    parts = [side.what, f"{count(side.snapshot.nodes, 'node')}, {count(side.snapshot.pods, 'pod')}"]
    parts.append(f"Kubernetes {side.scheduler.kubernetes_version}")
    parts += [change_text(change) for change in side.snapshot.changes or ()]
    return "; ".join(parts)


def _sentence(document: DiffReport) -> str:
    if document.workloads:
        return workloads_sentence(document)
    summary = document.summary
    numbers = {difference: getattr(summary, difference.name.lower()) for difference in Difference}
    parts = [f"{number} {WORDS[difference]}" for difference, number in numbers.items() if number]
    if not parts:
        others = document.utilisation or document.victims_added or document.victims_removed
        return _other_differences(document) or ("No pod differs" if others else "Nothing differs")
    pods = count(len(document.pods), "pod")
    verb = "differs" if len(document.pods) == 1 else "differ"
    return f"{pods} {verb}: {', '.join(parts)}; {count(summary.same, 'pod')} the same"


def _other_differences(document: DiffReport) -> str:
    """Return what differs besides the places of pods: how many replicas fit, and facts."""
    parts = []
    fits = [
        (fit.template, fit.before, fit.after)
        for fit in document.capacity
        if fit.before is not None and fit.after is not None
    ]
    if len(fits) == len(document.capacity) == 1:
        [(template, before, after)] = fits
        parts.append(f"{after} of {template} fit, {before} before")
    else:
        fewer = sum(after < before for _, before, after in fits)
        ways = ((fewer, "fewer"), (len(fits) - fewer, "more"))
        parts += [f"{how} fit of {count(n, 'workload')}" for n, how in ways if n]
        alone = len(document.capacity) - len(fits)
        parts += [f"{count(alone, 'workload')} only in one of the two"] if alone else []
    if document.after.kind == document.before.kind == "NodesReport":
        parts += _node_differences(document.facts)
    elif document.facts:
        worse = sum(fact.worse for fact in document.facts)
        facts = "other fact" if document.capacity else "fact"
        verb = "differs" if len(document.facts) == 1 else "differ"
        parts.append(f"{count(len(document.facts), facts)} {verb}, {worse} for the worse")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


def _node_differences(facts: Sequence[FactDifference]) -> Iterator[str]:
    """Yield what differs about nodes that come and go."""
    others = sum(fact.fact == NODE for fact in facts)
    if others:
        yield f"the autoscaler treats {count(others, 'node')} differently"
    added = [fact for fact in facts if fact.fact == ADDED]
    if added:
        before = sum(fact.before for fact in added if isinstance(fact.before, int))
        after = sum(fact.after for fact in added if isinstance(fact.after, int))
        more, number = ("fewer" if after < before else "more"), abs(after - before)
        yield f"{number} {more} {'node' if number == 1 else 'nodes'} added" if number else "other nodes added"
    for is_worse, word in ((True, "newly without help"), (False, "no longer without help")):
        pods = sum(fact.fact == "unhelped" and fact.worse is is_worse for fact in facts)
        if pods:
            yield f"{count(pods, 'pod')} {word}"
    for fact in facts:
        if fact.fact == PRICE:
            yield "price {} before, {} after".format(*_fact_texts(fact))


def _row(pod: PodDifference, options: ReportOptions) -> tuple[Cell, ...]:
    word = Span(WORDS[pod.difference], STYLES.get(pod.difference, ""))
    is_left_out = pod.difference is Difference.STILL_PENDING and not options.is_wide
    why = "different message (-o wide shows it)" if is_left_out else _why(pod)
    return (pod.pod, word, _place(pod.before), _place(pod.after), why)


def _place(fate: Fate | None) -> str:
    if fate is None:
        return "-"
    if fate.node is not None:
        return fate.node
    if fate.nominated_node is not None:
        return f"{fate.outcome}, to {fate.nominated_node}"
    return fate.outcome


def _why(pod: PodDifference) -> str:
    if pod.why:
        return "; ".join(map(cause_text, pod.why))
    if pod.after is not None and pod.after.node is None:
        return pod.after.message
    return ""


def _number(fits: int | None) -> str:
    return "-" if fits is None else str(fits)


def _cases(document: DiffReport, options: ReportOptions) -> Iterator[Case]:
    named = {name for row in document.workloads for name in (row.workload, *row.evicts)}
    yield from workload_cases(document)
    counted_objects = {event.object for event in document.verdict.counted}
    for pod in document.pods:
        if pod.workload in named or pod.difference is Difference.STILL_PENDING:
            continue
        message = f"{WORDS[pod.difference]}: {_place(pod.before)} before, {_place(pod.after)} after"
        rule = rule_for(pod.difference)
        yield Case(pod.pod, "failed" if pod.pod in counted_objects else "skipped", rule, message, _why(pod))
    fits = {fit.template: f"{fit.after} fit, {fit.before} before" for fit in document.capacity}
    for counted in document.verdict.counted:
        if counted.rule == "LessFits":
            yield Case(counted.object, "failed", counted.rule, fits[counted.object])
        elif (counted.rule == "NewVictim" or counted.rule.endswith("Worse")) and counted.object not in named:
            yield Case(counted.object, "failed", counted.rule, event_text(document, counted))


def _names(document: DiffReport) -> Iterator[str]:
    for pod in document.pods:
        yield f"{pod.difference.value} {pod.pod} {_place(pod.before)} {_place(pod.after)}"
    for fits in document.capacity:
        yield f"fits {fits.template} {_number(fits.before)} {_number(fits.after)}"
    for fact in document.facts:
        yield " ".join((fact.fact, fact.about or "-", *_fact_texts(fact)))


VIEW = View(
    "diff",
    _sentence,
    _body,
    _cases,
    _names,
    opening=_opening,
    reasons=reasons,
    moments={"before": "At the end of the first answer", "after": "At the end of the second"},
)
