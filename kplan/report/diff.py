"""The DiffReport: which pods moved, which are newly pending or placed, and what tips the decision."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.documents.diff import Cause, Difference, DiffReport, Fact, FactDifference, Fate, PodDifference, Side
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, line
from kplan.report.footer import change_text, closing_blocks, verdict_heading
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View
from kplan.report.words import count, left_out

_MOST_PODS = 50
_STYLES: dict[Difference, Style] = {Difference.NEWLY_PENDING: "bad", Difference.NEWLY_PLACED: "good"}
_WORDS = {
    Difference.MOVED: "moved",
    Difference.NEWLY_PENDING: "newly pending",
    Difference.NEWLY_PLACED: "newly placed",
    Difference.STILL_PENDING: "still pending",
    Difference.APPEARED: "added",
    Difference.DISAPPEARED: "removed",
}


_ON_NODE = "nodes."
_FACTS = {
    "mayGo": "drainable",
    "allPlaced": "all placed",
    "evicted": "evicted",
    "gone": "gone for good",
    "position": "turn in the queue",
    "place": "place in the queue",
}


def diff_blocks(document: DiffReport, options: ReportOptions) -> Iterator[Block]:
    """Yield what a DiffReport shows, block by block."""
    yield verdict_heading(_sentence(document))
    yield line("Before: ", _side(document.before))
    yield line("After: ", _side(document.after))
    shown = document.pods if options.explain or options.top is None else document.pods[:_MOST_PODS]
    if shown:
        rows = tuple(_row(pod, options) for pod in shown)
        yield Table(
            ("POD", "DIFFERENCE", "BEFORE", "AFTER", "WHY"),
            rows,
            "<<<<<",
            note=left_out(len(document.pods) - len(shown)),
        )
    for title, victims in (
        ("Newly evicted", document.victims_added),
        ("No longer evicted", document.victims_removed),
    ):
        if victims:
            yield Heading((title,))
            yield from (line(victim, is_item=True) for victim in victims)
    if document.capacity:
        yield Heading(("How many fit",))
        fits = ((fit.template, _number(fit.before), _number(fit.after)) for fit in document.capacity)
        yield Table(("TEMPLATE", "BEFORE", "AFTER"), tuple(fits), "<>>")
    if document.utilisation:
        yield Heading(("Requested of the cluster",))
        usages = ((usage.resource, f"{usage.before:.1f}%", f"{usage.after:.1f}%") for usage in document.utilisation)
        yield Table(("RESOURCE", "BEFORE", "AFTER"), tuple(usages), "<>>")
    if document.facts:
        most = len(document.facts) if options.explain or options.top is None else _MOST_PODS
        yield Heading(("What else differs",))
        rows = tuple(_fact_row(fact) for fact in document.facts[:most])
        yield Table(("ABOUT", "FACT", "BEFORE", "AFTER"), rows, "<<>>", note=left_out(len(document.facts) - most))
    yield from closing_blocks(document)


def _fact_row(fact: FactDifference) -> tuple[Cell, ...]:
    name = _FACTS.get(fact.fact, fact.fact)
    if fact.fact.startswith(_ON_NODE):
        name = f"on {fact.fact.removeprefix(_ON_NODE)}"
    after = _fact_text(fact.after)
    return (fact.about or "all pods", name, _fact_text(fact.before), Span(after, "bad") if fact.worse else after)


def _fact_text(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return f"{fact:.1%}" if isinstance(fact, float) else str(fact)


def _side(side: Side) -> str:
    parts = [side.what, f"{count(side.snapshot.nodes, 'node')}, {count(side.snapshot.pods, 'pod')}"]
    parts.append(f"Kubernetes {side.scheduler.kubernetes_version}")
    parts += [change_text(change) for change in side.snapshot.changes or ()]
    return "; ".join(parts)


def _sentence(document: DiffReport) -> str:
    summary = document.summary
    numbers = (
        (summary.moved, Difference.MOVED),
        (summary.newly_pending, Difference.NEWLY_PENDING),
        (summary.newly_placed, Difference.NEWLY_PLACED),
        (summary.still_pending, Difference.STILL_PENDING),
        (summary.appeared, Difference.APPEARED),
        (summary.disappeared, Difference.DISAPPEARED),
    )
    parts = [f"{number} {_WORDS[difference]}" for number, difference in numbers if number]
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
    if document.facts:
        worse = sum(fact.worse for fact in document.facts)
        facts = "other fact" if document.capacity else "fact"
        verb = "differs" if len(document.facts) == 1 else "differ"
        parts.append(f"{count(len(document.facts), facts)} {verb}, {worse} for the worse")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


def _row(pod: PodDifference, options: ReportOptions) -> tuple[Cell, ...]:
    word = Span(_WORDS[pod.difference], _STYLES.get(pod.difference, ""))
    return (pod.pod, word, _place(pod.before), _place(pod.after), _why_in_table(pod, options))


def _why_in_table(pod: PodDifference, options: ReportOptions) -> str:
    if pod.difference is Difference.STILL_PENDING and not options.is_wide:
        return "different message (-o wide shows it)"
    return _why(pod)


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
        return "; ".join(map(_cause, pod.why))
    if pod.after is not None and pod.after.node is None:
        return pod.after.message
    return ""


def _cause(cause: Cause) -> str:
    reasons = ", ".join(cause.reasons)
    by = f" ({cause.plugin})" if cause.plugin else ""
    if cause.kind == "node-gone":
        return f"{cause.node} is gone"
    if cause.kind == "node-new":
        return f"{cause.node} is new"
    if cause.kind == "rejects":
        return f"{cause.node} rejects it: {reasons}{by}"
    if cause.kind == "took-off":
        return f"{cause.node} rejected it: {reasons}{by}"
    return f"{cause.plugin} puts {cause.node} ahead by {cause.after} points, before by {cause.before}"


def _number(fits: int | None) -> str:
    return "-" if fits is None else str(fits)


def _title(document: DiffReport) -> str:
    return f"kplan diff: {_sentence(document)}"


def _cases(document: DiffReport, options: ReportOptions) -> Iterator[Case]:  # noqa: ARG001 - as the others
    counted_objects = {event.object for event in document.verdict.counted}
    for pod in document.pods:
        message = f"{_WORDS[pod.difference]}: {_place(pod.before)} before, {_place(pod.after)} after"
        failed = pod.pod in counted_objects
        rule = "".join(word.title() for word in pod.difference.value.split("-"))
        yield Case(pod.pod, "failed" if failed else "skipped", rule, message, _why(pod))
    fits = {fit.template: f"{fit.after} fit, {fit.before} before" for fit in document.capacity}
    for counted in document.verdict.counted:
        if counted.rule == "LessFits":
            yield Case(counted.object, "failed", counted.rule, fits[counted.object])
        elif counted.rule == "NewVictim" or counted.rule.endswith("Worse"):
            yield Case(counted.object, "failed", counted.rule, counted.text)


def _names(document: DiffReport) -> Iterator[str]:
    for pod in document.pods:
        yield f"{pod.difference.value} {pod.pod} {_place(pod.before)} {_place(pod.after)}"
    for fits in document.capacity:
        yield f"fits {fits.template} {_number(fits.before)} {_number(fits.after)}"
    for fact in document.facts:
        yield f"{fact.fact} {fact.about or '-'} {_fact_text(fact.before)} {_fact_text(fact.after)}"


VIEW = View(_title, diff_blocks, _cases, _names)
