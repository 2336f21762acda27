"""Reading manifests: every workload turned into pods, everything else that scheduling reads kept beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from kplan.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kplan.api.core import Pod
from kplan.api.decode import DecodeError
from kplan.api.kinds import Kind, kind_of, split_api_version
from kplan.api.labels import InvalidSelector, selector_from
from kplan.errors import ManifestError, Problem
from kplan.reading import MANIFESTS, Item, read_items
from kplan.snapshot.model import Snapshot, object_name
from kplan.snapshot.model import Warning as InputWarning
from kplan.snapshot.times import time_problems
from kplan.workloads.expansion import WORKLOADS, expand

_GROUPS = {"": ("Pod", "ReplicationController", "PodTemplate"), "batch": ("Job", "CronJob")}
_APPS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class ManifestPod:
    """A pod that a manifest asks for, as its controller would send it to the API server.

    Attributes
    ----------
    kind, name : of the object that asks for it
    json_path : where that object's pod or template stands in its document
    """

    pod: Pod
    file: str
    document: int | None
    kind: str
    name: str
    json_path: str = "$"


@dataclass(frozen=True)
class Manifests:
    """All that manifests ask for.

    Attributes
    ----------
    pods : in reading order
    objects : other objects that would then exist
    skipped : kinds that scheduling does not read, counted
    read : the objects as they stand in the files, each with the struct that it was read into
    """

    pods: tuple[ManifestPod, ...]
    objects: tuple[msgspec.Struct, ...] = ()
    warnings: tuple[InputWarning, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)
    read: tuple[tuple[Item, type[msgspec.Struct]], ...] = ()


def load_manifests(
    sources: Sequence[str | Path],
    *,
    snapshot: Snapshot,
    namespace: str | None = None,
    replicas: int | None = None,
    stdin: BinaryIO | None = None,
    check: Callable[[Sequence[ManifestPod]], Iterable[Problem]] | None = None,
) -> Manifests:
    """Read manifests and turn their workloads into pods.

    Parameters
    ----------
    sources : files, directories or ``-``
    namespace : for objects that name none
    replicas : how many pods of each workload, instead of what it says
    check : tells what else is wrong with pods, so that all is told at once

    Raises
    ------
    ManifestError
        With everything that is wrong, each with file, document and JSON path.
    """
    reader = _Reader(snapshot, namespace or DEFAULT_NAMESPACE, replicas)
    for source in sources:
        for item in read_items(source, reader.problems, limits=MANIFESTS, stdin=stdin):
            reader.take(item)
    if not reader.problems and not reader.has_workloads:
        reader.problems.append(
            Problem(
                "no pod and no workload in the manifests",
                path=", ".join(map(str, sources)),
                hint=f"name files that hold one of {', '.join(WORKLOADS)}",
            )
        )
    if check is not None:
        reader.problems += check(reader.pods)
    if reader.problems:
        raise ManifestError(reader.problems)
    return Manifests(
        tuple(reader.pods),
        tuple(reader.objects),
        tuple(reader.warnings),
        dict(reader.skipped),
        tuple(reader.read),
    )


class _Reader:
    def __init__(self, snapshot: Snapshot, namespace: str, replicas: int | None) -> None:
        self.snapshot = snapshot
        self.namespace = namespace
        self.replicas = replicas
        self.pods: list[ManifestPod] = []
        self.objects: list[msgspec.Struct] = []
        self.warnings: list[InputWarning] = []
        self.problems: list[Problem] = []
        self.skipped: Counter[str] = Counter()
        self.has_workloads = False
        self.drawn: set[tuple[str, str]] = set()
        self.read: list[tuple[Item, type[msgspec.Struct]]] = []

    def take(self, item: Item) -> None:
        workload = workload_type(item.api_version, item.kind)
        kind = kind_of(item.api_version, item.kind)
        target = workload or (kind.type if kind is not None else None)
        if target is None:
            self.skipped[item.kind] += 1
            return
        try:
            obj: Any = item.decode(target)
            item.value()  # the fields that scheduling does not read are looked at later
        except DecodeError as error:
            self.problems += [item.locate(problem) for problem in error.problems]
            return
        if wrong := time_problems(obj):
            self.problems += map(item.locate, wrong)
            return
        self.read.append((item, target))
        if kind is None or kind.is_namespaced:
            obj = _in_namespace(obj, self.namespace)
        if workload is None:
            self.objects.append(obj)
        else:
            self._expand(item, obj, kind)

    def _expand(self, item: Item, obj: Any, kind: Kind | None) -> None:
        if not obj.metadata.name and not obj.metadata.generate_name:
            hint = "give it metadata.name"
            self.problems.append(item.locate(Problem("has no name", json_path="$.metadata.name", hint=hint)))
            return
        self.has_workloads = True
        if isinstance(obj, _SELECTING):
            self.problems += map(item.locate, _selector_problems(obj))
        if not obj.metadata.name and (self.replicas is None or not isinstance(obj, Pod)):
            obj = self._named(item.kind, obj)
        found = expand(obj, self.snapshot, self.replicas)
        path = item.json_path + _TEMPLATE_PATH.get(item.kind, ".spec.template")
        name = obj.metadata.name or obj.metadata.generate_name
        self.pods += [ManifestPod(pod, item.path, item.document, item.kind, name, path) for pod in found.pods]
        self.objects += [each for each in found.objects if kind is None or not isinstance(each, Pod)]
        self.warnings += found.warnings
        if found.pods and (node := found.pods[0].spec.node_name):
            where = object_name(item.kind, obj.metadata.namespace, name)
            message = f"names its node itself, {node}: kube-scheduler leaves it alone; this is what it would decide"
            self.warnings.append(InputWarning("AlreadyAssigned", where, message))

    def _named(self, kind: str, obj: Any) -> Any:
        """Return the object under a numbered name that is free, where an API server would draw one at random."""
        metadata = obj.metadata
        number = 0
        while True:
            name = f"{metadata.generate_name}{number}"
            key = f"{metadata.namespace}/{name}"
            if (kind, key) not in self.drawn and key not in self.snapshot.pod_by_key:
                break
            number += 1
        self.drawn.add((kind, key))
        return replace(obj, metadata=replace(metadata, name=name))


_SELECTING = (DaemonSet, Deployment, ReplicaSet, StatefulSet)
"""Kinds whose selector must choose the pods of their template."""

_TEMPLATE_PATH = {"Pod": "", "PodTemplate": ".template", "CronJob": ".spec.jobTemplate.spec.template"}


def workload_type(api_version: str, kind: str) -> type[msgspec.Struct] | None:
    """Return the type of a kind that makes pods; kinds of the same name in other groups are something else."""
    group, _ = split_api_version(api_version)
    known = _APPS if group in ("apps", "extensions") else _GROUPS.get(group, ())
    return WORKLOADS.get(kind) if kind in known else None


def _selector_problems(obj: Any) -> list[Problem]:
    labels = obj.spec.template.metadata.labels
    path = "$.spec.selector"
    if obj.spec.selector is None:
        hint = "write the labels of the template under spec.selector.matchLabels"
        return [Problem("a selector is required", json_path=path, hint=hint)]
    try:
        matches = selector_from(obj.spec.selector).matches(labels)
    except InvalidSelector as error:
        return [Problem(str(error), json_path=path)]
    if matches:
        return []
    hint = "give the template the labels that the selector asks for"
    return [Problem("does not match the labels of the template", json_path=path, hint=hint)]


def _in_namespace(obj: Any, namespace: str) -> Any:
    metadata = obj.metadata
    return obj if metadata.namespace else replace(obj, metadata=replace(metadata, namespace=namespace))
