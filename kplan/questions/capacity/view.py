"""Reports about room: how many replicas of manifests or of each workload fit, and which nodes can go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kplan.api.quantity import count, grouped, listing, readable
from kplan.documents.capacity import CapacityReport, HeadroomReport, ShrinkReport, TemplateFit, Why, WorkloadHeadroom
from kplan.documents.placement import PodPlacement
from kplan.framework.results import Outcome
from kplan.report import new_nodes
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.decision import decision_blocks, located, remedy_blocks
from kplan.report.options import ReportOptions
from kplan.report.overview import group_text
from kplan.report.text import detail_of
from kplan.report.view import Case, Metric, View, state_of
from kplan.report.words import left_out, name_ranges

_MOST_SINGLE_NODES = 10
_MOST_VICTIMS = 20


def _body(document: CapacityReport, options: ReportOptions) -> Iterator[Block]:
    yield from _offers(document)
    templates = document.templates
    if len(templates) == 1:
        yield line(f"{_what_requests(templates[0])} {_amounts(templates[0].requests) or _NOTHING}.")
    else:
        yield _sets(document)
        rows = ((one.name, str(one.share), str(one.fits), _amounts(one.requests) or _NOTHING) for one in templates)
        yield Table(("TEMPLATE", "IN A ROW", "FIT", "REQUESTS EACH"), tuple(rows), "<>><")
    yield from _where(document, options)
    if victims := document.victims:
        yield Heading((Span(f"{count(len(victims), 'pod')} would be evicted", "warn"),))
        yield line(listing(victims, most=_MOST_VICTIMS) + ".")
    yield from _stop(document, options)
    yield from _to_add(document)
    if document.new_nodes:
        yield from new_nodes.growth_blocks(document.new_nodes, options)


_NOTHING = "nothing but a pod slot"


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items())


def _missing(document: CapacityReport) -> int:
    wanted = document.summary.wanted
    return 0 if wanted is None else max(wanted - document.summary.fits, 0)


def _sentence(document: CapacityReport) -> str:
    summary = document.summary
    fits, wanted = summary.fits, summary.wanted
    names = listing([template.name for template in document.templates])
    n_new = len(document.new_nodes.added) if document.new_nodes else 0
    on = f" on {summary.nodes} of {count(document.snapshot.nodes + n_new, 'node')}" if fits else ""
    on += f", {n_new} of them new" if n_new else ""
    groups = {template.group.pods if template.group else 0 for template in document.templates}
    pods = f" of {count(max(groups), 'pod')}" if len(groups) == 1 else ""
    noun, plural = f"whole group{pods}", f"whole groups{pods}"
    if 0 in groups:
        noun, plural = ("replica", "replicas") if groups == {0} else ("replica or group", "replicas and groups")
    if wanted is not None:
        return f"{names}: {fits} of {count(wanted, f'{noun} fits', f'{plural} fit')}{on}"
    more = " or more" if document.stop is None else ""
    return f"{names}: {fits}{more} {f'{noun} fits' if fits == 1 and not more else f'{plural} fit'}{on}"


def _what_requests(template: TemplateFit) -> str:
    """Return what a replica, or a group, is, as the beginning of a sentence about its requests."""
    group = template.group
    if not group:
        return "Each requests"
    needed = f", of which {group.min_count} must fit at the same time" if group.min_count else ""
    where = f", together on one {group.topology_key.rpartition('/')[2]}" if group.topology_key else ""
    return f"Each group has {count(group.pods, 'pod')}{needed}{where}; in all they request"


def _sets(document: CapacityReport) -> Block:
    """Return the sentence about whole sets that fit, and about the replicas of the set that does not."""
    templates, sets = document.templates, document.sets or 0
    ratio = " and ".join(f"{template.share} of {template.name}" for template in templates)
    rest = [f"{n} of {template.name}" for template in templates if (n := template.fits - sets * template.share)]
    begun = f", and {' and '.join(rest)} of the next" if rest else ""
    return line(f"{count(sets, 'whole set')} of {ratio}{begun}, taken in turn in this order.")


def _where(document: CapacityReport, options: ReportOptions) -> Iterator[Block]:
    zones, nodes = document.zones, document.nodes
    if not nodes:
        return
    if len(zones) > 1:
        rows = tuple((zone or "(none)", str(fit.replicas), str(fit.nodes)) for zone, fit in zones.items())
        yield Table(("ZONE", "REPLICAS", "NODES"), rows, "<>>")
    names = [template.name for template in document.templates]
    columns = names if len(names) > 1 else ["PODS" if document.templates[0].group else "REPLICAS"]
    for template in document.templates:
        if template.group and template.group.domains:  # groups that stay together
            times = ", ".join(f"{n} on {value}" for value, n in Counter(template.group.domains).items())
            name = f" of {template.name}" if len(document.templates) > 1 else ""
            yield line(f"Groups{name} by {template.group.topology_key}: {times}.")
    fits_on = {node: tuple(fits.get(name, 0) for name in names) for node, fits in nodes.items()}
    if options.shows_all or len(nodes) <= _MOST_SINGLE_NODES:
        single = tuple((node, *map(str, fits)) for node, fits in fits_on.items())
        yield Table(("NODE", *columns), single, "<" + ">" * len(columns))
        return
    alike = grouped((fits, node) for node, fits in fits_on.items())
    fullest_first = sorted(alike.items(), key=lambda item: (-sum(item[0]), item[0]))
    together = tuple((*map(str, fits), str(len(on)), name_ranges(on, most=3)) for fits, on in fullest_first)
    yield Table((*columns, "NODES", "WHICH"), together, ">" * (len(columns) + 1) + "<")


def _stop(document: CapacityReport, options: ReportOptions) -> Iterator[Block]:
    stop = document.stop
    if stop is None:
        return
    which = f" of {stop.template}" if len(document.templates) > 1 else ""
    yield Heading((f"What stops the next {'group' if stop.group else 'replica'}{which}",))
    if stop.group:
        yield line(f"{group_text(stop.group)}.")
        yield from remedy_blocks(stop.group.remedies)
    yield from decision_blocks(stop.placement, document.snapshot.nodes, options)


def _to_add(document: CapacityReport) -> Iterator[Block]:
    missing, stop = _missing(document), document.stop
    is_full = missing and stop is not None and stop.placement.outcome is Outcome.UNSCHEDULABLE
    if document.offers or document.new_nodes or not is_full:
        return
    yield Heading((f"What to add to fit all {document.summary.wanted}",))
    likes = [(addition, [shape.like for shape in addition.shapes]) for addition in document.to_add]
    helpful = [(addition, like) for addition, like in likes if addition.nodes is not None]
    if not helpful:
        yield line(f"More nodes like those of the cluster do not help with the {missing} that are missing.")
    else:
        rows: list[tuple[Cell, ...]] = []
        for addition, like in helpful:
            number = Span(f"{addition.nodes}{' of each' if len(like) > 1 else ''}", "strong")
            rows.append((number, listing(like), _amounts(addition.shapes[0].allocatable)))
        yield Table(("NODES", "LIKE", "EACH WITH"), tuple(rows), "><<")
        if useless := [" with ".join(like) for addition, like in likes if addition.nodes is None]:
            alone = " alone" if any(len(like) > 1 for _, like in helpful) else ""
            yield line(f"Any number of nodes like {listing(useless)}{alone} does not help.")
    if document.shapes_not_tried:
        yield line(f"{count(document.shapes_not_tried, 'rarer shape')} of nodes not tried.")


def _offers(document: CapacityReport) -> Iterator[Block]:
    offers = document.offers
    if not offers:
        return
    yield Heading((f"What to add to fit all {document.summary.wanted}, the cheapest first",))
    if offers.offers:
        rows: list[tuple[Cell, ...]] = []
        for offer in offers.offers:
            price = f"{offer.price:.9f}".rstrip("0").rstrip(".")  # without an exponent, nor decimals that say nothing
            mix = " + ".join(f"{n} {shape}" for shape, n in offer.mix.items())
            rows.append((Span(price, "strong"), str(offer.nodes), mix))
        yield Table(("PRICE", "NODES", "MIX"), tuple(rows), ">><")
        greedy = "Found by a greedy search: a cheaper mix may be enough"
        certainty = "No cheaper mix is enough" if offers.is_cheapest else greedy
        placed = f"Each of these was placed; {offers.tried} mixes were tried" if offers.tried > 1 else "It was placed"
        yield line(f"{certainty}. {placed}.")
    else:
        tried = f", of {count(offers.tried, 'mix', 'mixes')} tried" if offers.tried else ""
        yield line(f"No mix of these shapes was found{tried}.")
    if useless := [shape.name for shape in offers.shapes if not shape.helps]:
        verb = "does" if len(useless) == 1 else "do"
        yield line(f"{listing(useless)} {verb} not help: the missing pods would not run there.")


def _cases(document: CapacityReport, options: ReportOptions) -> Iterator[Case]:
    stop, failed = document.stop, document.verdict.failed
    for template in document.templates:
        noun = "whole group" if template.group else "replica"
        message = count(template.fits, f"{noun} fits", f"{noun}s fit")
        if failed:
            text = ", ".join(document.verdict.because)
            message = text if len(document.templates) == 1 else f"{message}; {text}"
        rule = "Unschedulable" if failed else "Capacity"
        case = Case(template.name, "failed" if failed else "passed", rule, message, message)
        if stop is not None and stop.template == template.name:
            case = _stopped(case, stop.placement, f". {stop.placement.why}", document, options)
        yield case
    if document.new_nodes:
        yield from new_nodes.added_cases(document.new_nodes.added, document.verdict)


def _stopped(
    case: Case, stop: PodPlacement, why: str, document: CapacityReport | HeadroomReport, options: ReportOptions
) -> Case:
    blocks = decision_blocks(stop, document.snapshot.nodes, options)
    detail = f"{case.message}\nWhat stops the next one:\n{detail_of(blocks, options)}"
    return replace(located(case, stop), message=f"{case.message}{why}".rstrip(), detail=detail, more="")


def _metrics(document: CapacityReport) -> Iterator[Metric]:
    for template in document.templates:
        yield Metric("capacity_replicas", "Replicas that fit.", template.fits, {"workload": template.name})
    for name, zone in document.zones.items():
        yield Metric("capacity_zone_replicas", "Replicas that fit in a zone.", zone.replicas, {"zone": name})
    yield Metric("capacity_nodes", "Nodes that take a replica.", document.summary.nodes)
    if document.summary.wanted is not None:
        yield Metric("capacity_wanted_replicas", "Replicas that are wanted.", document.summary.wanted)


VIEW = View[CapacityReport](
    _sentence,
    _body,
    _cases,
    lambda document: [f"{template.name} {template.fits}" for template in document.templates],
    metrics=_metrics,
    style=lambda document: "bad" if _missing(document) else "good",
    has_bars=True,
)


_MOST_REASONS = 2
_NOT_OF_ROOM = frozenset({"TaintToleration", "NodeUnschedulable", "NodeAffinity", "NodeName"})
"""Plugins that judge the kind of a node, not its room: shown only where nothing else stops a replica."""
_MOST_ROWS = 50


def _headroom_body(document: HeadroomReport, options: ReportOptions) -> Iterator[Block]:
    workloads = document.workloads
    shown = workloads if options.shows_all else workloads[: max(_MOST_ROWS, len(_short(document)))]
    header = ("WORKLOAD", "RUNNING", "MORE", "ON NODES", *(("EACH REQUESTS",) if options.is_wide else ()))
    rows = tuple(_headroom_row(workload, document, is_wide=options.is_wide) for workload in shown)
    align = "<>>>" + "<" * options.is_wide + "<"
    note = left_out(len(workloads) - len(shown), extra=" with at least as much room")
    yield Table((*header, "WHAT STOPS THE NEXT"), rows, align, note=note)
    for workload in shown if options.explain else ():
        if workload.stop is not None:
            yield Heading((f"What stops the next replica of {workload.workload}",))
            yield from decision_blocks(workload.stop, document.snapshot.nodes, options)
    words = "Each workload is counted on its own, in the cluster as it is; together they share the same room."
    yield line(Span(words, "dim"))


def _short(document: HeadroomReport) -> list[WorkloadHeadroom]:
    wanted = document.wanted
    return [] if wanted is None else [workload for workload in document.workloads if workload.fits < wanted]


def _headroom_sentence(document: HeadroomReport) -> str:
    workloads = document.workloads
    if document.wanted is not None:
        n_short, more = len(_short(document)), f"{count(document.wanted, 'more replica')} of each workload"
        no = f"no, {n_short} of {len(workloads)} {'has' if n_short == 1 else 'have'} room for fewer"
        return f"{more}: {no if n_short else f'yes, of each of {len(workloads)}'}"
    of, full = count(len(workloads), "workload"), [workload.workload for workload in workloads if not workload.fits]
    if not full:
        return f"{of}: {'it' if len(workloads) == 1 else 'each'} has room for more replicas"
    return f"{listing(full)} {'has' if len(full) == 1 else 'have'} no room for one more replica: {len(full)} of {of}"


def _headroom_row(workload: WorkloadHeadroom, document: HeadroomReport, *, is_wide: bool) -> tuple[Cell, ...]:
    is_short = not workload.fits if document.wanted is None else workload.fits < document.wanted
    pool = f"pool {workload.pool}: " if isinstance(workload.pool, str) else ""
    return (
        f"{pool}{workload.workload}",
        str(workload.running),
        Span(f"{workload.fits}{'' if workload.stop is not None else '+'}", "bad" if is_short else "strong"),
        str(workload.nodes),
        *((_amounts(workload.requests) or "-",) if is_wide else ()),
        f"counted to {document.limit}" if workload.stop is None else _stop_words(workload.stop, tells_all=is_wide),
    )


def _stop_words(stop: PodPlacement, *, tells_all: bool = False) -> str:
    """Return in short, in kube-scheduler's words, why a replica does not fit, the reason of most nodes first."""
    reasons = stop.rejection_summary
    if stop.outcome is not Outcome.UNSCHEDULABLE or not reasons:
        return stop.message
    if not tells_all:
        of_room = tuple(reason for reason in reasons if reason.plugin not in _NOT_OF_ROOM)
        reasons = of_room[:_MOST_REASONS] or reasons[:1]
    return ", ".join(f"{reason.nodes} {reason.reason}" for reason in reasons)


