"""How the cluster-autoscaler is set up for a cluster: groups, flags, prices, priorities; and the groups as a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node
from kplan.autoscaling.cluster_autoscaler.expanders import Priorities, priorities_of
from kplan.autoscaling.cluster_autoscaler.finding import find_groups
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.listing import GroupList, listed_groups, names_of, read_group_file
from kplan.autoscaling.cluster_autoscaler.options import Options, options_of
from kplan.autoscaling.settings import ClusterAutoscaler
from kplan.documents.base import InputWarning
from kplan.errors import InputError, Problem, UsageError
from kplan.reading.content import Document
from kplan.snapshot.model import Snapshot

_PRICES = ("cpu", "memoryGiB", "gpu")


class Setup(msgspec.Struct, frozen=True):
    """How the cluster-autoscaler is set up."""

    groups: tuple[NodeGroup, ...]
    options: Options
    source: str  #: where the groups come from
    prices: Mapping[str, Any] | None = None
    priorities: Priorities | None = None
    warnings: tuple[InputWarning, ...] = ()
    flags: Mapping[str, Any] = {}  #: the flags that were given or found


def setup_of(settings: ClusterAutoscaler, snapshot: Snapshot) -> Setup:
    """Return the set-up.

    Raises
    ------
    UsageError
        For flags and prices that cannot be read.
    InputError
        With all problems of the list of groups.
    """
    prices = _checked(settings.prices)
    if settings.node_groups is None:
        known = find_groups(snapshot, settings.options)
        warnings = list(known.warnings)
        priorities = priorities_of(snapshot, warnings)
        sized = _with_sizes(known.groups, settings.max_sizes)
        return Setup(sized, known.options, known.source, prices, priorities, tuple(warnings), known.flags)
    listed, document = content_of(settings)
    source = "a list of node groups" if document is None else str(settings.node_groups)
    flags = {**listed.options, **settings.options}
    options, warnings = options_of(flags)
    problems: list[Problem] = []
    path = "$" if document is None else "$.nodeGroups"
    groups = listed_groups(listed.groups, names_of(snapshot.nodes), options, problems, path=path)
    if problems:
        raise InputError(problems if document is None else [document.locate(problem) for problem in problems])
    priorities = priorities_of(snapshot, warnings)
    sized = _with_sizes(groups, settings.max_sizes)
    return Setup(sized, options, source, prices, priorities, tuple(warnings), flags)


def content_of(settings: ClusterAutoscaler) -> tuple[GroupList, Document | None]:
    """Return the groups as they are written, and the document that holds them; raises InputError with its problems."""
    if settings.content is not None:
        content: tuple[GroupList, Document | None] = settings.content
        return content
    if isinstance(settings.node_groups, str | Path):
        return read_group_file(settings.node_groups)
    return GroupList(settings.node_groups or ()), None


def _with_sizes(groups: Iterable[NodeGroup], sizes: Mapping[str, int]) -> tuple[NodeGroup, ...]:
    """Return groups, some of them with another most size."""
    return tuple(replace(group, most=sizes.get(group.name, group.most)) for group in groups)


def _checked(prices: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return prices, all of them numbers."""
    if prices is None:
        return None
    amounts = {name: prices.get(name) or 0 for name in _PRICES} | dict(prices.get("instanceTypes") or {})
    for name, price in amounts.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 2**53:
            hint = "give numbers: {instanceTypes: {m5.large: 0.1}, cpu: 0.03, memoryGiB: 0.004}"
            raise UsageError(f"the price of {str(name)[:80]} is no number from 0 on", hint=hint)
    return prices


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
