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

    def all_contexts(self) -> list[Object]:
        """Return the security context of the pod and of every container."""
        return [self.security, *(security for _, security in self.contexts())]

    def violators(self, is_bad: Callable[[Object], object], *, in_pod: bool = True) -> str:
        """Return ``pod and container "a"`` for those whose security context is bad; "" where none is.

        Parameters
        ----------
        in_pod : whether the pod's own security context counts too
        """
        names = [name for name, security in self.contexts() if is_bad(security)]
        by_pod = ["pod"] if in_pod and is_bad(self.security) else []
        return " and ".join([*by_pod, *([containers_named(names)] if names else [])])


Find = Callable[[Subject], Violation | None]


class Check(NamedTuple):
    """One revision of a check."""

    name: str  #: checks of a level run in the order of their names
    since: int  #: first minor version of the policies that has this revision
    find: Find
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


def context_check(is_bad: Callable[[Object], object], reason: str, demand: str, *, in_pod: bool = True) -> Find:
    """Return the check that no security context is bad; `demand` is what a violator must do."""

    def find(pod: Subject) -> Violation | None:
        who = pod.violators(is_bad, in_pod=in_pod)
        return Violation(reason, f"{who} {demand}") if who else None

    return find


def unless_windows(find: Find) -> Find:
    """Return a check without pods for Windows."""
    return lambda pod: None if pod.is_windows else find(pod)


def unless_own_users(find: Find) -> Find:
    """Return a check without pods in user namespaces of their own."""
    return lambda pod: None if pod.has_own_users else find(pod)


def capabilities_added(pod: Subject, allowed: frozenset[str]) -> str:
    """Tell which containers add capabilities other than the allowed ones; "" where none does."""
    added = [
        (name, set((security.get("capabilities") or {}).get("add") or ()) - allowed)
        for name, security in pod.contexts()
    ]
    names = [name for name, items in added if items]
    items = sorted({item for _, items in added for item in items})
    what = f"must not include {quoted(items)} in securityContext.capabilities.add"
    return f"{containers_named(names)} {what}" if names else ""
