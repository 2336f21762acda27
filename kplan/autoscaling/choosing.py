"""Which autoscaler a question follows, if nobody names one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kplan.autoscaling.settings import ClusterAutoscaler, Karpenter, Settings, is_followed
from kplan.errors import UsageError
from kplan.snapshot.model import Snapshot

Choice = Literal["auto", "karpenter", "cluster-autoscaler", "none"]

_STATUS = ("kube-system", "cluster-autoscaler-status")
_FILES = {"node_groups": "cluster-autoscaler", "instance_types": "karpenter"}


def autoscaler_of(
    snapshot: Snapshot,
    choice: Choice = "auto",
    *,
    node_groups: str | Path | None = None,
    instance_types: str | Path | None = None,
) -> Settings | None:
    """Return the settings of the autoscaler to follow; None for none.

    ``auto`` is the one whose file is given, else Karpenter where the cluster has NodePools, the cluster-autoscaler
    where it has that one's status, and none elsewhere. Raises UsageError for a file that the chosen autoscaler does not
    read, or an autoscaler that cannot be followed.
    """
    files = {"node_groups": node_groups, "instance_types": instance_types}
    owners = {_FILES[name] for name, file in files.items() if file is not None}
    if choice == "auto":
        if len(owners) > 1:
            raise UsageError(
                "--node-groups is for the cluster-autoscaler, and --instance-types for Karpenter",
                hint="give one of them, or name the autoscaler with --autoscaler",
            )
        name = owners.pop() if owners else _found_in(snapshot)
    else:
        name = choice
        for option, owner in _FILES.items():
            if files[option] is not None and owner != choice:
                flag = option.replace("_", "-")
                raise UsageError(f"--{flag} is for --autoscaler {owner}", hint=f"leave out --{flag}, or name {owner}")
    settings: Settings
    if name == "none":
        return None
    if name == "cluster-autoscaler":
        settings = ClusterAutoscaler(node_groups=node_groups)
    else:
        settings = Karpenter(instance_types=instance_types)
    if not is_followed(settings):
        raise UsageError(f"this version of kplan does not follow {name}", hint="choose --autoscaler cluster-autoscaler")
    return settings


def _found_in(snapshot: Snapshot) -> str:
    if snapshot.node_pools and is_followed(Karpenter()):
        return "karpenter"
    names = ((config.metadata.namespace, config.metadata.name) for config in snapshot.config_maps)
    return "cluster-autoscaler" if _STATUS in names else "none"
