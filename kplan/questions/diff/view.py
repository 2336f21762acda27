"""The DiffReport: which pods moved, which are newly pending or placed, and what tips the decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from msgspec.structs import replace

from kplan.api.quantity import capitalized, count, grouped, in_cores, listing
from kplan.documents import diff as d
from kplan.documents.base import Counted
from kplan.questions.diff.facts import ADDED, NODE, PRICE
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, failure_words, line
from kplan.report.decision import located, remedy_text
from kplan.report.new_nodes import price_text
from kplan.report.options import ReportOptions
from kplan.report.text import natural_width
from kplan.report.view import Case, View, change_text
from kplan.report.words import left_out, owner_title

STYLES: Mapping[d.Difference, Style] = {
    d.Difference.NEWLY_PENDING: "bad",
    d.Difference.REFUSED: "bad",
    d.Difference.NEWLY_PLACED: "good",
}
WORDS: Mapping[d.Difference, str] = {
    **{difference: difference.value.replace("-", " ") for difference in d.Difference},
    d.Difference.APPEARED: "added",
    d.Difference.DISAPPEARED: "removed",
}
_EVENTS: Mapping[str, str] = {
    "Refused": "refused now",
    "NewlyPending": "pending now",
    "Unschedulable": "pending now",
    "Gated": "gated now",
    "Error": "refused now",
    "NewVictim": "evicted now",
    "LessFits": "room for fewer now",
    "StateWorse": "not complete now",
    "BlockedWorse": "not evictable now",
    "MayGoWorse": "not drainable now",
}
_MOST_ROWS = 50
NO_PODS = "no pods"  #: of a job that is done, or a workload that wants none
_MOST_NODES = 2
_MOST_BLAMES = 2
_MOST_LINES = 3  #: so many lines a reason may take in a table


def workloads_sentence(document: d.DiffReport) -> str:
    refused = [row for row in document.workloads if row.difference is d.Difference.REFUSED]
    worse = [row for row in document.workloads if row.is_pending_now]
    others = [row for row in document.workloads if row.difference is not d.Difference.REFUSED and row.now_pending <= 0]
    parts = []
    if refused:
        parts.append(f"refused now: {owner_title(refused[0].workload)}{_more(refused)}: {refused[0].message}")
    if worse:
        parts.append(f"pending now: {_pending_of(worse[0])}{_more(worse)}")
    if evicted := evicted_for_good(document):
        parts.append(f"evicted now: {listing(evicted, most=1)}")
    if len(others) == 1:
        only = f"{owner_title(others[0].workload)} {difference_word(others[0])}"
        parts.append(f"1 {_noun_of(others)} differs: {only}")
    elif others:
        parts.append(_numbers(_noun_of(others), len(others), Counter(row.difference for row in others)))
    if still := document.summary.still_pending:
        parts.append(f"{count(still, 'pod')} pending before and after")
    if document.summary.same:
        parts.append(f"{count(document.summary.same, 'pod')} the same")
    return capitalized("; ".join(parts))


def _more(rows: Sequence[d.WorkloadDifference]) -> str:
    return f" and {count(len(rows) - 1, f'more {_noun_of(rows[1:])}')}" if len(rows) > 1 else ""


def _noun_of(rows: Iterable[d.WorkloadDifference]) -> str:
    return "pod" if all(row.workload.startswith("Pod/") for row in rows) else "workload"


def _numbers(noun: str, number: int, ways: Mapping[d.Difference, int]) -> str:
    words = ", ".join(f"{n} {WORDS[difference]}" for difference, n in ways.items() if n)
    return f"{count(number, noun)} {'differs' if number == 1 else 'differ'}: {words}"


def evicted_for_good(document: d.DiffReport) -> list[str]:
    """Return the pods that only the second answer evicts, without those whose workload has a row as pending."""
    pending = {row.workload for row in document.workloads if row.now_pending > 0}
    pods = {pod.pod for pod in document.pods if pod.workload in pending}
    return [victim for victim in document.victims_added if victim not in pods]


def _pending_of(row: d.WorkloadDifference) -> str:
    """Return how many pods of a workload are pending: ``5 of 6 pods of Deployment shop/web``."""
    if row.workload.startswith("Pod/") or row.after is None:
        return owner_title(row.workload)
    return f"{_pending_pods(row.after)} of {owner_title(row.workload)}"


def _pending_pods(side: d.WorkloadSide) -> str:
    if side.placed:
        return f"{side.pending} of {count(side.pods, 'pod')}"
    return {1: "the pod", 2: "both pods"}.get(side.pods, f"all {side.pods} pods")


def _rule(difference: d.Difference) -> str:
    return difference.value.title().replace("-", "")


def workload_blocks(document: d.DiffReport, options: ReportOptions) -> Iterator[Block]:
    """Yield the workloads, the worst first, each with the reason; a comment folds those that only move."""
    rows = document.workloads
    moved = [row for row in rows if options.is_comment and row.difference is d.Difference.MOVED]
    if moved and len(moved) < len(rows):
        yield from _workload_rows([row for row in rows if row.difference is not d.Difference.MOVED], options)
        yield Heading((f"{count(len(moved), 'workload')} only {'moves' if len(moved) == 1 else 'move'}",))
        rows = tuple(moved)
    yield from _workload_rows(rows, options)


def _workload_rows(rows: Sequence[d.WorkloadDifference], options: ReportOptions) -> Iterator[Block]:
    """Yield a table of workloads, and below it the reasons, where they would fill a narrow column for many lines."""
    shown = options.first(rows, _MOST_ROWS)
    cells: list[tuple[Cell, ...]] = []
    for row in shown:
        word = Span(difference_word(row), STYLES.get(row.difference, ""))
        word = Span("pending now", "bad") if row.is_pending_now else word
        places = (_workload_place(row, side) for side in (row.before, row.after))
        cells.append((_workload_link(row, options), word, *places))
    note = left_out(len(rows) - len(shown))
    table = Table(("WORKLOAD", "DIFFERENCE", "BEFORE", "AFTER"), tuple(cells), "<<<<", note=note)
    reasons = [" ".join(_reasons(row, in_full=options.explain)) for row in shown]
    width = options.width - natural_width(table)
    if options.is_comment or options.is_page or max(map(len, reasons), default=0) <= max(width, 0) * _MOST_LINES:
        whole = tuple((*row, reason) for row, reason in zip(cells, reasons, strict=True))
        yield replace(table, header=(*table.header, "WHY"), rows=whole, align="<<<<<")
        return
    yield table
    names_of = grouped((reason, owner_title(row.workload)) for reason, row in zip(reasons, shown, strict=True))
    for reason, names in names_of.items():
        if reason:
            yield line(Span(listing(names), "strong"), f": {reason}", is_item=True)


def _workload_link(row: d.WorkloadDifference, options: ReportOptions) -> Cell:
    """Return the name of a workload; where pipelines show files, with the address of its line."""
    name = owner_title(row.workload)
    if not options.pages:
        return name
    case = _located(row)
    file = options.repository.file(case.file)
    if not file or file.startswith(("/", "../")):
        return name
    return Span(name, href=f"{options.pages}/{quote(file)}#L{case.line or 1}")


def _located(row: d.WorkloadDifference) -> Case:
    """Return a case of a workload with its line in the manifests of the second answer."""
    case = Case(owner_title(row.workload), "skipped", "", "", kind="workload")
    if row.decision is not None:
        case = located(case, row.decision)
    if row.origin and not case.file:
        case = replace(case, file=row.origin.file, document=row.origin.document, line=row.origin.line or None)
    return replace(case, workload=case.name if case.file else "")


def difference_word(row: d.WorkloadDifference) -> str:
    """Return how a workload differs: ``scaled 2 -> 4``."""
    if row.difference is d.Difference.SCALED and row.before is not None and row.after is not None:
        return f"scaled {row.before.pods} -> {row.after.pods}"
    return WORDS[row.difference]


def _reasons(row: d.WorkloadDifference, *, tells_help: bool = True, in_full: bool = False) -> Iterator[str]:
    """Yield why a workload differs: its own reason, parts of the change, and what it evicts, or is evicted for."""
    diagnosis, remedies = (row.decision.diagnosis, row.decision.remedies) if row.decision is not None else ("", ())
    if reason := diagnosis or row.message or "; ".join(map(cause_text, row.why)):
        has_help = tells_help and diagnosis and remedies
        yield f"{reason} What would help: {remedy_text(remedies[0])}." if has_help and remedies else reason
    if row.because:
        blames = row.because if in_full else row.because[:_MOST_BLAMES]
        others = len(row.because) - len(blames)
        as_much = "is as much a cause" if others == 1 else "are as much causes, each alone"
        more = f" {count(others, 'other part')} of the change {as_much}." if others else ""
        yield " ".join(f"{blame_text(blame)}." for blame in blames) + more
    if row.evicts:
        yield f"Evicts {listing(row.evicts)}."
    if row.evicted_for:
        yield " ".join(
            f"{count(number, 'pod')} evicted for {owner_title(by)}." for by, number in row.evicted_for.items()
        )


def _workload_place(row: d.WorkloadDifference, side: d.WorkloadSide | None) -> str:
    if side is None or not side.pods:
        return "-" if side is None else NO_PODS
    nodes = listing(list(side.nodes), most=_MOST_NODES)
    if side.pods == 1:
        return nodes or "pending"
    is_moved = row.difference is d.Difference.MOVED
    text = f"{side.placed} of {side.pods} placed" if side.placed < side.pods or not is_moved else ""
    return ": ".join(part for part in (text, nodes if is_moved else "") if part)


def blame_text(blame: d.Blame) -> str:
    if not blame.took:
        return f"Because of {owner_title(blame.workload)}"
    amounts = ", ".join(f"{in_cores(amount)} {resource}" for resource, amount in blame.took.items())
    place = f"on {listing(blame.nodes, most=_MOST_NODES)}"
    zone = f" in zone {blame.zone}" if blame.zone else ""
    return f"Because {owner_title(blame.workload)} took {amounts} {place}{zone}"


def cause_text(cause: d.Cause) -> str:
    reasons = ", ".join(cause.reasons) + (f" ({cause.plugin})" if cause.plugin else "")
    lead = f"{cause.plugin} puts {cause.node} {_lead(cause.after or 0)}; before, it was {_lead(cause.before or 0)}"
    words: Mapping[d.CauseKind, str] = {
        "node-gone": f"{cause.node} is gone",
        "node-new": f"{cause.node} is new",
        "rejects": f"{cause.node} rejects it: {reasons}",
        "took-off": f"{cause.node} rejected it: {reasons}",
        "score": lead,
    }
    return words[cause.kind]


def _lead(points: int) -> str:
    if not points:
        return "level"
    return f"{count(abs(points), 'point')} {'ahead' if points > 0 else 'behind'}"


def cost_blocks(document: d.DiffReport) -> Iterator[Block]:
    shares = {usage.resource: _then(f"{usage.before:.1f}%", f"{usage.after:.1f}%") for usage in document.utilisation}
    costs = {
        cost.resource: (
            _then(cost.requests_before or "", cost.requests_after or ""),
            _then(cost.free_before, cost.free_after),
            _then(cost.largest_before, cost.largest_after),
        )
        for cost in document.costs
    }
    if not costs and not shares:
        return
    yield Heading(("What it costs",), folds=False)
    rows = []
    for name in dict.fromkeys((*costs, *shares)):
        requests, *room = costs.get(name, ("-", "-", "-"))
        rows.append((name, requests, shares.get(name, "-"), *room))
    header = ("RESOURCE", "MANIFESTS REQUEST", "CLUSTER REQUESTED", "ROOM LEFT", "LARGEST POD THAT STILL FITS")
    yield Table(header, tuple(rows), "<<<<<")


def _then(before: str, after: str) -> str:
    if not after:
        return "-"
    before, after = in_cores(before), in_cores(after)
    return after if before == after else f"{before} -> {after}"


def workload_cases(document: d.DiffReport) -> Iterator[Case]:
    failed = {event.object for event in document.verdict.counted}
    failed |= {row.workload for row in document.workloads if not failed.isdisjoint(row.evicts)} | {
        pod.workload for pod in document.pods if pod.pod in failed
    }
    for row in document.workloads:
        ends = "NewVictim" if row.evicts else _rule(row.difference)
        yield replace(
            _located(row),
            state="failed" if row.workload in failed else "skipped",
            rule="NewlyPending" if row.is_pending_now else ends,
            message=_message(row),
            detail=" ".join(_reasons(row)),
            is_notable=row.now_pending > 0 or row.difference is d.Difference.REFUSED,
        )


def _message(row: d.WorkloadDifference) -> str:
    """Return what becomes of a workload; the reason is in the second line."""
    if row.is_pending_now and row.after is not None:
        before = "" if row.before is None else f", before {row.before.pending} of {row.before.pods}"
        first = f"pending now: {_pending_pods(row.after)}{before}" if row.after.pods > 1 else "pending now"
    else:
        first = f"{difference_word(row)}: {_where(row.before)} before, {_where(row.after)} after"
    return "\n".join((first, *_reasons(row, tells_help=False)))


def _where(side: d.WorkloadSide | None) -> str:
    if side is None or not side.pods:
        return "nothing" if side is None else NO_PODS
    nodes = listing(list(side.nodes), most=_MOST_NODES) or "pending"
    return nodes if side.pods == 1 else f"{side.placed} of {count(side.pods, 'pod')} placed ({nodes})"


def event_text(document: d.DiffReport, event: Counted) -> str:
    worse = (fact.fact for fact in document.facts if fact.about == event.object and fact.worse)
    return _EVENTS.get(event.rule) or next((f"{fact} worse than before" for fact in worse), event.text)


def reasons(document: d.DiffReport) -> str:
    """Return why the verdict is a failure: ``pending now: 5 of 6 pods of Deployment shop/web``."""
    workload = {pod.pod: pod.workload for pod in document.pods}
    rows = {row.workload: row for row in document.workloads}
    order = {_pending_of(row): number for number, row in enumerate(document.workloads)}
    evicted = {*document.victims_added} - {*evicted_for_good(document)}
    names_of: dict[str, dict[str, None]] = {}
    for event in document.verdict.counted:
        row = rows.get(workload.get(event.object, event.object))
        words = event_text(document, event)
        if event.object in evicted and event.rule == "NewVictim":
            continue
        if row is not None and row.difference is d.Difference.REFUSED:
            words, name = _EVENTS["Refused"], owner_title(row.workload)
        elif row is not None and row.now_pending > 0 and words in (_EVENTS["NewlyPending"], _EVENTS["StateWorse"]):
            words, name = _EVENTS["NewlyPending"], _pending_of(row)
        else:
            name = event.object
        names_of.setdefault(f"{document.verdict.condition_of(event)}: {words}", {})[name] = None
    ordered = ((words, sorted(names, key=lambda one: order.get(one, len(order)))) for words, names in names_of.items())
    return failure_words([*document.verdict.also, *(f"{words}: {listing(names)}" for words, names in ordered)], {})


_ON_NODE = "nodes."
_FACTS = {
    "mayGo": "drainable",
    "allPlaced": "all placed",
    "evicted": "evicted",
    "gone": "not replaced",
    "position": "turn in the queue",
    "place": "place in the queue",
    NODE: "what becomes of it",
    ADDED: "nodes added",
    PRICE: "price at the end",
}


def _opening(document: d.DiffReport, options: ReportOptions) -> Iterator[Block]:
    if options.is_comment:  # whoever reads it wants to know first whether it may be merged
        word = Span("Failed", "bad") if document.verdict.failed else Span("Passed", "good")
        yield line(word, f": {listing(document.verdict.fail_on)}" if document.verdict.failed else "")
    else:
        yield from _sides(document)


def _sides(document: d.DiffReport) -> Iterator[Block]:
    before, after = _facts_of(document.before), _facts_of(document.after)
    both = [fact for fact in before if fact in after]
    first, second = ([fact for fact in facts if fact not in both] for facts in (before, after))
    for title, facts in (("Before", first), ("After", second)):
        if first or second:
            yield line(f"{title}: ", "; ".join(facts) or "nothing else")
    if both:
        yield line("Both: ", "; ".join(both))


def _facts_of(side: d.Side) -> list[str]:
    pods = f"{count(side.snapshot.nodes, 'node')}, {count(side.snapshot.pods, 'pod')}"
    changes = map(change_text, side.snapshot.changes or ())
    return [side.what, pods, f"Kubernetes {side.scheduler.kubernetes_version}", *changes]


def _body(document: d.DiffReport, options: ReportOptions) -> Iterator[Block]:
    if document.workloads:
        yield from workload_blocks(document, options)
    if document.pods and (options.tells_all or not document.workloads):
        if document.workloads:
            yield Heading(("Each pod",))
        pods = options.first(document.pods, _MOST_ROWS)
        note = left_out(len(document.pods) - len(pods))
        rows = tuple(_row(pod, options) for pod in pods)
        yield Table(("POD", "DIFFERENCE", "BEFORE", "AFTER", "WHY"), rows, "<<<<<", note=note)
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
    workloads = {row.workload for row in document.workloads}
    facts = [fact for fact in document.facts if fact.about not in workloads or fact.fact != "state"]
    if facts:
        shown = options.first(facts, _MOST_ROWS)
        yield Heading(("What else differs" if document.pods or document.capacity else "What differs",))
        note = left_out(len(facts) - len(shown))
        sides = "<<" if any(fact.fact == NODE for fact in facts) else ">>"
        yield Table(("ABOUT", "FACT", "BEFORE", "AFTER"), tuple(map(_fact_row, shown)), f"<<{sides}", note=note)
    if options.is_comment:
        yield Heading(("What was compared",))
        yield from _sides(document)


def _fact_row(fact: d.FactDifference) -> tuple[Cell, ...]:
    name = _FACTS.get(fact.fact, fact.fact)
    name = f"on {name.removeprefix(_ON_NODE)}" if name.startswith(_ON_NODE) else name
    before, after = _fact_texts(fact)
    return (fact.about or "all pods", name, before, Span(after, "bad") if fact.worse else after)


def _fact_texts(fact: d.FactDifference) -> tuple[str, str]:
    return _fact_text(fact.fact, fact.before), _fact_text(fact.fact, fact.after)


def _fact_text(name: str, fact: d.Fact | None) -> str:
    if fact is None:
        return "-"
    if name == PRICE and isinstance(fact, float):
        return price_text(fact)
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return f"{fact:.1%}" if isinstance(fact, float) else str(fact)


def _sentence(document: d.DiffReport) -> str:
    if document.workloads:
        return workloads_sentence(document)
    summary = document.summary
    numbers = Counter[d.Difference]({difference: getattr(summary, difference.name.lower()) for difference in d.OF_PODS})
    if any(numbers.values()):
        return f"{_numbers('pod', len(document.pods), numbers)}; {count(summary.same, 'pod')} the same"
    others = document.utilisation or document.victims_added or document.victims_removed
    return _other_differences(document) or ("No pod differs" if others else "Nothing differs")


def _other_differences(document: d.DiffReport) -> str:
    parts = []
    both = ((fit.template, fit.before, fit.after) for fit in document.capacity)
    fits = [(name, before, after) for name, before, after in both if before is not None and after is not None]
    if len(fits) == len(document.capacity) == 1:
        parts += [f"{after} of {template} fit, {before} before" for template, before, after in fits]
    else:
        fewer = sum(after < before for _, before, after in fits)
        ways = ((fewer, "fewer"), (len(fits) - fewer, "more"))
        parts += [f"{how} fit of {count(n, 'workload')}" for n, how in ways if n]
        alone = len(document.capacity) - len(fits)
        parts += [f"{count(alone, 'workload')} only in one of the two"] if alone else []
    if document.after.kind == document.before.kind == "NodesReport":
        parts += _node_differences(document.facts)
    elif document.facts:
        worse, noun = sum(fact.worse for fact in document.facts), "other fact" if document.capacity else "fact"
        parts.append(f"{count(len(document.facts), f'{noun} differs', f'{noun}s differ')}, {worse} for the worse")
    return capitalized("; ".join(parts))


def _node_differences(facts: Sequence[d.FactDifference]) -> Iterator[str]:
    if others := sum(fact.fact == NODE for fact in facts):
        yield f"the autoscaler treats {count(others, 'node')} differently"
    if added := [fact for fact in facts if fact.fact == ADDED]:
        before = sum(fact.before for fact in added if isinstance(fact.before, int))
        after = sum(fact.after for fact in added if isinstance(fact.after, int))
        more, number = ("fewer" if after < before else "more"), abs(after - before)
        yield f"{number} {more} {'node' if number == 1 else 'nodes'} added" if number else "other nodes added"
    for is_worse, word in ((True, "newly without help"), (False, "no longer without help")):
        if pods := sum(fact.fact == "unhelped" and fact.worse is is_worse for fact in facts):
            yield f"{count(pods, 'pod')} {word}"
    for fact in facts:
        if fact.fact == PRICE:
            yield "price {} before, {} after".format(*_fact_texts(fact))


def _row(pod: d.PodDifference, options: ReportOptions) -> tuple[Cell, ...]:
    word = Span(WORDS[pod.difference], STYLES.get(pod.difference, ""))
    is_left_out = pod.difference is d.Difference.STILL_PENDING and not options.is_wide
    why = "different message (-o wide shows it)" if is_left_out else _why(pod)
    return (pod.pod, word, _place(pod.before), _place(pod.after), why)


def _place(fate: d.Fate | None) -> str:
    if fate is None:
        return "-"
    to = "" if fate.nominated_node is None else f", to {fate.nominated_node}"
    return f"{fate.outcome}{to}" if fate.node is None else fate.node


def _why(pod: d.PodDifference) -> str:
    message = pod.after.message if pod.after is not None and pod.after.node is None else ""
    return "; ".join(map(cause_text, pod.why)) or message


def _number(fits: int | None) -> str:
    return "-" if fits is None else str(fits)


def _cases(document: d.DiffReport, options: ReportOptions) -> Iterator[Case]:
    named = {name for row in document.workloads for name in (row.workload, *row.evicts)}
    yield from workload_cases(document)
    # Pods that are evicted and pending again are told with their workload.
    named |= {*document.victims_added} - {*evicted_for_good(document)}
    counted_objects = {event.object for event in document.verdict.counted}
    for pod in document.pods:
        if pod.workload in named or pod.difference is d.Difference.STILL_PENDING:
            continue
        message = f"{WORDS[pod.difference]}: {_place(pod.before)} before, {_place(pod.after)} after"
        rule = _rule(pod.difference)
        yield Case(pod.pod, "failed" if pod.pod in counted_objects else "skipped", rule, message, _why(pod))
    fits = {fit.template: f"{fit.after} fit, {fit.before} before" for fit in document.capacity}
    for counted in document.verdict.counted:
        if counted.rule == "LessFits":
            yield Case(counted.object, "failed", counted.rule, fits[counted.object])
        elif (counted.rule == "NewVictim" or counted.rule.endswith("Worse")) and counted.object not in named:
            yield Case(counted.object, "failed", counted.rule, event_text(document, counted))


def _names(document: d.DiffReport) -> Iterator[str]:
    for row in document.workloads:
        if row.difference is d.Difference.REFUSED:
            yield f"{row.difference.value} {row.workload}"
    for pod in document.pods:
        yield f"{pod.difference.value} {pod.pod} {_place(pod.before)} {_place(pod.after)}"
    for fits in document.capacity:
        yield f"fits {fits.template} {_number(fits.before)} {_number(fits.after)}"
    for fact in document.facts:
        yield " ".join((fact.fact, fact.about or "-", *_fact_texts(fact)))


VIEW = View(
    _sentence,
    _body,
    _cases,
    _names,
    opening=_opening,
    reasons=reasons,
    moments={"before": "At the end of the first answer", "after": "At the end of the second"},
)
