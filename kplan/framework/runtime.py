"""Runs a profile's plugins at each extension point.

Upstream: pkg/scheduler/framework/runtime/framework.go.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from kplan.config.model import Profile
from kplan.engine.arrays import MAX_NODE_SCORE, BoolArray, RowArray
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework import interface as fwk
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, first_rejectors, no_nodes_left
from kplan.framework.plugin_cache import PluginCache, ShapeEntry
from kplan.framework.results import PluginError, PreFilterOutcome, ScoreOutcome
from kplan.rules.pod_info import PodInfo

WAITS = "one or more plugins asked to wait and no plugin rejected pod"


class Framework:
    """One profile, with its plugins in the order of their extension points."""

    def __init__(self, profile: Profile, plugins: Mapping[str, fwk.Plugin], handle: fwk.Handle) -> None:
        self.profile = profile
        self.handle = handle
        self.cluster = handle.cluster

        def at(point: str) -> list[fwk.Plugin]:
            return [plugins[ref.name] for ref in profile.plugins.get(point, ()) if ref.name in plugins]

        self.pre_enqueue_plugins = fwk.plugins_with(fwk.PreEnqueuePlugin, at("pre_enqueue"))
        self.queue_sort_plugins = fwk.plugins_with(fwk.QueueSortPlugin, at("queue_sort"))
        self.pre_filter_plugins = fwk.plugins_with(fwk.PreFilterPlugin, at("pre_filter"))
        self.filter_plugins = fwk.plugins_with(fwk.FilterPlugin, at("filter"))
        self._filters = [(plugin.name, plugin) for plugin in self.filter_plugins]
        #: the filters that look beyond a node
        self.cluster_filters = frozenset(one.name for one in self.filter_plugins if one.scope is fwk.Scope.CLUSTER)
        self.post_filter_plugins = fwk.plugins_with(fwk.PostFilterPlugin, at("post_filter"))
        self.group_post_filter_plugins = fwk.plugins_with(fwk.GroupPostFilterPlugin, at("post_filter"))
        self.pre_score_plugins = fwk.plugins_with(fwk.PreScorePlugin, at("pre_score"))
        self.score_plugins = fwk.plugins_with(fwk.ScorePlugin, at("score"))
        self.reserve_plugins = fwk.plugins_with(fwk.ReservePlugin, at("reserve"))
        self.permit_plugins = fwk.plugins_with(fwk.PermitPlugin, at("permit"))
        #: plugin -> whether an event may make a pod schedulable that it rejected
        self.queueing_hints = {
            plugin.name: plugin.queueing_hint for plugin in fwk.plugins_with(fwk.QueueingHintPlugin, plugins.values())
        }
        self.weights = {ref.name: ref.weight for ref in profile.plugins.get("score", ())}
        #: the plugins whose verdicts are the same whichever pods run on a node
        self.pod_blind = {
            name
            for name, plugin in plugins.items()
            if plugin.scope is fwk.Scope.NODE_OBJECT or getattr(plugin, "ignores_pods", False)
        }
        #: the names of out-of-tree plugins
        self.foreign_plugins = {name for name, plugin in plugins.items() if getattr(plugin, "is_out_of_tree", False)}
        self._cache = PluginCache(
            self.cluster,
            self.weights,
            pre_filters=self.pre_filter_plugins,
            filters=self.filter_plugins,
            pre_scores=self.pre_score_plugins,
            scores=self.score_plugins,
        )
        self.unshared = self._cache.unshared  #: the entry for pods whose results no other pod will use

    def shape(self, pod: PodInfo) -> ShapeEntry:
        """Return the cache entry of a pod's shape."""
        return self._cache.entry(pod)

    def forget_shapes(self) -> None:
        self._cache.forget()

    def run_pre_enqueue(self, pod: PodInfo) -> fwk.Status:
        for plugin in self.pre_enqueue_plugins:
            status = plugin.pre_enqueue(pod)
            if not status.is_success:
                return status.by(plugin.name)
        return fwk.SUCCESS

    def run_pre_filter(self, cycle: fwk.CycleState, entry: ShapeEntry) -> PreFilterOutcome:
        """Run all PreFilter plugins; raises PluginError when one of them fails."""
        outcome = self._cache.cached_pre_filters(cycle, entry)
        if outcome is not None:
            return outcome
        skipped: set[str] = set()
        named: set[str] = set()
        nodes: frozenset[str] | None = None
        rejected: fwk.Status | None = None
        # An unresolvable rejection ends the cycle at once, any other one after the last plugin (RunPreFilterPlugins).
        for plugin in self.pre_filter_plugins:
            result = self._cache.pre_filter(plugin, cycle, entry)
            if result is None:
                continue
            if result.skip:
                skipped.add(plugin.name)
                continue
            if result.status is not None and not result.status.is_success:
                status = result.status.by(plugin.name)
                if status.code is fwk.StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(status, skipped=frozenset(skipped))
                if status.code is not fwk.StatusCode.UNSCHEDULABLE:
                    raise PluginError(f'running PreFilter plugin "{plugin.name}": {status.message}')
                # Preemption may follow, and it runs filters, so the other plugins must prepare their state too.
                rejected = status
                continue
            if result.nodes is not None:
                named.add(plugin.name)
                nodes = result.nodes if nodes is None else nodes & result.nodes
                if not nodes:
                    return PreFilterOutcome(no_nodes_left(named), nodes, frozenset(named), frozenset(skipped))
        self._cache.finish_pre_filters(entry)
        return PreFilterOutcome(rejected, nodes, frozenset(named), frozenset(skipped))

    def run_filters(
        self, cycle: fwk.CycleState, nodes: NodeView, skipped: frozenset[str]
    ) -> list[tuple[str, Verdicts]]:
        """Run every filter on a view, also on nodes that an earlier filter rejects."""
        return [(name, plugin.filter(cycle, nodes)) for name, plugin in self._filters if name not in skipped]

    def filter_all(
        self, cycle: fwk.CycleState, entry: ShapeEntry, skipped: frozenset[str]
    ) -> tuple[list[tuple[str, Verdicts]], BoolArray]:
        """Run every filter on all nodes, with the cached verdicts of the pod's shape.

        Returns the verdicts of each plugin, in order, and which nodes pass, bool of shape (n_nodes,).
        """
        known, passes = self._cache.verdicts(cycle, entry, skipped)
        verdicts: list[tuple[str, Verdicts]] = []
        everywhere = NodeView(self.cluster)
        for name, plugin in self._filters:
            if name in skipped:
                continue
            verdict = known.get(name)
            if verdict is None:
                verdict = plugin.filter(cycle, everywhere)
                if verdict.reasons:  # else it rejects nothing
                    passes = passes & (verdict.bits == 0)
            verdicts.append((name, verdict))
        return verdicts, passes

    def statuses(
        self, cycle: fwk.CycleState, rows: RowArray, skipped: frozenset[str], delta: PodDelta | None = None
    ) -> list[NodeStatus | None]:
        """Run the filters on some nodes, each with its own pods changed; return their statuses (None: passes)."""
        verdicts = self.run_filters(cycle, NodeView(self.cluster, rows, delta), skipped)
        if len(rows) == 1:
            return [next((NodeStatus.of(name, verdict, 0) for name, verdict in verdicts if verdict.bits[0]), None)]
        first = first_rejectors(verdicts, len(rows))
        return [
            None if index < 0 else NodeStatus.of(verdicts[index][0], verdicts[index][1], position)
            for position, index in enumerate(first.tolist())
        ]

    def nominated_changes(self, cycle: fwk.CycleState, rows: RowArray) -> PodDelta | None:
        """Return the nominated pods of equal or higher priority, which count as running in the first filter pass.

        Upstream: addGENominatedPods. Positions are those of `rows`; None when there are no such pods.
        """
        nominator = self.handle.nominator
        if not nominator:
            return None
        infos = self.cluster.pods.infos
        nominated_rows = set(nominator.rows())
        changes = [
            (position, pod, 1)
            for position, row in enumerate(rows.tolist())
            if row in nominated_rows
            for pod in nominator.pods_for(row)
            if infos[pod].priority >= cycle.pod.priority
            and pod not in nominator.in_cycle
            and infos[pod] is not cycle.pod
            and (not cycle.pod.uid or infos[pod].uid != cycle.pod.uid)  # pods that are in no API server have no UID
        ]
        return PodDelta.of(changes) if changes else None

    def nominated_rejections(self, cycle: fwk.CycleState, skipped: frozenset[str]) -> dict[int, NodeStatus]:
        """Return the nodes that are rejected once the pods nominated to them count as running, with their status."""
        nominated_rows = np.asarray(self.handle.nominator.rows(), np.intp)
        delta = self.nominated_changes(cycle, nominated_rows)
        if delta is None:
            return {}
        touched = np.unique(delta.positions)
        narrowed = PodDelta(np.searchsorted(touched, delta.positions), delta.pods, delta.signs)
        rows = nominated_rows[touched]
        statuses = self.statuses(cycle, rows, skipped, narrowed)
        return {int(row): status for row, status in zip(rows, statuses, strict=True) if status is not None}

    def run_scores(self, cycle: fwk.CycleState, rows: RowArray, entry: ShapeEntry) -> ScoreOutcome:
        """Score the feasible nodes, ascending, with the entry of the pod's shape, `unshared` to cache nothing.

        Raises PluginError when a plugin fails.
        """
        everywhere = NodeView(self.cluster)
        feasible = everywhere if len(rows) == len(self.cluster) else NodeView(self.cluster, rows)
        is_crowd = feasible is not everywhere and len(rows) * 2 > len(self.cluster)
        skipped = self._cache.pre_score(cycle, feasible, entry)
        cached = self._cache.scores(cycle, entry, skipped)
        outcome = ScoreOutcome(rows, feasible.take(cached.total), cached.parts.copy())
        for scorer in cached.per_cycle:
            if scorer.name in skipped:
                continue
            constant = self._cache.constant_part(cycle, scorer)
            if constant is None and is_crowd and scorer.normalizer is None and scorer.scope is fwk.Scope.NODE:
                # To score all nodes costs less than to pick the columns of most: a row depends on itself alone.
                scores = scorer.plugin.score(cycle, everywhere)
                outcome.parts.append(scorer.part(scores, is_full=True))
                outcome.total = outcome.total + feasible.take(scorer.weighted(scores))
            elif constant is None:
                scores = scorer.scores(cycle, feasible, cached.raw.get(scorer.name))
                outcome.parts.append(scorer.part(scores, is_full=False))
                outcome.total = outcome.total + scorer.weighted(scores)
            else:
                outcome.parts.append(constant[0])
                outcome.total = outcome.total + scorer.weight * constant[1]
        if self.foreign_plugins:
            self._check_scores(outcome)
        return outcome

    def _check_scores(self, outcome: ScoreOutcome) -> None:
        """Raise PluginError for a score below 0 or above 100; plugins of kplan have none."""
        for part in outcome.parts:
            if part.name not in self.foreign_plugins:
                continue
            scores = part.scores[outcome.rows] if part.is_full else part.scores
            wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)]
            if len(wrong):
                text = f'plugin "{part.name}" returns an invalid score {wrong[0]}, it should in the range of [0, 100]'
                raise PluginError(f"applying score defaultWeights on Score plugins: {text} after normalizing")

    def run_post_filter(self, cycle: fwk.CycleState, outcome: FilterOutcome) -> fwk.PostFilterResult:
        """Run PostFilter plugins until one succeeds, fails or finds the pod unresolvable."""
        reasons: list[str] = []
        rejector = ""
        combined = fwk.PostFilterResult(fwk.SUCCESS)
        for plugin in self.post_filter_plugins:
            result = plugin.post_filter(cycle, outcome)
            status = result.status.by(plugin.name)
            findings = result.findings if result.findings is not None else combined.findings
            effects = combined.effects + result.effects
            if (
                status.is_success
                or not status.is_rejected
                or status.code is fwk.StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE
            ):
                return replace(result, status=status, findings=findings, effects=effects)
            reasons += status.reasons
            rejector = rejector or plugin.name
            combined.findings, combined.effects = findings, effects
        combined.status = fwk.Status(fwk.StatusCode.UNSCHEDULABLE, tuple(reasons), rejector)
        return combined

    def run_reserve(self, cycle: fwk.CycleState, row: int) -> fwk.Status:
        """Run the Reserve plugins for the chosen node; on failure all of them release what they reserved."""
        for plugin in self.reserve_plugins:
            status = plugin.reserve(cycle, row)
            if not status.is_success:
                self.run_unreserve(cycle, row)
                if status.is_rejected:
                    return status.by(plugin.name)
                return fwk.Status.error(f'running Reserve plugin "{plugin.name}": {status.message}')
        return fwk.SUCCESS

    def run_unreserve(self, cycle: fwk.CycleState, row: int) -> None:
        for plugin in reversed(self.reserve_plugins):
            plugin.unreserve(cycle, row)

    def run_permit(self, cycle: fwk.CycleState, row: int) -> fwk.Status:
        """Run the Permit plugins for the chosen node; after one that lets the pod wait, the others are still asked."""
        waiting: fwk.Status | None = None
        for plugin in self.permit_plugins:
            status = plugin.permit(cycle, row)
            if status.is_wait:
                waiting = status
                continue
            if status.is_rejected:
                return status.by(plugin.name)
            if not status.is_success:
                return fwk.Status.error(f'running Permit plugin "{plugin.name}": {status.message}')
        return fwk.SUCCESS if waiting is None else fwk.Status(waiting.code, (*waiting.reasons, WAITS))
