"""How full nodes are before and after, and how large a pod still fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.api.readable import readable
from kplan.documents.plan import LargestFit, NodeGroup, Usage, Utilisation
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.options import ReportOptions

_MOST_RESOURCES = 6
_NEARLY_FULL = 90.0
_MOST_FITS = 2


def fullness_blocks(utilisation: Utilisation, fits: Sequence[LargestFit]) -> Iterator[Block]:
    """Yield in a sentence each how full the cluster is, and how large a pod still fits."""
    whole = utilisation.cluster
    if not whole.nodes:
        return
    shares = [f"{name} {text}" for name, usage in whole.resources.items() if (text := _percent(usage))]
    yield line(Span(f"Utilisation, before -> after: {', '.join(shares[:_MOST_RESOURCES])} (-o wide shows more)", "dim"))
    largest = [f"{readable(fit.after.free)} {fit.resource}" for fit in fits[:_MOST_FITS] if fit.after.free != "0"]
    if largest:
        yield line(Span(f"Largest request that still fits: {', '.join(largest)}", "dim"))


def _percent(usage: Usage) -> str:
    if usage.allocatable == "0" and usage.after == "0":
        return ""
    then, now = f"{usage.percent_before:.0f}%", f"{usage.percent_after:.0f}%"
    return now if then == now else f"{then} -> {now}"


def utilisation_blocks(utilisation: Utilisation, options: ReportOptions) -> Iterator[Block]:
    """Yield a table of how full the cluster, its zones and its pools are; with -o wide every node, too."""
    whole = utilisation.cluster
    if not whole.nodes:
        return
    resources = list(whole.resources)
    if not options.is_wide and len(resources) > _MOST_RESOURCES:
        resources = [*resources[: _MOST_RESOURCES - 1], resources[-1]]
    rows = [_row("cluster", whole, resources, options)]
    for kind, groups in (("zone", utilisation.zones), ("pool", utilisation.pools)):
        if len(groups) > 1 or options.is_wide:
            rows += [_row(f"{kind} {name or '(none)'}", group, resources, options) for name, group in groups.items()]
    if options.is_wide:
        nodes = utilisation.nodes.items()
        rows += [_row(name, NodeGroup(nodes=1, resources=group), resources, options) for name, group in nodes]
    yield Heading(("Utilisation of nodes, before -> after",))
    label = utilisation.pool_label
    has_pools = len(utilisation.pools) > 1 or (options.is_wide and utilisation.pools)
    note = f"pools: label {label}" if has_pools else ""
    yield Table(("WHERE", "NODES", *resources), tuple(rows), "<>" + ">" * len(resources), note=note)


def _row(name: str, group: NodeGroup, resources: Sequence[str], options: ReportOptions) -> tuple[Cell, ...]:
    shown = [_share(group.resources.get(resource), options) for resource in resources]
    return (name, str(group.nodes), *shown)


def _share(usage: Usage | None, options: ReportOptions) -> Cell:
    text = "" if usage is None else _percent(usage)
    if usage is None or not text:
        return "-"
    has_moved = round(usage.percent_before) != round(usage.percent_after)
    if options.is_wide:
        text += f" ({readable(usage.after)} of {readable(usage.allocatable)})"
    return Span(text, "warn") if usage.percent_after >= _NEARLY_FULL and has_moved else text


def largest_fit_blocks(fits: Sequence[LargestFit], options: ReportOptions) -> Iterator[Block]:
    """Yield a table of how large one more pod can be, by resource, and how much is free in all."""
    shown = [fit for fit in fits if fit.before.node is not None or fit.after.node is not None]
    if not shown:
        return
    rows: list[tuple[Cell, ...]] = [
        (
            fit.resource,
            readable(fit.before.free),
            readable(fit.after.free),
            "-" if fit.after.free == "0" else fit.after.node or "-",
            readable(fit.after.total_free),
        )
        for fit in (shown if options.is_wide else shown[:_MOST_RESOURCES])
    ]
    yield Heading(("The largest pod that still fits",))
    note = "on nodes open to any pod: not cordoned, not tainted, and below their limit of pods"
    yield Table(("RESOURCE", "BEFORE", "AFTER", "ON NODE", "FREE IN ALL"), tuple(rows), "<>><>", note=note)
