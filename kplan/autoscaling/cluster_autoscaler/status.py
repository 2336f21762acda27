"""The groups that the cluster-autoscaler's status names: their sizes, and whether they may grow.

Upstream: cluster-autoscaler clusterstate/api/types.go, clusterstate/utils/status.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kplan.api.time import to_micros
from kplan.documents.base import InputWarning
from kplan.reading.yaml_text import YamlProblem, read_yaml
from kplan.snapshot.model import Snapshot

CONFIG_MAP = "cluster-autoscaler-status"

_MOST = 2**31


class GroupStatus(msgspec.Struct, frozen=True):
    """A group as the autoscaler's status has it."""

    name: str  #: the cloud's own
    least: int
    most: int
    target: int
    n_registered: int
    n_missing: int  #: nodes that will come, as far as the status tells
    is_backed_off: bool
    scales_up_since: int | None  #: microseconds since 1970, while a scale-up is in progress


def statuses_of(snapshot: Snapshot, warnings: list[InputWarning]) -> list[GroupStatus]:
    """Return the groups of the status; what is wrong with it is added to `warnings`."""
    for config_map in snapshot.config_maps:
        if config_map.metadata.name == CONFIG_MAP:
            try:
                return list(_parsed(config_map.data.status))
            except (ValueError, TypeError) as error:
                message = f"the status of the cluster-autoscaler cannot be read: {error}"[:500]
                warnings.append(InputWarning("AutoscalerStatus", f"ConfigMap/{config_map.metadata.key}", message))
    return []


def _parsed(text: str) -> Iterator[GroupStatus]:
    try:
        documents = list(read_yaml(text.encode(), CONFIG_MAP))
    except YamlProblem as error:
        raise ValueError(str(error)) from None
    content = documents[0].value() if documents else None
    groups = content.get("nodeGroups") if isinstance(content, Mapping) else None
    if not isinstance(groups, list):
        raise TypeError("it lists no nodeGroups")
    for group in groups:
        if isinstance(group, Mapping) and isinstance(group.get("name"), str):
            yield _group(group)


def _group(group: Mapping[str, Any]) -> GroupStatus:
    health, scale_up = _part(group, "health"), _part(group, "scaleUp")
    registered = _part(_part(health, "nodeCounts"), "registered")
    target, n_registered = _number(health, "cloudProviderTarget"), _number(registered, "total")
    since = scale_up.get("lastTransitionTime")
    is_growing = scale_up.get("status") == "InProgress"
    return GroupStatus(
        name=str(group["name"])[:500],
        least=_number(health, "minSize"),
        most=_number(health, "maxSize"),
        target=target,
        n_registered=n_registered,
        n_missing=max(target - _number(registered, "ready") - _number(_part(registered, "unready"), "total"), 0),
        is_backed_off=scale_up.get("status") == "Backoff",
        scales_up_since=_moment(since) if is_growing else None,
    )


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(part: Mapping[str, Any], name: str) -> int:
    number = part.get(name, 0)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MOST else 0


def _moment(text: object) -> int | None:
    try:
        return to_micros(str(text))
    except ValueError:
        return None
