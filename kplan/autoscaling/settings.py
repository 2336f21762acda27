"""Which autoscaler a planner follows, and how it is set up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from kplan.autoscaling.seam import Autoscaler
from kplan.snapshot.model import Snapshot


class ClusterAutoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster-autoscaler, and how it is set up.

    Parameters
    ----------
    node_groups : a file, or a list of groups with ``name``, ``minSize``, ``maxSize``, ``targetSize``, ``nodes`` (names,
        or a ``selector``), ``template`` (a Node, or ``like: NODE``) and ``price``; None finds them in the cluster
    options : command-line flags of the cluster-autoscaler, without their dashes
    prices : for its price expander: ``instanceTypes`` (instance type -> price of a node), and ``cpu``, ``memoryGiB``
        and ``gpu`` (price of one) for other nodes and for pods; None if unknown
    max_sizes : group -> its most size, in place of what the groups say
    """

    node_groups: str | Path | Sequence[Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = {}
    prices: Mapping[str, Any] | None = None
    max_sizes: Mapping[str, int] = {}


class Karpenter(msgspec.Struct, frozen=True, kw_only=True):
    """Karpenter, and how it is set up.

    Parameters
    ----------
    instance_types : a file, or a list, in the format of Karpenter's kwok provider; None takes those that the nodes and
        node claims of the cluster show
    options : settings of Karpenter, by their own names
    """

    instance_types: str | Path | Sequence[Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = {}


Settings: TypeAlias = ClusterAutoscaler | Karpenter

_MAKERS: Mapping[type, str] = {
    ClusterAutoscaler: "kplan.autoscaling.cluster_autoscaler.autoscaler:set_up",
    Karpenter: "kplan.autoscaling.karpenter.autoscaler:set_up",
}
"""Settings -> MODULE:FUNCTION, which sets an autoscaler up for a snapshot; imported when first used."""


def is_followed(settings: Settings) -> bool:
    """Tell whether the autoscaler of some settings can be followed."""
    return type(settings) in _MAKERS


def set_up(settings: Settings, snapshot: Snapshot) -> Autoscaler:
    """Return the autoscaler of some settings, for a cluster.

    Raises
    ------
    UsageError
        For settings that the autoscaler does not have.
    InputError
        With all problems of the file that the settings name.
    """
    module, _, function = _MAKERS[type(settings)].partition(":")
    autoscaler: Autoscaler = getattr(import_module(module), function)(settings, snapshot)
    return autoscaler
