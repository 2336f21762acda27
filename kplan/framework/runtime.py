"""Runs a profile's plugins at each extension point.

Upstream: pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kplan.config.model import Profile
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, first_rejectors, no_nodes_left
from kplan.framework.interface import (
    SUCCESS,
    ConstantScorePlugin,
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
    PreFilterResult,
    PreScorePlugin,
    PreScoreResult,
    QueueSortPlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
    Status,
    StatusCode,
)
from kplan.framework.outcomes import PluginError, PreFilterOutcome, ScoreOutcome, ScorePart
from kplan.framework.shape_cache import KeptScores, KeptVerdicts, ShapeEntry, is_uniform, shape_cache
from kplan.rules.pod_info import PodInfo


class Framework:
    """One profile, with its plugins in the order of their extension points."""

    def __init__(self, profile: Profile, plugins: Mapping[str, Plugin], handle: Handle) -> None:
        self.profile = profile
        self.handle = handle
        self.cluster = handle.cluster
        self._shapes = shape_cache()

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
        self._is_kept = {name: plugin.scope is not Scope.CLUSTER for name, plugin in plugins.items()}
        # Asked once: telling a protocol by looking at the methods of a plugin takes longer than many a score.
        self._normalizers = {name: each for name, each in plugins.items() if isinstance(each, NormalizeScorePlugin)}
        self._constants = {name: each for name, each in plugins.items() if isinstance(each, ConstantScorePlugin)}
        self._follows_pods = {name: plugin.scope is Scope.NODE for name, plugin in plugins.items()}

    def ignores_pods(self, name: str) -> bool:
        """Tell whether a plugin's verdicts are the same whichever pods run on a node."""
        return name in self._pod_blind

    # --- the pod as a whole -------------------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: PodInfo) -> Status:
        """Ask whether a pod may enter the queue; the first plugin that says no counts."""
        for plugin in self.pre_enqueue_plugins:
            status = plugin.pre_enqueue(pod)
            if not status.is_success:
                return Status(status.code, status.reasons, plugin.name)
        return SUCCESS

    def shape(self, pod: PodInfo) -> ShapeEntry:
        """Return what is kept for pods like this one."""
        return self._shapes.get(pod.shape, ShapeEntry)

    def run_pre_filter(self, cycle: CycleState, entry: ShapeEntry) -> PreFilterOutcome:
        """Run all PreFilter plugins.

        Raises
        ------
        PluginError
            When one of them fails.
        """
        outcome = self._run_open_pre_filters(cycle, entry)
        if outcome is not None:
            return outcome
        skipped: set[str] = set()
        named: set[str] = set()
        nodes: frozenset[str] | None = None
        rejected: Status | None = None
        for plugin in self.pre_filter_plugins:
            result = self._pre_filter(plugin, cycle, entry)
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
        entry.pre_filters.close(self.pre_filter_plugins)
        return PreFilterOutcome(rejected, nodes, frozenset(named), frozenset(skipped))

    def _run_open_pre_filters(self, cycle: CycleState, entry: ShapeEntry) -> PreFilterOutcome | None:
        """Ask only the plugins whose answer is not kept; None when that is not known, or one does more than skip."""
        kept = entry.pre_filters
        if kept.open is None:
            return None
        cycle.states.update(kept.all_states)
        skipped = kept.skipped
        for plugin in kept.open:
            result = plugin.pre_filter(cycle)
            if result is None:
                continue
            if not result.skip:
                cycle.states.clear()
                return None
            skipped |= {plugin.name}
        return PreFilterOutcome(skipped=skipped)

    def _pre_filter(self, plugin: PreFilterPlugin, cycle: CycleState, entry: ShapeEntry) -> PreFilterResult | None:
        name, kept = plugin.name, entry.pre_filters
        if name in kept.results:
            # Not before its turn: a plugin that is not reached has no state.
            cycle.states.update(kept.states[name])
            return kept.results[name]
        known = set(cycle.states)
        result = plugin.pre_filter(cycle)
        if self._is_kept[name] or (result is not None and result.skip and result.for_shape):
            kept.results[name] = result
            kept.states[name] = {kind: state for kind, state in cycle.states.items() if kind not in known}
        return result

    # --- filters ------------------------------------------------------------------------------------------------------

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
        kept = self._kept_verdicts(cycle, entry, skipped)
        passes = kept.passes
        verdicts: list[tuple[str, Verdicts]] = []
        for plugin in self.filter_plugins:
            name = plugin.name
            if name in skipped:
                continue
            verdict = kept.by_plugin.get(name)
            if verdict is None:
                verdict = plugin.filter(cycle, NodeView(self.cluster))
                passes = passes & (verdict.bits == 0)
            verdicts.append((name, verdict))
        return verdicts, passes

    def _kept_verdicts(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> KeptVerdicts:
        if entry.verdicts is not None:
            entry.verdicts.refresh(cycle, self.cluster)
            return entry.verdicts
        plugins = [each for each in self.filter_plugins if self._is_kept[each.name] and each.name not in skipped]
        everywhere = NodeView(self.cluster)
        by_plugin = {plugin.name: plugin.filter(cycle, everywhere) for plugin in plugins}
        following = [plugin for plugin in plugins if self._follows_pods[plugin.name]]
        lasting = np.ones(len(self.cluster), np.bool_)
        for plugin in plugins:
            if not self._follows_pods[plugin.name]:
                lasting &= by_plugin[plugin.name].bits == 0
        passes = lasting.copy()
        for plugin in following:
            passes &= by_plugin[plugin.name].bits == 0
        entry.verdicts = KeptVerdicts(by_plugin, following, lasting, passes, len(self.cluster.log))
        return entry.verdicts

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

    # --- scores -------------------------------------------------------------------------------------------------------

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
        skipped = self._run_pre_score(cycle, feasible, entry if entry is not None else ShapeEntry())
        if entry is None:
            outcome = ScoreOutcome(rows, np.zeros(len(rows), np.int64))
            to_ask: Sequence[tuple[int, ScorePlugin]] = list(enumerate(self.score_plugins))
            kept_raw: Mapping[str, Int64Array] = {}
        else:
            kept = self._kept_scores(cycle, entry, skipped)
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

    def _run_pre_score(self, cycle: CycleState, feasible: NodeView, entry: ShapeEntry) -> frozenset[str]:
        """Ask PreScore plugins, and return those whose score is left out."""
        cycle.states.update(entry.pre_score_states)
        skipped = entry.pre_score_skipped
        for plugin in self.pre_score_plugins if entry.open_pre_scores is None else entry.open_pre_scores:
            name = plugin.name
            known = set(cycle.states)
            result = plugin.pre_score(cycle, feasible)
            if isinstance(result, Status):
                raise PluginError(f'running PreScore plugin "{name}": {result.message}')
            if result is not None:
                skipped |= {name}
            if self._is_kept[name] or result is PreScoreResult.SKIP_SHAPE:
                entry.pre_score[name] = result
                more = {kind: state for kind, state in cycle.states.items() if kind not in known}
                entry.pre_score_states.update(more)
        if entry.open_pre_scores is None:
            entry.open_pre_scores = [each for each in self.pre_score_plugins if each.name not in entry.pre_score]
            entry.pre_score_skipped = frozenset(name for name, result in entry.pre_score.items() if result is not None)
        return skipped

    def _kept_scores(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> KeptScores:
        if entry.scores is not None:
            entry.scores.refresh(cycle, self.cluster)
            return entry.scores
        n_nodes = len(self.cluster)
        everywhere = NodeView(self.cluster)
        kept = KeptScores(self.weights, np.zeros(n_nodes, np.int64), len(self.cluster.log))
        for rank, plugin in enumerate(self.score_plugins):
            name = plugin.name
            constant = self._constants[name].constant_score(cycle) if name in self._constants else None
            if constant is not None and name not in skipped:
                final = self._uniform(cycle, name, np.full(n_nodes, constant, np.int64))
                assert final is not None  # noqa: S101 - all are the same
                kept.add(ScorePart(rank, name, self.weights[name], final, is_full=True), None)
                continue
            if not self._is_kept[name] or (name in self._normalizers and self._follows_pods[name]):
                kept.open.append((rank, plugin))
                continue
            if name in skipped:
                continue
            raw = plugin.score(cycle, everywhere)
            final = raw
            if name in self._normalizers:
                final = self._uniform(cycle, name, raw)
            if final is None:
                kept.raw[name] = raw
                kept.open.append((rank, plugin))
            else:
                part = ScorePart(rank, name, self.weights[name], final, is_full=True)
                kept.add(part, plugin if self._follows_pods[name] else None)
        entry.scores = kept
        return kept

    def _uniform(self, cycle: CycleState, name: str, raw: Int64Array) -> Int64Array | None:
        """Return normalized scores where all nodes have the same raw score, whichever of them are feasible."""
        if not is_uniform(raw):
            return None
        if name not in self._normalizers:
            return raw
        (value,) = self._normalizers[name].normalize_score(cycle, raw[:1].copy())
        return np.full(len(raw), value, np.int64)

    # --- after the choice, or without one -----------------------------------------------------------------------------

    def run_post_filter(self, cycle: CycleState, outcome: FilterOutcome) -> PostFilterResult:
        """Ask PostFilter plugins until one succeeds, errs or says that nothing helps."""
        reasons: list[str] = []
        rejector = ""
        found = PostFilterResult(SUCCESS)
        for plugin in self.post_filter_plugins:
            result = plugin.post_filter(cycle, outcome)
            status = Status(result.status.code, result.status.reasons, plugin.name)
            detail = result.detail if result.detail is not None else found.detail
            effects = found.effects + result.effects
            if status.is_success or not status.is_rejected or status.code is StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFilterResult(status, result.nominated_row, detail, effects)
            reasons += status.reasons
            rejector = rejector or plugin.name
            found.detail, found.effects = detail, effects
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
