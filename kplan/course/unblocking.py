"""What lets a drain go on that a disruption budget blocks, or a rollout that waits for room for a surge.

It is offered only where the drain, tried so, gets further, or the rollout completes.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kplan.api.kinds import SCALED
from kplan.api.workloads import Deployment, PodDisruptionBudget, PodDisruptionBudgetSpec, RollingUpdate
from kplan.changes import remedy as r
from kplan.changes.objects import Scale, Settle
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.course.carried_out import CarriedOut
from kplan.course.carry_out import carry_out
from kplan.course.simulation.applying import Applied
from kplan.course.simulation.controllers.observed import scaled
from kplan.course.simulation.disruption import ALWAYS_ALLOW, loosened
from kplan.course.watching import at_rest as at_rest_of
from kplan.course.what_if import changed
from kplan.documents.change import BudgetAtRest, Change, Obstacle, WorkloadState
from kplan.errors import KplanError

MOST_BUDGETS = 3  #: remedies are tried for the pods of so many budgets, the first ones: each is a drain of its own


def with_remedies(change: CarriedOut) -> tuple[Obstacle, ...]:
    """Return the obstacles of a drain with what lets them go; once for the pods of a budget."""
    tried: dict[str, tuple[r.Remedy, ...]] = {}
    helped = []
    for obstacle in change.obstacles:
        if len(obstacle.budgets) == 1 and obstacle.is_by_budget:
            budget = obstacle.budgets[0].name
            if budget not in tried and len(tried) < MOST_BUDGETS:
                tried[budget] = tuple(_that_help(change, obstacle, obstacle.budgets[0]))
                helped.append(replace(obstacle, remedies=tried[budget]))
                continue
        helped.append(obstacle)
    return tuple(helped)


def _that_help(change: CarriedOut, obstacle: Obstacle, at_rest: BudgetAtRest) -> Iterator[r.Remedy]:
    base = change.origin
    budget = next(
        (budget for budget in base.objects.pod_disruption_budgets if budget.metadata.key == at_rest.name),
        None,
    )
    if budget is None:
        return
    for remedy, other in ways(base, obstacle, at_rest, budget):
        if obstacle.pod not in carry_out(other, change.task).blocked:
            yield remedy


def ways(
    base: Base, obstacle: Obstacle, at_rest: BudgetAtRest, budget: PodDisruptionBudget
) -> Iterator[tuple[r.Remedy, Base]]:
    """Yield remedies, the smallest first, with the planner of the cluster in which each is carried out."""
    spec = budget.spec
    if not obstacle.ready:
        old = spec.unhealthy_pod_eviction_policy
        to = replace(spec, unhealthy_pod_eviction_policy=ALWAYS_ALLOW)
        words = f"unhealthyPodEvictionPolicy: {old}" if old else "", f"unhealthyPodEvictionPolicy: {ALWAYS_ALLOW}"
        yield _changed_budget(base, replace(budget, spec=to), *words)
    yield from _more_replicas(base, obstacle, missing_pods(obstacle, at_rest))
    states = {state.key: state for state in at_rest_of(base).disruptions.budgets}
    expected = states[at_rest.name].expected if at_rest.name in states else None
    for to in loosened(spec, missing_pods(obstacle, at_rest), expected or at_rest.desired):
        yield _changed_budget(base, replace(budget, spec=to), _limit_text(spec), _limit_text(to))


def _limit_text(spec: PodDisruptionBudgetSpec) -> str:
    return (
        f"minAvailable: {spec.min_available}"
        if spec.max_unavailable is None
        else f"maxUnavailable: {spec.max_unavailable}"
    )


def missing_pods(obstacle: Obstacle, budget: BudgetAtRest) -> int:
    """Return how many more healthy pods a budget needs to let a pod go; a pod that is not ready is not missed."""
    return max(budget.desired - budget.healthy + (1 if obstacle.ready else 0), 1)


def _changed_budget(base: Base, budget: PodDisruptionBudget, old: str, to: str) -> tuple[r.Remedy, Base]:
    name = f"{budget.metadata.namespace}/{budget.metadata.name}"
    remedy = r.ChangeBudget(change=r.BudgetChange(budget=name, old=old, to=to), then=None)
    return remedy, base.with_snapshot(with_objects(base.objects, [budget]))


def _more_replicas(base: Base, obstacle: Obstacle, missing: int) -> Iterator[tuple[r.Remedy, Base]]:
    ref = obstacle.owner
    if ref is None or ref.kind not in SCALED:
        return
    owner = at_rest_of(base).workloads.find(obstacle.workload)
    if owner is None:
        return
    old = owner.desired
    try:
        other = changed(base, [Scale(ref.key, old + missing), Settle()])
    except KplanError:  # a workload that the snapshot holds only by its pods
        return
    change = r.ReplicasChange(workload=ref.title, old=old, to=old + missing)
    yield r.MoreReplicas(change=change, then=None), other


MOST_TRIED = 3  #: remedies are tried for so many stuck rollouts, the first ones: each is the whole change once more

_DEFAULT_SHARE = "25%"
_RECREATE = "Recreate"


def rollout_remedies(change: CarriedOut) -> dict[str, r.AllowUnavailable]:
    """Return what would help the deployments that are stuck in a rollout, by KIND/NAMESPACE/NAME."""
    stuck = {
        workload.key for workload in change.workloads if workload.state is WorkloadState.STUCK and workload.pending
    }
    rollouts = [
        applied
        for applied in change.applied
        if applied.update.key in stuck
        and applied.change is Change.ROLLOUT
        and isinstance(applied.update.obj, Deployment)
    ]
    remedies: dict[str, r.AllowUnavailable] = {}
    for applied in rollouts[:MOST_TRIED]:
        for remedy, obj in _ways(applied.update.obj):
            if _completes(change, applied, obj):
                remedies[applied.update.key] = remedy
                break
    return remedies


def _ways(obj: Deployment) -> Iterator[tuple[r.AllowUnavailable, Deployment]]:
    """Yield the smallest change of a strategy that replaces pods only by surging, then a larger one."""
    strategy = obj.spec.strategy
    rolling = strategy.rolling_update or RollingUpdate()
    replicas = 1 if obj.spec.replicas is None else obj.spec.replicas
    unavailable = _DEFAULT_SHARE if rolling.max_unavailable is None else rolling.max_unavailable
    surge = _DEFAULT_SHARE if rolling.max_surge is None else rolling.max_surge
    if strategy.type == _RECREATE or replicas < 1 or scaled(unavailable, replicas, round_up=False):
        return
    old = f"maxUnavailable: {unavailable}"
    for to, rolled in (
        ("maxUnavailable: 1", replace(rolling, max_unavailable=1)),
        ("maxUnavailable: 1 and maxSurge: 0", replace(rolling, max_unavailable=1, max_surge=0)),
    ):
        name = f"Deployment {obj.metadata.namespace}/{obj.metadata.name}"
        words = old if "maxSurge" not in to else f"{old} and maxSurge: {surge}"
        remedy = r.AllowUnavailable(
            change=r.RolloutChange(workload=name, replicas=replicas, old=words, to=to), then=None
        )
        spec = replace(obj.spec, strategy=replace(strategy, rolling_update=rolled))
        yield remedy, replace(obj, spec=spec)


def _completes(change: CarriedOut, applied: Applied, obj: Deployment) -> bool:
    key = applied.update.key
    tried = carry_out(change.origin, change.task, replaced={key: obj})
    return any(workload.key == key and workload.state is WorkloadState.COMPLETE for workload in tried.workloads)
