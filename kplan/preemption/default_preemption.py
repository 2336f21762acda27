"""DefaultPreemption: makes room for a pod that fits no node by evicting pods of lower priority.

A whole pod group preempts as one: pods and groups leave so that all of it fits.

Upstream: defaultpreemption/default_preemption.go, preemption/preemption.go, preemption/executor.go,
preemption/{podgrouppreemption,types}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.meta import condition_of
from kplan.api.scheduling import PodGroup
from kplan.config.args import DefaultPreemptionArgs, PluginArgs
from kplan.engine.arrays import BoolArray, RowArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.pod_table import START
from kplan.engine.verdicts import Code
from kplan.framework import interface as fwk
from kplan.framework.diagnosis import FilterOutcome, fit_error
from kplan.framework.listers import Key
from kplan.framework.pod_groups import PREEMPTION_GATE, TOPOLOGY_GATE, WORKLOAD_GATE, PodGroups, group_of
from kplan.framework.results import Ineligible
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:  # loaded when a pod fits nowhere
    from kplan.preemption.dry_run import AllowedDisruptions, DryRun
    from kplan.preemption.result import CandidateNodes, PreemptionResult


class Unit(msgspec.Struct):
    """Pods that leave together: one pod, or a group whose disruption mode is PodGroup."""

    pods: list[int]
    priority: int
    is_group: bool  #: the pods belong to a group, whatever its mode
    start: int  #: in microseconds; of a group that of its first pod by node, as upstream
    name: str  #: decides between units that are equal otherwise; upstream does not

    @property
    def rank(self) -> tuple[int, bool, int, int, str]:
        """The more important units have the lower ranks; a pod that has not started counts as started now."""
        return -self.priority, not self.is_group, -len(self.pods) * self.is_group, self.start, self.name


def units_of(cluster: Cluster, groups: Mapping[Key, PodGroup]) -> list[Unit]:
    """Return all running pods as the units in which they leave, node by node."""
    units: dict[Key | int, Unit] = {}
    infos, starts = cluster.pods.infos, cluster.pods.derived(START)
    for row in range(len(cluster)):
        for pod in cluster.pods_on[row]:
            info = infos[pod]
            key = group_of(info)
            group = None if key is None else groups.get(key)
            if key is None or group is None or not group.spec.is_disrupted_as_a_whole:
                units[pod] = Unit([pod], info.priority, key is not None, int(starts[pod]), info.key)
            elif key in units:
                units[key].pods.append(pod)
            else:
                units[key] = Unit(
                    [pod], group.spec.priority or 0, is_group=True, start=int(starts[pod]), name="/".join(key)
                )
    return list(units.values())


def victims_of_group(
    cluster: Cluster,
    budgets: AllowedDisruptions,
    groups: Mapping[Key, PodGroup],
    priority: int,
    fits: Callable[[], fwk.Status],
) -> tuple[fwk.Status, fwk.GroupVictims]:
    """Return whether a group of some priority fits once some pods of lower priority leave, and these pods.

    All of them leave on trial; then they come back one unit after the other, those first whose eviction would break a
    budget, the most important first, and a unit without which the group no longer fits leaves. The cluster is the same
    afterwards.
    """
    units = [unit for unit in units_of(cluster, groups) if unit.priority < priority]
    if not units:
        return fwk.Status.unresolvable("No preemption victims found for incoming preemptor"), fwk.GroupVictims()
    row_of = {pod: cluster.node_of[pod] for unit in units for pod in unit.pods}
    order = {row: cluster.pods_on[row].copy() for row in row_of.values()}
    _leave(cluster, row_of)
    victims: list[Unit] = []
    violating: list[Unit] = []
    status = fits()
    if status.is_success:
        units.sort(key=_rank)
        are_violating = budgets.violating_units(cluster.pods, [unit.pods for unit in units])
        violating = [unit for unit, is_violating in zip(units, are_violating, strict=True) if is_violating]
        for unit in (*violating, *(unit for unit in units if unit not in violating)):
            _come_back(cluster, row_of, unit.pods)
            if not fits().is_success:
                _leave(cluster, unit.pods)
                victims.append(unit)
    _come_back(cluster, row_of, row_of)
    for row, pods in order.items():
        cluster.reorder(row, pods)
    broken = [unit for unit in victims if unit in violating]
    return status, fwk.GroupVictims(
        [pod for unit in sorted(victims, key=_rank) for pod in unit.pods],
        [pod for unit in broken for pod in unit.pods],
        len(broken),
    )


def _leave(cluster: Cluster, pods: Iterable[int]) -> None:
    for pod in pods:
        cluster.unbind(pod, is_trial=True)


def _come_back(cluster: Cluster, row_of: Mapping[int, int], pods: Iterable[int]) -> None:
    for pod in pods:
        if cluster.node_of[pod] == NOWHERE:
            cluster.bind(pod, row_of[pod])


_rank = attrgetter("rank")


_INELIGIBLE: Mapping[Ineligible, str] = {
    "preemption-policy-never": "not eligible due to preemptionPolicy=Never.",
    "victims-are-leaving": "not eligible due to a terminating pod on the nominated node.",
    "group-is-missing": "pod group for pod not found",
    "group-has-constraints": "not eligible due to placement-based pod group scheduling limitation",
    "group-preempts-as-a-whole": "not eligible due to workload aware preemption enabled",
}


class DefaultPreemption:
    """Finds the node on which the fewest and least important pods have to be evicted."""

    name: ClassVar[str] = "DefaultPreemption"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER

    def __init__(self, args: PluginArgs | None, handle: fwk.Handle) -> None:
        self._args = args if isinstance(args, DefaultPreemptionArgs) else DefaultPreemptionArgs()
        self._handle = handle
        self._budgets: AllowedDisruptions | None = None
        self._allowed: dict[tuple[str, str], int] = {}  # of what `_budgets` does not know yet

    def post_filter(self, cycle: fwk.CycleState, outcome: FilterOutcome) -> fwk.PostFilterResult:
        """Return the node to nominate and its victims; the findings are a `PreemptionResult`."""
        try:
            result = self._preempt(cycle, outcome)
        except _PreemptionError as failure:
            message = f"preemption: {failure}"
            result = replace(self._blank(), message=message, why_not="failed", dry_run=failure.dry_run)
            return fwk.PostFilterResult(fwk.Status.error(message), findings=result)
        if result.choice is None:
            return fwk.PostFilterResult(fwk.Status.unschedulable(result.message), findings=result)
        row, victims, text = result.choice.row, result.leaving_pods, self._handle.release.texts.preemption_found
        node = self._handle.cluster.nodes.names[row]
        status = fwk.Status(fwk.StatusCode.SUCCESS, (text.format(node=node, n=len(victims)),)) if text else fwk.SUCCESS
        return fwk.PostFilterResult(status, row, victims, result.cleared_pods, findings=result)

    @property
    def budgets(self) -> AllowedDisruptions:
        """The budgets, with the disruptions that they allow now; compiled when victims are looked for."""
        if self._budgets is None:
            from kplan.preemption.dry_run import AllowedDisruptions

            self._budgets = AllowedDisruptions(self._handle.listers.pod_disruption_budgets)
        if self._allowed:
            self._budgets, self._allowed = self._budgets.with_allowed_disruptions(self._allowed), {}
        return self._budgets

    @budgets.setter
    def budgets(self, budgets: AllowedDisruptions) -> None:
        self._budgets, self._allowed = budgets, {}

    def set_allowed_disruptions(self, allowed: Mapping[tuple[str, str], int]) -> None:
        self._allowed.update(allowed)

    def _blank(self) -> PreemptionResult:
        from kplan.preemption.result import PreemptionResult

        cluster = self._handle.cluster
        return PreemptionResult(cluster.pods.infos, cluster.nodes, self.budgets)

    def _preempt(self, cycle: fwk.CycleState, outcome: FilterOutcome) -> PreemptionResult:
        from kplan.preemption.dry_run import dry_run
        from kplan.preemption.result import CandidateNodes, choose

        blank = self._blank()
        obstacle = self._obstacle(cycle, outcome)
        if obstacle is not None:
            message = f"preemption: {_INELIGIBLE[obstacle]}"
            return replace(blank, eligible=False, message=message, why_not=obstacle)
        framework = self._handle.framework
        assert framework is not None  # noqa: S101 - set once all plugins exist
        run = dry_run(framework, cycle, outcome, self.budgets)
        if not run.rejections.feasible.any():
            _raise_errors(run)
            message = f"preemption: {fit_error(run.rejections)}"
            return replace(blank, message=message, why_not="no-node-helps", dry_run=run)
        candidates = self._limited(run, CandidateNodes.of(self._handle.cluster, run.reprieve))
        candidates = self._ask_extenders(cycle, run, candidates)
        if len(candidates) == 0:
            message = "preemption: no candidate node for preemption"
            return replace(blank, message=message, why_not="extenders-refuse", dry_run=run)
        choice = choose(candidates, self._handle.random)
        cleared = self._cleared(cycle, choice.row, candidates.victims(choice.chosen))
        return replace(blank, dry_run=run, choice=choice, cleared_pods=cleared)

    def _obstacle(self, cycle: fwk.CycleState, outcome: FilterOutcome) -> Ineligible | None:
        """Return why the pod may not preempt, or None.

        Upstream: PodEligibleToPreemptOthers. A pod whose victims are still terminating on its nominated node waits for
        them, unless that node is unresolvable by now.
        """
        of_group = self._obstacle_of_group(cycle.pod)
        if of_group is not None:
            return of_group
        if cycle.pod.pod.spec.preemption_policy == "Never":
            return "preemption-policy-never"
        cluster = self._handle.cluster
        row = self._handle.nominator.row_of(cycle.pod_id)
        if row is None:
            row = cluster.nodes.row_of.get(cycle.pod.pod.status.nominated_node_name or "")
        if row is None:
            return None
        status = outcome.status(row)
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        infos = (cluster.pods.infos[pod] for pod in cluster.pods_on[row])
        leaving = any(info.priority < cycle.pod.priority and _is_being_preempted(info) for info in infos)
        return "victims-are-leaving" if leaving else None

    def _obstacle_of_group(self, pod: PodInfo) -> Ineligible | None:
        key, release = group_of(pod), self._handle.release
        if key is None or not release.is_on(WORKLOAD_GATE):
            return None
        if release.is_on(TOPOLOGY_GATE):
            group = self._groups.groups.get(key)
            if group is None:
                return "group-is-missing"
            if group.spec.scheduling_constraints is not None:
                return "group-has-constraints"
        return "group-preempts-as-a-whole" if release.is_on(PREEMPTION_GATE) else None

    @property
    def _groups(self) -> PodGroups:
        return self._handle.session_state(PodGroups, self._handle.cluster, self._handle.listers)

    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[int], fits: Callable[[], fwk.Status]
    ) -> tuple[fwk.Status, fwk.GroupVictims]:
        """Return whether a group fits once some pods of lower priority than its own leave, and these pods."""
        infos = self._handle.cluster.pods.infos
        if any(infos[pod].pod.spec.preemption_policy == "Never" for pod in pods):
            return fwk.Status.unschedulable(_INELIGIBLE["preemption-policy-never"]), fwk.GroupVictims()
        priority = group.spec.priority or 0
        return victims_of_group(self._handle.cluster, self.budgets, self._groups.groups, priority, fits)

    def _limited(self, run: DryRun, candidates: CandidateNodes) -> CandidateNodes:
        """Return the candidates that kube-scheduler would find before it stops, when the session samples as it does.

        It stops once it has enough candidates, one of which violates no budget.
        """
        rows, n_nodes = run.rejections.rows, run.rejections.n_nodes
        if not self._handle.is_sampling or rows is None:
            return candidates
        order = self._search_order(rows, n_nodes)
        index = np.full(n_nodes, -1, np.intp)
        index[candidates.rows] = np.arange(len(candidates))
        in_turn = index[order][index[order] >= 0]
        limit = self.number_of_candidates(len(rows))
        violates = candidates.pdb_violations[in_turn] > 0
        is_within_limit = np.where(violates, np.cumsum(violates), np.cumsum(~violates)) <= limit
        n_violating, n_others = np.minimum(np.cumsum(violates), limit), np.minimum(np.cumsum(~violates), limit)
        is_enough = (n_others > 0) & (n_others + n_violating >= limit)
        if is_enough.any():
            stop = int(np.argmax(is_enough)) + 1
            last_row = candidates.rows[in_turn[stop - 1]]
            not_evaluated = np.zeros(n_nodes, np.bool_)
            not_evaluated[order[int(np.flatnonzero(order == last_row)[0]) + 1 :]] = True
            run.rejections.not_evaluated = not_evaluated
            is_within_limit[stop:] = False
        remaining: BoolArray = np.zeros(len(candidates), np.bool_)
        remaining[in_turn[is_within_limit]] = True
        return candidates.some(remaining)

    def _search_order(self, rows: RowArray, n_nodes: int) -> RowArray:
        """Return some nodes in the order in which kube-scheduler looks for candidates.

        It starts at a random node; here that is the first one, unless the session draws.
        """
        is_potential = np.zeros(n_nodes, np.bool_)
        is_potential[rows] = True
        order = self._handle.cluster.nodes.zone_order
        order = order[is_potential[order]]
        if self._handle.random is not None:
            order = np.roll(order, -self._handle.random.randrange(len(order)))
        return order

    def number_of_candidates(self, n_nodes: int) -> int:
        """Return how many candidates are enough among `n_nodes` potential nodes. Upstream: calculateNumCandidates."""
        share = n_nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), n_nodes)

    def _ask_extenders(self, cycle: fwk.CycleState, run: DryRun, candidates: CandidateNodes) -> CandidateNodes:
        """Return the candidates and victims that the extenders accept. Upstream: callExtenders."""
        incoming = cycle.pod.pod
        extenders = [
            extender for extender in self._handle.extenders if extender.preempts and extender.is_interested(incoming)
        ]
        if not extenders:
            return candidates
        from kplan.preemption.result import CandidateNodes

        cluster = self._handle.cluster
        names, infos = cluster.nodes.names, cluster.pods.infos
        victims = {
            names[row]: fwk.ExtenderVictims(
                [infos[pod].key for pod in candidates.victims(i)], int(candidates.pdb_violations[i])
            )
            for i, row in enumerate(candidates.rows.tolist())
        }

        def pods_on(name: str) -> dict[str, Pod]:
            row = cluster.nodes.row_of.get(name)
            return {} if row is None else {infos[pod].key: infos[pod].pod for pod in cluster.pods_on[row]}

        for extender in extenders:
            victims = _answer(extender, cycle, victims, run, pods_on)
            if not victims:
                break
        victims_by_row = sorted((cluster.nodes.row_of[name], node_victims) for name, node_victims in victims.items())
        violating = {int(pod) for pod in run.reprieve.pods[run.reprieve.violating]}
        pods: list[int] = []
        bounds = [0]
        for row, node_victims in victims_by_row:
            row_of_key = {infos[pod].key: pod for pod in cluster.pods_on[row]}
            pods += [row_of_key[key] for key in node_victims.pods]
            bounds.append(len(pods))
        return CandidateNodes(
            cluster.pods,
            np.asarray([row for row, _ in victims_by_row], np.intp),
            np.asarray(bounds, np.intp),
            np.asarray(pods, np.intp),
            np.asarray([pod in violating for pod in pods], np.bool_),
            np.asarray([node_victims.num_pdb_violations for _, node_victims in victims_by_row], np.int64),
        )

    def _cleared(self, cycle: fwk.CycleState, row: int, victims: list[int]) -> tuple[int, ...]:
        """Return the pods of lower priority nominated to the chosen node, which lose their nomination.

        When all victims are terminating already, nothing is evicted and no nomination is cleared.
        Upstream: prepareCandidateAsync, getLowerPriorityNominatedPods.
        """
        infos = self._handle.cluster.pods.infos
        if all(infos[pod].is_terminating for pod in victims):
            return ()
        return tuple(pod for pod in self._handle.nominator.pods_for(row) if infos[pod].priority < cycle.pod.priority)


class _PreemptionError(Exception):
    """Preemption failed; the message is kube-scheduler's."""

    def __init__(self, text: str, run: DryRun) -> None:
        super().__init__(text)
        self.dry_run = run


