"""The PlacementReport: an overview, and decisions about workloads that need attention; and that of several clusters."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kplan.api.quantity import count, grouped, listing
from kplan.documents.base import Report, Verdict, with_sentence
from kplan.documents.nodes import new_node_text
from kplan.documents.placement import ClusterAnswer, ClustersReport, Origin, PlacementReport, PodPlacement, PodRef
from kplan.framework.results import Outcome
from kplan.health.advice import pod_advice, way_on
from kplan.health.words import left_out_texts, state_text, workload_text
from kplan.health.workloads import WorkloadHealth
from kplan.report import overview
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, line
from kplan.report.decision import OUTCOME_STYLES, decision_blocks, decision_heading, ending_of, is_leaving, why_nowhere
from kplan.report.options import ReportOptions
from kplan.report.view import Case, Metric, State, View
from kplan.report.words import ENDINGS, left_out, name_ranges, owner_title

_MOST_PRESENT = 20  #: rows about pods that have a node, and are not well there or would not be put there again
_BY_EVICTING = ("fits only by evicting", "fit only by evicting")
_NOWHERE = "(nowhere)"
_LEAST_NODES = 20
"""A table of a workload's nodes has at least so many rows, even where `--top` is lower: they are the answer."""

_MOST_NAMES = 2
_WITH_ADVICE = ("not-ready", "failed", "being-deleted")  #: states of pods that somebody can look at
_TELLS_MORE = "--explain shows why each pod goes where it does, and why other nodes reject it"


def _body(document: PlacementReport, options: ReportOptions) -> Iterator[Block]:
    yield from overview.group_blocks(document.groups or (), options)
    groups, n_nodes, workloads = _groups(document), document.snapshot.nodes, _named_workloads(document)
    yield from (line(": ".join(way)) for way in map(way_on, workloads) if any(way))
    for one in workloads:
        if (texts := left_out_texts(one)) and one.wanted:
            n_out = sum(len(out.nodes) for out in one.left_out or ())
            yield line(f"It wants no pod on {n_out} of {count(n_nodes, 'node')}:")
            yield from (line(text, indent=2, is_item=True) for text in texts)
        failed = [pod for pod in one.troubled if "failed" in one.states and pod.state == "failed"]
        advised = [pod for pod in (*failed[-1:], *one.troubled) if pod.is_late or pod.state in _WITH_ADVICE]
        if advised and (len(groups) > 1 or failed):
            yield from map(line, pod_advice(advised[0]))
    if len(groups) == 1:
        yield from _only(document, groups[0], options)
    elif groups:
        yield from _overview(document, groups, options)
        if options.in_full:
            for members in groups:
                yield from _in_full(members, n_nodes, options)
        else:
            yield line(Span(_TELLS_MORE, "hint"))
            in_answer = bool(workloads) and bool(_why_pending(document))
            yield from _that_need_attention(groups, n_nodes, options, in_answer=in_answer)
    yield from overview.unlisted_blocks(document.unlisted, options)
    if document.nodes or document.right_sizing:
        from kplan.report.new_nodes import growth_blocks, right_sizing_blocks

        if document.nodes:
            yield from growth_blocks(document.nodes, options)
        yield from right_sizing_blocks(document.right_sizing)


def _named_workloads(document: PlacementReport) -> Sequence[WorkloadHealth]:
    """Return the workloads that the question names, unless all that is to be said is about their pods."""
    workloads = document.workloads or ()
    of_one_pod = [one.states for one in workloads if one.wanted == 1]
    of_pods = ([()], [("pods-not-ready",)], [("pods-pending",)], [("resize-pending",)])
    is_about_pods = len(document.placements) == 1 and of_one_pod in of_pods
    return () if is_about_pods else workloads


