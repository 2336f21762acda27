"""Pods and manifests that a question is about, brought before the planner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from kplan.cluster.base import PodLike
from kplan.effects.updating import Update, requested_update
from kplan.questions.base import Manifest, PodName
from kplan.subjects.incoming import admit_manifests
from kplan.workloads.manifests import Manifests, load_manifests
from kplan.workloads.started import started

if TYPE_CHECKING:
    from kplan.planner.planner import Planner


class Subject(msgspec.Struct, frozen=True):
    """The pods of a question, and a planner whose cluster holds the other objects of its manifests."""

    planner: Planner
    pods: Sequence[PodLike]
    update: Update | None = None  #: what the manifests change, where they are about workloads of the cluster


def read(
    planner: Planner, manifests: Sequence[Manifest], namespace: str, replicas: int | None, *, run_cron_jobs: bool
) -> Manifests:
    """Read manifests; raises ManifestError with all of their problems."""
    loaded = load_manifests(
        manifests,
        snapshot=planner.snapshot,
        namespace=namespace or None,
        replicas=replicas,
        minor=planner.release.number,
    )
    return started(loaded, run_cronjobs=run_cron_jobs)


def subject_of(
    planner: Planner,
    pods: Sequence[PodName],
    manifests: Sequence[Manifest],
    *,
    namespace: str = "",
    replicas: int | None = None,
    run_cron_jobs: bool = False,
) -> Subject:
    """Return the pods of a question.

    Parameters
    ----------
    pods : pending pods; they follow those of the manifests
    replicas : the number of pods of each workload, in place of its own

    Raises
    ------
    ManifestError
        With all problems of the manifests.
    """
    if not manifests:
        return Subject(planner, list(pods))
    loaded = read(planner, manifests, namespace, replicas, run_cron_jobs=run_cron_jobs)
    update = None if pods else requested_update(planner, loaded, replicas, run_cronjobs=run_cron_jobs)
    incoming = admit_manifests(loaded, planner.snapshot, minor=planner.release.number)
    changed = planner.with_world(planner.snapshot, incoming.objects, incoming.warnings)
    return Subject(changed, [*incoming.pods, *pods], update)