def _headroom_cases(document: HeadroomReport, options: ReportOptions) -> Iterator[Case]:
    for workload in document.workloads:
        name, stop = workload.workload, workload.stop
        message = f"{'at least ' if stop is None else ''}{count(workload.fits, 'more replica')}"
        is_full = not workload.fits and document.wanted is None
        rule = document.verdict.rule_of(name, "NoRoom" if is_full else "Headroom")
        state = state_of(document.verdict, name, is_well=not is_full)
        case = Case(name, state, rule, message, message, kind="workload")
        yield case if stop is None else _stopped(case, stop, f"; the next: {_stop_words(stop)}", document, options)


def _headroom_metrics(document: HeadroomReport) -> Iterator[Metric]:
    for workload in document.workloads:
        labels = {"workload": workload.workload}
        yield Metric("headroom_running_replicas", "Replicas that run.", workload.running, labels)
        yield Metric("headroom_replicas", "Replicas that fit besides.", workload.fits, labels)


HEADROOM_VIEW = View[HeadroomReport](
    _headroom_sentence,
    _headroom_body,
    _headroom_cases,
    lambda document: [f"{workload.workload} {workload.fits}" for workload in document.workloads],
    _headroom_metrics,
    style=lambda document: "" if document.wanted is None else "bad" if _short(document) else "good",
)


