"""Node groups: what the cloud knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kplan.api.core import Node
from kplan.autoscaling.cluster_autoscaler.options import Options


class Instance(msgspec.Struct, frozen=True):
    """A machine of the cloud that is no node yet; with an `error_code` it never will be."""

    id: str
    error_class: str = ""
    error_code: str = ""
    error_message: str = ""


class NodeGroup(msgspec.Struct, kw_only=True):
    """A group of nodes that the cloud makes all alike; its target changes when it is scaled."""

    name: str
    least: int
    most: int
    target: int
    nodes: tuple[str, ...] = ()
    template: Node | None = None
    options: Options
    instances: tuple[Instance, ...] = ()
    requested: int = 0  #: nodes that the autoscaler itself asked for and waits for
    requested_ago: float = 0  #: seconds since it asked
    requested_at: int | None = None  #: the same as a moment, in microseconds since 1970; it goes before
    is_backed_off: bool = False  #: a scale-up failed a short time ago, as the autoscaler's status says
    price: float | None = None

    def copy(self) -> NodeGroup:
        """Return a copy with a target of its own."""
        return msgspec.structs.replace(self)

    @property
    def room(self) -> int:
        """How many nodes may be added."""
        return max(self.most - self.target, 0)

    @property
    def is_atomic(self) -> bool:
        """Whether the group has either no node or all."""
        return self.options.zero_or_max_node_scaling


def groups_by_node(groups: Iterable[NodeGroup]) -> Mapping[str, NodeGroup]:
    """Return the group of each node, by the node's name."""
    return {node: group for group in groups for node in group.nodes}
