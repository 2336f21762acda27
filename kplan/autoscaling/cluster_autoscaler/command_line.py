"""The flags with which the cluster-autoscaler of a cluster was started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kplan.snapshot.model import Snapshot

_IMAGE = "cluster-autoscaler"
_LISTS = frozenset(
    {
        "nodes",
        "gpu-total",
        "node-group-auto-discovery",
        "balancing-ignore-label",
        "balancing-label",
        "startup-taint",
        "status-taint",
        "ignore-taint",
        "startup-taint-prefix",
        "bypassed-scheduler-names",
        "allowed-scheduler-names",
    }
)
"""Flags that may be given several times."""

_MOST_FLAGS = 1_000


class CommandLine(msgspec.Struct, frozen=True):
    """The flags of the autoscaler's Deployment."""

    source: str  #: the Deployment
    flags: Mapping[str, Any]

    def listed(self, flag: str) -> list[str]:
        """Return the values of a flag that may be given several times."""
        values = self.flags.get(flag, [])
        return [str(value) for value in values] if isinstance(values, list) else [str(values)]


class _Container(msgspec.Struct):
    image: str = ""
    command: list[str] = []
    args: list[str] = []


class _PodSpec(msgspec.Struct):
    containers: list[_Container] = []


class _Template(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _Spec(msgspec.Struct):
    template: _Template = msgspec.field(default_factory=_Template)


class _Deployment(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def command_line_of(snapshot: Snapshot) -> CommandLine | None:
    """Return the flags of the cluster's autoscaler; None where no Deployment of it is known with its command line."""
    for deployment in snapshot.deployments:
        if not any(_IMAGE in container.image for container in deployment.spec.template.spec.containers):
            continue
        name = f"Deployment/{deployment.metadata.key}"
        content = snapshot.whole.get(name)
        if content is None:
            continue
        for container in _containers(content):
            if _IMAGE in container.image:
                return CommandLine(name, _flags([*container.command, *container.args]))
    return None


def _containers(content: msgspec.Raw | Mapping[str, Any]) -> list[_Container]:
    try:
        if isinstance(content, msgspec.Raw):
            deployment = msgspec.json.decode(content, type=_Deployment)
        else:
            deployment = msgspec.convert(content, _Deployment)
    except (msgspec.MsgspecError, RecursionError):
        return []
    return deployment.spec.template.spec.containers


def _flags(words: Iterable[str]) -> dict[str, Any]:
    """Return the flags of a command line; those without a value are true."""
    flags: dict[str, Any] = {}
    for name, value in _pairs(list(words)[:_MOST_FLAGS]):
        if name in _LISTS:
            flags.setdefault(name, []).append(value)
        else:
            flags[name] = value
    return flags


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for position, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        following = words[position + 1] if position + 1 < len(words) else "-"
        if equals:
            yield name, value.strip("\"'")
        elif following.startswith("-"):
            yield name, "true"
        else:
            yield name, following
