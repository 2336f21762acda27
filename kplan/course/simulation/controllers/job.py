"""The Job controller: a number of pods at a time until enough have succeeded.

Which exit code a container that is told to go ends with is up to its program; here it is that of a program which
SIGTERM ends. `Failure.is_assumed` says where that decides.

Upstream: pkg/controller/job/job_controller.go manageJob, activePodsForRemoval, isPodFailed; backoff_utils.go,
indexed_job_utils.go, pod_failure_policy.go matchPodFailurePolicy.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from random import Random

import msgspec

from kplan.api.quantity import MAX_INT64, natural
from kplan.api.workloads import Job, OnExitCodes, PodFailurePolicy
from kplan.course.simulation.controllers.observed import PHASES, Action, Create, Delete, ObservedPod, in_map_order

DEFAULT_BACKOFF_LIMIT = 6
NO_BACKOFF_LIMIT = 2**31 - 1

MAX_AT_A_TIME = 500
_WANTED = "{} wanted at a time"

FINISHED = frozenset({"Complete", "Failed"})  #: conditions of a job that is over


class SuccessRule(msgspec.Struct, frozen=True):
    """Which indexes, or how many of them, are enough for success."""

    indexes: frozenset[int] | None = None  #: None for all
    count: int | None = None  #: how many of these; None for all of them

    def is_met_by(self, completed: frozenset[int]) -> bool:
        """Tell whether enough indexes are among those that are completed."""
        if self.indexes is None:
            return self.count is not None and len(completed) >= self.count
        n = len(self.indexes & completed)
        return bool(self.indexes) and (n == len(self.indexes) or (self.count is not None and n >= self.count))


class WantedJob(msgspec.Struct, frozen=True):
    """What a job wants."""

    parallelism: int = 1
    completions: int | None = 1  #: None where one success of any pod is enough
    is_indexed: bool = False
    is_suspended: bool = False
    is_over: bool = False
    backoff_limit: int = DEFAULT_BACKOFF_LIMIT
    #: succeeded, failed: how many pods have succeeded and failed so far
    succeeded: int = 0
    failed: int = 0
    completed_indexes: frozenset[int] = frozenset()  #: in an indexed job
    is_stopped: bool = False  #: its conditions say that it is being ended, so that no pod of it may run on
    #: how often each index may fail; None where failures are counted for the whole job
    backoff_limit_per_index: int | None = None
    max_failed: int | None = None  #: how many indexes may fail for good; None for any number
    failed_indexes: frozenset[int] = frozenset()  #: indexes that have failed for good
    is_overdue: bool = False  #: it has been active for longer than ``activeDeadlineSeconds``
    failed_by_policy: str = ""  #: which rule of its ``podFailurePolicy`` has ended it; empty for none
    n_delayed: int = 0  #: failures that are counted once their index has another pod
    success_rules: tuple[SuccessRule, ...] = ()  #: of which one is enough

    @staticmethod
    def of(obj: Job) -> WantedJob:
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
            parallelism=1 if spec.parallelism is None else spec.parallelism,
            completions=completions,
            is_indexed=spec.completion_mode == "Indexed",
            is_suspended=bool(spec.suspend),
            is_over=bool(true & FINISHED) or status.completion_time is not None or is_elsewhere,
            backoff_limit=backoff_limit,
            succeeded=status.succeeded,
            failed=status.failed,
            completed_indexes=_indexes(status.completed_indexes),
            is_stopped=bool(true & {"FailureTarget", "SuccessCriteriaMet"}),
            backoff_limit_per_index=per_index,
            max_failed=spec.max_failed_indexes,
            failed_indexes=_indexes(status.failed_indexes),
            success_rules=tuple(
                SuccessRule(
                    None if rule.succeeded_indexes is None else _indexes(rule.succeeded_indexes), rule.succeeded_count
                )
                for rule in (spec.success_policy.rules if spec.success_policy is not None else ())
            ),
        )

    @property
    def why_failed(self) -> str:
        """Why it has failed; empty where it has not, or where that is over."""
        if self.failed_by_policy:
            return self.failed_by_policy
        if self.failed + self.n_delayed > self.backoff_limit:
            return "Job has reached the specified backoff limit"
        if self.is_overdue:
            return "Job was active longer than specified deadline"
        n = len(self.failed_indexes)
        if self.max_failed is not None and n > self.max_failed:
            return "Job has exceeded the specified maximal number of failed indexes"
        if n and n + self.succeeded >= (self.completions or 0):
            return "Job has failed indexes"
        return ""

    @property
    def why_succeeded(self) -> str:
        """Why it has succeeded before all its pods have; empty where it has not. Upstream: matchSuccessPolicy."""
        if self.is_indexed and self.completed_indexes:
            for index, rule in enumerate(self.success_rules):
                if rule.is_met_by(self.completed_indexes):
                    return f"Matched rules at index {index}"
        return ""

    @property
    def why_ended(self) -> str:
        """Why no pod of it may run on; empty where they may."""
        return "the Job is being ended" if self.is_stopped else self.why_failed or self.why_succeeded


def _indexes(text: str) -> frozenset[int]:
    """Parse completion indexes, such as ``0-2,5``; no job has more than 100,000."""
    spans: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        least, most = natural(first, MAX_INT64), natural(last or first, MAX_INT64)
        if least is not None and most is not None:
            spans.append((least, min(most, 100_000)))
    indexes: set[int] = set()
    following = 0
    for least, most in sorted(spans):  # spans that overlap a thousand times are walked once
        indexes.update(range(max(least, following), most + 1))
        following = max(following, most + 1)
    return frozenset(indexes)


def actions(
    wanted: WantedJob,
    pods: Collection[ObservedPod],
    awaited: Collection[ObservedPod] = (),
    draws: Random | None = None,
    why: str | None = None,
) -> list[Action]:
    """Return which pods to create or delete next.

    `pods`: the job's active pods. `awaited`: terminating pods that are replaced only when they have ended
    (podReplacementPolicy Failed). `draws`: of the order of pods that are equal for the controller; None for a fixed
    one. `why`: `why_ended` of the job, where that is known.
    """
    if wanted.is_over:
        return []
    if why := (wanted.why_ended if why is None else why) or ("suspended" if wanted.is_suspended else ""):
        return [Delete(pod, why) for pod in pods]
    if wanted.completions is None:
        active = len(pods) if wanted.succeeded else wanted.parallelism
    else:
        active = max(min(wanted.completions - wanted.succeeded, wanted.parallelism), 0)
    lacking = active - len(pods)
    if (lacking < 0 or wanted.is_indexed) and (leaving := _surplus(wanted, pods, -lacking, draws)):
        return [Delete(pod, _WANTED.format(active)) for pod in leaving[:MAX_AT_A_TIME]]
    if lacking <= len(awaited):
        return []
    missing = min(lacking - len(awaited), MAX_AT_A_TIME)
    if not wanted.is_indexed:
        return [Create(_WANTED.format(active))] * missing
    used = {pod.index for pod in (*pods, *awaited)} | wanted.completed_indexes | wanted.failed_indexes
    free = (index for index in range(wanted.completions or 0) if index not in used)
    return [Create(_WANTED.format(active), index=index) for index, _ in zip(free, range(missing), strict=False)]


def _surplus(wanted: WantedJob, pods: Collection[ObservedPod], n: int, draws: Random | None) -> list[ObservedPod]:
    """Return the pods to delete: duplicates of an index first, then those that have got least far."""
    duplicates: list[ObservedPod] = []
    rest = list(pods)
    if wanted.is_indexed:
        by_index: dict[int | None, list[ObservedPod]] = {}
        for pod in pods:
            by_index.setdefault(pod.index, []).append(pod)
        for index, theirs in by_index.items():
            is_number = index is not None and index < (wanted.completions or 0)
            duplicates += youngest_first(theirs, len(theirs) - is_number, draws)
        rest = [pod for pod in pods if pod not in duplicates]
    return [*duplicates, *youngest_first(rest, max(n - len(duplicates), 0), draws)]


def youngest_first(pods: Collection[ObservedPod], n: int, draws: Random | None = None) -> list[ObservedPod]:
    """Return the pods that jobs delete first: as those of replica sets, but by exact age, whatever their cost.

    Upstream: pkg/controller/controller_utils.go ActivePods.
    """

    def key(pod: ObservedPod) -> tuple[object, ...]:
        ready = -math.inf if pod.ready_since is None else -pod.ready_since
        created = -pod.created if pod.created else -math.inf
        restarts = (-pod.restarts[0], -pod.restarts[1])
        return bool(pod.node), PHASES.get(pod.phase, 0), pod.is_ready, ready, restarts, created

    ordered = sorted(pods, key=lambda pod: pod.order)
    ranked = sorted(ordered, key=key)
    if draws is not None and 0 < n < len(ranked) and key(ranked[n - 1]) == key(ranked[n]):  # chance decides
        ranked = sorted(in_map_order(ordered, draws), key=key)
    return ranked[:n]


EXIT_CODE = 143  #: 128 + SIGTERM

FAIL_JOB, FAIL_INDEX, IGNORE = "FailJob", "FailIndex", "Ignore"
_CONDITION = ("DisruptionTarget", "True")


class Failure(msgspec.Struct, frozen=True):
    """What a failed pod means for its job."""

    is_counted: bool = True  #: it counts against the limits of failures
    fails_index: bool = False  #: its index has failed for good
    fails_job: str = ""  #: why the job has failed; empty where it has not
    is_assumed: bool = False  #: that depends on the exit code of a container


def failure_of(policy: PodFailurePolicy | None, pod: ObservedPod, containers: tuple[str, ...] = ()) -> Failure:
    """Return what the failure of a pod that was told to go means for its job; `containers`: names of the pod's."""
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        container = _container(rule.on_exit_codes, containers)
        if rule.on_exit_codes is not None:
            if not container:
                continue
            how = f"Container {container} for pod {pod.key} failed with exit code {EXIT_CODE}"
        elif not pod.is_deleted and _CONDITION in [(one.type, one.status) for one in rule.on_pod_conditions]:
            how = f"Pod {pod.key} has condition {_CONDITION[0]}"
        else:
            continue
        why = f"{how} matching {FAIL_JOB} rule at index {index}" if rule.action == FAIL_JOB else ""
        return Failure(rule.action != IGNORE, rule.action == FAIL_INDEX, why, is_assumed=bool(container))
    return Failure()


def _container(wanted: OnExitCodes | None, containers: tuple[str, ...]) -> str:
    """Return the first container whose exit code a rule is for; empty for none."""
    if wanted is None or (EXIT_CODE in wanted.values) is not (wanted.operator == "In"):
        return ""
    return next((name for name in containers if wanted.container_name in (None, name)), "")
