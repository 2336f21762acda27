"""What all answers share; pods decided in order, and their PlacementReport, parts of which other reports have, too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.course.answers.placement import NodesShown, Placement
from kplan.course.answers.verdict import conditions, judge, judged
from kplan.documents.base import Condition, Context, Report, is_counted, with_sentence
from kplan.documents.nodes import NewNodeRef, NodeChanges
from kplan.documents.placement import GroupPlan, Luck, PlacementReport, PodPlacement, Summary, Unlisted
from kplan.engine.cluster import Cluster
from kplan.facts import InputWarning
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:
    from kplan.autoscaling.seam import NewNode
    from kplan.course.pools import Pools
    from kplan.documents.plan import PlanReport


class _End(NamedTuple):
    """How pods end that are counted together."""

    workload: str
    outcome: Outcome | None  #: None if it is unknown
    message: str


_Ends = Iterable[tuple[_End, str | None, int]]  #: how pods end, their node, and how many they are


def untried_pods(untried: Mapping[tuple[str, str], int]) -> tuple[Unlisted, ...]:
    """Return how many replicas fit nowhere, like one of their workload, by workload and message."""
    return _counted((_End(of, Outcome.UNSCHEDULABLE, message), None, n) for (of, message), n in untried.items() if n)


L = TypeVar("L", PlacementReport, "PlanReport")


def with_most_placements(report: PlacementReport, most: int | None) -> PlacementReport:
    """Return a report that lists the first placements, and counts the others; `most`: how many, None for all."""
    if most is None:
        return _about_all(report, report, most)
    first = {placement.pod.key for placement in report.placements[:most]}
    last = {placement.pod.key: placement for placement in report.placements}
    others = [one for key, one in last.items() if key not in first]
    ends = [(_End(one.pod.owner_key, one.outcome, one.message), one.node, 1) for one in others]
    shorter = replace(report, placements=report.placements[:most], unlisted=_with_unlisted(ends, report.unlisted))
    return _about_all(report, shorter if others else report, most)


def with_most_changes(report: PlanReport, most: int | None) -> PlanReport:
    """Return a report that lists some pods with their placements, and counts the others; pods that are gone stay.

    Of those that stay pending the first with each reason is among them, as the answer begins with one.

    `most`: the number of pods to list, apart from pods that are gone; None for all.
    """
    from kplan.documents.plan import Action

    if most is None:
        return _about_all(report, report, most)
    changes = report.changes
    ends = [index for index, change in enumerate(changes) if change.action is not Action.EVICTED]
    pending = (index for index in reversed(ends) if changes[index].action is Action.PENDING)
    firsts = {*{changes[index].end: index for index in pending}.values()}
    others = set(sorted(ends, key=lambda index: index not in firsts)[most:])
    first = [change for index, change in enumerate(changes) if index not in others]
    attempts = sorted({change.attempt for change in first if change.attempt is not None})
    position_of = {index: position for position, index in enumerate(attempts)}
    unlisted: list[tuple[_End, str | None, int]] = []
    for change in (changes[index] for index in sorted(others)):
        is_pending = change.action is Action.PENDING
        outcome = Outcome(change.outcome or Outcome.UNSCHEDULABLE) if is_pending else Outcome.SCHEDULED
        unlisted.append((_End(change.owner_key, outcome, change.reason), change.to_node, 1))
    shorter = replace(
        report,
        changes=tuple(one if one.attempt is None else replace(one, attempt=position_of[one.attempt]) for one in first),
        placements=tuple(report.placements[index] for index in attempts),
        unlisted=_with_unlisted(unlisted, report.unlisted),
    )
    return _about_all(report, shorter if others else report, most)


def _about_all(report: L, shorter: L, most: int | None) -> L:
    """Return the shorter form of a report: sentence and verdict are of the whole, of what was not tried, too."""
    verdict = report.verdict
    ended = ((one.pods, one.outcome) for one in report.unlisted if one.outcome is not None)
    further = sum(n for n, outcome in ended if is_counted(outcome.value, verdict.fail_on))
    because = verdict.because[:most]
    counted = verdict.counted[: max(len(because) - len(verdict.also), 0)]
    further += len(verdict.because) - len(because)
    return replace(
        shorter,
        sentence=report.sentence if shorter is report else with_sentence(report).sentence,
        verdict=replace(verdict, because=because, counted=counted, more=further),
        max_listed=UNSET if most is None else most,
    )


def _with_unlisted(ends: _Ends, unlisted: Sequence[Unlisted]) -> tuple[Unlisted, ...]:
    further = ((_End(one.workload, one.outcome, one.message), None, one.pods) for one in unlisted)
    return _counted([*ends, *further])


def _counted(ends: _Ends) -> tuple[Unlisted, ...]:
    """Count pods that end alike, and by node among them."""
    pods: Counter[_End] = Counter()
    nodes: dict[_End, Counter[str]] = {}
    for end, node, n in ends:
        pods[end] += n
        if node is not None:
            nodes.setdefault(end, Counter())[node] += n
    return tuple(Unlisted(pods=n, nodes=dict(nodes.get(end, {})), **end._asdict()) for end, n in pods.items())


def _untried(last: Mapping[str, Placement], more: Mapping[str, int]) -> Iterator[tuple[_End, None, int]]:
    """Yield the replicas that were not tried, with the outcome of one that fits nowhere; unknown if all tried ones fit.

    `last`: NAMESPACE/NAME -> the last decision about this pod.
    """
    written = [placement for placement in last.values() if placement.pod.origin]
    without_room = {one.pod.owner_key: one for one in written if one.outcome is not Outcome.SCHEDULED}
    for key, n in more.items():
        workload = last[key].pod.owner_key
        end = without_room.get(workload)
        yield _End(workload, None, "") if end is None else _End(workload, end.outcome, end.message), None, n


NodesOf = Mapping[int, NodesShown]
"""Index of a placement -> the nodes that its explanation covers; a placement without an entry has only an outline."""


def summary(placements: Sequence[Placement], groups: Sequence[GroupPlan] = (), further: _Ends = ()) -> Summary:
    """Count the last outcome of each pod, and each victim once, whichever pods or groups would evict it.

    Of what a group evicts as a whole, a budget is broken once for each unit, as upstream counts.
    """
    last = {placement.pod.key: placement.outcome for placement in placements}
    outcomes: Counter[Outcome | None] = Counter(last.values())
    for end, _, n in further:
        outcomes[end.outcome] += n
    victims = {(victim.key, victim.pdb_violation) for placement in placements for victim in placement.victims}
    return Summary(
        pods=outcomes.total(),
        scheduled=outcomes[Outcome.SCHEDULED],
        unschedulable=outcomes[Outcome.UNSCHEDULABLE],
        gated=outcomes[Outcome.GATED],
        errors=outcomes[Outcome.ERROR],
        victims=len({*(key for key, _ in victims), *(pod for group in groups for pod in group.evicted)}),
        pdb_violations=sum(violates for _, violates in victims) + sum(group.pdb_violations for group in groups),
    )


def placement_report(
    context: Context,
    placements: Sequence[Placement],
    *,
    fail_on: Sequence[Condition] | None = None,
    nodes_of: NodesOf | None = None,
    more: Mapping[str, int] | None = None,
    nodes: NodeChanges | None = None,
    groups: Sequence[GroupPlan] = (),
) -> PlacementReport:
    """Return the report about placements.

    - `fail_on`: what makes the verdict a failure; None for the defaults of `place`
    - `nodes_of`: None explains all nodes of all placements
    - `more`: NAMESPACE/NAME -> number of further replicas with the outcome of this pod, which were not tried
    - `nodes`: the nodes that an autoscaler adds; None where none is followed
    - `groups`: what becomes of the groups of these pods
    """
    last = {placement.pod.key: placement for placement in placements}
    further = [*_untried(last, more)] if more else []
    unlisted = _counted(further)
    unknown = "of its replicas were not tried: there is room for more replicas than are tried one by one"
    untried = [group for group in unlisted if group.outcome is None]
    not_looked_at = (InputWarning("NotLookedAt", one.workload, f"{one.pods:,} {unknown}") for one in untried)
    context = replace(context, warnings=(*context.warnings, *not_looked_at))
    chosen = conditions(fail_on, "place")
    new = () if nodes is None else [node.name for node in nodes.added]
    verdict = judge(placements, context.warnings, chosen, new_nodes=new, groups=groups)
    return PlacementReport(
        **judged(context, verdict),
        summary=summary(placements, groups, further),
        placements=placement_documents(placements, nodes_of),
        unlisted=unlisted,
        nodes=UNSET if nodes is None else nodes,
        groups=tuple(groups) or UNSET,
    )


def placement_documents(placements: Sequence[Placement], nodes_of: NodesOf | None) -> tuple[PodPlacement, ...]:
    """Return placements as documents; `nodes_of` as in `placement_report`."""
    if nodes_of is None:
        return tuple(placement.to_document() for placement in placements)
    explained = [index for index in range(len(placements)) if index in nodes_of]
    documents = {index: placements[index].to_document(nodes_of[index]) for index in explained}
    alike = {_end_of(placements[index]): document for index, document in documents.items()}
    return tuple(
        documents[index] if index in documents else _outlined(placement, alike.get(_end_of(placement)))
        for index, placement in enumerate(placements)
    )


def _end_of(placement: Placement) -> Hashable:
    """Return a key that replicas of a workload with the same outcome share."""
    pod = placement.pod
    return pod.namespace, pod.origin or pod.name, placement.outcome, placement.message


def _outlined(placement: Placement, alike: PodPlacement | None) -> PodPlacement:
    outline = placement.to_outline()
    if alike is None or placement.outcome is Outcome.SCHEDULED:
        return outline
    return replace(outline, diagnosis=alike.diagnosis, remedies=alike.remedies, at_fault=alike.at_fault)


class Reported(ABC):
    """An answer of the planner, from which a report is made."""

    @abstractmethod
    def report(self, *, fail_on: Sequence[Condition] | None = None) -> Report:
        """Return the report, complete for all nodes; `fail_on`: what fails, None for the command's defaults."""

    def rows(self, of: str = "") -> list[dict[str, Any]]:
        """Return the rows of `report`: see `kplan.documents.base.Report.rows`."""
        return self.report().rows(of)

    def __str__(self) -> str:
        return str(self.report())

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def to_dict(self, *, fail_on: Sequence[Condition] | None = None) -> dict[str, Any]:
        """Return the JSON form of `report`, the document that the command prints with ``-o json``."""
        return self.report(fail_on=fail_on).to_dict()


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer(Reported):
    """An answer whose report states the cluster, the scheduler and the warnings besides.

    Its pickle is its question: the copy answers it anew, with the same result.
    """

    make_context: Callable[[], Context] = field(repr=False, compare=False)  #: called once, for the first report
    question: Callable[[], Answer] = field(repr=False, compare=False)  #: answers the same anew

    def __reduce__(self) -> tuple[Any, ...]:
        return self.question, ()

    @cached_property
    def context(self) -> Context:
        return self.make_context()


