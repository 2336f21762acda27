"""Names for shell completion: contexts of the kubeconfig, and objects of a snapshot, but never of a live cluster.

A shell puts what it is offered on the command line, and not every completion script takes it for mere text. A file may
hold names that no API server would store, such as ``$(touch x)``; so only valid names of their kind are offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kplan.api.names import dns_label_problems, dns_subdomain_problems
from kplan.cli.arguments import STANDARD_INPUT, ZONES, pool_labels
from kplan.cli.cluster import SnapshotOption
from kplan.cli.options import option
from kplan.errors import KplanError

if TYPE_CHECKING:
    from kplan.snapshot.model import Snapshot

#: Contexts that are offered; a kubeconfig allows any name. To no shell is one of these characters special.
_CONTEXT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+%-]{0,1023}")

#: What the value of a label may be: to no shell is one of these characters special.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")

NameKind = StrEnum("NameKind", ["CONTEXTS", "NAMESPACES", "PODS", "WORKLOADS", "NODES", "ZONES", "POOLS"])
"""Kinds of names for completion."""

#: Words before the last one in a name: the namespace, and before it the kind.
_WORDS_BEFORE = {NameKind.PODS: 1, NameKind.WORKLOADS: 2}


def names(
    kind: Annotated[NameKind, typer.Argument(help="What to list.")],
    snapshot: SnapshotOption = "",
    namespace: Annotated[str, option("--namespace", "List only names in this namespace, without it.")] = "",
) -> None:
    """List names, a line each, for shell completion; nothing where they are not known without a network."""
    from kplan.cli.answer import write_out

    write_out("".join(f"{name}\n" for name in known_names(kind, snapshot, namespace)))


def known_names(kind: str, snapshot: str, namespace: str = "") -> list[str]:
    """Return the valid names of one `NameKind`, sorted; none where they are not known without a network.

    `namespace`: that of the command line; names in it are then listed without it, and no others.
    """
    kind = NameKind(kind)
    try:
        valid = {name for name in _names(kind, snapshot) if _is_valid(kind, name)}
    except KplanError:
        # Completion shows no errors: the command itself reports them.
        return []
    if not namespace or kind not in _WORDS_BEFORE:
        return sorted(valid)
    parts = [name.split("/") for name in valid]
    return sorted("/".join([*before[:-1], name]) for *before, name in parts if before[-1] == namespace)


def _is_valid(kind: NameKind, name: str) -> bool:
    if kind is NameKind.CONTEXTS:
        return _CONTEXT.fullmatch(name) is not None
    *before, last = name.split("/")
    if len(before) != _WORDS_BEFORE.get(kind, 0) or any(map(dns_label_problems, before)):
        return False
    if kind in (NameKind.ZONES, NameKind.POOLS):
        return _LABEL_VALUE.fullmatch(last) is not None
    return not (dns_label_problems(last) if kind is NameKind.NAMESPACES else dns_subdomain_problems(last))


def _names(kind: NameKind, snapshot: str) -> Iterable[str]:
    if kind is NameKind.CONTEXTS:
        from kplan.live.kubeconfig import context_names

        return context_names(os.environ.get("KUBECONFIG", ""))
    if snapshot in ("", STANDARD_INPUT):
        return ()
    from kplan.snapshot.load import load_snapshot

    return names_in(load_snapshot(snapshot), kind)


def names_in(snapshot: Snapshot, kind: NameKind) -> list[str]:
    """Return the names of objects of a kind; those of pods and workloads with their namespaces."""
    if kind is NameKind.NODES:
        return [node.metadata.name for node in snapshot.nodes]
    if kind in (NameKind.ZONES, NameKind.POOLS):
        keys = ZONES if kind is NameKind.ZONES else pool_labels(snapshot)
        return [value for node in snapshot.nodes for key in keys if (value := node.metadata.labels.get(key))]
    if kind is NameKind.NAMESPACES:
        named = [namespace.metadata.name for namespace in snapshot.namespaces]
        return [*named, *(pod.metadata.namespace for pod in snapshot.pods)]
    if kind is NameKind.PODS:
        return list(snapshot.pod_by_key)
    from kplan.api.kinds import POD_MAKERS, SHORT_NAMES

    short = {name: word for word, name in SHORT_NAMES.items()}
    return [
        f"{word}/{obj.metadata.key}"
        for name, workload_kind in POD_MAKERS.items()
        for obj in getattr(snapshot, workload_kind.attribute)
        for word in dict.fromkeys((name.lower(), short.get(name, name.lower())))
    ]
