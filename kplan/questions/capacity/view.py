"""The CapacityReport for people: how many fit and where, what stops the next one, and what to add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.quantity import count, listing
from kplan.documents.capacity import Addition, CapacityReport, TemplateFit
from kplan.framework.results import Outcome
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.decision import decision_blocks
from kplan.report.new_nodes import added_cases, growth_blocks
from kplan.report.options import ReportOptions
from kplan.report.overview import group_text
from kplan.report.remedies import located, remedy_blocks
from kplan.report.text import detail_of
from kplan.report.view import Case, Metric, View
from kplan.report.words import name_ranges

_MOST_SINGLE_NODES = 10
_MOST_VICTIMS = 20


def _body(document: CapacityReport, options: ReportOptions) -> Iterator[Block]:
    yield from _offers(document)
    templates = document.templates
    if len(templates) == 1:
        yield line(f"{_what_requests(templates[0])} {_requests(templates[0])}.")
    else:
        yield _sets(document)
        rows = tuple(
            (template.name, str(template.share), str(template.fits), _requests(template)) for template in templates
        )
        yield Table(("TEMPLATE", "IN A ROW", "FIT", "REQUESTS EACH"), rows, "<>><")
    yield from _where(document, options)
    yield from _victims(document)
    yield from _stop(document, options)
    yield from _to_add(document)
    if document.new_nodes:
        yield from growth_blocks(document.new_nodes, is_whole=options.in_full or options.is_wide)


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
    noun, plural = _nouns(document)
    if wanted is not None:
        return f"{names}: {fits} of {count(wanted, noun, plural)} {'fit' if wanted != 1 else 'fits'}{on}"
    more = " or more" if document.stop is None else ""
    return f"{names}: {fits}{more} {f'{noun} fits' if fits == 1 and not more else f'{plural} fit'}{on}"


def _nouns(document: CapacityReport) -> tuple[str, str]:
    """Return what is counted, one and several."""
    groups = {template.group.pods if template.group else 0 for template in document.templates}
    if groups == {0}:
        return "replica", "replicas"
    if 0 in groups:
        return "replica or group", "replicas and groups"
    pods = f" of {count(max(groups), 'pod')}" if len(groups) == 1 else ""
    return f"whole group{pods}", f"whole groups{pods}"


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


def _requests(template: TemplateFit) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in template.requests.items()) or "nothing but a pod slot"


def _where(document: CapacityReport, options: ReportOptions) -> Iterator[Block]:
    zones, nodes = document.zones, document.nodes
    if not nodes:
        return
    if len(zones) > 1:
        rows = tuple(
            (zone or "(none)", str(zone_fit.replicas), str(zone_fit.nodes)) for zone, zone_fit in zones.items()
        )
        yield Table(("ZONE", "REPLICAS", "NODES"), rows, "<>>")
    names = [template.name for template in document.templates]
    columns = names if len(names) > 1 else ["PODS" if document.templates[0].group else "REPLICAS"]
    yield from _domains(document)
    if options.top is None or options.is_wide or len(nodes) <= _MOST_SINGLE_NODES:
        single = [(node, *(str(fits.get(name, 0)) for name in names)) for node, fits in nodes.items()]
        yield Table(("NODE", *columns), tuple(single), "<" + ">" * len(columns))
        return
    yield Table((*columns, "NODES", "WHICH"), tuple(_alike(nodes, names)), ">" * (len(columns) + 1) + "<")


def _domains(document: CapacityReport) -> Iterator[Block]:
    """Yield where groups run that stay together."""
    for template in document.templates:
        group = template.group
        if group and group.domains:
            times = ", ".join(f"{n} on {value}" for value, n in Counter(group.domains).items())
            name = f" of {template.name}" if len(document.templates) > 1 else ""
            yield line(f"Groups{name} by {group.topology_key}: {times}.")


def _alike(nodes: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> list[tuple[Cell, ...]]:
    """Return a row for the nodes that take equally many replicas, the fullest nodes first."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for node, fits in nodes.items():
        groups.setdefault(tuple(fits.get(name, 0) for name in names), []).append(node)
    ordered = sorted(groups.items(), key=lambda item: (-sum(item[0]), item[0]))
    return [(*map(str, counts), str(len(members)), name_ranges(members, most=3)) for counts, members in ordered]


def _victims(document: CapacityReport) -> Iterator[Block]:
    victims = document.victims
    if victims:
        yield Heading((Span(f"{count(len(victims), 'pod')} would be evicted", "warn"),))
        yield line(listing(victims, most=_MOST_VICTIMS) + ".")


def _stop(document: CapacityReport, options: ReportOptions) -> Iterator[Block]:
    stop = document.stop
    if stop is None:
        return
    which = f" of {stop.template}" if len(document.templates) > 1 else ""
    if stop.group:
        yield Heading((f"What stops the next group{which}",))
        yield line(f"{group_text(stop.group)}.")
        yield from remedy_blocks(stop.group.remedies)
    else:
        yield Heading((f"What stops the next replica{which}",))
    yield from decision_blocks(stop.placement, document.snapshot.nodes, options)