def _why_pending(document: PlacementReport) -> str:
    """Return why the first pod without a node has none, where the question names one workload."""
    workloads = document.workloads or ()
    pending = sum(bool(one.health and one.health.state in ("pending", "gated")) for one in document.placements)
    if len(workloads) != 1 or pending > workloads[0].pending:  # the question names other pods, too
        return ""
    if first := next((one for one in document.placements if not _is_well(one)), None):
        by_evicting = f"{first.pod.name} by itself fits only by evicting " if first.eviction else ""
        return f"{by_evicting}{why_nowhere(first)}"
    fits = (one for one in document.placements if one.node is not None and one.current is None)
    words = "by itself fits on {}; kplan plan shows which of all do"
    return next((f"{one.pod.name} {words.format(one.node)}" for one in fits), "")


def _groups(document: PlacementReport) -> list[list[PodPlacement]]:
    groups = workload_groups([placement.pod for placement in document.placements])
    return [[document.placements[index] for index in group] for group in groups]


def _is_single_pod(members: Sequence[PodPlacement]) -> bool:
    return len(members) == 1 or not members[0].pod.origin


def _answer(document: PlacementReport) -> str | Heading:
    groups = _groups(document)
    if named := _named_workloads(document):
        style: Style = "bad" if any(one.states for one in named) else "good"
        why = _why_pending(document)
        return Heading((Span("; ".join(workload_text(one, why) for one in named), style),), 0)
    if len(groups) == 1 and not document.unlisted:
        return _heading(groups[0], level=0)
    if document.placements and all(placement.health for placement in document.placements):
        states = Counter(placement.health.state for placement in document.placements if placement.health)
        words = {"ready": "running and ready", "pending": "without a node", "gated": "kept out of the scheduling queue"}
        parts = [f"{n} {words.get(state, state.replace('-', ' '))}" for state, n in states.most_common()]
        return f"{count(len(document.placements), 'pod')}: {', '.join(parts)}"
    return _sentence(document, groups)


def _sentence(document: PlacementReport, groups: Sequence[Sequence[PodPlacement]]) -> str:
    summary = document.summary
    if not summary.pods:
        return "No pod to place"
    of, evicted = count(summary.pods, "pod"), summary.victims
    if len(groups) > 1 and all(members[0].pod.origin for members in groups):
        of += f" of {len(groups)} workloads"
    failed = [members for members in groups if any(member.outcome is not Outcome.SCHEDULED for member in members)]
    n_evicting = _n_evicting(document.placements)
    numbers = (
        (summary.unschedulable - n_evicting, "Unschedulable"),
        (summary.gated, "Gated"),
        (summary.errors, _of_errors(document.placements)),
    )
    ends = [(n_evicting, _BY_EVICTING[n_evicting > 1])] if n_evicting else []
    ends += [(number, ENDINGS[end].of_number(number)) for number, end in numbers if number]
    if ends:
        titles = dict.fromkeys(owner_title(members[0].pod.owner_key) for members in failed)
        names = listing(list(titles), most=_MOST_NAMES)
        (number, words), *others = ends
        first = [member for members in failed for member in members if member.outcome is not Outcome.SCHEDULED]
        reasons = {why_nowhere(member) for member in first}
        why = reasons.pop() if len(reasons) == 1 else ""
        if n_evicting and not why:
            words += f" {count(evicted, 'other pod')}"
        text = f"{f'{names}: ' if names else ''}{number} of {of} {words}"
        text += "".join(f", {number} {words}" for number, words in others)
        text += f": {why}" if why else ""
        evicted = 0 if n_evicting else evicted
    else:
        text = {1: "The pod finds a node", 2: "Both pods find a node"}.get(summary.pods, f"All {of} find a node")
    parts = [f"{count(evicted, 'other pod')} evicted"] if evicted else []
    if document.nodes and document.nodes.added:
        parts.append(f"{count(len(document.nodes.added), 'node')} added")
    if summary.pdb_violations:
        parts.append(f"{count(summary.pdb_violations, 'disruption budget')} violated")
    return ", ".join([text, *parts])


def _n_evicting(placements: Sequence[PodPlacement]) -> int:
    """Return how many pods fit by evicting others: what one evicts makes no room for those after it."""
    ends_of = {placement.pod.key: placement for placement in placements}  # with its evictions a pod may be tried twice
    number, evicted = 0, set[str]()
    for placement in ends_of.values():
        if placement.outcome is Outcome.UNSCHEDULABLE and placement.eviction:
            victims = {victim.key for victim in placement.eviction.victims}
            number += victims.isdisjoint(evicted)
            evicted |= victims
    return number


