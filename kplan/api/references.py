"""Pods and workloads by name, as values: the one place that writes and reads ``KIND/NAMESPACE/NAME``."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import msgspec

from kplan.api.meta import OwnerReference


class PodKey(NamedTuple):
    """The name of a pod."""

    namespace: str
    name: str

    @staticmethod
    def parse(text: str) -> PodKey:
        """Return the key of NAMESPACE/NAME; a text without slash is a namespace."""
        namespace, _, name = text.partition("/")
        return PodKey(namespace, name)

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class WorkloadRef(msgspec.Struct, frozen=True, dict=True):
    """A reference to a workload, as in a pod's owner references."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = "apps/v1"

    @staticmethod
    def parse(key: str) -> WorkloadRef:
        """Return the workload of KIND/NAMESPACE/NAME; raises ValueError for another text."""
        kind, namespace, name = key.split("/", 2)
        return WorkloadRef(kind, namespace, name)

    @cached_property
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        return object_name(self.kind, self.namespace, self.name)

    @property
    def as_controller(self) -> OwnerReference:
        return OwnerReference(
            api_version=self.api_version, kind=self.kind, name=self.name, uid=self.uid, controller=True
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name

    @property
    def path(self) -> str:
        """NAMESPACE/NAME, as `PlainMeta.key` has it."""
        return f"{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """KIND NAMESPACE/NAME, as people read it."""
        return f"{self.kind} {self.path}"

    @property
    def short(self) -> str:
        return f"{self.kind}/{self.name}"


def object_name(kind: str, namespace: str, name: str) -> str:
    """Return the name of an object: ``KIND/NAME`` or ``KIND/NAMESPACE/NAME``."""
    return f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}"
