"""Which groups grow, by how much, and for which pods.

Upstream: cluster-autoscaler core/scaleup/orchestrator/orchestrator.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.quantity import count
from kplan.autoscaling.cluster_autoscaler.estimator import PodGroup, estimate
from kplan.autoscaling.cluster_autoscaler.expanders import Choice, Expanders, Option
from kplan.autoscaling.cluster_autoscaler.groups import ListedGroup, NodeGroup, Quotas, Skipped
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.pods import equivalence_groups
from kplan.autoscaling.cluster_autoscaler.scratch import Rejection, Scratch, wanted_by
from kplan.autoscaling.cluster_autoscaler.state import ClusterState
from kplan.autoscaling.cluster_autoscaler.templates import GroupGrowth, are_similar, balanced
from kplan.health.words import duration_text

_NOT_READY = "not ready for scale-up"
_UNHEALTHY = Skipped((_NOT_READY,), "too many of its nodes are missing or not ready")
_UNKNOWN = Skipped((_NOT_READY,), "nothing shows what a new node of it would be like")
_BACKED_OFF = ("in backoff after failed scale-up",)
MAX_NODES_TOTAL = "Max total nodes in cluster reached: {}"

SUCCESSFUL = "ScaleUpSuccessful"
FAILED = "ScaleUpError"
LIMITED = "ScaleUpLimitedByMaxNodesTotal"


class Unhelped(msgspec.Struct, frozen=True):
    """A pod that fits no new node of any group."""

    pod: Pod
    rejected: Mapping[str, tuple[str, ...]]  #: group -> the words of the scheduler
    skipped: Mapping[str, Skipped]  #: group -> why it does not grow at all

    @property
    def reason_counts(self) -> Counter[str]:
        skipped = (skipped.reasons for skipped in self.skipped.values())
        return Counter(reason for reasons in (*self.rejected.values(), *skipped) for reason in reasons)

    @property
    def event_text(self) -> str:
        """The words of the event about it; buildNoScaleUpText."""
        counts = sorted(self.reason_counts.items())
        return "pod didn't trigger scale-up: " + ", ".join(f"{count} {text}" for text, count in counts)


class ScaleUp(msgspec.Struct):
    """What a scale-up came to."""

    result: str
    error: str = ""
    growths: list[GroupGrowth] = []
    options: list[Option] = []
    choice: Choice | None = None
    triggered: list[Pod] = []
    awaiting: list[Pod] = []
    unhelped: list[Unhelped] = []
    #: returns NAMESPACE/NAME of such a pod -> the groups that would help it, if they might grow now; "" for all of them
    could_help: Callable[[], Mapping[str, Sequence[str]]] = dict
    events: list[tuple[str, str]] = []


class Orchestrator:
    """Scales up a cluster with all nodes that are there or will be, and what was placed on them."""

    def __init__(
        self,
        scratch: Scratch,
        groups: Sequence[NodeGroup],
        state: ClusterState,
        options: Options,
        *,
        expanders: Expanders,
        quotas: Quotas,
    ) -> None:
        self._scratch, self._groups, self._state, self._options = scratch, groups, state, options
        self._templates, self._expanders, self._quotas = expanders.templates, expanders, quotas

    def scale_up(self, pods: Sequence[Pod]) -> ScaleUp:
        listed = {group.name for group in self._groups if isinstance(group, ListedGroup)}
        for name in self._state.upcoming():
            if name not in self._templates and name not in listed:
                # Its nodes are awaited, though nothing shows what they will be like; UpcomingNodes.
                error = f"could not get upcoming nodes: failed to find template node for node group {name}"
                return ScaleUp(FAILED, error, unhelped=[Unhelped(pod, {}, {}) for pod in pods])
        alike = ((own, self._scratch.info(own[0])) for own in equivalence_groups(pods))
        pod_groups = [PodGroup(own, info, wanted_by(info.requests)) for own, info in alike]
        # Which groups may grow, and why the others may not; filterValidScaleUpNodeGroups.
        reasons = {group.name: self._reason_to_skip(group) for group in self._groups}
        skipped = {name: reason for name, reason in reasons.items() if reason is not None}
        valid = [group for group in self._groups if group.name not in skipped]
        self._try_groups(pod_groups, [group.name for group in valid])
        outcome = ScaleUp("ScaleUpNoOptionsAvailable")
        self._compute_options(outcome, pod_groups, valid)
        if outcome.options:
            self._decide(outcome, pod_groups)
        self._note_unhelped(outcome, pod_groups, skipped)
        if outcome.result == SUCCESSFUL and outcome.choice is not None:
            best = outcome.choice.best.group.name
            waiting = (own for own in pod_groups if own.fitting and best in own.rejected)
            outcome.awaiting = [pod for pod_group in waiting for pod in pod_group.pods]
        return outcome

    def _reason_to_skip(self, group: NodeGroup) -> Skipped | None:
        if (reason := self._unsafe(group)) is not None:
            return reason
        if group.target >= group.most:
            return Skipped(("max node group size reached",), f"it is at its maximum of {count(group.most, 'node')}")
        n_nodes = group.most - group.target if group.is_atomic else 1
        most = self._options.max_nodes_total
        if group.is_atomic and most and len(self._scratch.order) + n_nodes > most:
            words = f"its {count(n_nodes, 'node')} come all at once, and the cluster may have {most} at most"
            return Skipped(("atomic scale-up exceeds cluster node count limit",), words)
        template = self._templates.get(group.name)
        if template is None:
            return _UNKNOWN
        return self._quotas.check(template.node, group, n_nodes).skipped

    def _unsafe(self, group: NodeGroup) -> Skipped | None:
        if not self._state.is_group_healthy(group.name):
            return _UNHEALTHY
        if not self._state.is_backed_off(group.name):
            return None
        why = f" ({group.backoff})" if group.backoff else ""
        options = self._options
        bounds = options.initial_node_group_backoff_duration, options.max_node_group_backoff_duration
        pause = " to ".join(dict.fromkeys(duration_text(bound // 1_000_000) for bound in bounds))
        return Skipped(_BACKED_OFF, f"a scale-up of it failed a short time ago{why}; it rests for {pause}")

    def _try_groups(self, pod_groups: Sequence[PodGroup], names: Sequence[str]) -> None:
        """Note which groups of nodes could hold which pods; SchedulablePodGroups, for all groups at once."""
        if not names or not pod_groups:
            return
        scratch, new = self._scratch.grown([(self._templates[name], [f"template-node-for-{name}"]) for name in names])
        nodes = [node for (node,) in new]
        rows = [node.row for node in nodes]
        mark = scratch.mark()
        scratch.add_new(nodes)
        harder: list[PodGroup] = []
        for pod_group in pod_groups:
            pod = scratch.pod_row(pod_group.pods[0])
            pod_group.fits_alone = scratch.fits_alone(pod)
            if not pod_group.fits_alone:
                harder.append(pod_group)
                continue
            for name, rejection in zip(names, scratch.rejections(pod, rows), strict=True):
                _note(pod_group, name, rejection)
        scratch.undo(mark)
        for name, node in zip(names, nodes, strict=True) if harder else ():
            scratch.add_new([node])
            for pod_group in harder:
                _note(pod_group, name, scratch.rejections(scratch.pod_row(pod_group.pods[0]), [node.row])[0])
            scratch.undo(mark)

    def _compute_options(self, outcome: ScaleUp, pod_groups: Sequence[PodGroup], valid: Sequence[NodeGroup]) -> None:
        fitting = {group.name: [pods for pods in pod_groups if group.name in pods.fitting] for group in valid}
        for group in valid:
            if not fitting[group.name]:
                continue
            similar = self._similar(group, fitting)
            most = self._options.max_nodes_total
            # Of these limits 0 is none, and a negative one forbids all; getMinLimit.
            limits = (
                self._options.max_nodes_per_scaleup,
                sum(other.room for other in (group, *similar)) or -1,
                (max(most - len(self._scratch.order), 0) or -1) if most else 0,
            )
            limit = 0 if min(limits) < 0 else min(filter(None, limits), default=None)
            template, fast = self._templates[group.name], self._options.fastpath_binpacking_enabled
            result = estimate(self._scratch, group.name, template, fitting[group.name], limit, fast=fast)
            n_nodes = group.most if group.is_atomic and result.n_nodes > 0 else result.n_nodes
            if result.pods and n_nodes:
                outcome.options.append(Option(n_nodes, result.pods, result.placement, group, similar))

    def _similar(self, group: NodeGroup, fitting: Mapping[str, Sequence[PodGroup]]) -> tuple[NodeGroup, ...]:
        """Return the groups that may grow in place of one, for the same pods; ComputeSimilarNodeGroups."""
        if not self._options.balance_similar_node_groups or group.is_atomic or not fitting.get(group.name):
            return ()
        own = self._templates[group.name]
        return tuple(
            other
            for other in self._groups
            if other is not group
            and other.name in self._templates
            and are_similar(own, self._templates[other.name], self._options)
            and self._unsafe(other) is None
            and other.name in fitting
            and all(any(pods is held for held in fitting[other.name]) for pods in fitting[group.name])
        )

    def _decide(self, outcome: ScaleUp, pod_groups: Sequence[PodGroup]) -> None:
        """Choose an option, cap it, share it among similar groups, and carry it out."""
        choice = self._expanders.choose(self._options.expander, outcome.options)
        if choice is None:
            _reject_all(pod_groups, "expansion options filtered out and no longer considered")
            return
        outcome.choice, best = choice, choice.best
        outcome.triggered = best.pods
        n_nodes = self._capped(outcome, best.n_nodes, len(self._scratch.order))
        if n_nodes < 1:
            outcome.result, outcome.error = FAILED, "max node total count already reached"
            _reject_all(pod_groups, "scale-up execution failed")
            return
        n_nodes = self._quotas.check(self._templates[best.group.name].node, best.group, n_nodes).n_nodes
        outcome.growths = self._shared(best, n_nodes)
        outcome.result = SUCCESSFUL
        self.execute(outcome.growths)

    def _capped(self, outcome: ScaleUp, n_nodes: int, n_present: int) -> int:
        """Return how many nodes may come beside those present, and note it where that is fewer than are wanted."""
        most = self._options.max_nodes_total
        if most <= 0 or n_nodes + n_present <= most:
            return n_nodes
        outcome.events.append(("MaxNodesTotalReached", MAX_NODES_TOTAL.format(most)))
        return most - n_present

    def _shared(self, best: Option, n_nodes: int) -> list[GroupGrowth]:
        """Share new nodes among a group and those similar to it; balanceScaleUps, capScaleUpsByQuota."""
        similar = [
            other
            for other in best.similar
            if not self._quotas.check(self._templates[other.name].node, other, 1).exceeded
        ]
        growths = balanced([best.group, *similar], n_nodes)
        for growth in growths:
            node, delta = self._templates[growth.group.name].node, growth.wanted - growth.current
            growth.wanted = growth.current + self._quotas.consume(node, growth.group, delta).n_nodes
        return [growth for growth in growths if growth.wanted != growth.current]

    def execute(self, growths: Sequence[GroupGrowth]) -> None:
        for growth in growths:
            growth.group.target = growth.wanted
            self._state.register(growth.group, growth.wanted - growth.current, self._expanders.now)
        self._state.recalculate()

    def scale_to_least(self) -> ScaleUp:
        """Let groups grow to their least size; ScaleUpToNodeGroupMinSize."""
        outcome = ScaleUp("ScaleUpNotNeeded")
        for group in self._groups:
            template = self._templates.get(group.name)
            if group.target >= group.least or self._unsafe(group) is not None or template is None:
                continue
            if self._quotas.check(template.node, group, 1).exceeded:
                continue
            allowed = self._quotas.check(template.node, group, group.least - group.target).n_nodes
            n_nodes = self._capped(outcome, allowed, group.target)
            if n_nodes > 0:
                outcome.growths.append(GroupGrowth(group, group.target, group.target + n_nodes))
        if outcome.growths:
            outcome.result = SUCCESSFUL
            self.execute(outcome.growths)
        return outcome

    def _note_unhelped(self, outcome: ScaleUp, pod_groups: Sequence[PodGroup], skipped: Mapping[str, Skipped]) -> None:
        """Note the pods that fit no group that may grow; GetRemainingPods."""
        stuck = [pod_group for pod_group in pod_groups if not pod_group.fitting]
        # Upstream tries them on the groups that do not grow only with a flag. Of many loops only the last one tells
        # which of these would help, so that it is tried when somebody asks.
        tried = cache(partial(self._tried, stuck, [name for name in skipped if name in self._templates]))
        if self._options.scaleup_simulation_for_skipped_node_groups_enabled:
            for pods, trial in zip(stuck, tried(), strict=True):
                pods.rejected |= trial.rejected
                pods.fitting += trial.fitting
        outcome.could_help = lambda: {pod.metadata.key: trial.fitting for trial in tried() for pod in trial.pods}
        for pods in stuck:
            left = {name: why for name, why in skipped.items() if name not in pods.rejected}
            outcome.unhelped += [Unhelped(pod, pods.rejected, left) for pod in pods.pods]

    def _tried(self, pod_groups: Iterable[PodGroup], names: Sequence[str]) -> list[PodGroup]:
        """Return pods with which groups of nodes could hold them; nothing that a loop tries outlasts its attempt."""
        tried = [replace(pod_group, rejected={}, fitting=[]) for pod_group in pod_groups]
        self._try_groups(tried, names)
        return tried


def _note(pod_group: PodGroup, name: str, rejection: Rejection | None) -> None:
    if rejection is None:
        pod_group.fitting.append(name)
    else:
        pod_group.rejected[name] = rejection


def _reject_all(pod_groups: Sequence[PodGroup], reason: str) -> None:
    """Note that pods are not helped after all; markAllGroupsAsUnschedulable."""
    for pod_group in pod_groups:
        for name in pod_group.fitting:
            pod_group.rejected[name] = (reason,)
        pod_group.fitting.clear()
