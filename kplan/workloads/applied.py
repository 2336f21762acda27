"""Manifests that are compared with a cluster: each object as it is written, in the order in which it is applied."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from kplan.admission.decoding import decode_object
from kplan.admission.fields import kind_named
from kplan.admission.judge import invalid_words, is_judged, judge
from kplan.api.decode import DecodeError, convert
from kplan.api.kinds import kind_of, metadata_of, split_api_version
from kplan.api.references import object_name
from kplan.errors import ManifestError, Problem
from kplan.reading.items import Item
from kplan.reading.several import listed
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Warning as InputWarning
from kplan.workloads.foreign import PodTemplateAt, not_placed, pod_templates
from kplan.workloads.manifests import workload_type
from kplan.workloads.problems import is_foreign, not_judged, unknown_kind
from kplan.workloads.sources import Sources

Manifest = str | Path | Mapping[str, Any]
"""A path, or an object."""


class WrittenWorkload(NamedTuple):
    """A workload or a pod as it is written, with its namespace filled in."""

    type: type[Any]
    content: dict[str, Any]


def read_changes(
    manifests: Iterable[Manifest], namespace: str, *, stdin: BinaryIO | None = None
) -> tuple[list[WrittenWorkload], list[msgspec.Struct], list[InputWarning]]:
    """Return the objects of manifests, for changing the cluster's own objects.

    Parameters
    ----------
    namespace : for objects that name none

    Returns
    -------
    workloads : workloads and pods, in reading order
    objects : other objects that scheduling reads, with defaults; they replace the cluster's objects of the same name
    warnings : about kinds that are not known and have pod templates

    Raises
    ------
    ManifestError
        With everything that an API server cannot decode. Validation happens later, after an object is merged with
        the cluster's object.
    """
    sources = Sources(stdin)
    reader = _Reader(namespace, sources.problems)
    for item in sources.items(listed(manifests)):
        reader.take(item)
    if sources.problems:
        raise ManifestError(sources.problems)
    return reader.workloads, reader.objects, [*reader.warnings, *not_judged(reader.unjudged)]


class _Reader:
    def __init__(self, namespace: str, problems: list[Problem]) -> None:
        self.workloads: list[WrittenWorkload] = []
        self.objects: list[msgspec.Struct] = []
        self.warnings: list[InputWarning] = []
        self.unjudged: Counter[str] = Counter()  #: kinds of which only the fields are checked
        self._problems = problems
        self._namespace = namespace

    def take(self, item: Item) -> None:
        api_kind = kind_named(item.api_version, item.kind)
        if api_kind is None:
            if not is_foreign(item.api_version, item.kind):
                self._problems.append(item.locate(unknown_kind(item.api_version, item.kind)))
            elif templates := self._templates_of(item):
                self.warnings.append(not_placed(item, templates))
            else:
                self.unjudged[item.kind] += 1
            return
        try:
            content = item.value()
            faults = decode_object(content, api_kind.struct).faults
            if not faults:
                self._keep(item, content)
        except DecodeError as error:
            self._problems += map(item.locate, error.problems)
            return
        for fault in faults:
            hint = f"did you mean {fault.hint}?" if fault.hint else ""
            self._problems.append(item.locate(Problem(fault.message, json_path=f"$.{fault.path}", hint=hint)))

    def _templates_of(self, item: Item) -> list[PodTemplateAt]:
        try:
            return pod_templates(item.value())
        except DecodeError as error:
            self._problems += map(item.locate, error.problems)
            return []

    def _accepts(self, item: Item, content: dict[str, Any]) -> bool:
        """Tell whether the API server accepts an object that is no workload; warn where it does not."""
        api_kind = kind_named(item.api_version, item.kind)
        judged = judge(copy.deepcopy(content), api_kind, item.kind, self._namespace) if api_kind is not None else None
        if judged is None or not judged.errors:
            return True
        metadata = judged.content.get("metadata", {})
        name = str(metadata.get("name", ""))
        words = invalid_words(item.kind, split_api_version(item.api_version)[0], name, judged.errors)
        where = object_name(item.kind, str(metadata.get("namespace", "")), name)
        self.warnings.append(InputWarning("Refused", where, words))
        return False

    def _keep(self, item: Item, content: dict[str, Any]) -> None:
        target = workload_type(item.api_version, item.kind)
        if target is None:
            if not is_judged(item.kind):
                self.unjudged[item.kind] += 1
            known = kind_of(item.api_version, item.kind)
            if known is not None and self._accepts(item, content):
                self.objects.append(complete(convert(content, known.type), known, self._namespace))
            return
        metadata = metadata_of(convert(content, target))
        if not metadata.name:
            hint = "give it metadata.name"
            raise DecodeError((Problem("has no name", json_path="$.metadata.name", hint=hint),))
        written = {**content["metadata"], "namespace": metadata.namespace or self._namespace}
        self.workloads.append(WrittenWorkload(target, {**content, "metadata": written}))
