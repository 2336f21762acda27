"""Runs of a cron job that pile up: more start while earlier ones wait for a node."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kplan.api.meta import controller_of
from kplan.documents.base import InputWarning
from kplan.snapshot.model import Snapshot

RUNS_PILE_UP = "RunsPileUp"

_ENDED = ("Succeeded", "Failed")
_ALLOW = ("", "Allow")


def piled_up(snapshot: Snapshot, only: Collection[str] | None = None) -> tuple[InputWarning, ...]:
    """Return a warning for each cron job of which a run waits for a node while others are active.

    Parameters
    ----------
    only : NAMESPACE/NAME of pods of which one has to wait; None for all
    """
    return tuple(_warnings(snapshot, only))


def _warnings(snapshot: Snapshot, only: Collection[str] | None) -> Iterator[InputWarning]:
    allowing = {cron_job.metadata.key for cron_job in snapshot.cron_jobs if cron_job.spec.concurrency_policy in _ALLOW}
    if not allowing:
        return
    run_of = {
        job.metadata.key: f"{job.metadata.namespace}/{owner.name}"
        for job in snapshot.jobs
        if (owner := controller_of(job.metadata)) is not None and owner.kind == "CronJob"
    }
    active: dict[str, set[str]] = {}
    waiting: dict[str, dict[str, str]] = {}  # cron job -> job -> one of its pods
    for pod in snapshot.pods:
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "Job" or pod.status.phase in _ENDED or pod.metadata.deletion_timestamp:
            continue
        job = f"{pod.metadata.namespace}/{owner.name}"
        cron_job = run_of.get(job, "")
        if cron_job in allowing:
            active.setdefault(cron_job, set()).add(job)
            if not pod.spec.node_name:
                waiting.setdefault(cron_job, {})[job] = pod.metadata.key
    for cron_job, jobs in waiting.items():
        number = len(active[cron_job])
        if number > 1 and (only is None or not set(jobs.values()).isdisjoint(only)):
            yield InputWarning(
                RUNS_PILE_UP,
                f"CronJob/{cron_job}",
                f"{number} of its runs are active at once, {len(jobs)} of them without a node: with concurrencyPolicy: "
                "Forbid none starts while another is active, and with Replace it ends the one before",
            )
