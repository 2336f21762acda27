"""Line numbers, in their manifests, of the fields that diagnoses point at."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from kplan.documents.base import Report
from kplan.documents.capacity import CapacityReport
from kplan.documents.headroom import HeadroomReport
from kplan.documents.placement import Origin, PlacementReport, PodPlacement
from kplan.documents.plan import PlanReport
from kplan.documents.preemption_report import PreemptionReport
from kplan.reading.places import Step, steps_of
from kplan.workloads.manifests import Manifests, ManifestWorkload

R = TypeVar("R", bound=Report)
_LEAST_STEPS = 2
"""For a field that is missing the line of its parent counts, if that is at least this deep: ``spec.KEY``."""


def with_lines(document: R, manifests: Manifests | None) -> R:
    """Return a report with the line of the field at fault of each placement that has one."""
    if manifests is None or not manifests.workloads:
        return document
    places = _Places(manifests.workloads)
    match document:
        case PlacementReport() | PreemptionReport() | PlanReport():
            return replace(document, placements=tuple(map(places.of, document.placements)))
        case CapacityReport(stop=stop) if stop is not None:
            return replace(document, stop=replace(stop, placement=places.of(stop.placement)))
        case HeadroomReport(workloads=workloads):
            updated = tuple(
                workload if workload.stop is None else replace(workload, stop=places.of(workload.stop))
                for workload in workloads
            )
            return replace(document, workloads=updated)
        case _:
            return document


class _Places:
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
        key = (id(workload), path)
        if key not in self._known:
            self._known[key] = _line_of(workload, path)
        return self._known[key]


def _line_of(workload: ManifestWorkload, path: str) -> int | None:
    """Return the line of a field of the pod, or of its nearest parent; a limit also counts as a request."""
    ways = (path, path.replace(".resources.requests", ".resources.limits"))
    depth, nearest = max(((_depth(workload.template, steps_of(way)), way) for way in ways), key=itemgetter(0))
    if depth < _LEAST_STEPS:
        return None
    return workload.item.line_of(f"${workload.template_path}{nearest.removeprefix('$')}") or None


def _depth(value: object, steps: Sequence[Step]) -> int:
    """Return how many steps of a path exist in a value."""
    for depth, step in enumerate(steps):
        is_there = step in value if isinstance(value, dict) else isinstance(step, int) and step < _length(value)
        if not is_there:
            return depth
        value = cast("Any", value)[step]
    return len(steps)


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
