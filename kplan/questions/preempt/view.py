"""The PreemptionReport: which pods a pod would evict, why those, which budgets that violates, where the victims go."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.quantity import capitalized, count, grouped, listing, readable
from kplan.documents.placement import Aftermath, PodPlacement, PreemptionReport
from kplan.framework.results import Criterion, DecidedBy, Outcome, Preemption, Victim
from kplan.health.words import clock_text
from kplan.report import decision
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Table, line, plain
from kplan.report.new_nodes import growth_blocks
from kplan.report.options import ReportOptions
from kplan.report.overview import behind_groups, group_blocks, group_cases, placement_cases
from kplan.report.text import detail_of
from kplan.report.view import Case, View
from kplan.report.words import age_text, left_out

_MOST_VICTIMS = 2
_TELLS_MORE = "--explain, or kplan preempt NS/POD, shows why these victims are chosen"


class Tries(msgspec.Struct, frozen=True):
    """How the scheduler decided about a pod that was tried once, or again after its victims had gone."""

    placement: PodPlacement
    evicts: Preemption | None  #: None where it evicts no pod
    node: str | None  #: where it is placed, after evictions or without; None for nowhere


def tries_of(placements: Sequence[PodPlacement]) -> list[Tries]:
    """Return one item for each pod, however often it was tried."""
    pods = []
    for tries in grouped((placement.pod.key, placement) for placement in placements).values():
        eviction = next((placement.eviction for placement in tries if placement.eviction), None)
        nominated = None if eviction is None else eviction.nominated_node
        pods.append(Tries(tries[-1], eviction, tries[-1].node or nominated))
    return pods


def _row(pod: Tries, options: ReportOptions, preempting: Container[str]) -> tuple[Cell, ...]:
    key = pod.placement.pod.key
    if key in preempting:
        return (key, "-", "-", Span("fits once its group has evicted others", "warn"))
    if pod.evicts is None and pod.node is not None:
        return (key, "-", pod.node, Span("fits without preemption", "good"))
    if pod.evicts is None:
        is_vain = pod.placement.preemption is not None and not pod.placement.held_back_by
        state = "no eviction helps" if is_vain else decision.ending_of(pod.placement).short
        return (key, "-", "-", Span(state, "bad"))
    victims, is_broken = pod.evicts.victims, any(victim.pdb_violation for victim in pod.evicts.victims)
    names = listing([victim.key for victim in victims], most=None if options.is_wide else _MOST_VICTIMS)
    fits = Span("violates a disruption budget", "bad") if is_broken else Span("fits after eviction", "warn")
    return (key, names, pod.node or "-", fits)


_DECIDED_BY: Mapping[DecidedBy, str] = {
    "only-candidate": "it is the only node on which evicting pods makes room",
    "pdb-violations": "it violates the fewest disruption budgets",
    "lowest-highest-victim-priority": "the highest priority among its victims is the lowest",
    "lowest-priority-sum": "the sum of the priorities of its victims is the lowest",
    "fewest-victims": "it has the fewest victims",
    "latest-start-time": "its highest-priority victims started last",
    "tie": "of several equally good nodes it comes first by name",
}
_LOST_BY: Mapping[Criterion | None, str] = {
    "pdb-violations": "more budgets violated",
    "lowest-highest-victim-priority": "a higher-priority victim",
    "lowest-priority-sum": "a higher sum of priorities",
    "fewest-victims": "more victims",
    "latest-start-time": "victims that have run longer",
    None: "equally good",
}
_MOST_FREED = 3


def _with_reason(placement: PodPlacement) -> Heading:
    """Return what becomes of a pod, with the reason where it fits nowhere."""
    heading = replace(_heading(placement), level=0)
    why = decision.why_nowhere(placement) if placement.preemption and not placement.eviction else ""
    return replace(heading, spans=(*heading.spans, f": {why}")) if why else heading


def _body(document: PreemptionReport, options: ReportOptions) -> Iterator[Block]:
    tries = tries_of(document.placements)
    preempting = _preempting(document)
    yield from group_blocks(document.groups or (), options)
    if len(tries) == 1:  # it may have been tried twice; its victims are the answer
        blocks = (_pod_blocks(document, one, options, is_brief=False, in_answer=True) for one in document.placements)
        yield from itertools.islice(itertools.chain.from_iterable(blocks), 1, None)
    else:
        if tries:  # those without any node first
            ordered = sorted(tries, key=lambda pod: pod.node is not None)
            rows = tuple(_row(pod, options, preempting) for pod in ordered)
            yield Table(("POD", "EVICTS", "ON NODE", "STATE"), rows, "<<<<")
        if not options.in_full and any(pod.evicts for pod in tries):
            yield line(Span(_TELLS_MORE, "hint"))
        for placement in document.placements:
            if options.in_full or (_needs_attention(placement) and placement.pod.key not in preempting):
                yield from _pod_blocks(document, placement, options, is_brief=not options.in_full, in_answer=False)
    if document.aftermath:
        is_brief = len(tries) > 1 and not options.in_full
        yield Heading(("Where the victims go, when all these pods are scheduled in queue order",))
        for victim in document.aftermath:
            where = f" (from {victim.from_node}, for {victim.by}) "
            yield line(Span(victim.victim, "strong"), where, *_fate(victim, is_brief=is_brief), is_item=True)
    if document.nodes:
        yield from growth_blocks(document.nodes, options)


def _preempting(document: PreemptionReport) -> set[str]:
    """Return the pods whose group evicts others as a whole."""
    return {pod for group in document.groups or () if group.state == "Preempts" for pod in group.members}


def _needs_attention(placement: PodPlacement) -> bool:
    is_broken = not placement.eviction or any(victim.pdb_violation for victim in placement.eviction.victims)
    return is_broken and placement.outcome is not Outcome.SCHEDULED


def _answer(document: PreemptionReport) -> str | Heading:
    summary = document.summary
    if not document.placements:
        return "No pod needs preemption: every pending pod fits without it" if document.fits else "No pod is pending"
    tries = tries_of(document.placements)
    if len(tries) == 1:
        return _with_reason(document.placements[0])
    evicting = sum(pod.evicts is not None for pod in tries)
    victims = [victim.key for pod in tries if pod.evicts is not None for victim in pod.evicts.victims]
    alone = ", each by itself," if len({*victims}) < len(victims) else ""  # what makes room for one is not there twice
    fits = sum(pod.evicts is None and pod.node is not None for pod in tries)
    waiting = _preempting(document)
    with_group = sum(pod.evicts is None and pod.node is None and pod.placement.pod.key in waiting for pod in tries)
    numbers = (
        (with_group, f" once {'their' if with_group > 1 else 'its'} group has evicted others"),
        (evicting, f"{alone} by evicting {count(summary.victims, 'other pod')}"),
        (fits, " without preemption"),
        (len(tries) - evicting - fits - with_group - summary.gated - summary.errors, " nowhere"),
    )
    parts = [f"{number} {'fits' if number == 1 else 'fit'}{how}" for number, how in numbers if number]
    others = ((summary.gated, "gated"), (summary.errors, "not for kube-scheduler to decide"))
    parts += [f"{number} {words}" for number, words in others if number]
    if summary.pdb_violations:
        parts.append(count(summary.pdb_violations, "disruption budget violation"))
    decided = [pod for pod in tries if pod.placement.preemption and pod.placement.pod.key not in waiting]
    first = next((pod for pod in decided if pod.evicts), next((pod for pod in decided if pod.node is None), None))
    example = "" if first is None else f"{plain(_with_reason(first.placement).spans)}; "
    return f"{example}{count(summary.pods, 'pod')}: {', '.join(parts)}"


def _evicts(preemption: Preemption, most: int = _MOST_VICTIMS) -> str:
    names = listing([victim.key for victim in preemption.victims], most=most)
    return f"evicts {names} on {preemption.nominated_node}"


def _heading(placement: PodPlacement) -> Heading:
    key = placement.pod.key
    if placement.preemption is None:
        return decision.decision_heading(key, placement)
    nowhere = Span("fits nowhere, and no eviction helps", "bad")
    words = Span(_evicts(placement.eviction), "warn") if placement.eviction else nowhere
    return Heading((f"{key} ", words), about=key)


def _pod_blocks(
    document: PreemptionReport, placement: PodPlacement, options: ReportOptions, *, is_brief: bool, in_answer: bool
) -> Iterator[Block]:
    """Yield everything about a pod; its reason is left out where the answer has it."""
    preemption = placement.preemption
    yield _heading(placement)
    if preemption is None:
        yield from decision.decision_blocks(placement, document.snapshot.nodes, options, is_brief=is_brief)
        return
    yield from decision.diagnosis_blocks(placement, options, in_answer=in_answer)
    if preemption.nominated_node is None:
        yield line(f"{capitalized(decision.why_no_eviction(preemption))}.")
    else:
        victims, chosen, number = preemption.victims, preemption.nominated_node, len(preemption.candidates)
        ties = [node for node in preemption.ties if node != chosen]
        also = f" (equal: {listing(ties)}; kube-scheduler may choose any of them)" if ties and number > 1 else ""
        out_of = f" out of {number} nodes where evictions make room" if number > 1 else ""
        why = _DECIDED_BY["only-candidate" if number == 1 else preemption.decided_by or "tie"]
        yield line(f"{chosen} is chosen{out_of}: {why}{also}.")
        yield from (_victim(victim, document.snapshot.taken_at) for victim in victims)
        if broken := [victim.key for victim in victims if victim.pdb_violation]:
            words = f" do not allow the eviction of {listing(broken)}; kube-scheduler evicts them anyway."
            yield line(Span("Disruption budgets", "bad"), words)
        yield from _runners_up(preemption, options)
        if options.explain:
            yield from _reprieves(preemption, options)
    if not is_brief:
        yield from _not_helpful(preemption)
    if preemption.cleared_nominations:
        names = listing(preemption.cleared_nominations)
        yield line(f"Lower-priority pods that lose their nomination to that node: {names}.")
    if placement.message:
        yield Preformatted("kube-scheduler writes", placement.message)


def _victim(victim: Victim, now: str | None) -> Line:
    runs = f"runs {'for' if now else 'since'} {age_text(victim.start_time, now)}"
    grace = victim.termination_grace_period_seconds
    runs += f", {grace}s of grace" if isinstance(grace, int) else ""
    text = f" ({victim.owner or 'no controller'}): priority {victim.priority}, {runs}; frees {_freed(victim)}; "
    budgets = listing([name.partition("/")[2] for name in victim.budgets or ()], most=2)
    allows = Span(f"{budgets}: violated", "bad") if victim.pdb_violation else f"{budgets}: allows it"
    return line(Span(victim.key, "strong"), text, allows if budgets else "no disruption budget", is_item=True)


def _freed(victim: Victim) -> str:
    shares = [
        f"{readable(freed.amount)} {name}" + ("" if freed.percent is None else f" ({freed.percent}%)")
        for name, freed in (victim.frees or {}).items()
    ]
    return listing(shares, most=_MOST_FREED) or "nothing but a place for a pod"


def _runners_up(preemption: Preemption, options: ReportOptions) -> Iterator[Block]:
    chosen, candidates = preemption.nominated_node, preemption.candidates

    def rank(node: str) -> tuple[int | str, ...]:
        own = candidates[node].criteria
        return own.pdb_violations, own.highest_victim_priority, own.priority_sum, own.victims, node

    ranked = sorted((node for node in candidates if node != chosen), key=rank)
    if not ranked:
        return
    shown = ranked[: options.top]
    rows: list[tuple[Cell, ...]] = []
    for node in (*(node for node in candidates if node == chosen), *shown):
        candidate, criteria = candidates[node], candidates[node].criteria
        numbers = map(str, (criteria.victims, criteria.pdb_violations, criteria.highest_victim_priority))
        since = clock_text(criteria.latest_start_time) if criteria.latest_start_time else "unknown"
        last = ["chosen" if node == chosen else _LOST_BY[candidate.lost_by or None]]
        if options.is_wide or options.explain:
            last = [str(criteria.priority_sum), *last, listing(candidate.victims)]
        rows.append((Span(node, "good") if node == chosen else node, *numbers, since, *last))
    note = left_out(len(ranked) - len(shown), "node")
    header = ("CANDIDATE", "VICTIMS", "BUDGETS VIOLATED", "TOP PRIORITY", "TOP VICTIM SINCE", "WHY NOT CHOSEN")
    if options.is_wide or options.explain:
        yield Table((*header[:-1], "PRIORITY SUM", header[-1], "WHO"), tuple(rows), "<>>><><<", note=note)
    else:
        yield Table(header, tuple(rows), "<>>><<", note=note)


def _reprieves(preemption: Preemption, options: ReportOptions) -> Iterator[Block]:
    order = sorted(preemption.candidates, key=lambda node: node != preemption.nominated_node)
    rows: list[tuple[Cell, ...]] = []
    for node in order[: options.top]:
        name: Cell = node
        for step in preemption.candidates[node].reprieve or ():
            fate: Cell = "stays" if step.reprieved else Span("evicted", "warn")
            first = "tried first, because its budget would be violated" if step.pdb_violation else ""
            rows.append((name, str(step.step), step.pod, fate, first))
            name = ""
    if rows:
        yield Heading(("Lower-priority pods that may stay, tried from the most important down",), 2)
        yield Table(("NODE", "STEP", "POD", "FATE", "NOTE"), tuple(rows), "<><<<")


def _not_helpful(preemption: Preemption) -> Iterator[Block]:
    if preemption.not_helpful:
        yield Heading(("Nodes where no eviction helps",), 2)
    for group in preemption.not_helpful or ():
        why = "even without the lower-priority pods" if group.tried else "eviction does not help"
        nodes = listing(group.examples, group.nodes - len(group.examples), most=5)
        yield Line((f"{count(group.nodes, 'node')}: {group.reason}, {why} ", Span(f"({nodes})", "dim")), is_item=True)


def _fate(victim: Aftermath, *, is_brief: bool) -> tuple[Cell, ...]:
    placement = victim.placement
    if victim.circling:
        return Span("is never settled", "bad"), ": each of its replacements is evicted in turn"
    if victim.recreated_as is None or placement is None:
        return Span("is gone", "bad"), ": no controller recreates it"
    again = f", recreated as {victim.recreated_as}"
    if placement.node is not None:
        return "-> ", Span(placement.node, "good"), again
    if placement.eviction:
        return Span("evicts others", "warn"), f" on {placement.eviction.nominated_node}{again}"
    return Span("stays pending", "bad"), again if is_brief else f"{again}: {placement.message}"


def _names(document: PreemptionReport) -> Iterator[str]:
    """Yield a line for each pod: its node, or the node where it evicts others, and its victims; ``-`` for none."""
    for placement in document.placements:
        eviction = placement.eviction
        victims = ",".join(victim.key for victim in eviction.victims) if eviction else ""
        nominated = eviction.nominated_node if eviction else None
        yield f"{placement.pod.key} {placement.node or nominated or '-'} {victims or '-'}"


def _cases(document: PreemptionReport, options: ReportOptions) -> Iterator[Case]:
    evictions = {one.pod.key: (one, one.eviction) for one in document.placements if one.eviction}
    yield from group_cases(document.groups or (), document.verdict)
    for case in placement_cases(document, options):
        if case.name not in evictions:
            yield case
            continue
        placement, eviction = evictions[case.name]
        counted = document.verdict.counted_of(case.name)
        yield replace(
            case,
            rule=document.verdict.rule_of(case.name, "Preemption"),
            message="; ".join([*(event.text for event in counted), _evicts(eviction, most=3)]),
            detail=detail_of(_pod_blocks(document, placement, options, is_brief=False, in_answer=False), options),
            more=case.more if placement.pod.origin else f"kplan preempt {shlex.quote(case.name)}",
        )


VIEW = View(
    lambda document: behind_groups(document.groups, _answer(document)),
    _body,
    _cases,
    _names,
    moments={"before": "Before", "after": "When all these pods are scheduled, in queue order"},
)
