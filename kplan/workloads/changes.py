"""Manifests as they are held against a cluster: each object as it was written, in the order in which it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from kplan.api.decode import DecodeError, convert
from kplan.api.kinds import kind_of
from kplan.errors import ManifestError, Problem
from kplan.reading import MANIFESTS, Item, read_items
from kplan.snapshot.defaults import complete
from kplan.workloads.manifests import workload_type

Manifest = str | Path | Mapping[str, Any]
"""A path, or an object."""


class WrittenWorkload(NamedTuple):
    """A workload or a pod as it was written, its namespace filled in."""

    type: type[Any]
    content: dict[str, Any]


def read_changes(
    manifests: Iterable[Manifest], namespace: str, *, stdin: BinaryIO | None = None
) -> tuple[list[WrittenWorkload], list[msgspec.Struct]]:
    """Read manifests.

    Parameters
    ----------
    namespace : for objects that name none

    Returns
    -------
    workloads : what is changed in place, in reading order
    objects : other objects that scheduling reads, complete; they take the place of what was there

    Raises
    ------
    ManifestError
        With everything that is wrong.
    """
    reader = _Reader(namespace)
    for index, each in enumerate(manifests):
        if isinstance(each, Mapping):
            reader.take_object(dict(each), index)
        else:
            for item in read_items(each, reader.problems, limits=MANIFESTS, stdin=stdin):
                reader.take_item(item)
    if reader.problems:
        raise ManifestError(reader.problems)
    return reader.workloads, reader.objects


class _Reader:
    def __init__(self, namespace: str) -> None:
        self.workloads: list[WrittenWorkload] = []
        self.objects: list[msgspec.Struct] = []
        self.problems: list[Problem] = []
        self._namespace = namespace

    def take_item(self, item: Item) -> None:
        try:
            self._take(item.api_version, item.kind, item.value())
        except DecodeError as error:
            self.problems += [item.locate(problem) for problem in error.problems]

    def take_object(self, obj: dict[str, Any], index: int) -> None:
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            hint = "a Kubernetes object has apiVersion, kind and metadata"
            self.problems.append(Problem("has no kind", json_path=f"$[{index}].kind", hint=hint))
            return
        try:
            self._take(api_version, kind, obj)
        except DecodeError as error:
            self.problems += [
                Problem(each.message, json_path=f"$[{index}]{each.json_path.removeprefix('$')}", hint=each.hint)
                for each in error.problems
            ]

    def _take(self, api_version: str, kind: str, content: dict[str, Any]) -> None:
        target = workload_type(api_version, kind)
        if target is None:
            known = kind_of(api_version, kind)
            if known is not None:
                self.objects.append(complete(convert(content, known.type), known, self._namespace))
            return
        obj = convert(content, target)
        metadata = obj.metadata  # type: ignore[attr-defined] # every kind has it
        if not metadata.name:
            hint = "give it metadata.name"
            raise DecodeError((Problem("has no name", json_path="$.metadata.name", hint=hint),))
        written = {**content["metadata"], "namespace": metadata.namespace or self._namespace}
        self.workloads.append(WrittenWorkload(target, {**content, "metadata": written}))
