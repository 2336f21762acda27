"""One loop of the cluster-autoscaler after the other: what it sees, what it adds, what it removes.

Upstream: cluster-autoscaler core/static_autoscaler.go RunOnce, core/podlistprocessor/.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import PREFER_NO_SCHEDULE
from kplan.api.core import Node, Pod
from kplan.api.labels import DELETION_CANDIDATE
from kplan.api.time import parse_duration
from kplan.autoscaling.cluster_autoscaler import scale_up
from kplan.autoscaling.cluster_autoscaler.expanders import Expanders
from kplan.autoscaling.cluster_autoscaler.finding import Setup
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, Quotas, groups_by_node
from kplan.autoscaling.cluster_autoscaler.nodes import (
    GPU_RESOURCES,
    LONG_AGO,
    Utilization,
    as_listed,
    has_taint,
    is_ready,
    is_to_be_deleted,
    marked,
)
from kplan.autoscaling.cluster_autoscaler.pods import (
    Drainability,
    RemainingBudgets,
    created,
    is_daemon,
    is_expendable,
    is_mirror,
    owners_of,
    placed_and_unschedulable,
    without_tpus,
)
from kplan.autoscaling.cluster_autoscaler.scale_down import Planner, Removable
from kplan.autoscaling.cluster_autoscaler.scratch import Cursor, Placer, Scratch
from kplan.autoscaling.cluster_autoscaler.state import ClusterState
from kplan.autoscaling.cluster_autoscaler.templates import Remembered, Template, TemplateMaker
from kplan.autoscaling.seam import PreparedCluster
from kplan.documents.nodes import KeptNode
from kplan.framework.listers import Listers
from kplan.snapshot.model import Snapshot


class Filtered(msgspec.Struct):
    """The pods that need no new node, by the step that found that out, and those that are left."""

    expendable: list[Pod] = []
    schedulable: list[Pod] = []
    daemons: list[Pod] = []
    to_help: list[Pod] = []
    placements: dict[str, str] = {}  #: pod -> the node that has room for it, NAMESPACE/NAME


class ScaleDown(msgspec.Struct):
    """What a scale-down came to."""

    result: str | None = None
    unneeded: dict[str, Removable] = {}
    stays: dict[str, KeptNode] = {}
    utilization: dict[str, Utilization] = {}
    deleted: dict[str, list[Pod]] = {}  #: node -> the pods that are evicted from it
    soft_tainted: list[str] = []
    soft_untainted: list[str] = []
    removed: list[Removable] = []


class LoopResult(msgspec.Struct):
    """What one loop came to."""

    at: float
    is_aborted: bool = False  #: it ended before anything was decided
    scale_ups: list[scale_up.ScaleUp] = []
    filtered: Filtered = msgspec.field(default_factory=Filtered)
    scale_down: ScaleDown = msgspec.field(default_factory=ScaleDown)
    events: list[tuple[str, str]] = []  #: (reason, text) about the whole cluster
    group_events: list[tuple[str, str]] = []  #: (reason, text) about single groups and machines
    targets: dict[str, int] = {}  #: group -> its target after the loop
    upcoming: dict[str, int] = {}
    registered_upcoming: dict[str, list[str]] = {}
    decreased: dict[str, int] = {}
    templates: dict[str, Template] = {}


_HOUR = 3_600_000_000
_BUFFER = 2_000_000
GPU_BUFFER = 30_000_000  #: it waits so long, in microseconds, for more pods when one that requests GPUs is new
_UNHEALTHY = "ClusterUnhealthy"


class Loops:
    """A running cluster-autoscaler, from the cluster on at which it looks first.

    It may remember templates for groups whose nodes are no good examples any more.
    """

    def __init__(self, cluster: PreparedCluster, setup: Setup, remembered: Remembered | None = None) -> None:
        self.groups = [replace(group) for group in setup.groups]  #: those of the set-up; their targets change
        self._setup, options = setup, setup.options
        self._options, self._release, self._start = options, cluster.session.config.release, cluster.now
        self._group_of: dict[str, NodeGroup] = {}
        self.see(cluster.snapshot)
        self._state = ClusterState(self.groups, options, cluster.now)
        self._templates = TemplateMaker(options, cluster.snapshot.daemon_sets, remembered)
        self.planner = Planner(self.groups, self._group_of, options)
        self._placer = Placer()
        self._cursor = Cursor()
        # When nodes came, went and could not be emptied last, in microseconds since 1970: as one that starts assumes.
        self._scaled_up_at = self._deleted_at = self._failed_at = cluster.now - _HOUR

    def see(self, snapshot: Snapshot) -> None:
        """Take the cluster as it is by now; the groups are up to date already."""
        self._snapshot, self._listers, self._owners = snapshot, Listers(snapshot), owners_of(snapshot)
        self._nodes, self._pods = list(snapshot.nodes), list(snapshot.pods)
        self._group_of.clear()
        self._group_of.update(groups_by_node(self.groups))

    def next_change(self, now: int) -> float:
        """Return when a wait is over, and a loop may decide otherwise: microseconds since 1970, or infinity."""
        times = []
        for name, known in self.planner.unneeded.items():
            group = self._group_of.get(name)
            if group is not None:
                own = group.options
                wait = own.scale_down_unneeded_time if is_ready(known.node) else own.scale_down_unready_time
                times.append(known.since + wait + 1)
        if times:
            times.append(self._cooldown_until)
        times += self.planner.rechecks
        return min((time for time in times if time > now), default=math.inf)

    def run(self, at: float, *, removes: bool = True) -> LoopResult:
        """Run one loop, `at` seconds after the start; RunOnce. It may leave out to look for nodes to remove."""
        now = self._now = self._start + int(at * 1_000_000)
        result = LoopResult(at)
        options = self._options
        nodes, ready = as_listed(self._nodes, options)
        if not options.scale_up_from_zero and not ready:
            result.events.append((_UNHEALTHY, "Cluster has no ready nodes." if nodes else "Cluster has no nodes."))
            result.is_aborted = True
            self.planner.unneeded = {}
            return result
        placed, unschedulable = placed_and_unschedulable(self._pods, nodes, options)
        result.templates = self._templates.templates(nodes, placed, self.groups, now)
        self._state.update(nodes, self._group_of, result.templates, now)
        self._state.remove_long_unregistered()
        is_healthy = self._state.is_healthy(len(nodes))
        if is_healthy:
            self._state.delete_failed()
        else:
            self.planner.unneeded = {}
            result.events.append((_UNHEALTHY, "Cluster is unhealthy"))
        if not is_healthy or self._state.fix_sizes():
            result.scale_ups.append(scale_up.ScaleUp("ScaleUpNotTried"))
            last = self.planner  # what it said in an earlier loop still stands
            result.scale_down = ScaleDown("ScaleDownNotTried", last.unneeded, last.stays, last.utilization)
            return self._finished(result)
        scratch, present = self._scratch(nodes, placed, unschedulable, result)
        to_help = self._process_pods(scratch, unschedulable, result)
        is_waiting = self._scale_up(scratch, to_help, len(ready), result)
        if options.scale_down_enabled and removes:
            self._scale_down(scratch, present, result, is_waiting=is_waiting)
        else:
            has_grown = result.scale_ups[-1].result == scale_up.SUCCESSFUL
            result.scale_down.result = "ScaleDownInCooldown" if has_grown else "ScaleDownNotTried"
        if options.enforce_node_group_min_size:
            outcome = self._orchestrator(scratch, result).scale_to_least()
            result.events += outcome.events
            if outcome.result == scale_up.SUCCESSFUL:
                self._note_growth(outcome)
            result.scale_ups = [done for done in result.scale_ups if done.result not in _UNTRIED] + [outcome]
        return self._finished(result)

    def _finished(self, result: LoopResult) -> LoopResult:
        result.upcoming = self._state.upcoming()
        result.group_events = self._state.events
        result.decreased = self._state.decreased
        result.targets = {group.name: group.target for group in self.groups}
        return result

    def _scratch(
        self, nodes: Sequence[Node], placed: Sequence[tuple[Pod, str]], pending: Sequence[Pod], result: LoopResult
    ) -> tuple[Scratch, list[Node]]:
        """Return the cluster with upcoming nodes, in place of those that have not started, and the other nodes."""
        upcoming = self._state.upcoming()
        registered = ((name, self._state.readiness(name).not_started) for name in upcoming)
        result.registered_upcoming = {name: names for name, names in registered if names}
        not_started = {name for names in result.registered_upcoming.values() for name in names}
        present = [node for node in nodes if node.metadata.name not in not_started]
        all_nodes = list(present)
        all_placed = [(pod, name) for pod, name in placed if name not in not_started]
        for group, count in upcoming.items():
            if (template := result.templates.get(group)) is None:
                continue  # nor does upstream know how its nodes would look
            for number in range(count):
                node, pods = template.node_named(f"template-node-for-{group}-{template.made_at}-upcoming-{number}")
                all_nodes.append(node)
                all_placed += [(pod, node.metadata.name) for pod in pods]
        scratch = Scratch.of(all_nodes, all_placed, pending, self._listers, self._release, cursor=self._cursor)
        return scratch, present

    def _process_pods(self, scratch: Scratch, pods: Sequence[Pod], result: LoopResult) -> list[Pod]:
        """Return the pods that need new nodes; the pod list processors, and filterOutYoungPods."""
        filtered = result.filtered
        filtered.expendable = [pod for pod in pods if is_expendable(pod, self._options)]
        wanted = [without_tpus(pod) for pod in pods if not is_expendable(pod, self._options)]
        wanted.sort(key=lambda pod: -(pod.spec.priority or 0))
        placed = self._placer.place(scratch, wanted)
        self._placer.drop_old()
        filtered.schedulable = [pod for pod, _ in placed]
        filtered.placements = {pod.metadata.key: scratch.name(row) for pod, row in placed}
        fits = {id(pod) for pod in filtered.schedulable}
        left = [pod for pod in wanted if id(pod) not in fits]
        filtered.daemons = [pod for pod in left if is_daemon(pod)]
        filtered.to_help = [pod for pod in left if not is_daemon(pod)]
        # Pods may ask for a longer delay than all have, in nanoseconds.
        own = ((pod, parse_duration(pod.metadata.annotations.scale_up_delay or "") or 0) for pod in filtered.to_help)
        least = self._options.new_pod_scale_up_delay
        return [pod for pod, delay in own if self._now - created(pod) > max(least, delay // 1000)]

    def _scale_up(self, scratch: Scratch, pods: Sequence[Pod], n_ready: int, result: LoopResult) -> bool:
        """Scale up for some pods, and return whether to wait for more of them first."""
        most = self._options.max_nodes_total
        if not pods:
            result.scale_ups.append(scale_up.ScaleUp("ScaleUpNotNeeded"))
        elif most > 0 and n_ready >= most:
            result.events.append(("MaxNodesTotalReached", scale_up.MAX_NODES_TOTAL.format(most)))
            unhelped = [scale_up.Unhelped(pod, {}, {}) for pod in pods]
            limited = scale_up.ScaleUp(scale_up.LIMITED, unhelped=unhelped)
            limited.could_help = lambda: {pod.metadata.key: ("",) for pod in pods}
            result.scale_ups.append(limited)
        elif not self._options.bypassed_scheduler_names and self._are_new(scratch, pods):
            result.scale_ups.append(scale_up.ScaleUp("ScaleUpInCooldown"))
            return True
        else:
            self._scale_up_in_turn(scratch, list(pods), result)
        return False

    def _are_new(self, scratch: Scratch, pods: Sequence[Pod]) -> bool:
        if min(map(created, pods)) + _BUFFER > self._now:
            return True
        of_gpus = [pod for pod in pods if any(name in scratch.info(pod).resources.requests for name in GPU_RESOURCES)]
        return bool(of_gpus) and min(map(created, of_gpus)) + GPU_BUFFER > self._now

    def _scale_up_in_turn(self, scratch: Scratch, pods: list[Pod], result: LoopResult) -> None:
        """Scale up once, or again and again for the pods that are left; runScaleUpSalvo."""
        for _ in range(len(pods)):
            outcome = self._orchestrator(scratch, result).scale_up(pods)
            result.scale_ups.append(outcome)
            result.events += outcome.events
            if outcome.result != scale_up.SUCCESSFUL:
                return
            self._note_growth(outcome)
            helped = {id(pod) for pod in outcome.triggered}
            pods = [pod for pod in pods if id(pod) not in helped]
            if not self._options.salvo_scale_up or not helped or not pods:
                return
            number, kinds = len(result.scale_ups) - 1, []
            for growth in outcome.growths:
                name, added = growth.group.name, range(growth.wanted - growth.current)
                names = [f"template-node-for-{name}-{index}-salvo-{number}" for index in added]
                kinds.append((result.templates[name], names))
            scratch, new = scratch.grown(kinds)
            scratch.add_new([node for kind in new for node in kind])
            rows = scratch.only(node.row for kind in new for node in kind)
            if len(Placer().place(scratch, outcome.triggered, rows, all_or_none=True)) < len(outcome.triggered):
                return

    def _orchestrator(self, scratch: Scratch, result: LoopResult) -> scale_up.Orchestrator:
        setup, n_nodes = self._setup, len(self._nodes)
        expanders = Expanders(result.templates, setup.priorities, setup.prices, n_nodes, self._now, scratch)
        quotas = Quotas(self._options, map(scratch.node, scratch.order), self._group_of, self._snapshot.capacity_quotas)
        return scale_up.Orchestrator(
            scratch, self.groups, self._state, self._options, expanders=expanders, quotas=quotas
        )

    def _scale_down(self, scratch: Scratch, nodes: Sequence[Node], result: LoopResult, *, is_waiting: bool) -> None:
        """Plan which nodes go, and let them go unless something else happened a short time ago."""
        outcome, planner, options = result.scale_down, self.planner, self._options
        budgets = RemainingBudgets(self._snapshot.pod_disruption_budgets)
        candidates = planner.update(scratch, nodes, Drainability(options, self._owners, budgets, self._now))
        outcome.utilization = planner.utilization
        in_cooldown = is_waiting or self._cooldown_until > self._now
        if in_cooldown or not candidates:
            outcome.result = "ScaleDownInCooldown" if in_cooldown else "ScaleDownNoCandidates"
        else:
            outcome.removed = planner.nodes_to_delete(scratch)
            outcome.result = "ScaleDownNodeDeleteStarted" if outcome.removed else "ScaleDownNoNodeDeleted"
            self._deleted_at = self._now if outcome.removed else self._deleted_at
        for removable in outcome.removed:
            name = removable.node.metadata.name
            pods = scratch.pods_on(scratch.row(name)) if removable.move.pods else ()
            outcome.deleted[name] = [pod for pod in pods if not is_mirror(pod) and not is_daemon(pod)]
            self._group_of[name].target -= 1
            planner.hold(self._group_of[name], self._now + options.scale_down_delay_after_delete)
        outcome.unneeded = planner.unneeded
        outcome.stays = planner.stays
        self._update_soft_taints(nodes, outcome)
        gone = outcome.deleted.keys()
        self._nodes = [node for node in self._nodes if node.metadata.name not in gone]
        self._pods = [pod for pod in self._pods if pod.spec.node_name not in gone or not pod.spec.node_name]
        for group in self.groups:
            group.nodes = tuple(name for name in group.nodes if name not in gone)
        if gone:
            self._state.recalculate()

    def note_failure(self, group: NodeGroup, now: int) -> None:
        """Note that a node of a group could not be emptied."""
        self._failed_at = now
        self.planner.hold(group, now + self._options.scale_down_delay_after_failure)

    def _note_growth(self, outcome: scale_up.ScaleUp) -> None:
        self._scaled_up_at = self._now
        for growth in outcome.growths:
            self.planner.hold(growth.group, self._now + self._options.scale_down_delay_after_add)

    @property
    def _cooldown_until(self) -> int:
        """When nodes may go again after nodes came, went or failed to go, in microseconds since 1970."""
        options = self._options
        if options.scale_down_delay_type_local:  # then single groups are held
            return LONG_AGO
        return max(
            self._scaled_up_at + options.scale_down_delay_after_add,
            self._deleted_at + options.scale_down_delay_after_delete,
            self._failed_at + options.scale_down_delay_after_failure,
        )

    def _update_soft_taints(self, nodes: Sequence[Node], outcome: ScaleDown) -> None:
        """Mark nodes that are not needed as such, within the budget of a loop; UpdateSoftDeletionTaints."""
        left = self._options.max_bulk_soft_taint_count
        changed: dict[str, Node] = {}
        for is_unneeded in (False, True):
            for node in nodes:
                name = node.metadata.name
                is_marked = has_taint(node, DELETION_CANDIDATE)
                if left <= 0 or name not in self._group_of or is_to_be_deleted(node):
                    continue
                if (name in outcome.unneeded) is not is_unneeded or is_marked is is_unneeded:
                    continue
                left -= 1
                if is_unneeded:
                    changed[name] = marked(node, DELETION_CANDIDATE, PREFER_NO_SCHEDULE, self._now)
                else:
                    others = tuple(taint for taint in node.spec.taints if taint.key != DELETION_CANDIDATE)
                    changed[name] = replace(node, spec=replace(node.spec, taints=others))
                (outcome.soft_tainted if is_unneeded else outcome.soft_untainted).append(name)
        self._nodes = [
            replace(node, spec=changed[node.metadata.name].spec) if node.metadata.name in changed else node
            for node in self._nodes
        ]


_UNTRIED = frozenset({"ScaleUpNotNeeded", scale_up.LIMITED, "ScaleUpInCooldown"})