_MOST_FREED = 20

_STAYS: Mapping[Why, str] = {
    "no-place": "a pod fits on no other node",
    "budget": "a disruption budget does not allow it",
    "not-evictable": "kubectl drain would not evict a pod",
    "moves-others": "other pods would have to make room",
    "control-plane": "the control plane runs there",
    "pods-wait": "a pod that waits needs room",
    "last": "no other node takes pods",
}


def _shrink_body(document: ShrinkReport, options: ReportOptions) -> Iterator[Block]:
    freed = document.freed
    if freed:
        resources = [name for name in document.frees if name != "pods"]
        amounts = ", ".join(f"{readable(document.frees[name])} {name}" for name in resources)
        yield line(f"Together they free {amounts or 'nothing'}.")
        shown = freed if options.shows_all else freed[:_MOST_FREED]
        columns: dict[str, list[Cell]] = {
            "ORDER": [str(number) for number in range(1, len(shown) + 1)],
            "NODE": [Span(node.name, "good") for node in shown],
            "PODS MOVED": [str(node.moved) for node in shown],
        }
        if any(node.deleted for node in freed):
            columns["DELETED"] = [str(node.deleted) for node in shown]
        for name in resources:
            columns[f"FREES {name}"] = [readable(node.frees[name]) if name in node.frees else "-" for node in shown]
        if any(node.saves is not None for node in freed):
            columns["SAVES"] = [new_nodes.price_text(node.saves) for node in shown]
        rows = tuple(zip(*columns.values(), strict=True))
        yield Table(tuple(columns), rows, "><" + ">" * (len(columns) - 2), note=left_out(len(freed) - len(shown)))
    usages = ((name, one.percent_before, one.percent_after) for name, one in document.usage.items() if freed)
    shares = [f"{name} {before:.0f}% -> {after:.0f}%" for name, before, after in usages if before != after]
    if shares:
        yield line(f"Utilisation of the nodes that stay: {', '.join(shares)}.")
    if document.price and document.autoscaler:
        yield from new_nodes.price_blocks(document.price, document.autoscaler)
    if document.waiting:
        yield line(f"Pending all the while: {listing(document.waiting)}.")
    yield from _staying(document, options)
    words = (
        "Searched greedily, the emptiest node first: each is drained when the pods of those before it are in place, and"
        " every budget is respected. Another order might free more."
    )
    yield line(Span(words, "dim"))


