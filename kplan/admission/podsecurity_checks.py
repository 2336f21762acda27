"""Building blocks of PodSecurity's checks (k8s.io/pod-security-admission, policy/checks.go, helpers.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Object = Mapping[str, Any]


class Violation(NamedTuple):
    """Why a pod violates a check, and which containers do."""

    reason: str
    detail: str


class Subject:
    """A whole pod, with what checks read of it."""

    def __init__(self, pod: Object) -> None:
        self.annotations: Object = pod.get("metadata", {}).get("annotations") or {}
        self.spec: Object = pod.get("spec") or {}
        self.security: Object = self.spec.get("securityContext") or {}  #: the pod's own security context
        #: init containers first, as upstream visits them
        self.containers: list[Object] = [
            container
            for group in ("initContainers", "containers", "ephemeralContainers")
            for container in self.spec.get(group) or ()
        ]

    @property
    def is_windows(self) -> bool:
        """Whether the pod's ``os`` is Windows."""
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """Whether the pod has a user namespace of its own, so that root in it is not root outside."""
        return self.spec.get("hostUsers") is False

    def contexts(self) -> Iterator[tuple[str, Object]]:
        """Yield every container's name with its security context."""
        for container in self.containers:
            yield container.get("name", ""), container.get("securityContext") or {}


class Check(NamedTuple):
    """One revision of a check."""

    name: str  #: checks of a level run in the order of their names
    since: int  #: first minor version of the policies that has this revision
    find: Callable[[Subject], Violation | None]
    overrides: str = ""  #: name of the weaker check that it replaces


def quoted(items: Iterable[str]) -> str:
    """Return items in quotes, separated by commas."""
    return ", ".join(f'"{item}"' for item in items)


def plural(singular: str, several: str, items: Sequence[str] | set[str]) -> str:
    """Return the singular for one item, else the plural."""
    return singular if len(items) == 1 else several


def containers_named(names: Sequence[str]) -> str:
    """Return ``container "a"`` or ``containers "a", "b"``."""
    return f"{plural('container', 'containers', names)} {quoted(names)}"


def setters(names: Sequence[str], *, by_pod: bool) -> str:
    """Return ``pod and container "a"`` for those that set a field; "" where none does."""
    return " and ".join([*(["pod"] if by_pod else []), *([containers_named(names)] if names else [])])