def with_new_nodes(
    placements: Iterable[PodPlacement], changes: NodeChanges | UnsetType | None
) -> tuple[PodPlacement, ...]:
    """Return placements with what an autoscaler does for each: the new node, or why there is none that it would fit."""
    if not changes:
        return tuple(placements)
    names = NewNodeRef.__struct_fields__
    refs = {node.name: NewNodeRef(**{name: getattr(node, name) for name in names}) for node in changes.added}

    def with_node(one: PodPlacement) -> PodPlacement:
        if one.node is not None:
            return replace(one, new_node=refs[one.node]) if one.node in refs else one
        key = one.pod.key
        why = changes.why_none(key)
        return replace(one, no_new_node=why, diagnosis=changes.with_why_none(key, one.why)) if why else one

    return tuple(map(with_node, placements))


def before_growth(before: Cluster, after: Cluster) -> Cluster:
    more = len(after) - len(before)
    if not more:
        return before
    absent = np.zeros(len(after), np.bool_)
    absent[len(before) :] = True
    return before.copy().grown(after.nodes.with_absent(absent))


@dataclass(frozen=True, eq=False)
class Plan(Answer):
    """Decisions in order."""

    placements: tuple[Placement, ...]  #: a pod that is tried again after its preemption has two in a row
    before: Cluster = field(repr=False)  #: the cluster before the plan; not to be changed
    session: Session = field(repr=False)  #: the cluster after the plan; not to be changed
    #: NAMESPACE/NAME -> number of further replicas that are not tried, because they end as this pod does
    more: Mapping[str, int] = field(default_factory=dict)
    adds: Sequence[NewNode] = field(default=(), repr=False)  #: the nodes that an autoscaler adds for them
    nodes: NodeChanges | None = field(default=None, repr=False)  #: about these; None where no autoscaler is followed
    #: how the last cycle of each group has ended
    tries: Mapping[Key, GroupTry] = field(default_factory=dict, repr=False, compare=False)
    #: the least number of nodes that fitted a pod when it was tried; 0 if one was not scheduled
    fewest_nodes: int = field(default=0, repr=False)
    #: as many as there were, with those that were repeated once an autoscaler had made nodes
    n_decisions: int = field(default=0, repr=False)
    pools: Pools | None = field(default=None, repr=False, compare=False)  #: of the autoscaler; None without one
    #: tells what differs between draws of the same decisions; None if nobody asks
    luck: Callable[[Sequence[Condition]], Luck | UnsetType] | None = field(default=None, repr=False, compare=False)

    @property
    def is_roomy(self) -> bool:
        """Whether every pod gets a node, whichever of equal nodes are drawn; then nothing that counts is luck."""
        rows = {self.session.find(placement.pod.key) for placement in self.placements}
        infos = self.session.cluster.pods.infos
        return is_roomy(self.fewest_nodes, [infos[row] for row in rows if row is not None])

    @cached_property
    def groups(self) -> tuple[GroupPlan, ...]:
        """What becomes of the groups of the pods, and what would help those that wait."""
        if not self.tries:
            return ()
        from kplan.course.answers.pod_groups import plans_in_order

        return plans_in_order(self.session, self.tries, self.placements)

    def report(
        self,
        *,
        fail_on: Sequence[Condition] | None = None,
        nodes_of: NodesOf | None = None,
        max_listed: int | None = None,
        with_map: bool = False,
    ) -> PlacementReport:
        """Return the PlacementReport.

        Parameters as for `placement_report` and `with_most_placements`; `with_map`: all nodes before and after.
        """
        report = placement_report(
            self.context,
            self.placements,
            fail_on=fail_on,
            nodes_of=nodes_of,
            more=self.more,
            nodes=self.nodes,
            groups=self.groups,
        )
        if self.luck is not None:
            report = replace(report, luck=self.luck(report.verdict.fail_on))
        placements = with_new_nodes(report.placements, self.nodes)
        if self.pools is not None:
            placements = tuple(self.pools.in_remedies(placements))
        report = replace(report, placements=placements)
        if with_map:
            from kplan.course.answers.utilisation import cluster_map

            after = self.session.cluster
            report = replace(report, cluster=cluster_map(before_growth(self.before, after), after))
        return with_most_placements(report, max_listed)


def is_roomy(fewest_nodes: int, infos: Sequence[PodInfo]) -> bool:
    """Return whether every pod gets a node, whichever of equal nodes the scheduler draws for them.

    Each of the other pods can take one node away from a pod, so it gets one if at least as many nodes fit it as there
    are pods. That does not hold for pods of which one decides about many nodes, such as a zone.

    `fewest_nodes`: the least number of nodes that fitted one of the pods when it was tried. `infos`: the pods.
    """
    return len(infos) < 2 or (fewest_nodes >= len(infos) and not any(map(_looks_beyond_a_node, infos)))


def _looks_beyond_a_node(info: PodInfo) -> bool:
    spec = info.pod.spec
    return bool(
        info.affinity.required_affinity
        or info.affinity.required_anti_affinity
        or spec.resource_claims
        or any(spread.when_unsatisfiable == "DoNotSchedule" for spread in spec.topology_spread_constraints)
        or any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes)
        or group_of(info) is not None
    )
