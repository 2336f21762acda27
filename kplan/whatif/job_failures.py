"""Jobs after pods of them are lost with their nodes, or deleted: these count as failures, as their policies say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kplan.api.batch import Job, JobCondition
from kplan.api.core import Pod
from kplan.api.labels import parse_int64
from kplan.api.meta import controller_of
from kplan.api.references import WorkloadRef
from kplan.rules.pod_info import PodInfo
from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.desired import wanted_job
from kplan.simulation.jobs import JobState
from kplan.simulation.observing import completion_index

_ENDED = ("Succeeded", "Failed")


class JobFailures(NamedTuple):
    """What the loss of pods makes of their jobs."""

    jobs: list[Job]  #: the jobs whose status changes
    replaced: list[Pod]  #: the lost pods, of whatever owner, in whose place a controller creates others


def job_failures(jobs: Iterable[Job], lost: Iterable[Pod], deleted: Iterable[Pod]) -> JobFailures:
    """Count pods as failures of their jobs.

    Parameters
    ----------
    lost : pods that are gone with their nodes, which gives them the condition DisruptionTarget
    deleted : pods that are deleted otherwise
    """
    states = {(job.metadata.namespace, job.metadata.name): (job, _state_of(job)) for job in jobs}
    touched: dict[tuple[str, str], None] = {}
    going: list[tuple[Pod, JobState | None]] = []
    for pod, is_deleted in [*((pod, False) for pod in lost), *((pod, True) for pod in deleted)]:
        owner = controller_of(pod.metadata)
        key = (pod.metadata.namespace, owner.name) if owner is not None and owner.kind == "Job" else None
        state = states[key][1] if key is not None and key in states else None
        if state is not None and key is not None and pod.status.phase not in _ENDED and not state.wanted.is_over:
            state.failed(_observed(pod, state, is_deleted=is_deleted), 0.0)
            touched[key] = None
        if not is_deleted:
            going.append((pod, state))
    return JobFailures(
        [_noted(*states[key]) for key in touched],
        [pod for pod, state in going if state is None or _is_replaced(pod, state)],
    )


def _state_of(job: Job) -> JobState:
    ref = WorkloadRef("Job", job.metadata.namespace, job.metadata.name, job.metadata.uid, "batch/v1")
    return JobState(ref, {"": job.spec.template}, wanted=wanted_job(job), policy=job.spec.pod_failure_policy)


def _observed(pod: Pod, state: JobState, *, is_deleted: bool) -> ObservedPod:
    metadata = pod.metadata
    index = completion_index(PodInfo(pod)) if state.wanted.is_indexed else None
    if index is not None and index not in state.index_failures.counted:
        state.index_failures.counted[index] = parse_int64(metadata.annotations.job_index_failure_count) or 0
    return ObservedPod(
        0,
        metadata.namespace,
        metadata.name,
        metadata.uid,
        pod.spec.node_name,
        pod.status.phase,
        0.0,
        None,
        index=index,
        is_deleted=is_deleted,
    )


def _is_replaced(pod: Pod, state: JobState) -> bool:
    is_out = state.wanted.is_indexed and completion_index(PodInfo(pod)) in state.wanted.failed_indexes
    return not state.wanted.why_ended and not is_out


def _noted(job: Job, state: JobState) -> Job:
    wanted, status = state.wanted, job.status
    conditions = status.conditions
    if wanted.failed_by_policy:
        conditions = (*conditions, JobCondition(type="FailureTarget", status="True"))
    indexes = ",".join(map(str, sorted(wanted.failed_indexes)))
    return replace(job, status=replace(status, failed=wanted.failed, failed_indexes=indexes, conditions=conditions))
