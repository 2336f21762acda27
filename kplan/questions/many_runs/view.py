"""The OddsReport for people and programs: how often each outcome comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET, UnsetType

from kplan.api.quantity import capitalized, count, grouped, listing
from kplan.documents.odds import OddsReport, OddsSummary, PodOdds, RunExample, Share
from kplan.health.workloads import MISSING_REPLICAS
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View, state_of
from kplan.report.words import left_out, name_ranges, seconds_text, workload_title
from kplan.workloads.hooks import HELD_UP

_MOST_PODS = 20
_MOST_EXAMPLES = 5
_MOST_REASONS = 2
_MANY_RUNS = 100  # of fewer, all may end alike by chance though every 25th ends otherwise
_DRAWS = (
    "Drawn with equal chances: equal best nodes, and equal candidates for preemption. kube-scheduler itself does not "
    "draw candidates with equal chances, and newer minors mostly take the same of equal nodes (--ties scheduler)."
)
_DRAWN_TURNS = (
    " Also drawn: which controller creates its pods first, which node a DaemonSet updates next, and which of several "
    "equal pods leave."
)

_WHERE = "WHERE (95 % interval)"

_RULES = {"Placed": "placed", "Blocked": "blocked", "Evicted": "gone"}

_AT_REST = {MISSING_REPLICAS: "lacks replicas", HELD_UP: "is held up by a hook", "Stuck": "is stuck"}
"""What is said of workloads of which no pod moves."""


def _body(document: OddsReport, options: ReportOptions) -> Iterator[Block]:
    summary = document.summary
    is_change = any(workload.complete is not UNSET for workload in document.workloads)
    if not document.pods:
        yield line("No pod moves in any run.")
    elif summary.certain:
        yield _certainty(summary)
    else:
        ways = f"; they differ in {summary.outcomes} ways in which pods are placed, evicted or left pending."
        if summary.outcomes == 1:
            ways = ", which only differ in nodes: the same pods are placed, evicted and left pending in all."
        results = f"{count(summary.runs, 'run')} have {count(summary.distinct, 'different result')}{ways}"
        yield line(f"{results} {_DRAWS}{_DRAWN_TURNS if is_change else ''}")
    if not isinstance(end := summary.end, UnsetType):
        shortest, longest, median, p90 = map(seconds_text, (end.shortest, end.longest, end.median, end.p90))
        spread = f"after {shortest} to {longest}; half of them by {median}, nine of ten by {p90}"
        is_same = end.shortest == end.longest
        yield line(f"Time: all runs end after {longest}" if is_same else f"Time: runs end {spread}")
    for group in document.groups or ():
        pods = "its only pod" if group.pods == 1 else f"all of its {group.pods} pods"
        partly = f", in part in {_share(group.partial)}" if group.partial.runs else ""
        where = _parts({value: share.share for value, share in group.domains.items()}, options.top)
        together = f"; together on {where}" if where else ""
        yield line(f"PodGroup {group.group}: {pods} run in ", _styled(group.whole), f" of the runs{partly}{together}.")
    yield from _change_blocks(document, options) if is_change else _plain_blocks(document, options)
    if document.evicted:
        yield Heading(("Other pods that are evicted",))
        yield Table(("POD", "EVICTED"), tuple((pod, _share(share)) for pod, share in document.evicted.items()), "<<")
    if not summary.certain:
        yield from _example_blocks(document.examples)


def _certainty(summary: OddsSummary) -> Block:
    """Return the sentence for runs that all end alike: they cannot differ, or what may not have shown."""
    if summary.distinct == 1 and summary.runs >= _MANY_RUNS:
        return line(Span("Certain", "good"), f": every pod ends the same way in all {summary.runs} runs.")
    placed = summary.all_placed
    most = _percent(placed.high if placed.share == 0 else 1 - placed.low)
    alike = f"{count(summary.runs, 'run')} have the same result, though chance decides on the way:"
    if summary.distinct == 1:
        alike = f"Every pod ends the same way in all {summary.runs} runs. In so few,"
    if summary.distinct == summary.runs == 1:
        alike = "There is only one run. In so few,"
    return line(f"{alike} an outcome with a probability of up to {most} may not show.")


def _plain_blocks(document: OddsReport, options: ReportOptions) -> Iterator[Block]:
    pods = grouped((pod.workload, pod) for pod in document.pods)
    for workload in document.workloads:
        if own := pods.get(workload.workload):
            placed = "placed" if workload.pods == 1 else "all placed"
            number = f"{workload.workload}: {count(workload.pods, 'pod')}, {placed} in "
            yield Heading((number, _styled(workload.all_placed)))
            for name, shares in (("Zones", workload.zones), ("Nodes", workload.nodes)):
                if shares and workload.pods > 1:
                    yield line(f"{name}: {_parts(shares, options.top)}")
            yield _pod_table(own, options)
    if "" in pods:
        yield Heading(("Pods without a workload" if len(pods) > 1 else "Pods",))
        yield _pod_table(pods[""], options)


def _change_blocks(document: OddsReport, options: ReportOptions) -> Iterator[Block]:
    if document.workloads:
        yield Heading(("Workloads",))
        # A workload may lack nothing and yet have a pod that is gone or that may not go, and so on.
        tells_complete = any(workload.complete != workload.all_placed for workload in document.workloads)
        rows: list[tuple[Cell, ...]] = []
        for one in document.workloads:
            complete = [_share(one.complete)] if tells_complete and one.complete is not UNSET else []
            where = _parts(one.zones or one.nodes, options.top) or "nowhere"
            rows.append((workload_title(one.workload), str(one.pods), _styled(one.all_placed), *complete, where))
        where = "ZONES" if any(workload.zones for workload in document.workloads) else "NODES"
        titles = ("WORKLOAD", "PODS", "ALL PLACED", *(["COMPLETE"] if tells_complete else []), where)
        yield Table(titles, tuple(rows), "<><<<"[: len(titles)])
    if document.pods:
        yield Heading(("Pods",))
        pods = sorted(document.pods, key=_is_certain)
        fates = tuple((pod.pod, _fate(pod), _node_shares(pod, options.top)) for pod in options.first(pods, _MOST_PODS))
        yield Table(("POD", "OUTCOME", _WHERE), fates, "<<<", note=_left_out(pods, options))
    named = ((workload.because, workload_title(workload.workload)) for workload in document.workloads)
    if held_up := grouped((because, name) for because, name in named if because):
        yield Heading(("Why workloads are incomplete, in the first such run",))
        yield from (line(f"{', '.join(names)}: {words}", is_item=True) for words, names in held_up.items())


def _is_certain(pod: PodOdds) -> bool:
    shares = (*pod.nodes.values(), pod.pending, pod.gone, pod.blocked)
    return any(share is not UNSET and share.share == 1 for share in shares)


def _styled(share: Share) -> Span:
    style: Style = "good" if share.share == 1 else "bad" if share.share == 0 else "warn"
    return Span(_share(share), style)


def _pod_table(pods: Sequence[PodOdds], options: ReportOptions) -> Table:
    ends = ["placed", "pending", *(["evicted"] if any(pod.evicted.runs for pod in pods) else [])]
    rows = tuple(
        (pod.pod, *(_percent(getattr(pod, end).share) for end in ends), _node_shares(pod, options.top))
        for pod in options.first(pods, _MOST_PODS)
    )
    titles = ("POD", *map(str.upper, ends), _WHERE)
    return Table(titles, rows, f"<{'>' * len(ends)}<", note=_left_out(pods, options))


def _fate(pod: PodOdds) -> str:
    words = {"gone": "not replaced", "evicted": "preempted"}
    ends = {words.get(end, end): share.share for end, share in _ends(pod).items()}
    return ", ".join(word if share == 1 else f"{word} {_percent(share)}" for word, share in ends.items())


def _ends(pod: PodOdds) -> dict[str, Share]:
    """Return how a pod ends in any run, and in how many."""
    ends = {name: getattr(pod, name) for name in ("placed", "pending", "gone", "blocked", "evicted")}
    return {name: share for name, share in ends.items() if share is not UNSET and share.runs}


def _left_out(pods: Sequence[PodOdds], options: ReportOptions) -> tuple[Cell, ...]:
    return left_out(len(pods) - len(options.first(pods, _MOST_PODS)), "pod")


def _node_shares(pod: PodOdds, most: int | None) -> str:
    return listing([f"{node} {_share(share)}" for node, share in pod.nodes.items()], most=most) or "nowhere"


def _parts(parts: Mapping[str, float], most: int | None) -> str:
    return listing([f"{name} {_percent(share)}" for name, share in parts.items()], most=most)


def _example_blocks(examples: Sequence[RunExample]) -> Iterator[Block]:
    yield Heading(("Outcomes, each with an example",))
    for example in examples[:_MOST_EXAMPLES]:
        yield line(f"{_share(example.share)}: {_ending(example)}", is_item=True)
        if placed := [f"{pod} on {node}" for pod, node in example.placements.items()]:
            yield line(f"example: {listing(placed, most=_MOST_EXAMPLES)}", indent=2)
        reasons = {words: pod for pod, words in reversed(example.messages.items()) if words}
        for words, pod in list(reversed(reasons.items()))[:_MOST_REASONS]:
            yield line(f"{pod}: {words}", indent=2)
    if len(examples) > _MOST_EXAMPLES:
        yield line(f"and {len(examples) - _MOST_EXAMPLES} more in the JSON report", is_item=True)


def _ending(example: RunExample) -> str:
    ends = (
        (example.pending, "stays pending", "stay pending"),
        (example.gone or (), "is not replaced", "are not replaced"),
        (example.blocked or (), "cannot be evicted", "cannot be evicted"),
        (example.evicted, "is evicted", "are evicted"),
    )
    parts = [f"{name_ranges(pods)} {one if len(pods) == 1 else several}" for pods, one, several in ends if pods]
    return ", ".join(parts) or "every pod is placed"


def _sentence(document: OddsReport) -> str:
    """Return what does not succeed, with its name and in how many runs, then how many pods are placed in all runs."""
    runs = document.summary.runs
    own = [pod for pod in document.pods if pod.caused_by == "change"]
    others = [pod for pod in document.pods if pod.caused_by == "waiting"]
    trouble, ends = _trouble(document, own), _numbers(own, f" {_in_runs(runs, runs)}")
    first = [text for text in (trouble, ends) if text] or [f"nothing to place {_in_runs(runs, runs)}"]
    ends = f"{'; '.join(first)} (seed {document.summary.seed})"
    sentence = ends if trouble else capitalized(ends)
    return f"{sentence}; pods that waited before: {_numbers(others)}" if others else sentence


def _trouble(document: OddsReport, own: Sequence[PodOdds]) -> str:
    """Return the first that does not succeed in all runs; empty for none."""
    runs = document.summary.runs
    for pod in own:
        if pod.blocked is not UNSET and pod.blocked.runs:
            never = any(counted.rule == "NeverGone" for counted in document.verdict.counted_of(pod.pod))
            return f"{pod.pod} {'never leaves its node' if never else 'is blocked'} {_in_runs(pod.blocked.runs, runs)}"
    for workload in document.workloads:
        is_counted = bool(document.verdict.counted_of(workload.workload)) or not document.pods
        if is_counted and workload.complete is not UNSET and workload.complete.runs < runs:
            because = f": {workload.because.removesuffix('.')}" if workload.because else ""
            name = workload_title(workload.workload)
            return f"{name} is incomplete {_in_runs(runs - workload.complete.runs, runs)}{because}"
    if waiting := sorted((pod for pod in own if pod.pending.runs), key=lambda pod: -pod.pending.runs):
        more = f", {count(len(waiting) - 1, 'other pod')} as well" if len(waiting) > 1 else ""
        return f"{waiting[0].pod} stays pending {_in_runs(waiting[0].pending.runs, runs)}{more}"
    for counted in document.verdict.counted:
        if words := _AT_REST.get(counted.rule):
            number = runs if counted.runs is UNSET else counted.runs
            return f"{workload_title(counted.object)} {words} {_in_runs(number, runs)}"
    return ""


def _numbers(pods: Sequence[PodOdds], in_all: str = "") -> str:
    left = sum(pod.gone is not UNSET and pod.gone.share == 1 for pod in pods)
    wanted = len(pods) - left
    always = sum(pod.placed.share == 1 for pod in pods)
    sometimes = sum(0 < pod.placed.share < 1 for pod in pods)
    texts = [f"{always} of {count(wanted, 'pod')} placed{in_all}"] if wanted else []
    texts += [f"{sometimes} in some"] if sometimes else []
    texts += [f"{left} not replaced"] if left else []
    return ", ".join(texts)


def _in_runs(number: int, of: int) -> str:
    in_all = {1: "in the only run", 2: "in both runs"}.get(of, f"in all {of} runs")
    return in_all if number == of else f"in {number} of {count(of, 'run')}"


def _share(share: Share) -> str:
    if share.share in (0, 1):
        return _percent(share.share)
    return f"{_percent(share.share)} ({_percent(share.low)} to {_percent(share.high)})"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"


def _cases(document: OddsReport, options: ReportOptions) -> Iterator[Case]:
    for workload in document.workloads:
        if document.verdict.counted_of(workload.workload) and workload.complete is not UNSET:
            message = f"complete in {_share(workload.complete)}: {workload.because}"
            yield Case(workload.workload, "failed", "Incomplete", message, message)
    for pod in document.pods:
        counted = document.verdict.counted_of(pod.pod)
        state = state_of(document.verdict, pod.pod, is_well=pod.placed.share == 1)
        ends = _ends(pod)
        parts = [f"{'not replaced' if end == 'gone' else end} in {_share(share)}" for end, share in ends.items()]
        parts = parts or ["placed in 0%"]
        always = next((rule for rule, end in _RULES.items() if end in ends and ends[end].share == 1), "")
        rule = always or ("Pending" if pod.placed.share == 0 else "Chance")
        if counted and always == "Placed":  # it is placed, and yet something counts
            rule, parts = counted[0].rule, [*(event.text for event in counted), *parts]
        message = ", ".join(parts)
        yield Case(pod.pod, state, rule, message, f"{message}: {_node_shares(pod, options.top)}")
    listed = {*(one.workload for one in document.workloads), *(pod.pod for pod in document.pods)}
    warned = {warning.code for warning in document.warnings}
    for event in document.verdict.counted:
        if event.object not in listed and event.rule not in warned:  # a pod that came and went within the runs
            yield Case(event.object, "failed", event.rule, event.text)


def _names(document: OddsReport) -> Iterator[str]:
    for workload in document.workloads:
        if workload.complete is not UNSET and not workload.pods:
            yield f"{workload.workload} complete {workload.complete.share:g}"
    for pod in document.pods:
        for node, share in pod.nodes.items():
            yield f"{pod.pod} {node} {share.share:g}"
        yield from (f"{pod.pod} {end} {share.share:g}" for end, share in _ends(pod).items() if end != "placed")


VIEW = View(_sentence, _body, _cases, _names)
