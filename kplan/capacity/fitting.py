"""How many replicas of pods fit, and how many of them survive a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from kplan.capacity.counting import Template
from kplan.capacity.measure import Capacity, measure, measure_outlasting
from kplan.capacity.shape_list import PricedShape, read_shapes
from kplan.capacity.templates import templates_of
from kplan.cluster.base import Base
from kplan.errors import UsageError
from kplan.workloads.manifests import Manifests, load_manifests
from kplan.workloads.sources import Source

B = TypeVar("B", bound=Base)


def capacity_of(
    base: Base,
    templates: Sequence[Template | Source],
    *,
    mix: Sequence[int] = (),
    wanted: int | None = None,
    limit: int | None = None,
    preempt: bool = False,
    lose: int | None = None,
    zones: bool = False,
    shapes: str | Path | None = None,
    namespace: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Capacity:
    """Count how many replicas of pods fit; see `kplan.Planner.capacity`."""
    ready = [template for template in templates if isinstance(template, Template)]
    sources = [template for template in templates if not isinstance(template, Template)]
    if sources:
        base, ready = _with_manifests(base, sources, mix, namespace, wanted=wanted, limit=limit)
    listed: Sequence[PricedShape] = ()
    if shapes is not None:
        if wanted is None or preempt or lose is not None or zones:
            hint = "say how many are wanted, and leave out preempt, lose and zones"
            raise UsageError("shapes are for a number of replicas that is wanted", hint=hint)
        listed = read_shapes(shapes, base.world.node_by_name)
    if lose is None and not zones:
        return measure(base, ready, wanted=wanted, limit=limit, preempt=preempt, shapes=listed, progress=progress)
    if preempt:
        raise UsageError("preempt and lose do not go together", hint="leave one of them out")
    return measure_outlasting(base, ready, lose=lose or 1, zones=zones, wanted=wanted, limit=limit, progress=progress)


def _with_manifests(
    base: B,
    sources: Sequence[Source],
    mix: Sequence[int],
    namespace: str | None,
    *,
    wanted: int | None,
    limit: int | None,
) -> tuple[B, list[Template]]:
    """Return a cluster that holds the objects of manifests, and their workloads."""
    workloads = templates_of(
        single_replicas(base, sources, namespace),
        base.snapshot,
        shares=mix,
        wanted=wanted,
        limit=limit,
        minor=base.release.number,
    )
    return base.with_world(base.snapshot, workloads.objects, workloads.warnings), list(workloads.templates)


def single_replicas(base: Base, sources: Sequence[Source], namespace: str | None) -> Manifests:
    """Read manifests with one replica of each workload, numbered as if no pod of that name existed."""
    alone = replace(base.snapshot, pods=())
    return load_manifests(sources, snapshot=alone, namespace=namespace, replicas=1, minor=base.release.number)