def _is_being_preempted(info: PodInfo) -> bool:
    """Whether a pod is terminating because the scheduler preempted it. Upstream: podTerminatingByPreemption."""
    conditions = info.pod.status.conditions if info.is_terminating else ()
    first = condition_of(conditions, "DisruptionTarget")
    return first is not None and (first.status, first.reason) == ("True", "PreemptionByScheduler")


def _raise_errors(run: DryRun) -> None:
    """Raise the errors of filters, if there are any; joined as upstream's error aggregate does."""
    texts: dict[str, None] = {}
    for row in run.rejections.rows_with_errors():
        status = run.rejections.status(row)
        assert status is not None  # noqa: S101 - the node has a code, so it has a status
        texts[status.error] = None
    if texts:
        raise _PreemptionError(f"[{', '.join(texts)}]" if len(texts) > 1 else next(iter(texts)), run)


def _answer(
    extender: fwk.Extender,
    cycle: fwk.CycleState,
    victims: dict[str, fwk.ExtenderVictims],
    run: DryRun,
    pods_on: fwk.PodsOn,
) -> dict[str, fwk.ExtenderVictims]:
    try:
        answer = dict(extender.preempt(cycle.pod.pod, victims, pods_on))
    except fwk.ExtenderError as error:
        if extender.is_ignorable:
            return victims
        raise _PreemptionError(str(error), run) from error
    for name in [name for name, node_victims in answer.items() if not node_victims.pods]:
        if not extender.is_ignorable:
            raise _PreemptionError(f'expected at least one victim pod on node "{name}"', run)
        del answer[name]
    return answer


def preemptors(session: Session) -> list[DefaultPreemption]:
    """Return the plugins that look for victims, of all profiles."""
    plugins = (plugin for framework in session.frameworks.values() for plugin in framework.post_filter_plugins)
    return [plugin for plugin in plugins if isinstance(plugin, DefaultPreemption)]
