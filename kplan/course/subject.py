"""What a question is about: a cluster, and pods and workloads that are named or come from manifests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from kplan.api.core import Pod
from kplan.api.kinds import CHANGED_IN_PLACE, PODS_FIELD
from kplan.cluster.base import Base, PodLike
from kplan.cluster.incoming import accepted_objects, admit_manifests, origin_of
from kplan.framework.pod_groups import WORKLOAD_GATE
from kplan.workloads import WrittenWorkload
from kplan.workloads.expansion import started, with_runs, workload_type
from kplan.workloads.hooks import has_any, hook_of
from kplan.workloads.manifests import ReadOptions, load_manifests

if TYPE_CHECKING:
    from kplan.course.task import Task
    from kplan.documents.placement import Origin
    from kplan.snapshot.model import Snapshot
    from kplan.workloads import Manifests, ManifestWorkload
    from kplan.workloads.sources import Source

_REPORTED_AS_CHANGES = frozenset({"AlreadyExists", "AutoscaledReplicas"})
"""Warnings about existing objects and autoscalers, which the report of a change covers itself."""


class Subject(msgspec.Struct, frozen=True, dict=True):
    """The pods of a question, and a cluster that holds the other objects of their manifests."""

    base: Base
    pods: Sequence[PodLike] = ()  #: those of manifests, then those that are named, in their order
    manifests: Manifests | None = None  #: None without manifests
    names_pods: bool = False  #: some of the pods are named
    replicas: int | None = None  #: the number of pods of each workload of the manifests, in place of its own
    run_cron_jobs: bool = False  #: each cron job of the manifests starts a run now
    is_choice: bool = False  #: the pods are chosen among all pending pods, in place of all of them
    tells_of: frozenset[str] | None = None  #: workloads of the choice, as for `Task`

    def applied(self) -> tuple[Base, Sequence[WrittenWorkload]]:
        """Return a cluster with the other objects of the manifests, and their workloads, if any."""
        if self.manifests is None:
            return self.base, ()
        base, loaded = self.base, self.manifests
        others = [obj for obj in loaded.objects if type(obj) not in CHANGED_IN_PLACE]
        admitting, objects = accepted_objects(others, base.snapshot, base.release.number)
        warnings = [one for one in (*loaded.warnings, *admitting.warnings) if one.code not in _REPORTED_AS_CHANGES]
        changed = base.for_cluster(base.snapshot, objects, warnings) if objects or warnings else base.plain
        changed.on_progress = base.on_progress or changed.on_progress
        return changed, [written for _, written in self.written]

    @cached_property
    def written(self) -> list[tuple[str, WrittenWorkload]]:
        """The workloads of the manifests as they are applied, each with KIND/NAMESPACE/NAME of its manifest."""
        workloads: list[tuple[str, WrittenWorkload]] = []
        for workload in self._of_manifests:
            target = workload_type(workload.item.api_version, workload.kind)
            if target is None:
                continue
            content: dict[str, Any] = workload.item.value()
            names = {"namespace": workload.namespace, "name": workload.name}
            content["metadata"] = {**content.get("metadata", {}), **names}
            if self.replicas is not None and workload.kind in PODS_FIELD:
                content["spec"] = {**content.get("spec", {}), PODS_FIELD[workload.kind]: self.replicas}
            written = WrittenWorkload(target, content, is_valid=self.replicas is None)
            workloads += ((workload.key, one) for one in (with_runs([written]) if self.run_cron_jobs else [written]))
        return workloads

    def task(self, task: Task) -> tuple[Base, Task]:
        """Return a task in which the manifests are applied besides, and the cluster that it is for."""
        from kplan.course.task import applying

        base, workloads = self.applied()
        return base, msgspec.structs.replace(task, steps=applying(workloads), tells_of=self.tells_of)

    @cached_property
    def has_updates(self) -> bool:
        """Whether the manifests change workloads of the cluster, or come in turn, and no pods are named, too."""
        if self.manifests is None or self.names_pods or all(one.kind == "Pod" for one in self._of_manifests):
            return False
        if has_updates(self.manifests, self.base.snapshot):
            return True
        hooks = [hook_of(one.item.value()) for one in self._of_manifests]
        # Jobs of such hooks are done before the other workloads come.
        return None in hooks and any(hook is not None and hook.comes_first for hook in hooks)

    @property
    def _of_manifests(self) -> Sequence[ManifestWorkload]:
        return () if self.manifests is None else self.manifests.workloads

    @property
    def origins(self) -> dict[str, Origin]:
        """The position of each workload in the files, by KIND/NAMESPACE/NAME."""
        return {workload.key: origin_of(workload) for workload in self._of_manifests}


def subject_of(
    base: Base,
    manifests: Sequence[Source] = (),
    pods: Sequence[PodLike] = (),
    namespace: str = "",
    replicas: int | None = None,
    *,
    run_cron_jobs: bool = False,
) -> Subject:
    """Read manifests, and return the subject of a question; raises ManifestError with all problems of the manifests.

    `pods`: pending pods; they follow those of the manifests. `namespace`: for objects that name none. `replicas`: the
    number of pods of each workload, in place of its own.
    """
    if not manifests:
        return Subject(base, pods, names_pods=bool(pods))
    minor = base.release.number
    options = ReadOptions(snapshot=base.snapshot, minor=minor, namespace=namespace, replicas=replicas)
    return loaded_subject(base, load_manifests(manifests, options), pods, replicas, run_cron_jobs=run_cron_jobs)


def loaded_subject(
    base: Base, manifests: Manifests, pods: Sequence[PodLike], replicas: int | None, *, run_cron_jobs: bool
) -> Subject:
    """Return the subject of a question about manifests that are read already; as `subject_of`."""
    manifests = started(manifests, run_cronjobs=run_cron_jobs)
    keeps_groups = base.release.is_on(WORKLOAD_GATE)
    incoming = admit_manifests(manifests, base.snapshot, minor=base.release.number, keeps_groups=keeps_groups)
    base = base.for_cluster(base.snapshot, incoming.objects, incoming.warnings)
    return Subject(base, [*incoming.pods, *pods], manifests, bool(pods), replicas, run_cron_jobs)


def has_updates(manifests: Manifests, snapshot: Snapshot) -> bool:
    """Tell whether the cluster has any of the workloads; single pods do not count."""
    types = ((one.key, workload_type(one.item.api_version, one.kind)) for one in manifests.workloads)
    return has_any(snapshot, [key for key, target in types if target is not Pod and target in CHANGED_IN_PLACE])