def _of_errors(members: Iterable[PodPlacement]) -> str:
    """Return of what it comes that pods cannot be scheduled, where it is the same of all."""
    undecided = {member.undecided or "" for member in members if member.outcome is Outcome.ERROR}
    return (undecided.pop() if len(undecided) == 1 else "") or Outcome.ERROR


def _overview(
    document: PlacementReport, groups: Sequence[Sequence[PodPlacement]], options: ReportOptions
) -> Iterator[Block]:
    placements = [members[0] for members in groups]
    if any(placement.health for placement in placements):
        yield from _present_blocks(placements, options)
        return
    more: dict[str, Counter[str]] = {}
    n_more: Counter[str] = Counter()
    for unlisted in document.unlisted:
        more.setdefault(unlisted.workload, Counter()).update(unlisted.nodes)
        n_more[unlisted.workload] += unlisted.pods
    keys = [members[0].pod.owner_key for members in groups]
    rows = [overview.row_of(members, more.get(key, {}), n_more[key]) for key, members in zip(keys, groups, strict=True)]
    yield from overview.overview_blocks(rows, options)


def _is_settled(placement: PodPlacement) -> bool:
    """Tell whether there is nothing to say about a pod: it runs, and its node would take it again."""
    current, health = placement.current, placement.health
    return bool(health and health.state == "ready" and not health.resize and current and current.still_fits)


def _present_blocks(placements: Sequence[PodPlacement], options: ReportOptions) -> Iterator[Block]:
    """Yield a table of what pods are; those that are ready are counted, unless all is told."""
    shown = [one for one in placements if options.in_full or (one.current and not _is_settled(one))]
    n_left_out = 0 if options.in_full or options.is_wide else len(shown) - _MOST_PRESENT
    if n_left_out > 0:  # those that do not run come first
        shown = sorted(shown, key=lambda one: bool(one.health and one.health.state == "ready"))[:_MOST_PRESENT]
    n_ready = sum(map(_is_settled, placements))
    if 0 < n_ready < len(placements) and not options.in_full:
        yield line(f"{count(n_ready, 'other pod is', 'other pods are')} running and ready.")
    placed = [f"{one.pod.key} -> {one.node}" for one in placements if one.node and not one.current]
    if placed and not options.in_full:
        yield line(f"{count(len(placed), 'pod finds', 'pods find')} a node now: {listing(placed, most=_MOST_NAMES)}.")
    rows: list[tuple[Cell, ...]] = []
    for placement in shown:
        current, node, health = placement.current, placement.node, placement.health
        if not health or not (current or is_leaving(placement)):
            state = Span(ending_of(placement).one, OUTCOME_STYLES[placement.outcome])
        elif health.state == "ready" and current and not (current.still_fits or health.resize):
            state = Span("ready, but would no longer fit there", "warn")
        else:
            state = Span(state_text(health), "good" if health.is_well else "bad")
        fits = node is not None and (not current or current.still_fits)
        now = Span(node or "nowhere", "warn" if fits else "bad")
        now = Span("the same node", "good") if current and current.still_best else now
        now = Span("-", "dim") if health and health.state == "being-deleted" else now
        rows.append((placement.pod.key, current.node if current else "-", state, *([now] if options.in_full else [])))
    if rows:
        header = ("POD", "NODE", "STATE", *(["WOULD NOW GO TO"] if options.in_full else []))
        note = left_out(n_left_out, "pod", flag="-o wide")
        yield Table(header, tuple(rows), "<<<<"[: len(header)], note=note)


