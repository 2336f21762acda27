"""The content of manifests: workloads, their pods, and everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kplan.admission.validation.errors import FieldError
from kplan.api.core import Pod
from kplan.api.references import object_name
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.reading.items import Item
from kplan.workloads.problems import field_problem, uncountable
from kplan.workloads.sources import PassedOver

Object = dict[str, Any]
_TEMPLATE_PATH = {"Pod": "", "PodTemplate": ".template", "CronJob": ".spec.jobTemplate.spec.template"}


class ManifestWorkload(msgspec.Struct, frozen=True):
    """A workload or a pod of a manifest."""

    item: Item  #: the object with its place in the file
    #: group, resource: of its kind, such as ``apps`` and ``deployments``
    group: str
    resource: str
    namespace: str
    name: str
    template: Object  #: the pod template as it is written, ``metadata`` and ``spec``; for a pod the whole pod
    sample: Pod  #: a pod of the template without what a controller adds, with the fields that scheduling reads
    created: Pod  #: the first pod that the controller creates; where it creates none, what it would create

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return self.item.kind

    @property
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        return object_name(self.kind, self.namespace, self.name)

    @property
    def template_path(self) -> str:
        """JSON path of the pod or the pod template below the object, such as ``.spec.template``."""
        return _TEMPLATE_PATH.get(self.kind, ".spec.template")

    def locate(self, error: FieldError) -> Problem:
        """Return a validation error of a pod as a problem in the template."""
        below = self.template_path.removeprefix(".")
        return field_problem(self.item, error, f"{below}.{error.field}" if below else error.field)

    def uncountable(self) -> Iterator[Problem]:
        """Yield a problem for each resource amount that overflows int64."""
        yield from map(self.item.locate, uncountable(self.template.get("spec", {}), f"${self.template_path}.spec"))


class ManifestPod(msgspec.Struct, frozen=True):
    """A pod of a manifest, as its controller sends it to the API server."""

    pod: Pod
    workload: ManifestWorkload
    more: int = 0  #: further replicas like it, which are only counted: they have the same outcome

    @property
    def kind(self) -> str:
        """The kind of the workload, or Pod."""
        return self.workload.kind

    @property
    def name(self) -> str:
        """The name of the workload, or of the pod itself."""
        return self.workload.name


class Manifests(msgspec.Struct, frozen=True):
    """The content of manifests, with workloads expanded into pods."""

    pods: tuple[ManifestPod, ...]  #: in reading order
    workloads: tuple[ManifestWorkload, ...] = ()  #: the objects of these pods, and workloads without a pod
    objects: tuple[msgspec.Struct, ...] = ()  #: other objects that scheduling reads
    warnings: tuple[InputWarning, ...] = ()
    skipped: dict[str, int] = {}  #: kind that scheduling does not read -> number of objects
    passed_over: tuple[PassedOver, ...] = ()  #: files of directories that hold no manifests
    items: tuple[Item, ...] = ()  #: all objects, also those that are skipped, with their places


def duplicate_names(pods: Sequence[ManifestPod]) -> Iterator[Problem]:
    """Yield a problem for pods with the name of an earlier pod, one per workload."""
    first: dict[tuple[str, str], ManifestPod] = {}
    reported: set[int] = set()
    for pod in pods:
        metadata = pod.pod.metadata
        if not metadata.name:
            continue
        earlier = first.setdefault((metadata.namespace, metadata.name), pod)
        if earlier is pod or id(pod.workload) in reported:
            continue
        reported.add(id(pod.workload))
        place = earlier.workload.item.locate(Problem("")).path
        number = f" (document {earlier.workload.item.document})"
        yield pod.workload.item.locate(
            Problem(
                f"a second pod {metadata.namespace}/{metadata.name}; the first is in {place}{number}",
                json_path=f"${pod.workload.template_path}",
                hint="give one of them another name or namespace",
            )
        )
