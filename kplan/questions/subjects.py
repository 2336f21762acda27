"""Pods and manifests that a question is about, brought before the base."""

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
    from kplan.cluster.base import Base


class Subject(msgspec.Struct, frozen=True):
    """The pods of a question, and a base whose cluster holds the other objects of its manifests."""

    base: Base
    pods: Sequence[PodLike]
    update: Update | None = None  #: what the manifests change, where they are about workloads of the cluster


def read(
    base: Base, manifests: Sequence[Manifest], namespace: str, replicas: int | None, *, run_cron_jobs: bool
) -> Manifests:
    """Read manifests; raises ManifestError with all of their problems."""
    loaded = load_manifests(
        manifests,
        snapshot=base.snapshot,
        namespace=namespace or None,
        replicas=replicas,
        minor=base.release.number,
    )
    return started(loaded, run_cronjobs=run_cron_jobs)


def subject_of(
    base: Base,
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
        return Subject(base, list(pods))
    loaded = read(base, manifests, namespace, replicas, run_cron_jobs=run_cron_jobs)
    update = None if pods else requested_update(base, loaded, replicas, run_cronjobs=run_cron_jobs)
    incoming = admit_manifests(loaded, base.snapshot, minor=base.release.number)
    changed = base.with_world(base.snapshot, incoming.objects, incoming.warnings)
    return Subject(changed, [*incoming.pods, *pods], update)