def _only(document: PlacementReport, members: Sequence[PodPlacement], options: ReportOptions) -> Iterator[Block]:
    """Yield everything about the only workload, or the only pod; its decision is the verdict."""
    n_nodes = document.snapshot.nodes
    if document.unlisted:
        more = Counter[Outcome | None]()
        for unlisted in document.unlisted:
            more[unlisted.outcome] += unlisted.pods
        yield from _in_full(members, n_nodes, options, more)
    elif _is_single_pod(members):
        several = _named_workloads(document)
        if several:
            yield decision_heading(members[0].pod.key, members[0])
        says_why = not several or bool(_why_pending(document))  # above
        yield from decision_blocks(members[0], n_nodes, options, is_answer=says_why)
    else:
        yield from _workload(members, n_nodes, options)


def _in_full(
    members: Sequence[PodPlacement], n_nodes: int, options: ReportOptions, more: Mapping[Outcome | None, int] = {}
) -> Iterator[Block]:
    yield _heading(members, more=more)
    if _is_single_pod(members):
        yield from decision_blocks(members[0], n_nodes, options)
    else:
        yield from _workload(members, n_nodes, options, more)


def _that_need_attention(
    groups: Sequence[Sequence[PodPlacement]], n_nodes: int, options: ReportOptions, *, in_answer: bool = False
) -> Iterator[Block]:
    """Yield in brief what needs attention, once for one reason; `in_answer`: the answer has told the first reason."""

    def reasons(members: Sequence[PodPlacement]) -> tuple[object, ...]:
        own = members[0].pod.owner_key if members[0].pod.is_daemon else ""
        return (*dict.fromkeys(_reason(member) for member in members if not _is_well(member)), own)

    troubled = (members for members in groups if not all(map(_is_well, members)))
    alike = grouped((reasons(members), members) for members in troubled)
    for ending in alike.values():
        members = ending[0]
        if len(ending) == 1:
            yield _heading(members)
        else:
            first = next(member for member in members if not _is_well(member))
            names = listing([owner_title(member[0].pod.owner_key) for member in ending], most=_MOST_NAMES)
            yield Heading((f"{names}: ", Span(ending_of(first).of(len(ending)), OUTCOME_STYLES[first.outcome])))
        yield from _origin(members[0].pod.origin or None)
        yield from _ends(members, n_nodes, options, in_answer=in_answer)
        in_answer = False


def _reason(placement: PodPlacement) -> tuple[object, ...]:
    """Return what pods must have in common to be shown together; a pod that would move is shown by itself."""
    own = placement.pod.key if placement.outcome is Outcome.SCHEDULED else ""
    return (placement.outcome, placement.message.replace(placement.pod.key, ""), placement.diagnosis, own)


def _end(placement: PodPlacement) -> tuple[Outcome, str]:
    """Return what replicas have in common that end alike: the words of a refusal, but for the name of the pod."""
    return placement.outcome, placement.message.replace(f'"{placement.pod.name}"', '""')


def _is_well(placement: PodPlacement) -> bool:
    """Return whether a pod has a node; of a pod that has one already nothing is to be decided."""
    return bool(placement.current) or placement.outcome is Outcome.SCHEDULED


def _ends(
    members: Sequence[PodPlacement], n_nodes: int, options: ReportOptions, *, in_answer: bool = False
) -> Iterator[Block]:
    """Yield in brief why pods of a workload have no node, once for all that end alike."""
    if members[0].pod.is_daemon:
        yield from overview.daemon_blocks(members, options)
        return
    ends = grouped((_end(member), member) for member in members if not _is_well(member))
    for alike in ends.values():
        if len(ends) > 1:
            names = name_ranges([member.pod.name for member in alike])
            yield line(Span(f"{alike[0].pod.namespace}/{names}", "strong"), f": {ending_of(alike[0]).one}")
        yield from decision_blocks(alike[0], n_nodes, options, is_brief=True, is_answer=in_answer)


def workload_groups(pods: Sequence[PodRef]) -> list[list[int]]:
    """Return the positions of pods in groups: those that follow each other and come from one workload."""

    def workload(item: tuple[int, PodRef]) -> object:
        index, pod = item
        return (pod.namespace, pod.origin) if pod.origin else index

    return [[index for index, _ in own] for _, own in itertools.groupby(enumerate(pods), workload)]


