"""Replicas that controllers do not get, as the API server refuses their pods, and runs of cron jobs that pile up.

A pod is refused for a quota or another rule of admission. Runs pile up where more start while earlier ones wait for a
node.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from msgspec import structs

from kplan.answers.answer import Answer
from kplan.answers.verdict import counted_warnings
from kplan.api.meta import controller_of
from kplan.api.names import object_name
from kplan.cluster.base import Base
from kplan.documents.base import Context, Report, Verdict
from kplan.effects.watching import begin
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot

MISSING_REPLICAS, RUNS_PILE_UP = "MissingReplicas", "RunsPileUp"

A = TypeVar("A", bound=Answer)
R = TypeVar("R", bound=Report)

_ENDED = ("Succeeded", "Failed")
_ALLOW = ("", "Allow")


def missing_replicas(base: Base, only: Collection[str] | None = None) -> tuple[InputWarning, ...]:
    """Return a warning for each workload of the cluster that has too few pods since the API server refuses more.

    Parameters
    ----------
    only : keys of workloads, KIND/NAMESPACE/NAME; None for all
    """
    lacking = [*_lacking(base.objects)] if only is None or only else []
    if not lacking:
        return ()
    simulation = begin(base)
    for key in lacking:
        owner = simulation.workloads.owner(key)
        if owner is not None:
            simulation.enqueue(owner)
    simulation.run_controllers()
    warnings: list[InputWarning] = []
    for key in lacking:
        owner = simulation.workloads.owner(key)
        if owner is None or not owner.refusal or (only is not None and owner.workload.key not in only):
            continue
        missing = owner.desired - len(owner.pods)
        are = "replica is" if owner.desired == 1 else "replicas are"
        message = f"{missing} of {owner.desired} {are} missing, since its controller gets: {owner.refusal}"
        warnings.append(InputWarning(MISSING_REPLICAS, owner.workload.key, message))
    return tuple(warnings)


def telling_missing(plan: A, base: Base) -> A:
    """Return an answer whose reports warn about missing replicas, of any workload, and about runs that pile up."""

    def context() -> Context:
        known = plan.make_context()
        return structs.replace(known, warnings=(*known.warnings, *missing_replicas(base), *piled_up(base.objects)))

    return dataclasses.replace(plan, make_context=context)


def with_missing(report: R, missing: Sequence[InputWarning]) -> R:
    """Return a report with further warnings, which count where warnings fail."""
    if not missing:
        return report
    verdict = report.verdict
    counted = counted_warnings(missing, verdict.fail_on)
    if counted:
        verdict = Verdict.of(verdict.fail_on, [*verdict.counted, *counted])
    return structs.replace(report, warnings=(*report.warnings, *missing), verdict=verdict)


def _lacking(snapshot: Snapshot) -> Iterator[str]:
    """Yield the keys of controllers in the snapshot that own fewer pods than they want."""
    pods: Counter[str] = Counter()
    for pod in snapshot.pods:
        owner = controller_of(pod.metadata)
        if owner is not None and pod.status.phase not in _ENDED and pod.metadata.deletion_timestamp is None:
            pods[object_name(owner.kind, pod.metadata.namespace, owner.name)] += 1
    wanted = [
        *((f"ReplicaSet/{obj.metadata.key}", obj.spec.replicas) for obj in snapshot.replica_sets),
        *((f"StatefulSet/{obj.metadata.key}", obj.spec.replicas) for obj in snapshot.stateful_sets),
        *((f"ReplicationController/{obj.metadata.key}", obj.spec.replicas) for obj in snapshot.replication_controllers),
    ]
    for key, replicas in wanted:
        if pods[key] < (1 if replicas is None else replicas):
            yield key


def piled_up(snapshot: Snapshot, only: Collection[str] | None = None) -> Iterator[InputWarning]:
    """Yield a warning for each cron job of which a run waits for a node while others are active.

    Parameters
    ----------
    only : NAMESPACE/NAME of pods of which one has to wait; None for all
    """
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
