"""Runs a profile's plugins at each extension point.

Upstream: pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kplan.config.model import Profile
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.pod_info import PodInfo
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, first_rejectors
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
from kplan.framework.shape_cache import ShapeCache, ShapeEntry

__all__ = ["FilterOutcome", "Framework", "PluginError", "PreFilterOutcome", "ScoreOutcome", "ScorePart"]

_REFRESH_SHARE = 4
"""When more than one node in four changed, all rows are computed anew: cheaper than picking them out."""


class PluginError(Exception):
    """A plugin could not tell; ends the cycle with the text that kube-scheduler would report."""


@dataclass(frozen=True)
class PreFilterOutcome:
    """What all PreFilter plugins said together.

    Attributes
    ----------
    status : a rejection of the pod, or None
    nodes : the only nodes left, or None for all
    plugins_with_nodes : plugins that named nodes
    skipped : plugins whose filter is left out
    """

    status: Status | None = None
    nodes: frozenset[str] | None = None
    plugins_with_nodes: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ScorePart:
    """One plugin's scores: normalized, not yet weighted.

    Attributes
    ----------
    scores : int64 array, over the feasible nodes or, with `is_full`, over all nodes
    """

    name: str
    weight: int
    scores: Int64Array
    is_full: bool


@dataclass
class ScoreOutcome:
    """Scores of the feasible nodes; valid until the cluster changes.

    Attributes
    ----------
    rows : feasible node rows, ascending
    total : int64 array over `rows`
    parts : each plugin's share
    """

    rows: RowArray
    total: Int64Array
    parts: list[ScorePart] = field(default_factory=list)

    def plugins_at(self, position: int) -> dict[str, int]:
        """Return the weighted score of every plugin for one feasible node."""
        row = int(self.rows[position])
        return {
            part.name: int(part.scores[row if part.is_full else position]) * part.weight for part in self.parts
        }


class Framework:
    """One profile, with its plugins in the order of their extension points."""

    def __init__(self, profile: Profile, plugins: Mapping[str, Plugin], handle: Handle) -> None:
        self.profile = profile
        self.handle = handle
        self.cluster = handle.cluster
        self._shapes = ShapeCache()

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
        self._normalizes = frozenset(name for name, each in plugins.items() if isinstance(each, NormalizeScorePlugin))
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
        return self._shapes.entry(pod.shape)

    def run_pre_filter(self, cycle: CycleState, entry: ShapeEntry) -> PreFilterOutcome:
        """Run all PreFilter plugins.

        Raises
        ------
        PluginError
            When one of them fails.
        """
        cycle.states.update(entry.states)
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
                    return PreFilterOutcome(_no_nodes_left(named), nodes, frozenset(named), frozenset(skipped))
        return PreFilterOutcome(rejected, nodes, frozenset(named), frozenset(skipped))

    def _pre_filter(self, plugin: PreFilterPlugin, cycle: CycleState, entry: ShapeEntry) -> PreFilterResult | None:
        name = plugin.name
        if name in entry.pre_filter:
            # Not before its turn: a plugin that is not reached has no state.
            cycle.states.update(entry.pre_filter_states[name])
            return entry.pre_filter[name]
        known = set(cycle.states)
        result = plugin.pre_filter(cycle)
        if self._is_kept[name] or (result is not None and result.skip and result.for_shape):
            entry.pre_filter[name] = result
            entry.pre_filter_states[name] = {
                kind: state for kind, state in cycle.states.items() if kind not in known
            }
        return result

    # --- filters ------------------------------------------------------------------------------------------------------

    def run_filters(
        self, cycle: CycleState, nodes: NodeView, skipped: frozenset[str]
    ) -> list[tuple[str, Verdicts]]:
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
        self._refresh_verdicts(cycle, entry, skipped)
        kept = entry.verdicts or {}
        everywhere = NodeView(self.cluster)
        passes = entry.passes
        verdicts: list[tuple[str, Verdicts]] = []
        for plugin in self.filter_plugins:
            if plugin.name in skipped:
                continue
            verdict = kept.get(plugin.name)
            if verdict is None:
                verdict = plugin.filter(cycle, everywhere)
                passes = passes & (verdict.bits == 0)
            verdicts.append((plugin.name, verdict))
        return verdicts, passes

    def _refresh_verdicts(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> None:
        n_nodes = len(self.cluster)
        changed: RowArray | None = None
        if entry.verdicts is not None:
            if entry.filter_position == len(self.cluster.log):
                return
            changed = self.cluster.changed_rows(entry.filter_position)
            if len(changed) * _REFRESH_SHARE > n_nodes:
                changed = None
        first_time = entry.verdicts is None
        kept = entry.verdicts = entry.verdicts or {}
        entry.filter_position = len(self.cluster.log)
        view = NodeView(self.cluster, changed)
        for plugin in self.filter_plugins:
            name = plugin.name
            if name in skipped or not self._is_kept[name] or not (first_time or self._follows_pods[name]):
                continue
            verdict = plugin.filter(cycle, view)
            if changed is None:
                kept[name] = verdict
            else:
                kept[name].bits[changed] = verdict.bits
                if verdict.unresolvable is not None:
                    whole = kept[name].unresolvable
                    assert whole is not None  # noqa: S101 - a plugin answers in the same form for a shape
                    whole[changed] = verdict.unresolvable
        if changed is None:
            passes = np.ones(n_nodes, np.bool_)
            for verdict in kept.values():
                passes &= verdict.bits == 0
            entry.passes = passes
        else:
            now = np.ones(len(changed), np.bool_)
            for verdict in kept.values():
                now &= verdict.bits[changed] == 0
            entry.passes[changed] = now

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
        kept = entry if entry is not None else ShapeEntry()
        everywhere = len(rows) == len(self.cluster)
        feasible = NodeView(self.cluster, None if everywhere else rows)
        skipped = self._run_pre_score(cycle, feasible, kept)
        if entry is not None:
            self._refresh_scores(cycle, entry, skipped)
        total = np.zeros(len(rows), np.int64) if entry is None else feasible.take(entry.fixed_total)
        outcome = ScoreOutcome(rows, total)
        for plugin in self.score_plugins:
            name = plugin.name
            if name in skipped:
                continue
            weight = self.weights[name]
            raw = None if kept.raw is None else kept.raw.get(name)
            uniform = kept.uniform.get(name)
            if raw is not None and (uniform is not None or name not in self._normalizes):
                scores = raw if uniform is None else np.broadcast_to(np.int64(uniform), len(self.cluster))
                outcome.parts.append(ScorePart(name, weight, scores, is_full=True))
                continue
            scores = plugin.score(cycle, feasible) if raw is None else feasible.take(raw)
            if name in self._normalizes:
                scores = plugin.normalize_score(cycle, scores)
            outcome.parts.append(ScorePart(name, weight, scores, is_full=False))
            outcome.total = outcome.total + weight * scores
        return outcome

    def _run_pre_score(self, cycle: CycleState, feasible: NodeView, entry: ShapeEntry) -> set[str]:
        skipped: set[str] = set()
        for plugin in self.pre_score_plugins:
            name = plugin.name
            if name in entry.pre_score:
                result: PreScoreResult | Status | None = entry.pre_score[name]
            else:
                known = set(cycle.states)
                result = plugin.pre_score(cycle, feasible)
                if isinstance(result, Status):
                    raise PluginError(f'running PreScore plugin "{name}": {result.message}')
                if self._is_kept[name] or result is PreScoreResult.SKIP_SHAPE:
                    entry.pre_score[name] = result
                    entry.states.update({kind: state for kind, state in cycle.states.items() if kind not in known})
            if result is not None:
                skipped.add(name)
        return skipped

    def _refresh_scores(self, cycle: CycleState, entry: ShapeEntry, skipped: set[str]) -> None:
        changed: RowArray | None = None
        if entry.raw is not None:
            if entry.score_position == len(self.cluster.log):
                return
            changed = self.cluster.changed_rows(entry.score_position)
            if len(changed) * _REFRESH_SHARE > len(self.cluster):
                changed = None
        first_time = entry.raw is None
        kept = entry.raw = entry.raw if entry.raw is not None else {}
        entry.score_position = len(self.cluster.log)
        view = NodeView(self.cluster, changed)
        uniform_before = entry.uniform.copy()
        for plugin in self.score_plugins:
            name = plugin.name
            if name in skipped or not self._is_kept[name] or not (first_time or self._follows_pods[name]):
                continue
            raw = plugin.score(cycle, view)
            if changed is None:
                kept[name] = raw
            else:
                kept[name][changed] = raw
            if name in self._normalizes:
                whole = kept[name]
                is_uniform = len(whole) > 0 and bool((whole == whole[0]).all())
                entry.uniform[name] = int(plugin.normalize_score(cycle, whole[:1].copy())[0]) if is_uniform else None
        self._sum_fixed(entry, changed if uniform_before == entry.uniform else None)

    def _sum_fixed(self, entry: ShapeEntry, changed: RowArray | None) -> None:
        """Add up, for changed rows or all, the scores that are final as they stand."""
        assert entry.raw is not None  # noqa: S101 - just refreshed
        fixed = [name for name in entry.raw if entry.uniform.get(name) is not None or name not in entry.uniform]
        n = len(self.cluster) if changed is None else len(changed)
        total = np.zeros(n, np.int64)
        for name in fixed:
            uniform = entry.uniform.get(name)
            raw = entry.raw[name]
            scores = uniform if uniform is not None else (raw if changed is None else raw[changed])
            total += self.weights[name] * scores
        if changed is None:
            entry.fixed_total = total
        else:
            entry.fixed_total[changed] = total

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
            if status.is_success or not status.is_rejected or status.code is StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFilterResult(status, result.nominated_row, detail)
            reasons += status.reasons
            rejector = rejector or plugin.name
            found.detail = detail
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
            if not status.is_success:
                return Status(status.code, status.reasons, plugin.name)
        return SUCCESS


def _is_same(one: PodInfo, other: PodInfo) -> bool:
    """Tell whether two pods are one; pods that no API server has seen have no UID."""
    return one is other or bool(one.uid and one.uid == other.uid)


def _no_nodes_left(named: set[str]) -> Status:
    plugins = sorted(named)
    text = (
        f"node(s) didn't satisfy plugin {plugins[0]}"
        if len(plugins) == 1
        else f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
    )
    return Status.unresolvable(text)


def absent_status(named: frozenset[str]) -> NodeStatus:
    """Return the status of nodes that PreFilter did not name."""
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return NodeStatus(code, "", (Reason(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(named))}]", code),))
