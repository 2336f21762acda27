"""Objects that create no pods when they are applied: cron jobs run on a schedule, templates wait for a controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kplan.api.batch import CronJob, Job
from kplan.api.references import object_name
from kplan.snapshot.model import Warning as InputWarning
from kplan.workloads.applied import WrittenWorkload
from kplan.workloads.contents import Manifests
from kplan.workloads.manifests import job_of_run

MAKES_PODS_LATER: Mapping[str, str] = {
    "CronJob": "creates its pods on schedule, so none is placed here; --run-cronjobs places those of one run",
    "PodTemplate": "creates no pods by itself, so none is placed here",
}
"""Kind -> the message of the warning about an object that creates no pods when it is applied."""


def not_started(kind: str, namespace: str, name: str) -> InputWarning:
    """Return the warning that an object creates no pods when it is applied."""
    return InputWarning("NotStarted", object_name(kind, namespace, name), MAKES_PODS_LATER[kind])


def with_runs(workloads: Iterable[WrittenWorkload]) -> list[WrittenWorkload]:
    """Return the workloads, with each cron job replaced by the job of one run."""
    return [
        WrittenWorkload(Job, job_of_run(workload.content, workload.content["metadata"]["name"]))
        if workload.type is CronJob
        else workload
        for workload in workloads
    ]


def started(manifests: Manifests, *, run_cronjobs: bool = False) -> Manifests:
    """Return manifests without the pods that are not created when they are applied.

    If the manifests hold nothing but such objects, the question is about their pods, and these stay.

    Parameters
    ----------
    run_cronjobs : the pods of one run of each cron job stay in any case
    """
    later = [workload for workload in manifests.workloads if workload.kind in MAKES_PODS_LATER]
    if len(later) == len(manifests.workloads):
        return manifests
    left_out = [workload for workload in later if workload.kind != "CronJob" or not run_cronjobs]
    ids = {id(workload) for workload in left_out}
    later_warnings = [not_started(workload.kind, workload.namespace, workload.name) for workload in left_out]
    # Why a run would create no pods does not matter where there is no run.
    runs = {warning.object for warning in later_warnings}
    warnings = [warning for warning in manifests.warnings if warning.code != "Suspended" or warning.object not in runs]
    return replace(
        manifests,
        pods=tuple(pod for pod in manifests.pods if id(pod.workload) not in ids),
        warnings=(*warnings, *later_warnings),
    )
