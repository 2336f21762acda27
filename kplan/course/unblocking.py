"""What would let a change go on: that budgets do not let pods go, or a rollout has no room, each remedy tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from kplan.api.kinds import SCALED
from kplan.api.quantity import grouped
from kplan.api.workloads import RECREATE, Deployment, PodDisruptionBudget, PodDisruptionBudgetSpec, RollingUpdate
from kplan.changes import remedy as r
from kplan.changes.values import Scale, Settle
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.course.beginning import unmoved
from kplan.course.carried_out import CarriedOut
from kplan.course.carry_out import carry_out
from kplan.course.simulation.controllers.deployment import WantedDeployment
from kplan.course.simulation.controllers.observed import scaled
from kplan.course.simulation.disruption import ALWAYS_ALLOW, loosened
from kplan.documents.change import Change, Obstacle, WorkloadState
from kplan.errors import KplanError
from kplan.workloads.autoscalers import bounds_in

MOST_BUDGETS = 3  #: remedies are tried for the pods of so many budgets, the first ones: each is a drain of its own


def with_remedies(change: CarriedOut) -> tuple[Obstacle, ...]:
    """Return the obstacles of a drain with what lets them go; once for the pods of a budget."""
    single = (one for one in change.obstacles if len(one.budgets) == 1 and one.is_by_budget)
    of_budget = list(grouped((one.budgets[0].name, one) for one in single).values())[:MOST_BUDGETS]
    remedies = {own[0].pod: tuple(_that_help(change, own)) for own in of_budget}
    return tuple(replace(one, remedies=remedies.get(one.pod, ())) for one in change.obstacles)


def _that_help(change: CarriedOut, obstacles: Sequence[Obstacle]) -> Iterator[r.Remedy]:
    """Yield what lets all pods go that one budget keeps."""
    for remedy, other in ways(change.origin, obstacles):
        if carry_out(other, change.task).blocked.keys().isdisjoint(obstacle.pod for obstacle in obstacles):
            yield remedy


def ways(base: Base, obstacles: Sequence[Obstacle]) -> Iterator[tuple[r.Remedy, Base]]:
    """Yield remedies, the smallest first, with the planner of the cluster in which each is carried out.

    `obstacles`: the pods that a single budget keeps.
    """
    obstacle = obstacles[0]
    (at_rest,) = obstacle.budgets
    budgets = (budget for budget in base.objects.pod_disruption_budgets if budget.metadata.key == at_rest.name)
    budget = next(budgets, None)
    if budget is None:
        return
    spec = budget.spec
    if not obstacle.ready:
        always = replace(spec, unhealthy_pod_eviction_policy=ALWAYS_ALLOW)
        yield _changed_budget(base, budget, always, _policy_text)
    if at_rest.without_scale:  # which the controller does not need for a number of pods
        # Pods without a controller are not replaced, so that the budget has to do without all that go.
        going = sum(one.ready for one in obstacles) if at_rest.without_scale.startswith("Pod/") else 1
        healthy = max(at_rest.healthy - going, 0)
        least = replace(spec, max_unavailable=None, min_available=healthy)
        yield _changed_budget(base, budget, least, _limit_text)
        return
    # How many more healthy pods the budget needs to let the pod go; one that is not ready is not missed.
    missing = max(at_rest.desired - at_rest.healthy + (1 if obstacle.ready else 0), 1)
    yield from _more_replicas(base, obstacle, missing)
    states = {state.key: state for state in unmoved(base).disruptions.budgets}
    expected = states[at_rest.name].expected if at_rest.name in states else None
    for to in loosened(spec, missing, expected or at_rest.desired):
        yield _changed_budget(base, budget, to, _limit_text)


def _limit_text(spec: PodDisruptionBudgetSpec) -> str:
    least, most = spec.min_available, spec.max_unavailable
    return f"minAvailable: {least}" if most is None else f"maxUnavailable: {most}"


def _policy_text(spec: PodDisruptionBudgetSpec) -> str:
    policy = spec.unhealthy_pod_eviction_policy
    return f"unhealthyPodEvictionPolicy: {policy}" if policy else ""


def _changed_budget(
    base: Base, budget: PodDisruptionBudget, to: PodDisruptionBudgetSpec, text: Callable[[PodDisruptionBudgetSpec], str]
) -> tuple[r.Remedy, Base]:
    change = r.BudgetChange(budget=budget.metadata.key, old=text(budget.spec), to=text(to))
    other = base.with_snapshot(with_objects(base.objects, [replace(budget, spec=to)]))
    return r.ChangeBudget(change=change, then=None), other


def _more_replicas(base: Base, obstacle: Obstacle, missing: int) -> Iterator[tuple[r.Remedy, Base]]:
    ref = obstacle.owner
    if ref is None or ref.kind not in SCALED:
        return
    owner = unmoved(base).workloads.find(obstacle.workload)
    if owner is None:
        return
    from kplan.course.what_if import changed  # few obstacles need it

    old, bounds = owner.desired, bounds_in(base.objects, ref)
    change = r.ReplicasChange.between(ref, old, old + missing, bounds)
    scalers = [
        replace(scaler, spec=replace(scaler.spec, **bounds.to_keep(old, change.to)))
        for scaler in base.objects.horizontal_pod_autoscalers
        if bounds is not None and scaler.metadata.key == f"{ref.namespace}/{bounds.name}"
    ]
    try:
        free = base.with_snapshot(with_objects(base.objects, scalers)) if scalers else base
        other = changed(free, [Scale(ref.key, change.to), Settle()])
    except KplanError:  # a workload that the snapshot holds only by its pods
        return
    yield r.MoreReplicas(change=change, then=None), other


MOST_TRIED = 3  #: remedies are tried for so many stuck rollouts, the first ones: each is the whole change once more


def rollout_remedies(change: CarriedOut) -> dict[str, r.AllowUnavailable]:
    """Return what would help the deployments that are stuck in a rollout, by KIND/NAMESPACE/NAME."""
    stuck = {one.key for one in change.workloads if one.state is WorkloadState.STUCK and one.pending}
    updates = (applied.update for applied in change.applied if applied.change is Change.ROLLOUT)
    rollouts = [update for update in updates if update.key in stuck and isinstance(update.obj, Deployment)]
    remedies: dict[str, r.AllowUnavailable] = {}
    for update in rollouts[:MOST_TRIED]:
        for remedy, obj in _ways(update.obj):
            tried = carry_out(change.origin, change.task, replaced={update.key: obj})
            if (update.key, WorkloadState.COMPLETE) in [(one.key, one.state) for one in tried.workloads]:
                remedies[update.key] = remedy
                break
    return remedies


def _ways(obj: Deployment) -> Iterator[tuple[r.AllowUnavailable, Deployment]]:
    """Yield the smallest change of a strategy that replaces pods only by surging, then a larger one."""
    wanted, strategy = WantedDeployment.of(obj), obj.spec.strategy
    rolling = strategy.rolling_update or RollingUpdate()
    may_be_missing = scaled(wanted.max_unavailable, wanted.replicas, round_up=False)
    if wanted.strategy == RECREATE or wanted.replicas < 1 or may_be_missing:
        return
    old = f"maxUnavailable: {wanted.max_unavailable}"
    for to, rolled in (
        ("maxUnavailable: 1", replace(rolling, max_unavailable=1)),
        ("maxUnavailable: 1 and maxSurge: 0", replace(rolling, max_unavailable=1, max_surge=0)),
    ):
        words = old if "maxSurge" not in to else f"{old} and maxSurge: {wanted.max_surge}"
        name, better = f"Deployment {obj.metadata.key}", replace(strategy, rolling_update=rolled)
        change = r.RolloutChange(workload=name, replicas=wanted.replicas, old=words, to=to)
        yield r.AllowUnavailable(change=change, then=None), replace(obj, spec=replace(obj.spec, strategy=better))