def _to_add(document: CapacityReport) -> Iterator[Block]:
    tried, missing, stop = document.to_add, _missing(document), document.stop
    if (
        document.offers
        or document.new_nodes
        or not missing
        or stop is None
        or stop.placement.outcome is not Outcome.UNSCHEDULABLE
    ):
        return
    yield Heading((f"What to add to fit all {document.summary.wanted}",))
    helpful = [addition for addition in tried if addition.nodes is not None]
    if not helpful:
        yield line(f"More nodes like those of the cluster do not help with the {missing} that are missing.")
    else:
        rows: list[tuple[Cell, ...]] = [
            (
                Span(_number(addition), "strong"),
                listing(_models(addition)),
                ", ".join(f"{amount} {name}" for name, amount in addition.shapes[0].allocatable.items()),
            )
            for addition in helpful
        ]
        yield Table(("NODES", "LIKE", "EACH WITH"), tuple(rows), "><<")
        useless = [" with ".join(_models(addition)) for addition in tried if addition.nodes is None]
        if useless:
            alone = " alone" if any(len(addition.shapes) > 1 for addition in helpful) else ""
            yield line(f"Any number of nodes like {listing(useless)}{alone} does not help.")
    if document.shapes_not_tried:
        yield line(f"{count(document.shapes_not_tried, 'rarer shape')} of nodes not tried.")


def _offers(document: CapacityReport) -> Iterator[Block]:
    offers = document.offers
    if not offers:
        return
    yield Heading((f"What to add to fit all {document.summary.wanted}, the cheapest first",))
    rows: list[tuple[Cell, ...]] = [
        (
            Span(price_text(offer.price), "strong"),
            str(offer.nodes),
            " + ".join(f"{n} {shape}" for shape, n in offer.mix.items()),
        )
        for offer in offers.offers
    ]
    if rows:
        yield Table(("PRICE", "NODES", "MIX"), tuple(rows), ">><")
        certainty = (
            "No cheaper mix is enough"
            if offers.is_cheapest
            else "Found by a greedy search: a cheaper mix may be enough"
        )
        placed = f"Each of these was placed; {offers.tried} mixes were tried" if offers.tried > 1 else "It was placed"
        yield line(f"{certainty}. {placed}.")
    else:
        tried = f", of {count(offers.tried, 'mix', 'mixes')} tried" if offers.tried else ""
        yield line(f"No mix of these shapes was found{tried}.")
    useless = [shape.name for shape in offers.shapes if not shape.helps]
    if useless:
        verb = "does" if len(useless) == 1 else "do"
        yield line(f"{listing(useless)} {verb} not help: the missing pods would not run there.")


def price_text(price: float) -> str:
    """Write a price without an exponent, and without decimals that say nothing."""
    return f"{price:.9f}".rstrip("0").rstrip(".")


def _models(addition: Addition) -> list[str]:
    return [shape.like for shape in addition.shapes]


def _number(addition: Addition) -> str:
    suffix = " of each" if len(addition.shapes) > 1 else ""
    return f"{addition.nodes}{suffix}"


def _cases(document: CapacityReport, options: ReportOptions) -> Iterator[Case]:
    stop = document.stop
    failed = document.verdict.failed
    for template in document.templates:
        noun = "whole group" if template.group else "replica"
        message = f"{count(template.fits, noun)} fit" if template.fits != 1 else f"1 {noun} fits"
        if failed:
            text = ", ".join(document.verdict.because)
            message = text if len(document.templates) == 1 else f"{message}; {text}"
        detail = message
        if stop is not None and stop.template == template.name:
            blocks = decision_blocks(stop.placement, document.snapshot.nodes, options)
            detail = f"{message}\nWhat stops the next one:\n{detail_of(blocks, options)}"
        rule = "Unschedulable" if failed else "Capacity"
        case = Case(template.name, "failed" if failed else "passed", rule, message, detail)
        if stop is not None and stop.template == template.name:
            placement = stop.placement
            case = replace(
                located(case, placement), message=f"{message}. {placement.diagnosis or ''}".rstrip(), more=""
            )
        yield case
    if document.new_nodes:
        yield from added_cases(document.new_nodes.added, document.verdict)


def _names(document: CapacityReport) -> list[str]:
    return [f"{template.name} {template.fits}" for template in document.templates]


def _metrics(document: CapacityReport) -> Iterator[Metric]:
    for template in document.templates:
        yield Metric("capacity_replicas", "Replicas that fit.", template.fits, {"workload": template.name})
    for name, zone in document.zones.items():
        yield Metric("capacity_zone_replicas", "Replicas that fit in a zone.", zone.replicas, {"zone": name})
    yield Metric("capacity_nodes", "Nodes that take a replica.", document.summary.nodes)
    if document.summary.wanted is not None:
        yield Metric("capacity_wanted_replicas", "Replicas that are wanted.", document.summary.wanted)


VIEW = View(
    _sentence,
    _body,
    _cases,
    _names,
    metrics=_metrics,
    style=lambda document: "bad" if _missing(document) else "good",
    has_bars=True,
)
