"""The answer of questions that are asked many times: counts, and the shares and intervals made of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, Literal

from msgspec.structs import replace

from kplan.documents.base import Condition, Context, Counted, Verdict
from kplan.documents.odds import OddsReport, OddsSummary, PodOdds, RunExample, Share, WorkloadOdds
from kplan.framework.listers import Listers
from kplan.planner.asked import AskedPods
from kplan.planner.base import Base
from kplan.planner.odds import PENDING, DrawnPod, OutcomeOdds, Tally, draw_in_order, draw_queue, zones_of
from kplan.planner.verdict import DEFAULT_FAIL_ON, GATED, PDB_VIOLATION, PREEMPTION, UNSCHEDULABLE, counted_warnings

_Z: Final = 1.959963984540054
"""How many standard deviations hold 95 % of a normal distribution."""
_MOST_EXAMPLES: Final = 10
_DIGITS: Final = 6


@dataclass(frozen=True)
class Odds:
    """What came of many runs.

    Attributes
    ----------
    counts : pod -> where it stands at the end (a node, or "pending") -> in how many runs
    victims : pod -> in how many runs it is evicted; pods that never are, are absent
    outcomes : the most frequent first
    branches : how many of the runs are distinct
    violations : in how many runs an eviction violates a disruption budget
    """

    runs: int
    seed: int
    counts: dict[str, dict[str, int]]
    victims: dict[str, int]
    outcomes: tuple[OutcomeOdds, ...] = field(repr=False)
    branches: int
    violations: int
    command: Literal["place", "plan"]
    pods: tuple[DrawnPod, ...] = field(repr=False)
    zones: Mapping[str, str] = field(repr=False)
    tell_context: Callable[[], Context] = field(repr=False, compare=False)

    @property
    def is_certain(self) -> bool:
        """Whether every pod ends up the same in all runs."""
        ends = (*self.counts.items(), *((pod, {"": n}) for pod, n in self.victims.items() if pod not in self.counts))
        return all(n == self.runs for _, found in ends for n in found.values())

    @cached_property
    def context(self) -> Context:
        """What reports say besides: which cluster, which scheduler, what was odd about the question."""
        return self.tell_context()

    def report(self, *, fail_on: Sequence[Condition] | None = None) -> OddsReport:
        """Return the OddsReport.

        Parameters
        ----------
        fail_on : what makes the verdict a failure if it happens in any run; None for the defaults of the command
        """
        pods = tuple(_pod(self, pod) for pod in self.pods)
        return OddsReport(
            snapshot=self.context.snapshot,
            scheduler=replace(self.context.scheduler, ties="even", seed=self.seed),
            command=self.command,
            verdict=_verdict(self, DEFAULT_FAIL_ON[self.command] if fail_on is None else fail_on),
            summary=_summary(self),
            warnings=self.context.warnings,
            workloads=_workloads(self, pods),
            pods=pods,
            evicted={key: wilson(n, self.runs) for key, n in self.victims.items() if key not in self.counts},
            examples=_examples(self),
        )

    def to_dict(self, *, fail_on: Sequence[Condition] | None = None) -> dict[str, Any]:
        """Return the OddsReport as JSON values."""
        return self.report(fail_on=fail_on).to_dict()


def odds_in_order(base: Base, asked: AskedPods, *, runs: int, seed: int, settle_preemption: bool) -> Odds:
    """Place pods in the order given, many times."""
    tally = draw_in_order(base, asked, runs=runs, seed=seed, settle_preemption=settle_preemption)
    return _odds(base, asked, tally, command="place", runs=runs, seed=seed)


def odds_of_queue(
    base: Base, asked: AskedPods, listers: Listers | None, *, recreate: bool, max_rounds: int, runs: int, seed: int
) -> Odds:
    """Work off a queue many times; parameters as for `draw_queue`."""
    tally = draw_queue(base, asked, listers, recreate=recreate, max_rounds=max_rounds, runs=runs, seed=seed)
    return _odds(base, asked, tally, command="plan", runs=runs, seed=seed)


def _odds(
    base: Base, asked: AskedPods, tally: Tally, *, command: Literal["place", "plan"], runs: int, seed: int
) -> Odds:
    return Odds(
        runs=runs,
        seed=seed,
        counts={
            key: dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
            for key, found in tally.counts.items()
        },
        victims=dict(sorted(tally.victims.items())),
        outcomes=tally.outcomes(),
        branches=tally.branches,
        violations=tally.violations,
        command=command,
        pods=tuple(tally.pods),
        zones=zones_of(base),
        tell_context=partial(base.context, asked),
    )


def wilson(hits: int, runs: int) -> Share:
    """Return a share with Wilson's 95 % interval of the probability behind it."""
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
    )


