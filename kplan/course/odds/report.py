"""The outcomes of a question that is drawn many times: counts, shares and their confidence intervals."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.labels import ZONE
from kplan.api.quantity import grouped
from kplan.cluster.base import Base
from kplan.cluster.unmodelled import in_whole_groups
from kplan.course.answers import verdict
from kplan.course.answers.plan import Answer
from kplan.course.asking import PLAIN, Showing
from kplan.course.odds.runs import Drawn, draw
from kplan.course.odds.tally import DrawnPod, OutcomeOdds, PodEnd, Rest, RunEnd, Tally
from kplan.documents.base import Condition, Context, Counted, Verdict
from kplan.documents.odds import EndSpread, GroupOdds, OddsReport, OddsSummary, PodOdds, RunExample, Share, WorkloadOdds

if TYPE_CHECKING:
    from kplan.course.task import Command

_Z: Final = 1.959963984540054  #: 95 % of a normal distribution are within this many standard deviations of its mean
_MOST_EXAMPLES: Final = 10
_DIGITS: Final = 6


@dataclasses.dataclass(frozen=True)
class Odds(Answer):
    """How often each outcome occurs in many runs."""

    runs: int
    seed: int
    #: pod -> its place at the end -> number of runs. The place is a node or "pending", for changes also "gone" or
    #: "blocked"; for other questions a pod that is evicted and not replaced is in no count
    counts: dict[str, dict[str, int]]
    victims: dict[str, int]  #: pod -> number of runs in which it is evicted; pods that never are, are absent
    outcomes: tuple[OutcomeOdds, ...] = dataclasses.field(repr=False)  #: the most frequent first
    branches: int  #: number of distinct runs
    violations: int  #: number of runs in which an eviction violates a disruption budget
    command: Command
    is_change: bool  #: the question is about a drain or about manifests of running workloads, not about pods
    tally: Tally = dataclasses.field(repr=False, compare=False)
    zones: Mapping[str, str] = dataclasses.field(repr=False)

    @property
    def pods(self) -> tuple[DrawnPod, ...]:
        """The pods of the question, and those that some run moves."""
        return tuple(self.tally.pods.values())

    @property
    def is_certain(self) -> bool:
        """Whether every pod ends in the same place in all runs."""
        ends = (*self.counts.items(), *((pod, {"": n}) for pod, n in self.victims.items() if pod not in self.counts))
        return all(n == self.runs for _, counts in ends for n in counts.values())

    @cached_property
    def context(self) -> Context:
        """The cluster, the scheduler and the warnings, those of all runs among them."""
        context = self.make_context()
        in_runs = sorted(self.tally.warnings, key=lambda warning: (warning.code, warning.object, warning.message))
        return replace(context, warnings=tuple(dict.fromkeys((*context.warnings, *in_runs))))

    def fails(self, ending: RunEnd, fail_on: Sequence[Condition]) -> bool:
        """Return whether something happens in a run that counts; warnings, which all runs have, do not."""
        if self.is_change:
            return any(event.counts(fail_on) for event in ending.happened)
        waiting = (_pending_rule(self.tally.pods[key], fail_on) for key in ending.keys(Rest.PENDING))
        return (
            any(waiting)
            or any(event.counts(fail_on) for event in ending.happened)
            or ("preemption" in fail_on and bool(ending.evicted))
            or ("pdb-violation" in fail_on and ending.violates)
        )

    def report(self, *, fail_on: Sequence[Condition] | None = None) -> OddsReport:
        """Return the OddsReport; `fail_on`: what makes the verdict a failure when it happens in any run."""
        chosen = verdict.conditions(fail_on, self.command)
        context = replace(self.context, scheduler=replace(self.context.scheduler, ties="even", seed=self.seed))
        pods = tuple(_pod(self, pod) for pod in self.pods)
        evicted = {key: n for key, n in self.victims.items() if key not in self.counts}
        return OddsReport(
            **verdict.judged(context, _verdict(self, chosen)),
            command=self.command,
            summary=_summary(self),
            workloads=_workloads(self, pods),
            pods=pods,
            evicted={key: wilson(n, self.runs) for key, n in evicted.items()},
            examples=_examples(self),
            groups=tuple(_groups(self)) or UNSET,
        )


def odds_of(base: Base, question: Drawn, showing: Showing = PLAIN, *, command: Command, runs: int, seed: int) -> Odds:
    """Answer a question many times, and count the outcomes."""
    labels = ((name, node.metadata.labels.get(ZONE, "")) for name, node in base.objects.node_by_name.items())
    ask_all, progress = showing.ask_all, showing.progress
    tally, pods = draw(base, question, runs=runs, seed=seed, ask_all=ask_all, progress=progress)
    return Odds(
        runs=runs,
        seed=seed,
        counts={key: _by_place(tally.counts[key], counts_gone=pods is None) for key in tally.pods},
        victims=dict(sorted(tally.victims.items())),
        outcomes=tally.outcomes(),
        branches=tally.branches,
        violations=tally.violations,
        command=command,
        is_change=pods is None,
        tally=tally,
        zones={name: zone for name, zone in labels if zone},
        make_context=partial(in_whole_groups, partial(base.context, pods)),
        question=partial(odds_of, base, question, command=command, runs=runs, seed=seed),
    )


def _by_place(counts: Mapping[PodEnd, int], *, counts_gone: bool) -> dict[str, int]:
    known = ((end, n) for end, n in counts.items() if end.rest is not Rest.GONE or counts_gone)
    return dict(_ranked((end.node if end.rest is Rest.PLACED else end.rest.value, n) for end, n in known))


def wilson(hits: int, runs: int) -> Share:
    share, square = hits / runs, _Z * _Z
    middle = (share + square / (2 * runs)) / (1 + square / runs)
    spread = _Z / (1 + square / runs) * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
    low, high = (0.0 if hits == 0 else middle - spread), (1.0 if hits == runs else middle + spread)
    return Share(runs=hits, share=round(share, _DIGITS), low=round(low, _DIGITS), high=round(high, _DIGITS))


def _summary(odds: Odds) -> OddsSummary:
    return OddsSummary(
        runs=odds.runs,
        seed=odds.seed,
        distinct=odds.branches,
        certain=odds.is_certain,
        outcomes=len(odds.outcomes),
        pods=len(odds.counts),
        all_placed=wilson(_all_placed(odds, odds.counts), odds.runs),
        end=_spread(odds.tally.seconds) if odds.tally.seconds else UNSET,
    )


def _spread(seconds: Mapping[float, int]) -> EndSpread:
    """Return when runs end; the mapping tells how many end then."""
    times = sorted(seconds)
    total = sum(seconds.values())
    done = list(itertools.accumulate(seconds[at] for at in times))

    def by(share: float) -> float:
        return next(at for at, n in zip(times, done, strict=True) if n >= share * total)

    return EndSpread(shortest=times[0], median=by(0.5), p90=by(0.9), longest=times[-1])


def _all_placed(odds: Odds, pods: Iterable[str]) -> int:
    wanted = set(pods)
    return sum(
        outcome.runs
        for outcome in odds.outcomes
        if all(end.rest is Rest.PLACED for key, end in outcome.example.ends.items() if key in wanted)
    )


def _pod(odds: Odds, pod: DrawnPod) -> PodOdds:
    counts = odds.tally.counts[pod.key]
    nodes = _ranked((end.node, n) for end, n in counts.items())
    zones = _ranked((odds.zones.get(node, ""), n) for node, n in nodes)
    ends = {rest: wilson(sum(n for end, n in counts.items() if end.rest is rest), odds.runs) for rest in Rest}
    return PodOdds(
        pod=pod.key,
        workload=pod.workload,
        placed=ends[Rest.PLACED],
        pending=ends[Rest.PENDING],
        evicted=wilson(odds.victims.get(pod.key, 0), odds.runs),
        gone=ends[Rest.GONE] if odds.is_change else UNSET,
        blocked=ends[Rest.BLOCKED] if odds.is_change else UNSET,
        nodes={node: wilson(n, odds.runs) for node, n in nodes},
        zones={zone: wilson(n, odds.runs) for zone, n in zones},
        caused_by="waiting" if pod.was_pending else "change",
    )


def _ranked(numbers: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Add the numbers of each name up; sort by descending number, then by name, without the empty name."""
    counts: Counter[str] = Counter()
    for name, n in numbers:
        counts[name] += n
    return sorted(((name, n) for name, n in counts.items() if name), key=lambda item: (-item[1], item[0]))


