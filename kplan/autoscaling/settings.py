"""Which autoscaler a question follows, how it is set up, and what it may add after a change on paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from kplan.api.provisioning import NodePool, NodeRequirement
from kplan.api.quantity import listing
from kplan.errors import UsageError
from kplan.snapshot.model import Snapshot

if TYPE_CHECKING:
    from kplan.autoscaling.seam import Autoscaler
    from kplan.changes.limits import Pool


class ClusterAutoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster-autoscaler, and how it is set up.

    Parameters
    ----------
    node_groups : a file, or a list of groups with ``name``, ``minSize``, ``maxSize``, ``targetSize``, ``nodes`` (names,
        or a ``selector``), ``template`` (a Node, or ``like: NODE``) and ``price``; None finds them in the cluster
    options : command-line flags of the cluster-autoscaler, without their dashes
    prices : for its price expander: ``instanceTypes`` (instance type -> price of a node), and ``cpu``, ``memoryGiB``
        and ``gpu`` (price of one) for other nodes and for pods; None if unknown
    max_sizes : group -> its maximum size, in place of what the groups say
    content : what the file holds, once it is read; None before
    """

    node_groups: str | Path | Sequence[Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = {}
    prices: Mapping[str, Any] | None = None
    max_sizes: Mapping[str, int] = {}
    content: Any = None


class Karpenter(msgspec.Struct, frozen=True, kw_only=True):
    """Karpenter, and how it is set up.

    Parameters
    ----------
    instance_types : a file, or a list, in the format of Karpenter's kwok provider; None takes those that the nodes and
        node claims of the cluster show
    options : settings of Karpenter, by their own names
    version : the release that decides, such as ``1.14``; None for the one that the cluster runs, else the newest
    content : what the file holds, once it is read; None before
    """

    instance_types: str | Path | Sequence[Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = {}
    version: str | None = None
    content: Any = None


Settings: TypeAlias = ClusterAutoscaler | Karpenter

_MODULES: Mapping[type, str] = {
    ClusterAutoscaler: "kplan.autoscaling.cluster_autoscaler.autoscaler",
    Karpenter: "kplan.autoscaling.karpenter.autoscaler",
}
"""Settings -> the module whose `content_of` reads the file that they name, and whose `set_up` makes the autoscaler."""


def read(settings: Settings) -> Settings:
    """Return settings with the content of the file that they name, which is not read again then.

    Raises InputError with all problems of the file, UsageError for what is no autoscaler.
    """
    return replace(settings, content=_module_of(settings).content_of(settings))


def set_up(settings: Settings, snapshot: Snapshot) -> Autoscaler:
    """Return the autoscaler of some settings, for a cluster.

    Raises UsageError for settings that it does not have, InputError with all problems of the file that they name.
    """
    autoscaler: Autoscaler = _module_of(settings).set_up(settings, snapshot)
    return autoscaler


def _module_of(settings: Settings) -> Any:
    """Return the module for some settings, which is imported when first used; raises UsageError for what is none."""
    name = _MODULES.get(type(settings))
    if name is None:
        raise UsageError(f"{settings!r} is no autoscaler", hint="give kplan.Karpenter(…) or kplan.ClusterAutoscaler(…)")
    return import_module(name)


Choice = Literal["auto", "karpenter", "cluster-autoscaler", "none"]

_FILES = {"node_groups": "cluster-autoscaler", "instance_types": "karpenter", "karpenter_version": "karpenter"}


def autoscaler_of(
    snapshot: Snapshot,
    choice: Choice = "auto",
    *,
    node_groups: str | Path | None = None,
    instance_types: str | Path | None = None,
    karpenter_version: str | None = None,
) -> Settings | None:
    """Return the settings of the autoscaler to follow; None for none.

    ``auto`` is the one whose file is given, else Karpenter where the cluster has NodePools, the cluster-autoscaler
    where it has that one's status, and none elsewhere. Raises UsageError for a file that the chosen autoscaler does not
    read.
    """
    files = {"node_groups": node_groups, "instance_types": instance_types, "karpenter_version": karpenter_version}
    flags = {f"--{name.replace('_', '-')}": _FILES[name] for name, file in files.items() if file is not None}
    owners = set(flags.values())
    if choice == "auto":
        if len(owners) > 1:
            of_karpenter = listing([flag for flag, owner in flags.items() if owner == "karpenter"])
            raise UsageError(
                f"--node-groups is for the cluster-autoscaler, and {of_karpenter} for Karpenter",
                hint="give one of them, or name the autoscaler with --autoscaler",
            )
        has_status = any(config.metadata.name == "cluster-autoscaler-status" for config in snapshot.config_maps)
        present = "karpenter" if snapshot.node_pools else "cluster-autoscaler" if has_status else "none"
        name = owners.pop() if owners else present
    else:
        name = choice
        for flag, owner in flags.items():
            if owner != choice:
                raise UsageError(f"{flag} is for --autoscaler {owner}", hint=f"leave out {flag}, or name {owner}")
    if name == "none":
        return None
    if name == "cluster-autoscaler":
        return ClusterAutoscaler(node_groups=node_groups)
    return Karpenter(instance_types=instance_types, version=karpenter_version)


def with_change(settings: Settings | None, snapshot: Snapshot, change: Pool) -> tuple[Settings | None, Snapshot]:
    """Return the autoscaler's settings and its cluster after a change of a pool or group."""
    if change.size is not None:
        if isinstance(settings, ClusterAutoscaler):
            settings = replace(settings, max_sizes={**settings.max_sizes, change.name: change.size.to})
        return settings, snapshot
    pools = tuple(_changed(pool, change) if pool.metadata.name == change.name else pool for pool in snapshot.node_pools)
    return settings, replace(snapshot, node_pools=pools)


def _changed(pool: NodePool, change: Pool) -> NodePool:
    limits = {**pool.spec.limits, **{limit.resource: limit.to for limit in change.limits}}
    pool = replace(pool, spec=replace(pool.spec, limits=limits))
    requirements, admits = list(pool.spec.template.spec.requirements), change.admits
    if admits is None or admits.index >= len(requirements):
        return pool
    wanted = requirements[admits.index]
    values = (*wanted.values, *admits.values)
    if admits.operator != "In":
        values = tuple(value for value in wanted.values if value not in admits.values)
    requirements[admits.index] = replace(wanted, values=values)
    return with_requirements(pool, requirements)


def with_requirements(pool: NodePool, requirements: Iterable[NodeRequirement]) -> NodePool:
    template = pool.spec.template
    changed = replace(template, spec=replace(template.spec, requirements=tuple(requirements)))
    return replace(pool, spec=replace(pool.spec, template=changed))
