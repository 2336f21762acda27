"""How many replicas of pods fit, and how many of them survive a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from kplan.capacity.measure import Capacity, measure, measure_outlasting
from kplan.capacity.own_workloads import next_replicas
from kplan.capacity.replicas import Template
from kplan.capacity.shape_list import PricedShape, read_shapes
from kplan.capacity.templates import most_replicas, number_of_templates, templates_of
from kplan.cluster.base import Base
from kplan.errors import ParameterError, UsageError
from kplan.framework.pod_groups import WORKLOAD_GATE
from kplan.reading.several import listed
from kplan.workloads.contents import Manifests
from kplan.workloads.manifests import load_manifests
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
    several = listed(templates)
    if not several:
        raise UsageError("nothing to count", hint="name manifests")
    ready = [template for template in several if isinstance(template, Template)]
    sources = [template for template in several if not isinstance(template, Template)]
    if sources:
        manifests = single_replicas(base, sources, namespace, keeps_groups=True)
        base, ready = with_templates(base, manifests, mix=mix, wanted=wanted, limit=limit)
    priced: Sequence[PricedShape] = ()
    if shapes is not None:
        if wanted is None or preempt or lose is not None or zones:
            hint = "say how many are wanted, and leave out preempt, lose and zones"
            raise UsageError("shapes are for a number of replicas that is wanted", hint=hint)
        priced = read_shapes(shapes, base.objects.node_by_name)
    _refuse_groups(ready, losses=lose is not None or zones, shapes=bool(priced))
    if lose is None and not zones:
        return measure(base, ready, wanted=wanted, limit=limit, preempt=preempt, shapes=priced, progress=progress)
    if preempt:
        raise UsageError("preempt and lose do not go together", hint="leave one of them out")
    return measure_outlasting(base, ready, lose=lose or 1, zones=zones, wanted=wanted, limit=limit, progress=progress)


def _refuse_groups(templates: Sequence[Template], *, losses: bool, shapes: bool) -> None:
    """Raise UsageError for what is not counted in whole groups."""
    named = next((template.name for template in templates if template.group is not None), "")
    if named and losses:
        hint = "leave nodes out instead: --exclude-nodes counts without them"
        raise UsageError(f"the losses that whole groups like {named} survive are not counted", hint=hint)
    if named and shapes:
        hint = "without shapes, nodes like those of the cluster are tried"
        raise UsageError(f"shapes with prices are not tried for whole groups like {named}", hint=hint)


def with_templates(
    base: B,
    manifests: Manifests | None,
    workloads: Sequence[str] = (),
    *,
    mix: Sequence[int] = (),
    wanted: int | None = None,
    limit: int | None = None,
) -> tuple[B, list[Template]]:
    """Return what is counted, that of manifests first, and a cluster with the objects and claims that it needs.

    Parameters
    ----------
    manifests : one replica of each workload
    workloads : of the cluster, as KIND/NAMESPACE/NAME
    """
    templates: list[Template] = []
    if manifests is not None:
        keeps_groups = base.release.is_on(WORKLOAD_GATE)
        n_of_manifests = number_of_templates(manifests, keeps_groups=keeps_groups) if workloads else len(mix)
        counted = templates_of(
            manifests,
            base.snapshot,
            shares=mix[:n_of_manifests],
            wanted=wanted,
            limit=limit,
            minor=base.release.number,
            keeps_groups=keeps_groups,
        )
        base = base.for_cluster(base.snapshot, counted.objects, counted.warnings)
        templates += counted.templates
    shares = mix[len(templates) :]
    if workloads and shares and len(shares) != len(workloads):
        hint = "give one number for each workload, in the order of the arguments"
        raise ParameterError("{mix} needs as many numbers as there are workloads", hint=hint)
    most = most_replicas(base.snapshot, wanted=wanted, limit=limit)
    for key, share in zip(workloads, shares or [1] * len(workloads), strict=True):
        template, claims = next_replicas(base, key, most)
        name = key.partition("/")[2]
        is_unique = [other.endswith(f"/{name}") for other in workloads].count(True) == 1
        templates.append(structs.replace(template, name=name if is_unique else key, share=share))
        base = base.with_additions(claims) if claims else base
    return base, templates


def single_replicas(
    base: Base, sources: Sequence[Source], namespace: str | None, *, keeps_groups: bool = False
) -> Manifests:
    """Read manifests with one replica of each workload, numbered as if no pod of that name existed.

    Parameters
    ----------
    keeps_groups : of workloads whose pods belong to pod groups read all pods
    """
    return load_manifests(
        sources,
        snapshot=replace(base.snapshot, pods=()),
        namespace=namespace,
        replicas=1,
        minor=base.release.number,
        keeps_groups=keeps_groups and base.release.is_on(WORKLOAD_GATE),
    )
