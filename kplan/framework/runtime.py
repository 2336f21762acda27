"""Runs a profile's plugins at each extension point.

Upstream: pkg/scheduler/framework/runtime/framework.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kplan.config.model import Profile
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, first_rejectors, no_nodes_left
from kplan.framework.interface import (
    SUCCESS,
    CycleState,
    FilterPlugin,
    Handle,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
    Status,
    StatusCode,
)
from kplan.framework.keeper import Keeper
from kplan.framework.outcomes import PluginError, PreFilterOutcome, ScoreOutcome, ScorePart
from kplan.framework.shape_cache import ShapeEntry
from kplan.rules.pod_info import PodInfo


class Framework:
    """One profile, with its plugins in the order of their extension points."""

    def __init__(self, profile: Profile, plugins: Mapping[str, Plugin], handle: Handle) -> None:
        self.profile = profile
        self.handle = handle
        self.cluster = handle.cluster

        def at(point: str) -> list[Plugin]:
            return [plugins[ref.name] for ref in profile.plugins.get(point, ()) if ref.name in plugins]

        self.pre_enqueue_plugins = [each for each in at("pre_enqueue") if isinstance(each, PreEnqueuePlugin)]
        self.queue_sort_plugins = [each for each in at("queue_sort") if isinstance(each, QueueSortPlugin)]
        self.pre_filter_plugins = [each for each in at("pre_filter") if isinstance(each, PreFilterPlugin)]
        self.filter_plugins = [each for each in at("filter") if isinstance(each, FilterPlugin)]
        self.post_filter_plugins = [each for each in at("post_filter") if isinstance(each, PostFilterPlugin)]
        self.pre_score_plugins = [each for each in at("pre_score") if isinstance(each, PreScorePlugin)]
        self.score_plugins = [each for each in at("score") if isinstance(each, ScorePlugin)]
        self.reserve_plugins = [each for each in at("reserve") if isinstance(each, ReservePlugin)]
        self.permit_plugins = [each for each in at("permit") if isinstance(each, PermitPlugin)]
        self.weights = {ref.name: ref.weight for ref in profile.plugins.get("score", ())}
        self._pod_blind = {
            name
            for name, plugin in plugins.items()
            if plugin.scope is Scope.NODE_OBJECT or getattr(plugin, "ignores_pods", False)
        }
        # Asked once: telling a protocol by looking at the methods of a plugin takes longer than many a score.
        self._normalizers = {name: each for name, each in plugins.items() if isinstance(each, NormalizeScorePlugin)}
        self._keeper = Keeper(
            self.cluster,
            self.weights,
            pre_filters=self.pre_filter_plugins,
            filters=self.filter_plugins,
            pre_scores=self.pre_score_plugins,
            scores=self.score_plugins,
            normalizers=self._normalizers,
        )

    def ignores_pods(self, name: str) -> bool:
        """Tell whether a plugin's verdicts are the same whichever pods run on a node."""
        return name in self._pod_blind

    def run_pre_enqueue(self, pod: PodInfo) -> Status:
        """Ask whether a pod may enter the queue; the first plugin that says no counts."""
        for plugin in self.pre_enqueue_plugins:
            status = plugin.pre_enqueue(pod)
            if not status.is_success:
                return Status(status.code, status.reasons, plugin.name)
        return SUCCESS

    def forget_shapes(self) -> None:
        """Forget what is kept for pods: nodes are not what they were."""
        self._keeper.forget()

    def shape(self, pod: PodInfo) -> ShapeEntry:
        """Return what is kept for pods like this one."""
        return self._keeper.entry(pod)

    def run_pre_filter(self, cycle: CycleState, entry: ShapeEntry) -> PreFilterOutcome:
        """Run all PreFilter plugins; raises PluginError when one of them fails."""
        outcome = self._keeper.open_pre_filters(cycle, entry)
        if outcome is not None:
            return outcome
        skipped: set[str] = set()
        named: set[str] = set()
        nodes: frozenset[str] | None = None
        rejected: Status | None = None
        for plugin in self.pre_filter_plugins:
            result = self._keeper.pre_filter(plugin, cycle, entry)
            if result is None:
                continue
            if result.skip:
                skipped.add(plugin.name)
                continue
            if result.status is not None and not result.status.is_success:
                status = Status(result.status.code, result.status.reasons, plugin.name)
                if status.code is StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(status, skipped=frozenset(skipped))
                if status.code is not StatusCode.UNSCHEDULABLE:
                    raise PluginError(f'running PreFilter plugin "{plugin.name}": {status.message}')
                # Preemption may follow, and it runs filters: so the other plugins must get ready too.
                rejected = status
                continue
            if result.nodes is not None:
                named.add(plugin.name)
                nodes = result.nodes if nodes is None else nodes & result.nodes
                if not nodes:
                    return PreFilterOutcome(no_nodes_left(named), nodes, frozenset(named), frozenset(skipped))
        self._keeper.close_pre_filters(entry)
        return PreFilterOutcome(rejected, nodes, frozenset(named), frozenset(skipped))

    def run_filters(self, cycle: CycleState, nodes: NodeView, skipped: frozenset[str]) -> list[tuple[str, Verdicts]]:
        """Ask every filter about a view; all answer, whatever those before them said."""
        return [
            (plugin.name, plugin.filter(cycle, nodes)) for plugin in self.filter_plugins if plugin.name not in skipped
        ]

    def filter_all(
        self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]
    ) -> tuple[list[tuple[str, Verdicts]], BoolArray]:
        """Ask every filter about all nodes, with what is kept for the pod's shape.

        Returns
        -------
        verdicts : (plugin, verdicts) in order
        passes : bool array of shape (n_nodes,)
        """
        kept = self._keeper.verdicts(cycle, entry, skipped)
        passes = kept.passes
        verdicts: list[tuple[str, Verdicts]] = []
        everywhere = NodeView(self.cluster)
        for plugin in self.filter_plugins:
            name = plugin.name
            if name in skipped:
                continue
            verdict = kept.by_plugin.get(name)
            if verdict is None:
                verdict = plugin.filter(cycle, everywhere)
                passes = passes & (verdict.bits == 0)
            verdicts.append((name, verdict))
        return verdicts, passes

    def statuses(
        self, cycle: CycleState, rows: RowArray, skipped: frozenset[str], delta: PodDelta | None = None
    ) -> list[NodeStatus | None]:
        """Run the filters on some nodes, in their own worlds, and return each one's status (None: passes)."""
        verdicts = self.run_filters(cycle, NodeView(self.cluster, rows, delta), skipped)
        first = first_rejectors(verdicts, len(rows))
        found: list[NodeStatus | None] = []
        for position, index in enumerate(first):
            if index < 0:
                found.append(None)
                continue
            name, verdict = verdicts[index]
            found.append(NodeStatus(verdict.code_at(position), name, tuple(verdict.reasons_at(position)), position))
        return found

    def nominated_changes(self, cycle: CycleState, rows: RowArray) -> PodDelta | None:
        """Return the pods that count as running in the first filter pass: nominated, of equal or higher priority.

        Upstream: addGENominatedPods. Positions are those of `rows`; None when there are no such pods.
        """
        nominator = self.handle.nominator
        if not nominator:
            return None
        infos = self.cluster.pods.infos
        promised = set(nominator.rows())
        changes = [
            (position, pod, 1)
            for position, row in enumerate(rows.tolist())
            if row in promised
            for pod in nominator.pods_for(row)
            if infos[pod].priority >= cycle.pod.priority and not _is_same(infos[pod], cycle.pod)
        ]
        return PodDelta.of(changes) if changes else None

    def nominated_rejections(self, cycle: CycleState, skipped: frozenset[str]) -> dict[int, NodeStatus]:
        """Return nodes that fail once the pods nominated to them count as running."""
        promised = np.asarray(self.handle.nominator.rows(), np.intp)
        delta = self.nominated_changes(cycle, promised)
        if delta is None:
            return {}
        touched = np.unique(delta.positions)
        narrowed = PodDelta(np.searchsorted(touched, delta.positions), delta.pods, delta.signs)
        rows = promised[touched]
        statuses = self.statuses(cycle, rows, skipped, narrowed)
        return {int(row): status for row, status in zip(rows, statuses, strict=True) if status is not None}

    def run_scores(self, cycle: CycleState, rows: RowArray, entry: ShapeEntry | None) -> ScoreOutcome:
        """Score the feasible nodes.

        Parameters
        ----------
        rows : feasible node rows, ascending
        entry : what is kept for the pod's shape, or None to keep nothing

        Raises
        ------
        PluginError
            When a plugin fails.
        """
        everywhere = len(rows) == len(self.cluster)
        feasible = NodeView(self.cluster, None if everywhere else rows)
        skipped = self._keeper.pre_score(cycle, feasible, entry if entry is not None else ShapeEntry())
        if entry is None:
            outcome = ScoreOutcome(rows, np.zeros(len(rows), np.int64))
            to_ask: Sequence[tuple[int, ScorePlugin]] = list(enumerate(self.score_plugins))
            kept_raw: Mapping[str, Int64Array] = {}
        else:
            kept = self._keeper.scores(cycle, entry, skipped)
            outcome = ScoreOutcome(rows, feasible.take(kept.total), kept.parts.copy())
            to_ask, kept_raw = kept.open, kept.raw
        for rank, plugin in to_ask:
            name = plugin.name
            if name in skipped:
                continue
            scores = feasible.take(kept_raw[name]) if name in kept_raw else plugin.score(cycle, feasible)
            if name in self._normalizers:
                scores = self._normalizers[name].normalize_score(cycle, scores)
            outcome.parts.append(ScorePart(rank, name, self.weights[name], scores, is_full=False))
            outcome.total = outcome.total + self.weights[name] * scores
        return outcome

    def run_post_filter(self, cycle: CycleState, outcome: FilterOutcome) -> PostFilterResult:
        """Ask PostFilter plugins until one succeeds, errs or says that nothing helps."""
        reasons: list[str] = []
        rejector = ""
        found = PostFilterResult(SUCCESS)
        for plugin in self.post_filter_plugins:
            result = plugin.post_filter(cycle, outcome)
            status = Status(result.status.code, result.status.reasons, plugin.name)
            findings = result.findings if result.findings is not None else found.findings
            effects = found.effects + result.effects
            if status.is_success or not status.is_rejected or status.code is StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return replace(result, status=status, findings=findings, effects=effects)
            reasons += status.reasons
            rejector = rejector or plugin.name
            found.findings, found.effects = findings, effects
        found.status = Status(StatusCode.UNSCHEDULABLE, tuple(reasons), rejector)
        return found

    def run_reserve(self, cycle: CycleState, row: int) -> Status:
        """Reserve what the pod needs on its node; on failure all is given back."""
        for plugin in self.reserve_plugins:
            status = plugin.reserve(cycle, row)
            if not status.is_success:
                self.run_unreserve(cycle, row)
                if status.is_rejected:
                    return Status(status.code, status.reasons, plugin.name)
                return Status.error(f'running Reserve plugin "{plugin.name}": {status.message}')
        return SUCCESS

    def run_unreserve(self, cycle: CycleState, row: int) -> None:
        """Give back what was reserved, last plugin first."""
        for plugin in reversed(self.reserve_plugins):
            plugin.unreserve(cycle, row)

    def run_permit(self, cycle: CycleState, row: int) -> Status:
        """Ask for the last word before binding."""
        for plugin in self.permit_plugins:
            status = plugin.permit(cycle, row)
            if status.is_rejected:
                return Status(status.code, status.reasons, plugin.name)
            if not status.is_success:
                return Status.error(f'running Permit plugin "{plugin.name}": {status.message}')
        return SUCCESS


def _is_same(one: PodInfo, other: PodInfo) -> bool:
    """Tell whether two pods are one; pods that no API server has seen have no UID."""
    return one is other or bool(one.uid and one.uid == other.uid)
