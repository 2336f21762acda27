"""Runtime classes (node.k8s.io/v1)."""

from __future__ import annotations

from kplan.api.base import KubeStruct, ResourceList
from kplan.api.meta import ApiObject
from kplan.api.tolerations import Toleration


class Overhead(KubeStruct, frozen=True):
    """The additional resources of a pod under the runtime."""

    pod_fixed: ResourceList = {}


class Scheduling(KubeStruct, frozen=True):
    """The nodes on which the runtime is available."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(ApiObject, frozen=True):
    """A container runtime, with its overhead and the nodes that have it."""

    handler: str = ""  #: of the container runtime; it may not change
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