def _shrink_sentence(document: ShrinkReport) -> str:
    nodes, waiting = count(document.snapshot.nodes, "node"), len(document.waiting)
    waits = f"{count(waiting, 'pod waits', 'pods wait')} for a place" if waiting else ""
    if not document.freed:
        return f"None of {nodes} can go" + (f": {waits}" if waits else "")
    also = f"; {waits}, before and after" if waits else ""
    names = listing([node.name for node in document.freed])
    return f"{names} can go, drained one after another: {len(document.freed)} of {nodes}{also}"


def _staying(document: ShrinkReport, options: ReportOptions) -> Iterator[Block]:
    """Yield why the other nodes stay: counted by reason; with --all-nodes or -o wide a row for each node."""
    if not (stays := document.stays):
        return
    yield Heading((count(len(stays), "node stays", "nodes stay"),))
    if options.shows_all:
        rows = tuple((stay.name, _STAYS[stay.why], stay.pod or "-", stay.because) for stay in stays)
        yield Table(("NODE", "WHY", "POD", "WORDS"), rows, "<<<<")
        return
    alike = grouped((stay.why, stay) for stay in stays)
    for why, words in _STAYS.items():
        if mine := alike.get(why):
            first, names = mine[0], name_ranges([stay.name for stay in mine], most=3)
            because = f": {first.because}" if first.because else ""
            example = f", such as {first.pod} of {first.name}{because}" if first.pod else ""
            yield line(f"{count(len(mine), 'node')}: {words}{example} ({names})", is_item=True)


def _shrink_cases(document: ShrinkReport, options: ReportOptions) -> Iterator[Case]:
    for node in document.freed:
        yield Case(node.name, "passed", "CanGo", f"can go: {count(node.moved, 'pod')} placed elsewhere")
    for stays in document.stays:
        detail = ": ".join(filter(None, (stays.pod, stays.because)))
        words = _STAYS[stays.why]
        yield Case(stays.name, "skipped", "Stays", f"stays: {words}", detail, workload=words, kind="node")


SHRINK_VIEW = View[ShrinkReport](
    _shrink_sentence,
    _shrink_body,
    _shrink_cases,
    lambda document: [node.name for node in document.freed],
    lambda document: [Metric("shrink_nodes", "Nodes that can be drained one after another.", len(document.freed))],
    style=lambda document: "good" if document.freed else "",
)