def representatives(decisions: Sequence[tuple[Outcome, str]], groups: Sequence[Sequence[int]]) -> set[int]:
    """Return the positions of the placements shown in full: in each group the first with each outcome and message."""
    chosen: set[int] = set()
    for group in groups:
        chosen.update({decisions[index]: index for index in reversed(group)}.values())
    return chosen


def _heading(members: Sequence[PodPlacement], level: int = 1, more: Mapping[Outcome | None, int] = {}) -> Heading:
    """Return how a pod, or the pods of a workload, end, `more` only counted; with level 0 as the answer, and why."""
    if _is_single_pod(members):
        return decision_heading(members[0].pod.key, members[0], level)
    outcomes: Counter[Outcome | None] = Counter(member.outcome for member in members)
    outcomes.update(more)
    worst = next((outcome for outcome in overview.WORST_FIRST if outcomes[outcome]), Outcome.SCHEDULED)
    name = owner_title(members[0].pod.owner_key)
    failed = next((member for member in members if member.outcome is worst), None)
    if members[0].pod.is_daemon:
        ending = f"has a place on {overview.nodes_text(members)}"
    elif not level and failed is not None:
        ending = _replicas_end(members, failed, outcomes[worst], outcomes.total())
    else:
        errors: Mapping[Outcome | None, str] = {Outcome.ERROR: _of_errors(members)}
        ends = (f"{n} {overview.ends_text(errors.get(outcome, outcome), n)}" for outcome, n in outcomes.items())
        ending = f"{count(outcomes.total(), 'replica')}, {', '.join(ends)}"
    why = why_nowhere(failed) if not level and failed is not None and not members[0].pod.is_daemon else ""
    if why and failed is not None and failed.eviction and outcomes[worst] > 1:
        why = f"evicting {why} makes room for the first"
    spans = (f"{name}: ", Span(ending, OUTCOME_STYLES[worst]), *((f": {why}",) if why else ()))
    return Heading(spans, level, name if level else "")


def _replicas_end(members: Sequence[PodPlacement], one: PodPlacement, number: int, of: int) -> str:
    if one.outcome is Outcome.SCHEDULED:
        nodes = len({member.node for member in members})
        return "its replica finds a node" if of == 1 else f"all {of} replicas find a node, on {count(nodes, 'node')}"
    words = ENDINGS[_of_errors(members) if one.outcome is Outcome.ERROR else one.outcome].of_number(number)
    if one.eviction:
        words = _BY_EVICTING[0] if number == 1 else "find no free node"
    return f"{number} of {count(of, 'replica')} {words}"


def _origin(origin: Origin | None) -> Iterator[Block]:
    if origin is not None and origin.line:  # else the object stands in no file
        where = origin.file + (f", document {origin.document}" if origin.document is not None else "")
        yield line(Span(f"from {where}, line {origin.line}", "dim"))


def _workload(
    members: Sequence[PodPlacement], n_nodes: int, options: ReportOptions, more: Mapping[Outcome | None, int] = {}
) -> Iterator[Block]:
    yield from _origin(members[0].pod.origin or None)
    if members[0].pod.is_daemon and not options.explain:
        yield from overview.daemon_blocks(members, options)
        return
    yield _node_table(members, options, sum(more.values()) - more.get(Outcome.SCHEDULED, 0))
    for member, *others in grouped((_end(member), member) for member in members).values():
        is_placed = member.outcome is Outcome.SCHEDULED
        alike = 1 + len(others) + (0 if is_placed else more.get(member.outcome, 0))
        rank = f"the first of {alike}{'' if is_placed else ' alike'}"
        yield decision_heading(f"{member.pod.key} ({rank})" if alike > 1 else member.pod.key, member)
        yield from decision_blocks(member, n_nodes, options)