def _workloads(odds: Odds, pods: Iterable[PodOdds]) -> tuple[WorkloadOdds, ...]:
    groups = grouped((pod.workload or f"Pod/{pod.pod}", pod) for pod in pods)
    for name in odds.tally.incomplete:  # refused altogether, so that no pod of it moves
        groups.setdefault(name, [])
    return tuple(_workload(odds, name, members) for name, members in groups.items())


def _workload(odds: Odds, name: str, members: Sequence[PodOdds]) -> WorkloadOdds:
    total = len(members) * odds.runs
    nodes = _ranked((node, share.runs) for pod in members for node, share in pod.nodes.items())
    zones = _ranked((zone, share.runs) for pod in members for zone, share in pod.zones.items())
    on_nodes = sum(n for _, n in nodes)

    def part(n: int, of: int) -> float:
        return round(n / of, _DIGITS) if of else 0.0

    def all_of(shares: Iterable[Share | UnsetType]) -> float:
        return part(sum(share.runs for share in shares if share is not UNSET), total)

    return WorkloadOdds(
        workload=name,
        pods=len(members),
        all_placed=wilson(_all_placed(odds, (pod.pod for pod in members)), odds.runs),
        placed=all_of(pod.placed for pod in members),
        pending=all_of(pod.pending for pod in members),
        evicted=all_of(pod.evicted for pod in members),
        gone=all_of(pod.gone for pod in members) if odds.is_change else UNSET,
        blocked=all_of(pod.blocked for pod in members) if odds.is_change else UNSET,
        nodes={node: part(n, on_nodes) for node, n in nodes},
        zones={zone: part(n, on_nodes) for zone, n in zones},
        complete=wilson(odds.runs - odds.tally.incomplete[name], odds.runs) if odds.is_change else UNSET,
        because=odds.tally.because.get(name, (0, ""))[1],
    )