def _all_placed(odds: Odds, pods: Iterable[str]) -> int:
    """Count the runs in which all of these pods are placed."""
    wanted = set(pods)
    return sum(outcome.runs for outcome in odds.outcomes if wanted <= outcome.placements.keys())


def _pod(odds: Odds, pod: DrawnPod) -> PodOdds:
    nodes = {node: n for node, n in odds.counts[pod.key].items() if node != PENDING}
    zones: Counter[str] = Counter()
    for node, n in nodes.items():
        zones[odds.zones.get(node, "")] += n
    return PodOdds(
        pod=pod.key,
        workload=pod.workload,
        placed=wilson(sum(nodes.values()), odds.runs),
        pending=wilson(odds.counts[pod.key].get(PENDING, 0), odds.runs),
        evicted=wilson(odds.victims.get(pod.key, 0), odds.runs),
        nodes={node: wilson(n, odds.runs) for node, n in nodes.items()},
        zones={zone: wilson(n, odds.runs) for zone, n in _ranked(zones)},
    )


def _ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Sort by number, then by name; what has no name is left out."""
    return sorted(((name, n) for name, n in counts.items() if name), key=lambda item: (-item[1], item[0]))


def _workloads(odds: Odds, pods: Iterable[PodOdds]) -> tuple[WorkloadOdds, ...]:
    groups: dict[str, list[PodOdds]] = {}
    for pod in pods:
        groups.setdefault(pod.workload or f"Pod/{pod.pod}", []).append(pod)
    return tuple(_workload(odds, name, members) for name, members in groups.items())


def _workload(odds: Odds, name: str, members: Sequence[PodOdds]) -> WorkloadOdds:
    total = len(members) * odds.runs
    nodes: Counter[str] = Counter()
    zones: Counter[str] = Counter()
    for pod in members:
        nodes.update({node: share.runs for node, share in pod.nodes.items()})
        zones.update({zone: share.runs for zone, share in pod.zones.items()})
    placed = sum(nodes.values())

    def part(n: int, of: int) -> float:
        return round(n / of, _DIGITS) if of else 0.0

    return WorkloadOdds(
        workload=name,
        pods=len(members),
        all_placed=wilson(_all_placed(odds, (pod.pod for pod in members)), odds.runs),
        placed=part(placed, total),
        pending=part(sum(pod.pending.runs for pod in members), total),
        evicted=part(sum(pod.evicted.runs for pod in members), total),
        nodes={node: part(n, placed) for node, n in _ranked(nodes)},
        zones={zone: part(n, placed) for zone, n in _ranked(zones)},
    )


def _examples(odds: Odds) -> tuple[RunExample, ...]:
    return tuple(
        RunExample(
            share=wilson(outcome.runs, odds.runs),
            pending=outcome.pending,
            evicted=outcome.evicted,
            placements=outcome.placements,
        )
        for outcome in odds.outcomes[:_MOST_EXAMPLES]
    )


def _verdict(odds: Odds, fail_on: Sequence[Condition]) -> Verdict:
    """Hold what happens in any run against what counts."""
    counted: list[Counted] = []
    for pod in odds.pods:
        condition, rule = (GATED, "Gated") if pod.is_gated else (UNSCHEDULABLE, "Unschedulable")
        n = odds.counts[pod.key].get(PENDING, 0)
        if n and condition in fail_on:
            counted.append(Counted(pod.key, f"{rule} in {n} of {odds.runs} runs"))
    if PREEMPTION in fail_on:
        counted += [Counted(key, f"Evicted in {n} of {odds.runs} runs") for key, n in odds.victims.items()]
    violates = PDB_VIOLATION in fail_on and odds.violations > 0
    also = [f"a disruption budget is violated in {odds.violations} of {odds.runs} runs"] if violates else []
    return Verdict.of(fail_on, [*counted, *counted_warnings(odds.context.warnings, fail_on)], also)