def _node_table(members: Sequence[PodPlacement], options: ReportOptions, more: int = 0) -> Table:
    """Return the nodes of a workload with its pods; `more` of those that are nowhere are only counted."""
    by_node = grouped((member.node, member.pod.name) for member in members)
    nowhere = by_node.pop(None, [])
    ordered = sorted(by_node.items(), key=lambda item: (-len(item[1]), item[0] or ""))
    shown = ordered if options.top is None else ordered[: max(options.top, _LEAST_NODES)]
    new = {member.node: new_node_text(member.new_node) for member in members if member.new_node}
    rows: list[tuple[Cell, ...]] = [
        (node or "", str(len(names)), name_ranges(names), *([new.get(node, "")] if new else []))
        for node, names in shown
    ]
    if nowhere:
        names = name_ranges(nowhere) + (f" and {more} more" if more else "")
        rows.append((Span(_NOWHERE, "bad"), str(len(nowhere) + more), names, *([""] if new else [])))
    note = left_out(len(ordered) - len(shown), "node")
    header = ("NODE", "REPLICAS", "PODS", *(["NEW NODE"] if new else []))
    return Table(header, tuple(rows), "<><<"[: len(header)], note=note)


def _names(document: PlacementReport) -> list[str]:
    listed = (f"{placement.pod.key} {placement.node or '-'}" for placement in document.placements)
    return [*listed, *overview.unlisted_names(document.unlisted)]


def _cases(document: PlacementReport, options: ReportOptions) -> list[Case]:
    from kplan.report.new_nodes import added_cases

    new = added_cases(document.nodes.added, document.verdict) if document.nodes else ()
    groups = overview.group_cases(document.groups or (), document.verdict)
    return [*groups, *overview.placement_cases(document, options), *overview.unlisted_cases(document), *new]


VIEW = View(lambda document: overview.behind_groups(document.groups, _answer(document)), _body, _cases, _names)


def clusters_report(reports: Sequence[tuple[str, Report]]) -> ClustersReport:
    """Return what clusters answer to one question, each with its snapshot; it fails where none of them has room."""
    clusters = tuple(
        ClusterAnswer(
            source=source,
            nodes=report.snapshot.nodes,
            has_room=not report.verdict.failed,
            because=report.verdict.because,
            answer=with_sentence(report).sentence,
            report=report.to_dict(),
        )
        for source, report in reports
    )
    first = reports[0][1]
    also = () if any(cluster.has_room for cluster in clusters) else ("no cluster has room",)
    return ClustersReport(
        snapshot=first.snapshot,
        scheduler=first.scheduler,
        verdict=Verdict.of(first.verdict.fail_on, (), also),
        warnings=tuple(dict.fromkeys(warning for _, report in reports for warning in report.warnings)),
        clusters=clusters,
    )


def _clusters_sentence(document: ClustersReport) -> str:
    names = [cluster.source for cluster in document.clusters if cluster.has_room]
    of = count(len(document.clusters), "cluster")
    have = f"{len(names)} of {of} {'has' if len(names) == 1 else 'have'} room: {listing(names)}"
    return have if names else f"None of {of} has room"


def _clusters_body(document: ClustersReport, _: ReportOptions) -> Iterator[Block]:
    room = {True: Span("yes", "good"), False: Span("no", "bad")}
    rows = tuple((one.source, str(one.nodes), room[one.has_room], one.answer) for one in document.clusters)
    yield Table(("CLUSTER", "NODES", "ROOM", "ANSWER"), rows, "<><<")


def _clusters_cases(document: ClustersReport, _: ReportOptions) -> Iterator[Case]:
    for cluster in document.clusters:
        # A cluster without room fails nothing while another one has some.
        state: State = "passed" if cluster.has_room else "failed" if document.verdict.failed else "skipped"
        detail = "\n".join((cluster.answer, *cluster.because))
        yield Case(cluster.source, state, "NoRoom", cluster.answer, detail, kind="cluster")


CLUSTERS_VIEW = View[ClustersReport](
    _clusters_sentence,
    _clusters_body,
    _clusters_cases,
    lambda document: [cluster.source for cluster in document.clusters if cluster.has_room],
    metrics=lambda document: (
        Metric("cluster_has_room", "Whether a cluster has room.", cluster.has_room, {"cluster": cluster.source})
        for cluster in document.clusters
    ),
    style=lambda document: "bad" if document.verdict.failed else "good",
)
