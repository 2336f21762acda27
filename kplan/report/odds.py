"""The OddsReport for people and programs: how often each outcome comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kplan.documents.odds import OddsReport, PodOdds, RunExample, Share, WorkloadOdds
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.footer import closing_blocks, opening_blocks, verdict_heading
from kplan.report.options import ReportOptions
from kplan.report.view import Case, State, View
from kplan.report.words import count, name_ranges

_MOST_PODS = 20
_MOST_EXAMPLES = 5
_DRAWS = (
    "Drawn evenly: equal best nodes and equal candidates for preemption. kube-scheduler's own draws between "
    "candidates are not even, and newer minors mostly take the same of equal nodes, which --ties scheduler tells."
)


def _blocks(document: OddsReport, options: ReportOptions) -> Iterator[Block]:
    yield verdict_heading(_sentence(document))
    yield from opening_blocks(document, options)
    summary = document.summary
    if summary.certain:
        yield line(Span("Certain", "good"), f": every pod ends up the same in all {count(summary.runs, 'run')}.")
    else:
        outcomes = count(summary.outcomes, "outcome")
        yield line(f"{count(summary.distinct, 'run')} of {summary.runs} differ, with {outcomes}. {_DRAWS}")
    pods: dict[str, list[PodOdds]] = {}
    for each in document.pods:
        pods.setdefault(each.workload, []).append(each)
    for workload in document.workloads:
        if workload.workload in pods:
            yield from _workload_blocks(workload, pods[workload.workload], options)
    if "" in pods:
        yield Heading(("Pods of their own" if len(pods) > 1 else "Pods",))
        yield _pod_table(pods[""], options)
    if document.evicted:
        yield Heading(("Other pods that are evicted",))
        rows = tuple((pod, _share(share)) for pod, share in document.evicted.items())
        yield Table(("POD", "EVICTED"), rows, "<<")
    if not summary.certain:
        yield from _example_blocks(document.examples)
    yield from closing_blocks(document)


def _workload_blocks(workload: WorkloadOdds, pods: Sequence[PodOdds], options: ReportOptions) -> Iterator[Block]:
    all_placed = workload.all_placed
    what = "placed" if workload.pods == 1 else "all placed"
    style = "good" if all_placed.share == 1 else "bad" if all_placed.share == 0 else "warn"
    yield Heading(
        (
            f"{workload.workload}: {count(workload.pods, 'pod')}, {what} in ",
            Span(_share(all_placed), style),  # type: ignore[arg-type] # one of the styles
        ),
    )
    if workload.pods > 1:
        for name, told in (("Zones", workload.zones), ("Nodes", workload.nodes)):
            if told:
                yield line(f"{name}: {_parts(told, options.top)}")
    yield _pod_table(pods, options)


def _pod_table(pods: Sequence[PodOdds], options: ReportOptions) -> Table:
    most = options.top
    shown = pods if options.explain or most is None else pods[:_MOST_PODS]
    rows: list[tuple[Cell, ...]] = [
        (each.pod, *(_percent(share.share) for share in (each.placed, each.pending, each.evicted)), _places(each, most))
        for each in shown
    ]
    note = f"{count(len(pods) - len(shown), 'more pod')}; --all-nodes tells all" if len(shown) < len(pods) else ""
    return Table(("POD", "PLACED", "PENDING", "EVICTED", "WHERE (95 % interval)"), tuple(rows), "<>>><", note=note)


def _places(pod: PodOdds, most: int | None) -> str:
    nodes = list(pod.nodes.items())
    told = nodes if most is None else nodes[:most]
    text = ", ".join(f"{node} {_share(share)}" for node, share in told)
    return f"{text} and {len(nodes) - len(told)} more" if len(told) < len(nodes) else text or "nowhere"


def _parts(parts: Mapping[str, float], most: int | None) -> str:
    names = list(parts.items())
    told = names if most is None else names[:most]
    text = ", ".join(f"{name} {_percent(share)}" for name, share in told)
    return f"{text} and {len(names) - len(told)} more" if len(told) < len(names) else text


def _example_blocks(examples: Sequence[RunExample]) -> Iterator[Block]:
    yield Heading(("How runs end, with one of each",))
    for each in examples[:_MOST_EXAMPLES]:
        yield line(f"{_share(each.share)}: {_ending(each)}", is_item=True)
        placed = ", ".join(f"{pod} on {node}" for pod, node in list(each.placements.items())[:_MOST_EXAMPLES])
        more = len(each.placements) - _MOST_EXAMPLES
        if placed:
            yield line(f"such as {placed}{f' and {more} more' if more > 0 else ''}", indent=2)
    if len(examples) > _MOST_EXAMPLES:
        yield line(f"and {len(examples) - _MOST_EXAMPLES} more in the JSON report", is_item=True)


def _ending(example: RunExample) -> str:
    parts = []
    if example.pending:
        verb = "stays" if len(example.pending) == 1 else "stay"
        parts.append(f"{name_ranges(example.pending)} {verb} pending")
    if example.evicted:
        verb = "is" if len(example.evicted) == 1 else "are"
        parts.append(f"{name_ranges(example.evicted)} {verb} evicted")
    return ", ".join(parts) or "every pod is placed"


def _sentence(document: OddsReport) -> str:
    summary = document.summary
    placed = f"all placed in {_share(summary.all_placed)}"
    return f"{count(summary.pods, 'pod')}, {count(summary.runs, 'run')} (seed {summary.seed}): {placed}"


def _share(share: Share) -> str:
    if share.share in (0, 1):
        return _percent(share.share)
    return f"{_percent(share.share)} ({_percent(share.low)} to {_percent(share.high)})"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"


def _title(document: OddsReport) -> str:
    return f"kplan {document.command} --runs: {_sentence(document)}"


def _cases(document: OddsReport, options: ReportOptions) -> Iterator[Case]:
    for each in document.pods:
        state: State = (
            "failed" if document.verdict.counted_of(each.pod) else "passed" if each.placed.share == 1 else "skipped"
        )
        message = f"placed in {_share(each.placed)}, pending in {_share(each.pending)}"
        if each.evicted.runs:
            message += f", evicted in {_share(each.evicted)}"
        rule = "Placed" if each.placed.share == 1 else "Pending" if each.placed.share == 0 else "Chance"
        yield Case(each.pod, state, rule, message, f"{message}: {_places(each, options.top)}")


def _names(document: OddsReport) -> Iterator[str]:
    for each in document.pods:
        for node, share in each.nodes.items():
            yield f"{each.pod} {node} {share.share:g}"
        for what, share in (("pending", each.pending), ("evicted", each.evicted)):
            if share.runs:
                yield f"{each.pod} {what} {share.share:g}"


VIEW = View(_title, _blocks, _cases, _names)