def _groups(odds: Odds) -> Iterator[GroupOdds]:
    for name, endings in sorted(odds.tally.groups.items()):
        domains = _ranked((ending.domain, n) for ending, n in endings.items())
        whole = sum(n for ending, n in endings.items() if ending.placed == ending.pods)
        partly = sum(n for ending, n in endings.items() if 0 < ending.placed < ending.pods)
        yield GroupOdds(
            group=name,
            pods=max(ending.pods for ending in endings),
            whole=wilson(whole, odds.runs),
            partial=wilson(partly, odds.runs),
            domains={value: wilson(n, odds.runs) for value, n in domains},
        )


def _examples(odds: Odds) -> tuple[RunExample, ...]:
    return tuple(
        RunExample(
            share=wilson(outcome.runs, odds.runs),
            pending=outcome.pending,
            evicted=tuple(sorted(outcome.example.evicted)),
            gone=outcome.example.keys(Rest.GONE) if odds.is_change else UNSET,
            blocked=outcome.example.keys(Rest.BLOCKED) if odds.is_change else UNSET,
            placements=outcome.placements,
            messages=dict(outcome.example.messages),
        )
        for outcome in odds.outcomes[:_MOST_EXAMPLES]
    )


def _verdict(odds: Odds, fail_on: Sequence[Condition]) -> Verdict:
    """Return whether anything in `fail_on` happens in any run, and in how many."""
    runs = odds.runs
    times: Counter[tuple[bool, Counted]] = Counter()
    for happened, n in odds.tally.happened.items():
        if happened.counts(fail_on):
            times[happened.holds_up, happened.counted] += n
    # What counts in two ways happens only once.
    most = {event: n for (_, event), n in sorted(times.items(), key=lambda item: item[1])}
    ranked = sorted(most.items(), key=lambda item: (-item[1], item[0].object, item[0].rule))
    counted = [Counted(event.object, event.rule, runs=n, of_runs=runs) for event, n in ranked]
    if odds.is_change:
        return verdict.verdict_on(counted, odds.context.warnings, fail_on)
    rules = ((pod, _pending_rule(pod, fail_on)) for pod in odds.pods)
    waiting = grouped(((pod.group or pod.key, rule), pod.key) for pod, rule in rules if rule)
    for (name, rule), pods in waiting.items():
        n = sum(outcome.runs for outcome in odds.outcomes if not set(pods).isdisjoint(outcome.pending))
        counted += [Counted(name, rule, runs=n, of_runs=runs)] if n else []
    evicted = (Counted(key, "Evicted", runs=n, of_runs=runs) for key, n in odds.victims.items())
    counted += [one for one in evicted if one.counts(fail_on)]
    violates = "pdb-violation" in fail_on and odds.violations > 0
    also = [f"a disruption budget is violated in {odds.violations} of {runs} runs"] if violates else []
    return verdict.verdict_on(counted, odds.context.warnings, fail_on, also)


def _pending_rule(pod: DrawnPod, fail_on: Sequence[Condition]) -> str:
    """Return the rule by which a pod counts while it is pending; empty where it does not."""
    pending = verdict.Happened(Counted(pod.key, "Gated" if pod.is_gated else "Unschedulable"), is_old=pod.was_pending)
    return pending.counted.rule if pending.counts(fail_on) else ""
