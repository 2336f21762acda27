"""Extension points by name, and the releases that have a plugin.

Configuration has to know which extension points a plugin implements in order to expand `multiPoint`, but must not
import plugins: the releases list them, and a test of the plugins compares the two.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kplan.config.releases import releases

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The extension points of a pod's scheduling cycle, in the order in which they run.
EXTENSION_POINTS: Final = (
    "pre_enqueue",
    "queue_sort",
    "pre_filter",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "reserve",
    "permit",
    "pre_bind",
    "bind",
    "post_bind",
)

#: Extension points of whole pod groups. They run only with the gate TopologyAwareWorkloadScheduling, off by default.
PLACEMENT_POINTS: Final = ("placement_generate", "placement_score")

#: Extension point -> the Go type of its plugins, as in kube-scheduler's start-up errors.
UPSTREAM_POINT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {point: f"{point.title().replace('_', '')}Plugin" for point in (*EXTENSION_POINTS, *PLACEMENT_POINTS)}
)


def in_tree_since(plugin: str) -> str:
    """Return the oldest known minor that has the plugin in-tree; empty where none has."""
    return next((release.minor for release in releases() if plugin in release.implements), "")
