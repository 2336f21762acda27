"""Manifests that are compared with a cluster: each object as it is written, in the order in which it is applied."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.admission.decoding import decode_object
from kplan.admission.fields import ApiKind
from kplan.admission.judge import invalid_words, is_judged, judge
from kplan.api.batch import CronJob, Job
from kplan.api.decode import DecodeError, convert
from kplan.api.kinds import kind_of, metadata_of, split_api_version
from kplan.api.references import object_name
from kplan.errors import ManifestError, Problem
from kplan.facts import InputWarning
from kplan.reading.items import Item
from kplan.reading.several import listed
from kplan.snapshot.defaults import complete
from kplan.workloads.contents import Manifests
from kplan.workloads.foreign import PodTemplateAt, not_placed, take_object
from kplan.workloads.manifests import job_of_run, workload_type
from kplan.workloads.problems import not_judged
from kplan.workloads.sources import Sources

Manifest = str | Path | Mapping[str, Any]
"""A path, or an object."""


class WrittenWorkload(NamedTuple):
    """A workload or a pod as it is written, with its namespace filled in."""

    type: type[Any]
    content: dict[str, Any]
    is_valid: bool = False  #: it was validated when it was read


def read_changes(
    manifests: Iterable[Manifest], namespace: str
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

    Raises ManifestError with everything that an API server cannot decode. Validation happens later, after an object is
    merged with the cluster's object.
    """
    sources = Sources()
    reader = _Reader(namespace, sources.problems)
    for item in sources.items(listed(manifests)):
        take_object(item, sources.problems, reader.take_known, reader.take_foreign)
    if sources.problems:
        raise ManifestError(sources.problems)
    return reader.workloads, reader.objects, [*reader.warnings, *not_judged(reader.unjudged)]


class _Reader(msgspec.Struct):
    namespace: str
    problems: list[Problem]
    workloads: list[WrittenWorkload] = []
    objects: list[msgspec.Struct] = []
    warnings: list[InputWarning] = []
    #: kinds of which only the fields are checked
    unjudged: Counter[str] = msgspec.field(default_factory=Counter)

    def take_known(self, item: Item, api_kind: ApiKind) -> None:
        content = item.value()
        faults = decode_object(content, api_kind.struct).faults
        for fault in faults:
            hint = f"did you mean {fault.hint}?" if fault.hint else ""
            self.problems.append(item.locate(Problem(fault.message, json_path=f"$.{fault.path}", hint=hint)))
        if not faults:
            self._keep(item, api_kind, content)

    def take_foreign(self, item: Item, templates: list[PodTemplateAt]) -> None:
        if templates:
            self.warnings.append(not_placed(item, templates))
        else:
            self.unjudged[item.kind] += 1

    def _keep(self, item: Item, api_kind: ApiKind, content: dict[str, Any]) -> None:
        target = workload_type(item.api_version, item.kind)
        if target is None:
            if not is_judged(item.kind):
                self.unjudged[item.kind] += 1
            known = kind_of(item.api_version, item.kind)
            if known is not None and self._accepts(item, api_kind, content):
                self.objects.append(complete(convert(content, known.type), known, self.namespace))
            return
        metadata = metadata_of(convert(content, target))
        if not metadata.name:
            hint = "give it metadata.name"
            raise DecodeError((Problem("has no name", json_path="$.metadata.name", hint=hint),))
        written = {**content["metadata"], "namespace": metadata.namespace or self.namespace}
        self.workloads.append(WrittenWorkload(target, {**content, "metadata": written}))

    def _accepts(self, item: Item, api_kind: ApiKind, content: dict[str, Any]) -> bool:
        """Tell whether the API server accepts an object that is no workload; warn where it does not."""
        judged = judge(copy.deepcopy(content), api_kind, item.kind, self.namespace)
        if judged.errors:
            metadata = judged.content.get("metadata", {})
            name, group = str(metadata.get("name", "")), split_api_version(item.api_version)[0]
            where = object_name(item.kind, str(metadata.get("namespace", "")), name)
            self.warnings.append(InputWarning("Refused", where, invalid_words(item.kind, group, name, judged.errors)))
        return not judged.errors


MAKES_PODS_LATER: Mapping[str, str] = {
    "CronJob": "creates its pods on schedule, so none is placed here; --run-cronjobs places those of one run",
    "PodTemplate": "creates no pods by itself, so none is placed here",
}
"""Kind -> the message of the warning about an object that creates no pods when it is applied."""


def not_started(kind: str, namespace: str, name: str) -> InputWarning:
    """Return the warning that an object creates no pods when it is applied."""
    return InputWarning("NotStarted", object_name(kind, namespace, name), MAKES_PODS_LATER[kind])


def with_runs(workloads: Iterable[WrittenWorkload]) -> list[WrittenWorkload]:
    """Return the workloads, with each cron job replaced by the job of one run."""
    return [
        WrittenWorkload(Job, job_of_run(workload.content, workload.content["metadata"]["name"]))
        if workload.type is CronJob
        else workload
        for workload in workloads
    ]


def started(manifests: Manifests, *, run_cronjobs: bool = False) -> Manifests:
    """Return manifests without the pods that are not created when they are applied.

    If the manifests hold nothing but such objects, the question is about their pods, and these stay.

    Parameters
    ----------
    run_cronjobs : the pods of one run of each cron job stay in any case
    """
    later = [workload for workload in manifests.workloads if workload.kind in MAKES_PODS_LATER]
    if len(later) == len(manifests.workloads):
        return manifests
    left_out = [workload for workload in later if workload.kind != "CronJob" or not run_cronjobs]
    ids = {id(workload) for workload in left_out}
    later_warnings = [not_started(workload.kind, workload.namespace, workload.name) for workload in left_out]
    # Why a run would create no pods does not matter where there is no run.
    runs = {warning.object for warning in later_warnings}
    warnings = [warning for warning in manifests.warnings if warning.code != "Suspended" or warning.object not in runs]
    return replace(
        manifests,
        pods=tuple(pod for pod in manifests.pods if id(pod.workload) not in ids),
        warnings=(*warnings, *later_warnings),
    )
