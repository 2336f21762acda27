"""How the cluster-autoscaler is set up for a cluster: groups, flags, prices and priorities; and groups as a file.

::

    nodeGroups:
    - name: general
      minSize: 0
      maxSize: 10
      targetSize: 3                       # default: the number of its nodes
      nodes: [general-1, general-2]       # names, or a selector: {cloud.google.com/gke-nodepool: general}
      template: {like: general-1}         # or a Node; for groups without nodes
      price: 0.2
      options: {scale-down-utilization-threshold: 0.6}
    options: {expander: least-waste}      # flags of the cluster-autoscaler
    prices: {instanceTypes: {m5.large: 0.1}, cpu: 0.03, memoryGiB: 0.004}   # for the price expander
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node
from kplan.api.meta import KubeStruct
from kplan.api.names import choice_hint
from kplan.api.quantity import listing
from kplan.api.resource import ResourceSlice
from kplan.api.storage import CSINode
from kplan.autoscaling.cluster_autoscaler.expanders import Prices, priorities_of
from kplan.autoscaling.cluster_autoscaler.finding import Setup, find_groups
from kplan.autoscaling.cluster_autoscaler.groups import Instance, NodeGroup
from kplan.autoscaling.cluster_autoscaler.options import Options, options_of, parse_options
from kplan.autoscaling.settings import ClusterAutoscaler
from kplan.errors import InputError, Problem, UsageError
from kplan.facts import InputWarning
from kplan.reading.documents import EntryReader, read_contents
from kplan.reading.positions import Document
from kplan.snapshot.build import QuantityCheck
from kplan.snapshot.model import Snapshot

MAX_GROUPS = 10_000
MAX_SIZE = 1_000_000
_MOST_SLICES = 100
_MOST_NAMES = 3

_FIELDS = ("nodeGroups", "options", "prices")
_EXPECTED = "nodeGroups: a list of groups with name, minSize and maxSize"


class _Entry(KubeStruct, frozen=True):
    """A group, as the list has it."""

    name: str = ""
    min_size: int = 0
    max_size: int = 0
    target_size: int | None = None
    nodes: tuple[str, ...] | dict[str, Any] = ()
    selector: dict[str, str] | None = None
    template: dict[str, Any] | None = None
    resource_slices: tuple[dict[str, Any], ...] = ()
    csi_node: dict[str, Any] | None = None
    price: float | int | None = None
    options: dict[str, Any] | None = None
    instances: tuple[dict[str, str], ...] = ()
    requested: int = 0
    requested_seconds_ago: float | int = 0


class GroupList(msgspec.Struct, frozen=True):
    """A list of groups, and flags that stand beside it."""

    groups: Sequence[Any]
    options: Mapping[str, Any] = {}
    document: Document | None = None  #: that holds them; None where they were given as a list
    prices: Mapping[str, Any] | None = None  #: as in the settings


def read_group_file(source: str | Path) -> GroupList:
    """Read a file of groups; raises InputError with all its problems."""
    problems: list[Problem] = []
    for document, content in read_contents(source, problems, expected=_EXPECTED, is_single=True):
        whole: dict[str, Any] = content if isinstance(content, dict) else {"nodeGroups": content}
        groups: Any = whole.get("nodeGroups")
        options, prices = whole.get("options") or {}, whole.get("prices")
        wrong = [
            Problem("unknown field", json_path=f"$.{name}", hint=choice_hint(str(name), _FIELDS))
            for name in whole
            if isinstance(groups, list) and name not in (*_FIELDS, "apiVersion", "kind")
        ]
        if not isinstance(groups, list):
            wrong.append(Problem("no list of groups", json_path="$.nodeGroups", hint=f"expected {_EXPECTED}"))
        if not isinstance(options, dict):
            wrong.append(Problem("no flags", json_path="$.options", hint="for example {expander: least-waste}"))
        try:
            _checked({} if prices is None else prices)
        except UsageError as error:
            wrong.append(Problem(error.message, json_path="$.prices", hint=error.hint))
        problems += map(document.locate, wrong)
        if not problems:
            return GroupList(groups, options, document, prices)
    raise InputError(problems)


def listed_groups(
    entries: Sequence[Any],
    nodes: Mapping[str, Node],
    options: Options,
    problems: list[Problem],
    odd: list[Problem],
    *,
    path: str = "$",
) -> list[NodeGroup]:
    """Return the groups of a list at a JSON path; what is wrong goes to `problems`, what is hardly meant to `odd`."""
    if len(entries) > MAX_GROUPS:
        problems.append(Problem(f"more than {MAX_GROUPS:,} groups", json_path=path, hint="leave some out"))
        return []
    groups: list[NodeGroup] = []
    owner_of: dict[str, str] = {}
    for index, content in enumerate(entries):
        reader = _Reader(f"{path}[{index}]", nodes, options)
        group = reader.group(content)
        if group is not None:
            if any(known.name == group.name for known in groups):
                reader.wrong("name", f"a second group is called {group.name}", "give each group a different name")
            for name in group.nodes if group.name else ():
                if owner_of.setdefault(name, group.name) != group.name:
                    hint = "a node belongs to one group"
                    reader.wrong("nodes", f"node {name} is in the group {owner_of[name]} already", hint)
            groups.append(group)
        problems += reader.problems
        odd += reader.odd
    return groups


class _Reader(EntryReader):
    """Reads one group."""

    def __init__(self, path: str, nodes: Mapping[str, Node], options: Options) -> None:
        super().__init__(path)
        self._nodes, self._options = nodes, options
        self.odd: list[Problem] = []

    def group(self, content: Any) -> NodeGroup | None:
        if not isinstance(content, Mapping):
            hint = "for example {name: general, maxSize: 5}"
            self.problems.append(Problem("no group", json_path=self.path, hint=hint))
            return None
        entry = self.converted({key: held for key, held in content.items() if held is not None}, _Entry)
        if entry is None:
            return None
        if not entry.name:
            self.wrong("name", "a group needs a name", "name: general")
        names = self._members(entry)
        sizes = {"minSize": entry.min_size, "maxSize": entry.max_size, "targetSize": entry.target_size}
        for field, size in sizes.items():
            if size is not None and not 0 <= size <= MAX_SIZE:
                self.wrong(field, f"{size} is no size of a group", f"a number from 0 to {MAX_SIZE:,}")
        if entry.price is not None and not 0 <= entry.price < _PRICES_BELOW:
            self.wrong("price", f"{entry.price} is no price", "a number from 0 on")
        if entry.min_size > entry.max_size:
            self.wrong("minSize", f"{entry.min_size} is above maxSize {entry.max_size}", "exchange them")
        elif entry.target_size is not None and not entry.min_size <= entry.target_size <= entry.max_size:
            is_above = entry.target_size > entry.max_size
            bound = f"above maxSize {entry.max_size}" if is_above else f"below minSize {entry.min_size}"
            self.odd.append(Problem(f"{entry.target_size} is {bound}", json_path=f"{self.path}.targetSize"))
        instances = (one for one in entry.instances if one.get("state") != "deleting")
        return NodeGroup(
            name=entry.name,
            least=entry.min_size,
            most=entry.max_size,
            target=len(names) if entry.target_size is None else entry.target_size,
            nodes=names,
            template=self._template(entry),
            slices=tuple(self._slices(entry)),
            csi_node=None if entry.csi_node is None else self.converted(entry.csi_node, CSINode, ".csiNode"),
            options=self._own_options(entry),
            instances=tuple(msgspec.convert(one, Instance) for one in instances),
            requested=max(entry.requested, 0),
            requested_ago=float(entry.requested_seconds_ago),
            price=None if entry.price is None else float(entry.price),
        )

    def _members(self, entry: _Entry) -> tuple[str, ...]:
        """Return the nodes of the group that exist, in the order of the cluster."""
        labels = entry.selector
        if isinstance(entry.nodes, dict):
            labels = entry.nodes.get("selector", entry.nodes)
        if labels is not None and not isinstance(labels, dict):
            self.wrong("nodes", "no names of nodes and no selector", "for example {selector: {pool: general}}")
            return ()
        if labels:
            wanted = labels.items()
            return tuple(name for name, node in self._nodes.items() if wanted <= node.metadata.labels.items())
        names = tuple(entry.nodes) if isinstance(entry.nodes, tuple) else ()
        if unknown := [name for name in dict.fromkeys(names) if name not in self._nodes]:
            one = "is no node of the cluster: it counts as one that is not ready"
            several = "are no nodes of the cluster: they count as nodes that are not ready"
            message = f"{listing(unknown, most=_MOST_NAMES)} {one if len(unknown) == 1 else several}"
            self.odd.append(Problem(message, json_path=f"{self.path}.nodes"))
        return names

    def _template(self, entry: _Entry) -> Node | None:
        content = entry.template
        if content is None:
            return None
        if "like" in content:
            model = self._nodes.get(str(content["like"]))
            if model is None:
                hint = "kubectl get nodes lists the nodes"
                self.wrong("template.like", f"the snapshot has no node {str(content['like'])[:80]}", hint)
            return model
        node = self.converted(content, Node, ".template")
        if node is None:
            return None
        if not node.status.allocatable:
            node = replace(node, status=replace(node.status, allocatable=node.status.capacity))
        self._check_amounts(node, ".template")
        return node

    def _slices(self, entry: _Entry) -> Iterator[ResourceSlice]:
        """Yield the slices of a new node: whole objects, or what is in their spec."""
        if len(entry.resource_slices) > _MOST_SLICES:
            self.wrong("resourceSlices", f"more than {_MOST_SLICES} slices of a node", "leave some out")
            return
        for at, content in enumerate(entry.resource_slices):
            field = f".resourceSlices[{at}]"
            one = self.converted(content if "spec" in content else {"spec": content}, ResourceSlice, field)
            if one is not None:
                self._check_amounts(one, field)
                # A new node has all of its pool, wherever the devices of the model are.
                pool = replace(one.spec.pool, generation=1)
                yield replace(one, spec=replace(one.spec, pool=pool, all_nodes=None, node_selector=None))

    def _check_amounts(self, obj: Node | ResourceSlice, field: str) -> None:
        problems = QuantityCheck(refuses_odd=True).problems(obj)
        self.problems += [problem.below(f"{self.path}{field}") for problem in problems]

    def _own_options(self, entry: _Entry) -> Options:
        try:
            own, passed_over = parse_options(entry.options or {}, of_group=True)
        except UsageError as error:
            self.wrong("options", str(error), error.hint)
            return self._options
        for flag in passed_over:
            self.wrong(f"options.{flag[:80]}", "no group has such a flag of its own", "set it for all groups")
        return replace(self._options, **own)


_PRICES = ("cpu", "memoryGiB", "gpu")
_PRICES_BELOW = 2**53  #: a larger number is not exact as JSON has it


def setup_of(settings: ClusterAutoscaler, snapshot: Snapshot) -> Setup:
    """Return the set-up.

    Raises UsageError for flags and prices that cannot be read, InputError with all problems of the list of groups.
    """
    setup = find_groups(snapshot, settings.options) if settings.node_groups is None else _listed(settings, snapshot)
    prices = Prices(_checked(settings.prices)) if settings.prices else setup.prices
    warnings = list(setup.warnings)
    if prices is None and "price" in setup.options.expander:
        message = "prices are unknown, so the expander filters nothing; a file for --node-groups may have them (prices)"
        warnings.append(InputWarning("NoPrices", "expander price", message))
    priorities = priorities_of(snapshot, str(setup.flags.get("namespace") or ""), warnings)
    sizes = settings.max_sizes
    groups = tuple(replace(group, most=sizes.get(group.name, group.most)) for group in setup.groups)
    return replace(setup, groups=groups, warnings=tuple(warnings), prices=prices, priorities=priorities)


def _listed(settings: ClusterAutoscaler, snapshot: Snapshot) -> Setup:
    listed = content_of(settings)
    document = listed.document
    flags = {**listed.options, **settings.options}
    options, warnings = options_of(flags)
    problems, odd = list[Problem](), list[Problem]()
    path = "$" if document is None else "$.nodeGroups"
    groups = listed_groups(listed.groups, snapshot.node_by_name, options, problems, odd, path=path)
    if document is not None:
        problems, odd = ([document.locate(problem) for problem in some] for some in (problems, odd))
    if problems:
        raise InputError(problems)
    warnings += [InputWarning("NodeGroup", "", str(problem)) for problem in odd]
    source = "a list of node groups" if document is None else str(settings.node_groups)
    prices = Prices(listed.prices) if listed.prices else None
    return Setup(tuple(groups), options, source, tuple(warnings), flags, prices)


def content_of(settings: ClusterAutoscaler) -> GroupList:
    """Return the groups as they are written; raises InputError with all problems of their file."""
    if settings.content is not None:
        content: GroupList = settings.content
        return content
    if isinstance(settings.node_groups, str | Path):
        return read_group_file(settings.node_groups)
    return GroupList(settings.node_groups or ())


def _checked(prices: Any) -> Mapping[str, Any]:
    hint = "give numbers: {instanceTypes: {m5.large: 0.1}, cpu: 0.03, memoryGiB: 0.004}"
    types = (prices.get("instanceTypes") or {}) if isinstance(prices, Mapping) else None
    if not isinstance(types, Mapping):
        raise UsageError("no prices", hint=hint)
    for name in prices:
        if name not in ("instanceTypes", *_PRICES):
            raise UsageError(f"prices of {str(name)[:80]} are unknown to the autoscaler", hint=hint)
    for name, price in ({name: prices.get(name) or 0 for name in _PRICES} | dict(types)).items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < _PRICES_BELOW:
            raise UsageError(f"the price of {str(name)[:80]} is no number from 0 on", hint=hint)
    return dict(prices)


def found_list(snapshot: Snapshot) -> tuple[dict[str, Any], tuple[InputWarning, ...]]:
    """Return the groups of a cluster and the flags of its cluster-autoscaler, as a file holds them, and warnings."""
    setup = setup_of(ClusterAutoscaler(), snapshot)
    content: dict[str, Any] = {"nodeGroups": [dict(_fields(group)) for group in setup.groups]}
    if setup.flags:
        content["options"] = dict(setup.flags)
    return content, setup.warnings


def _fields(group: NodeGroup) -> Iterator[tuple[str, Any]]:
    yield "name", group.name
    yield "minSize", group.least
    yield "maxSize", group.most
    yield "targetSize", group.target
    if group.nodes:
        yield "nodes", list(group.nodes)
    elif group.template is not None:
        yield "template", {"apiVersion": "v1", "kind": "Node", **msgspec.to_builtins(group.template)}
    if group.price is not None:
        yield "price", group.price
