"""Which of the objects that make pods make some at once: cron jobs and templates wait until something asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from kplan.api.batch import CronJob, Job
from kplan.snapshot.model import Warning as InputWarning
from kplan.snapshot.model import object_name
from kplan.workloads.changes import WrittenWorkload
from kplan.workloads.manifests import Manifests, job_of_run

MAKES_PODS_LATER: Mapping[str, str] = {
    "CronJob": "its pods come when their time comes; none is made here, but with --run-cronjobs those of one run",
    "PodTemplate": "its pods come when something asks for them; none is made here",
}
"""Kind -> what is said of an object of which no pod is made."""


def not_started(kind: str, namespace: str, name: str) -> InputWarning:
    """Say of an object that only makes pods at another time that none are made here."""
    return InputWarning("NotStarted", object_name(kind, namespace, name), MAKES_PODS_LATER[kind])


def with_runs(workloads: Iterable[WrittenWorkload]) -> list[WrittenWorkload]:
    """Return the workloads as written, with the job of one run for each cron job."""
    return [
        WrittenWorkload(Job, job_of_run(workload.content, workload.content["metadata"]["name"]))
        if workload.type is CronJob
        else workload
        for workload in workloads
    ]


def started(manifests: Manifests, *, run_cronjobs: bool = False) -> Manifests:
    """Return manifests with the pods that come when they are applied.

    Where nothing else is given, the question is about those that come later, and they stay.

    Parameters
    ----------
    run_cronjobs : those of one run of each cron job stay in any case
    """
    later = [workload for workload in manifests.workloads if workload.kind in MAKES_PODS_LATER]
    if len(later) == len(manifests.workloads):
        return manifests
    left_out = [each for each in later if each.kind != "CronJob" or not run_cronjobs]
    ids = {id(each) for each in left_out}
    told = (not_started(each.kind, each.namespace, each.name) for each in left_out)
    return dataclasses.replace(
        manifests,
        pods=tuple(pod for pod in manifests.pods if id(pod.workload) not in ids),
        warnings=(*manifests.warnings, *told),
    )
