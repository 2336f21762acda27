"""Workloads and other manifests, turned into the pods that their controllers would create."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kplan.admission.decoding import Fault
from kplan.api.core import Pod
from kplan.api.field_errors import FieldError
from kplan.api.names import object_name
from kplan.api.quantity import parse
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.reading.items import Item
from kplan.snapshot.build import uncountable

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
        below = self.template_path.removeprefix(".")
        return field_problem(self.item, error, f"{below}.{error.field}" if below else error.field)

    def uncountable(self) -> Iterator[Problem]:
        """Yield the amounts of resources that overflow int64."""
        spec, path = self.template.get("spec", {}), f"${self.template_path}.spec"
        amounts_at = [(spec.get("resources", {}), f"{path}.resources"), ({"limits": spec.get("overhead", {})}, path)]
        for group in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(group, [])):
                amounts_at.append((container.get("resources", {}), f"{path}.{group}[{index}].resources"))
        for resources, at in amounts_at:
            amounts = [(side, *amount) for side in ("limits", "requests") for amount in resources.get(side, {}).items()]
            for side, name, amount in amounts:
                where = f"{at}.{'overhead' if at == path else side}.{name}"
                if (problem := uncountable(name, parse(amount).nanos, repr(amount[:60]), where)) is not None:
                    yield self.item.locate(problem)


class ManifestPod(msgspec.Struct, frozen=True):
    """A pod of a manifest, as its controller sends it to the API server."""

    pod: Pod
    workload: ManifestWorkload
    more: int = 0  #: further replicas like it, which are only counted: they have the same outcome

    @property
    def kind(self) -> str:
        return self.workload.kind

    @property
    def name(self) -> str:
        return self.workload.name


class PassedOver(msgspec.Struct, frozen=True):
    """A file of a directory that holds no manifests."""

    path: str
    reason: str
    built_by: str = ""  #: the option or command with which its objects are built; empty where nothing builds them
    is_overlay: bool = False  #: it is part of a kustomization that builds on another directory


class Manifests(msgspec.Struct, frozen=True):
    """The content of manifests, with workloads expanded into pods."""

    pods: tuple[ManifestPod, ...]  #: in reading order
    workloads: tuple[ManifestWorkload, ...] = ()  #: the objects of these pods, and workloads without a pod
    objects: tuple[msgspec.Struct, ...] = ()  #: other objects that scheduling reads
    warnings: tuple[InputWarning, ...] = ()
    skipped: dict[str, int] = {}  #: kind that scheduling does not read -> number of objects
    passed_over: tuple[PassedOver, ...] = ()  #: files of directories that hold no manifests
    items: tuple[Item, ...] = ()  #: all objects, also those that are skipped, with their places


class WrittenWorkload(msgspec.Struct, frozen=True):
    """A workload or a pod as it is written, with its namespace filled in."""

    type: type[Any]
    content: dict[str, Any]
    is_valid: bool = False  #: it was validated when it was read

    @property
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        metadata = self.content["metadata"]
        return object_name(self.type.__name__, metadata["namespace"], metadata.get("name", ""))


def field_problem(item: Item, error: FieldError, path: str) -> Problem:
    return item.locate(Problem(error.body, json_path=f"$.{path}", hint=_explain(item.kind, path)))


def fault_hint(fault: Fault, kind: str) -> str:
    if fault.is_strict:
        return "leave it out, or pass over such fields with --validate ignore"
    if fault.is_quantity:
        return 'a quantity is a number with an optional suffix, such as "500m", "2", "1.5Gi" or "2e3"'
    return _explain(kind, fault.path)


def _explain(kind: str, path: str) -> str:
    """Return the kubectl command that describes the field; indices and map keys are left out of its path."""
    fields = re.sub(r"\[[^\[\]]*+\]|\.?\{.*", "", path)
    return f"kubectl explain {kind.lower()}.{fields} describes this field"
