"""Writing the groups that are found in a cluster, in the form in which a list of groups is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kplan.api.core import Node
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.setup import setup_of
from kplan.autoscaling.settings import ClusterAutoscaler
from kplan.documents.base import InputWarning
from kplan.snapshot.model import Snapshot


class FoundList(msgspec.Struct, frozen=True):
    """The groups of a cluster, as a file holds them."""

    content: dict[str, Any]  #: nodeGroups, and options if there are any
    source: str  #: where they were found
    warnings: tuple[InputWarning, ...]


def found_list(snapshot: Snapshot) -> FoundList:
    """Return the groups that are found in a cluster, and the flags of its cluster-autoscaler."""
    setup = setup_of(ClusterAutoscaler(), snapshot)
    content: dict[str, Any] = {"nodeGroups": [dict(_fields(group)) for group in setup.groups]}
    if setup.flags:
        content["options"] = dict(setup.flags)
    return FoundList(content, setup.source, setup.warnings)


def _fields(group: NodeGroup) -> Iterator[tuple[str, Any]]:
    yield "name", group.name
    yield "minSize", group.least
    yield "maxSize", group.most
    yield "targetSize", group.target
    if group.nodes:
        yield "nodes", list(group.nodes)
    elif group.template is not None:
        yield "template", _written(group.template)
    if group.price is not None:
        yield "price", group.price


def _written(node: Node) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(node)
    return {"apiVersion": "v1", "kind": "Node", **content}
