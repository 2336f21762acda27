"""What workloads want, with defaults, as their controllers read it, and within the bounds of autoscalers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kplan.api.workloads import DaemonSet, Deployment, HorizontalPodAutoscaler, Job, StatefulSet
from kplan.course.simulation.controllers.daemon_set import WantedDaemonSet
from kplan.course.simulation.controllers.deployment import DEFAULT_SHARE, RECREATE, ROLLING_UPDATE, WantedDeployment
from kplan.course.simulation.controllers.job import DEFAULT_BACKOFF_LIMIT, NO_BACKOFF_LIMIT, SuccessRule, WantedJob
from kplan.course.simulation.controllers.stateful_set import PARALLEL, WantedStatefulSet
from kplan.course.simulation.deployments import DeploymentState, ReplicaSetState
from kplan.course.simulation.owners import Owner, StatefulSetState

IsOn = Callable[[str], bool]
"""Tells whether a feature gate is on."""

DELETE = "Delete"
MAX_UNAVAILABLE_GATE = "MaxUnavailableStatefulSet"
RECREATE_GATE = "StatefulSetRecreateStrategy"
DEFAULT_PROGRESS_DEADLINE = 600
NO_PROGRESS_DEADLINE = 2**31 - 1


def count(replicas: int | None) -> int:
    return 1 if replicas is None else replicas


def wanted_deployment(obj: Deployment) -> WantedDeployment:
    strategy = obj.spec.strategy
    rolling = strategy.rolling_update
    surge = rolling.max_surge if rolling is not None else None
    unavailable = rolling.max_unavailable if rolling is not None else None
    return WantedDeployment(
        count(obj.spec.replicas),
        RECREATE if strategy.type == RECREATE else ROLLING_UPDATE,
        DEFAULT_SHARE if surge is None else surge,
        DEFAULT_SHARE if unavailable is None else unavailable,
        obj.spec.paused,
    )


def progress_deadline(obj: Deployment) -> int | None:
    """Return how many seconds a deployment may take without progress, with its default; None for any number."""
    wanted = obj.spec.progress_deadline_seconds
    if wanted is None:
        return DEFAULT_PROGRESS_DEADLINE
    return None if wanted == NO_PROGRESS_DEADLINE else wanted


def wanted_stateful_set(obj: StatefulSet, current: str, update: str, is_on: IsOn) -> WantedStatefulSet:
    """Return what a stateful set wants, with defaults; `current` and `update` are the names of its revisions."""
    spec = obj.spec
    kind, rolling = spec.update_strategy.type or ROLLING_UPDATE, spec.update_strategy.rolling_update
    return WantedStatefulSet(
        count(spec.replicas),
        0 if spec.ordinals is None else spec.ordinals.start,
        spec.pod_management_policy != PARALLEL,
        # A controller manager that does not know the strategy, or has its gate off, takes it for RollingUpdate.
        ROLLING_UPDATE if kind == RECREATE and not is_on(RECREATE_GATE) else kind,
        (rolling.partition or 0) if rolling is not None else 0,
        current,
        update,
        (1 if rolling is None or rolling.max_unavailable is None else rolling.max_unavailable)
        if is_on(MAX_UNAVAILABLE_GATE)
        else None,
    )


def deletes_claims(obj: StatefulSet) -> bool:
    policy = obj.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_scaled == DELETE


def wanted_daemon_set(obj: DaemonSet, revision: str) -> WantedDaemonSet:
    strategy = obj.spec.update_strategy
    rolling = strategy.rolling_update
    surge = rolling.max_surge if rolling is not None else None
    unavailable = rolling.max_unavailable if rolling is not None else None
    return WantedDaemonSet(
        revision,
        strategy.type or ROLLING_UPDATE,
        0 if surge is None else surge,
        1 if unavailable is None else unavailable,
    )


def wanted_job(obj: Job) -> WantedJob:
    spec, status = obj.spec, obj.status
    true = {condition.type for condition in status.conditions if condition.status == "True"}
    is_elsewhere = spec.managed_by not in (None, "kubernetes.io/job-controller")
    per_index = spec.backoff_limit_per_index if spec.completion_mode == "Indexed" else None
    backoff_limit = spec.backoff_limit
    if backoff_limit is None:
        backoff_limit = DEFAULT_BACKOFF_LIMIT if per_index is None else NO_BACKOFF_LIMIT
    # Without either number a job is done with one success; with parallelism alone any success ends it.
    completions = 1 if spec.completions is None and spec.parallelism is None else spec.completions
    return WantedJob(
        count(spec.parallelism),
        completions,
        spec.completion_mode == "Indexed",
        bool(spec.suspend),
        bool(true & {"Complete", "Failed"}) or status.completion_time is not None or is_elsewhere,
        backoff_limit,
        status.succeeded,
        status.failed,
        _indexes(status.completed_indexes),
        bool(true & {"FailureTarget", "SuccessCriteriaMet"}),
        per_index,
        spec.max_failed_indexes,
        _indexes(status.failed_indexes),
        success_rules=tuple(
            SuccessRule(
                None if rule.succeeded_indexes is None else _indexes(rule.succeeded_indexes), rule.succeeded_count
            )
            for rule in (spec.success_policy.rules if spec.success_policy is not None else ())
        ),
    )


def _indexes(text: str) -> frozenset[int]:
    """Parse completion indexes, such as ``0-2,5``; no job has more than 100,000."""
    indexes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            indexes.update(range(min(int(first), 100_000), min(int(last or first), 100_000) + 1))
    return frozenset(indexes)


class Bounds(msgspec.Struct, frozen=True):
    """The bounds within which a HorizontalPodAutoscaler keeps the number of replicas, whatever its metrics.

    Upstream: pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler. It looks every 15 seconds, so here when
    nothing else moves any more.
    """

    name: str
    lowest: int
    highest: int

    def bound(self, replicas: int) -> int:
        """Return the number of replicas that the autoscaler sets at once; 0 replicas turn it off."""
        if replicas == 0 and self.lowest > 0:
            return 0
        return self.highest if replicas > self.highest else max(replicas, self.lowest)


def bounds_of(scalers: Iterable[HorizontalPodAutoscaler]) -> Bounds | None:
    """Return the bounds of a workload's only autoscaler; None where it has none, or several, of which none acts."""
    only = list(scalers)
    if len(only) != 1:
        return None
    spec = only[0].spec
    return Bounds(only[0].metadata.name, 1 if spec.min_replicas is None else spec.min_replicas, spec.max_replicas)


def keep_all(
    find: Callable[[str], Owner | DeploymentState | None], bounds: Mapping[str, Bounds]
) -> list[Owner | DeploymentState]:
    """Scale the workloads that are beyond their bounds, and return them.

    `find`: looks up a workload by its key. `bounds`: key of a workload -> its bounds.
    """
    owners = ((find(key), limits) for key, limits in bounds.items())
    return [owner for owner, limits in owners if owner is not None and keep(owner, limits)]


def keep(owner: Owner | DeploymentState | None, bounds: Bounds) -> bool:
    """Scale a workload to the bound that it is beyond; tell whether it was beyond one."""
    if isinstance(owner, ReplicaSetState):
        before = owner.replicas
        owner.replicas = bounds.bound(before)
        if owner.replicas != before:
            owner.because = f"autoscaler {bounds.name} ({bounds.lowest}-{bounds.highest})"
        return owner.replicas != before
    if isinstance(owner, DeploymentState | StatefulSetState):
        after = bounds.bound(owner.wanted.replicas)
        is_beyond = after != owner.wanted.replicas
        owner.wanted = replace(owner.wanted, replicas=after)
        return is_beyond
    return False
