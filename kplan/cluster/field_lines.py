"""Line numbers, in their manifests, of the fields that diagnoses point at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import object_name
from kplan.documents.base import Report
from kplan.documents.placement import Origin, PlacementReport, PodPlacement, PreemptionReport
from kplan.facts import InputWarning
from kplan.reading.items import Item
from kplan.reading.positions import Step, steps_of
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.workloads import Manifests, ManifestWorkload
from kplan.workloads.autoscalers import CODE as AUTOSCALED

R = TypeVar("R", bound=Report)
_REPLICAS = "$.spec.replicas"
_LEAST_STEPS = 2
"""For a field that is missing the line of its parent counts, if that is at least this deep: ``spec.KEY``."""


def with_lines(document: R, manifests: Manifests) -> R:
    """Return a report with the lines of what is at fault: the field of each placement, the object of each warning."""
    if document.warnings:
        document = replace(document, warnings=placed_warnings(document.warnings, manifests))
    return _with_fields(document, _Lines(manifests.workloads)) if manifests.workloads else document


def _with_fields(document: R, lines: _Lines) -> R:
    if isinstance(document, PlacementReport | PreemptionReport):
        return replace(document, placements=tuple(map(lines.of, document.placements)))
    from kplan.documents.capacity import CapacityReport, HeadroomReport
    from kplan.documents.diff import DiffReport
    from kplan.documents.plan import PlanReport

    match document:
        case DiffReport(workloads=rows):
            located = tuple(
                row if row.decision is None else replace(row, decision=lines.of(row.decision)) for row in rows
            )
            return replace(document, workloads=located)
        case PlanReport():
            return replace(document, placements=tuple(map(lines.of, document.placements)))
        case CapacityReport(stop=stop) if stop is not None:
            return replace(document, stop=replace(stop, placement=lines.of(stop.placement)))
        case HeadroomReport(workloads=workloads):
            updated = tuple(one if one.stop is None else replace(one, stop=lines.of(one.stop)) for one in workloads)
            return replace(document, workloads=updated)
        case _:
            return document


def placed_warnings(warnings: Sequence[InputWarning], manifests: Manifests) -> tuple[InputWarning, ...]:
    """Return warnings with their lines in the manifests; for the number of replicas that of the field."""
    about = {warning.object for warning in warnings if warning.object}
    known: dict[str, Item] = {
        object_name(workload.kind, workload.namespace, workload.name): workload.item for workload in manifests.workloads
    }
    if not about <= known.keys():
        for item in manifests.items:
            for name in _names_of(item):
                known.setdefault(name, item)
    return tuple(_placed(warning, known.get(warning.object)) for warning in warnings)


def _placed(warning: InputWarning, item: Item | None) -> InputWarning:
    if item is None:
        return warning
    steps = steps_of(_REPLICAS)
    is_of_replicas = warning.code == AUTOSCALED and _depth(item.value(), steps) == len(steps)
    line = item.line_of(_REPLICAS) if is_of_replicas else item.line_of()
    return replace(warning, file=item.path, line=line or UNSET)


def _names_of(item: Item) -> Iterator[str]:
    """Yield the names under which warnings are about an object: of kinds that are not known, as it is written."""
    metadata = item.value().get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    yield object_name(item.kind, namespace, name)
    yield object_name(item.kind, namespace or DEFAULT_NAMESPACE, name)


class _Lines:
    def __init__(self, workloads: Sequence[ManifestWorkload]) -> None:
        self._by_place = {
            (workload.item.path, workload.item.document, workload.kind, workload.name, workload.namespace): workload
            for workload in workloads
        }
        self._known: dict[tuple[int, str], int | None] = {}

    def of(self, placement: PodPlacement) -> PodPlacement:
        field, origin = placement.at_fault, placement.pod.origin
        if not field or not isinstance(origin, Origin):
            return placement
        place = (origin.file, origin.document or 0, origin.kind, origin.name, placement.pod.namespace)
        workload = self._by_place.get(place)
        line = None if workload is None else self._line(workload, field.path)
        return placement if line is None else replace(placement, at_fault=replace(field, line=line))

    def _line(self, workload: ManifestWorkload, path: str) -> int | None:
        """Return the line of a field of the pod, or of its nearest parent; a limit also counts as a request."""
        key = (id(workload), path)
        if key not in self._known:
            ways = (path, path.replace(".resources.requests", ".resources.limits"))
            depth, nearest = max(((_depth(workload.template, steps_of(way)), way) for way in ways), key=itemgetter(0))
            below = f"${workload.template_path}{nearest.removeprefix('$')}"
            self._known[key] = (workload.item.line_of(below) or None) if depth >= _LEAST_STEPS else None
        return self._known[key]


def _depth(value: Any, steps: Sequence[Step]) -> int:
    """Return how many of the steps lead to something in a value."""
    for depth, step in enumerate(steps):
        is_in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not (is_in_list or (isinstance(value, dict) and step in value)):
            return depth
        value = value[step]
    return len(steps)
