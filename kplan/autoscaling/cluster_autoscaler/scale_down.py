"""Which nodes are not needed, and which of them go now.

Upstream: cluster-autoscaler core/scaledown/planner/planner.go, eligibility/, unneeded/, unremovable/,
simulator/cluster.go, processors/nodes/, processors/scaledowncandidates/; core/scaledown/budgets/budgets.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from kplan.api.affinity import NO_SCHEDULE, Taint
from kplan.api.core import Node
from kplan.api.labels import DELETION_CANDIDATE, TO_BE_DELETED
from kplan.api.quantity import grouped
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, Quotas
from kplan.autoscaling.cluster_autoscaler.nodes import Utilization, is_being_deleted, is_ready, taint_time, utilization
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.pods import Drainability, PodsToMove, RemainingBudgets, bound, without_tpus
from kplan.autoscaling.cluster_autoscaler.scratch import Placer, Scratch
from kplan.autoscaling.seam import reason_to_stay
from kplan.documents.nodes import KeptNode
from kplan.engine.arrays import BoolArray

RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
NOT_UNDERUTILIZED = "NotUnderutilized"


class Removable(msgspec.Struct):
    """A node that is not needed."""

    node: Node
    move: PodsToMove
    placements: dict[str, str]  #: pod -> the node where it finds a place, NAMESPACE/NAME
    since: int = 0
    is_risky: bool = False  #: a budget does not allow all its pods to leave at once


class Planner:
    """Finds nodes that are not needed, and remembers from loop to loop since when."""

    def __init__(self, groups: Sequence[NodeGroup], group_of: Mapping[str, NodeGroup], options: Options) -> None:
        self._groups, self._group_of, self._options = groups, group_of, options
        self._placer = Placer()
        self.unneeded: dict[str, Removable] = {}
        self.stays: dict[str, KeptNode] = {}  #: why nodes cannot be removed
        self.utilization: dict[str, Utilization] = {}
        self._recheck_at: dict[str, int] = {}
        self._previous: frozenset[str] = frozenset()
        self._held: dict[str, int] = {}  # group -> when its nodes are looked at again, microseconds since 1970
        self._now = 0
        self._latest: int | None = None
        self._shortest = max(options.scale_down_unneeded_time, 1)
        self.changed_at = 0  #: when something happened last, in a cluster in motion
        self.trusts_marks = False  #: nodes are unneeded since the autoscaler marked them, not since the first loop

    @property
    def rechecks(self) -> list[int]:
        """When nodes are looked at again that were held, or found to stay before something happened."""
        oldest = self.changed_at + self._options.unremovable_node_recheck_timeout
        return [*self._held.values(), *(at for at in self._recheck_at.values() if at < oldest)]

    def candidates(self, scratch: Scratch, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes of groups that may shrink: empty ones first, then those of the last loop."""
        rules = Drainability(self._options, None, RemainingBudgets(), self._now)
        own = [(node, self._group_of.get(node.metadata.name)) for node in nodes]
        may_shrink = {group.name for group in self._groups if group.target > group.least}
        may_shrink -= {name for name, until in self._held.items() if until > self._now}
        candidates = [node for node, group in own if group is not None and group.name in may_shrink]

        def rank(node: Node) -> tuple[bool, bool, bool]:
            row = scratch.cluster.nodes.row_of.get(node.metadata.name)
            move = rules.pods_to_move(scratch.pods_on(row)) if row is not None else None
            is_empty = move is not None and move.blocked is None and not move.pods
            waits = is_empty and move is not None and bool(move.waiting)
            return not is_empty, waits, node.metadata.name not in self._previous

        return sorted(candidates, key=rank)

    def hold(self, group: NodeGroup, until: int) -> None:
        """Look at no node of a group until then, where delays are of groups; ScaleDownCandidatesDelayProcessor."""
        if self._options.scale_down_delay_type_local:
            self._held[group.name] = max(until, self._held.get(group.name, until))

    def update(self, scratch: Scratch, nodes: Sequence[Node], rules: Drainability) -> list[Node]:
        """Look which nodes are not needed; return the candidates. UpdateClusterState."""
        self._now = rules.now
        if self._latest is not None:
            self._shortest = min(self._shortest, self._now - self._latest)
        self._latest = self._now
        candidates = self.candidates(scratch, nodes)
        mark = scratch.mark()
        removable = self._removable(scratch, nodes, self._eligible(scratch, candidates), rules)
        scratch.undo(mark)
        for known in removable:
            held = self.unneeded.get(known.node.metadata.name)
            # Of one that was needed in the last loop its mark says since when, if that counts.
            marked = taint_time(known.node, DELETION_CANDIDATE) if self.trusts_marks else None
            since = self._now if marked is None else min(marked, self._now)
            known.since = since if held is None else held.since
        self.unneeded = {known.node.metadata.name: known for known in removable}
        self._placer.drop_old()
        self._previous = frozenset(self.unneeded)
        return candidates

    def _eligible(self, scratch: Scratch, candidates: Iterable[Node]) -> list[Node]:
        """Return those that are used little enough, and note why the others stay; FilterOutUnremovable."""
        row_of = scratch.cluster.nodes.row_of
        self._recheck_at = {name: at for name, at in self._recheck_at.items() if at > self._now and name in row_of}
        self.stays, self.utilization = {}, {}
        eligible = []
        for node in candidates:
            reason = self._why_not_looked_at(scratch, node) or self._why_used(scratch, node)
            if reason:
                self._note(node, reason)
            else:
                eligible.append(node)
        return eligible

    def _removable(
        self, scratch: Scratch, nodes: Sequence[Node], eligible: Sequence[Node], rules: Drainability
    ) -> list[Removable]:
        """Return the nodes whose pods find places, one after the other, as many as are of use."""
        row_of = scratch.cluster.nodes.row_of
        destinations = scratch.only(row_of[node.metadata.name] for node in nodes if node.metadata.name in row_of)
        # How many unneeded nodes are enough; unneededNodesLimit.
        n, interval = self._options.max_scale_down_parallelism, max(self._shortest, 1)
        n_loops = max(self._options.scale_down_unneeded_time, interval) // interval
        limit = min(len(self.unneeded) + n + n, n * n_loops + n)
        removable: list[Removable] = []
        n_atomic = 0
        for node in eligible:
            if len(removable) - n_atomic >= limit:
                break
            outcome = self._simulate(scratch, node, destinations, rules)
            if isinstance(outcome, KeptNode):
                self._recheck_at[node.metadata.name] = self._now + self._options.unremovable_node_recheck_timeout
                self.stays[node.metadata.name] = outcome
                continue
            outcome.is_risky = not rules.budgets.allow_together(outcome.move.pods)
            rules.budgets.take(outcome.move.pods)
            destinations[row_of[node.metadata.name]] = False
            removable.append(outcome)
            n_atomic += self._group_of[node.metadata.name].is_atomic
        return removable

    def _why_not_looked_at(self, scratch: Scratch, node: Node) -> str:
        if node.metadata.name not in scratch.cluster.nodes.row_of:
            return "UnexpectedError"
        if node.metadata.name in self._recheck_at:
            return RECENTLY_UNREMOVABLE
        if is_being_deleted(node, self._now):
            return "CurrentlyBeingDeleted"
        return "ScaleDownDisabledAnnotation" if _is_disabled(node) else ""

    def _why_used(self, scratch: Scratch, node: Node) -> str:
        """Return why a node is used too much, or how much cannot be told; empty if it is used little enough."""
        name, options = node.metadata.name, self._options
        row, own = scratch.row(name), self._group_of[name].options
        ignores, infos = own.ignore_daemonsets_utilization, scratch.infos_on(row)
        used = utilization(scratch.node(row), infos, options, self._now, ignores_daemons=ignores)
        if used is None:
            return "UnexpectedError"
        if not options.scale_down_unready_enabled and not is_ready(scratch.node(row)):
            return "ScaleDownUnreadyDisabled"
        self.utilization[name] = used
        threshold = own.scale_down_gpu_utilization_threshold if used.is_gpu else own.scale_down_utilization_threshold
        return NOT_UNDERUTILIZED if used.share > threshold else ""

    def _simulate(
        self, scratch: Scratch, node: Node, destinations: BoolArray, rules: Drainability
    ) -> Removable | KeptNode:
        """Try to move the pods of a node elsewhere; where that works, they stay there. SimulateNodeRemoval."""
        row = scratch.row(node.metadata.name)
        move = rules.pods_to_move(scratch.pods_on(row))
        if move.blocked is not None:
            return move.blocked
        mark = scratch.mark()
        allowed = destinations.copy()
        allowed[row] = False
        for pod in reversed(scratch.cluster.pods_on[row].copy()):
            scratch.unbind(pod)
        # The node stays as an empty ghost while its pods are placed: it still forms topology domains.
        pods = [bound(without_tpus(pod), "") for pod in move.pods]
        ghost = Taint(key=TO_BE_DELETED, value=str(self._now // 1_000_000), effect=NO_SCHEDULE)
        with scratch.tainted(row, ghost, pods):
            placed = self._placer.place(scratch, pods, allowed, all_or_none=True)
        if len(placed) < len(pods):
            scratch.undo(mark)
            return reason_to_stay("NoPlaceToMovePods")
        scratch.remove_node(row)
        placements = {pod.metadata.key: scratch.name(there) for pod, there in placed}
        return Removable(scratch.node(row), move, placements)

    def nodes_to_delete(self, scratch: Scratch) -> list[Removable]:
        """Return the nodes that go now: those without pods to move, and those that are drained first; NodesToDelete."""
        nodes = [scratch.node(row) for row in scratch.order]
        present = frozenset(node.metadata.name for node in nodes)
        quotas = Quotas(self._options, nodes, self._group_of, is_min=True)
        sizes = {group.name: group.target for group in self._groups}
        ready: list[Removable] = []
        for removable in sorted(self.unneeded.values(), key=_is_drained):
            reason = self._reason_to_wait(removable, sizes, quotas)
            if reason is not None:
                self._note(removable.node, reason)
            else:
                ready.append(removable)
        ready.sort(key=lambda removable: _is_drained(removable) and removable.is_risky)
        # Groups that go as a whole stay where not all of their nodes may go; FilterUnremovableNodes.
        chosen = [known for known in ready if not self._group_of[known.node.metadata.name].is_atomic]
        for members in self._by_group(ready, are_atomic=True):
            if _is_whole(self._group_of[members[0].node.metadata.name], len(members), present):
                chosen += members
            else:
                for known in members:
                    self._note(known.node, "AtomicScaleDownFailed")
        for removable in chosen:
            if removable.move.waiting:
                self._note(removable.node, "BlockedByOnCompletionPod")
        return self._cropped([removable for removable in chosen if not removable.move.waiting], present)

    def _reason_to_wait(self, removable: Removable, sizes: dict[str, int], quotas: Quotas) -> str | None:
        node = removable.node
        group = self._group_of[node.metadata.name]
        if _is_disabled(node):
            return "ScaleDownDisabledAnnotation"
        ready = is_ready(node)
        wait = group.options.scale_down_unneeded_time if ready else group.options.scale_down_unready_time
        if wait > 0 and removable.since + wait >= self._now:
            return "NotUnneededLongEnough" if ready else "NotUnreadyLongEnough"
        if sizes[group.name] <= group.least:
            return "NodeGroupMinSizeReached"
        if quotas.consume(node, group, 1).exceeded:
            return "MinimalResourceLimitExceeded"
        sizes[group.name] -= 1
        return None

    def _cropped(self, leaving: Sequence[Removable], present: frozenset[str]) -> list[Removable]:
        """Return as many of some nodes as may go at once, of all that are present, empty ones first; CropNodes."""
        leaving = sorted(leaving, key=_is_drained)
        n_left, n_drains = self._options.max_scale_down_parallelism, self._options.max_drain_parallelism
        may_overflow = True  # one group that goes as a whole may exceed what may be deleted, and drained, at once
        chosen: list[Removable] = []
        whole = self._by_group(leaving, are_atomic=True)
        for begins_drained in (False, True):
            for members in whole:
                if _is_drained(members[0]) is not begins_drained:
                    continue
                n_drained = sum(map(_is_drained, members))
                exceeds = n_left < len(members) or n_drains < n_drained
                is_used_up = n_left == 0 or (n_drained and n_drains == 0)
                if exceeds and (is_used_up or not may_overflow):
                    break
                if _is_whole(self._group_of[members[0].node.metadata.name], len(members), present):
                    chosen += members
                    n_left -= len(members)
                    n_drains -= n_drained
                    may_overflow = False
            n_drains = min(n_left, n_drains)
        # Of the other groups as many nodes as the budgets let go.
        for is_drained in (False, True):
            alike = [one for one in leaving if _is_drained(one) is is_drained]
            single = list(chain.from_iterable(self._by_group(alike, are_atomic=False)))
            single = single[: max(min(n_left, n_drains) if is_drained else n_left, 0)]
            n_left -= len(single)
            chosen += single
        return sorted(chosen, key=_is_drained)

    def _by_group(self, nodes: Iterable[Removable], *, are_atomic: bool) -> Iterable[list[Removable]]:
        """Return the nodes of each group that goes as a whole, or of each other one."""
        own = ((self._group_of[one.node.metadata.name], one) for one in nodes)
        return grouped((group.name, one) for group, one in own if group.is_atomic is are_atomic).values()

    def _note(self, node: Node, reason: str) -> None:
        self.stays[node.metadata.name] = reason_to_stay(reason)


def _is_disabled(node: Node) -> bool:
    return node.metadata.annotations.scale_down_disabled == "true"


def _is_drained(removable: Removable) -> bool:
    """Return whether pods have to be moved before the node goes."""
    return bool(removable.move.pods)


def _is_whole(group: NodeGroup, n_nodes: int, present: frozenset[str]) -> bool:
    return n_nodes in (group.target, sum(name in present for name in group.nodes))
