"""Nodes as columns, ordered by name; a table does not change once it is built."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import Taint
from kplan.api.core import Node
from kplan.api.labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from kplan.api.meta import QuantityLike
from kplan.api.quantity import milli_value, value
from kplan.engine.arrays import BoolArray, CodeArray, Int64Array, RowArray
from kplan.engine.mappings import Built, Recent
from kplan.rules.nodes import cordoned
from kplan.rules.resources import CPU, PODS, is_counted

T = TypeVar("T")

ABSENT = -1  #: code of a node that does not have the label
MAX_DERIVED = 1024  #: how many derived values are cached: most are a column of a byte a node


class LabelColumn:
    """The values of one label key on all nodes."""

    def __init__(self, column: Sequence[str | None]) -> None:
        code_of: dict[str, int] = {}
        #: int32 array of shape (n_nodes,); index into `values`, or ABSENT
        self.codes: CodeArray = np.fromiter(
            (ABSENT if text is None else code_of.setdefault(text, len(code_of)) for text in column),
            np.int32,
            len(column),
        )
        self.values = list(code_of)  #: distinct values, in the order in which they first occur
        self.code_of = code_of

    @cached_property
    def present(self) -> BoolArray:
        present: BoolArray = self.codes != ABSENT
        return present

    @cached_property
    def is_everywhere(self) -> bool:
        return bool(self.present.all())

    @cached_property
    def is_distinct(self) -> bool:
        """Whether every node has a value of its own, as host names are; then the code of a node is its row."""
        return len(self.values) == len(self.codes)

    @cached_property
    def slots(self) -> RowArray:
        """The code of each node's value, or len(values) without the label: indices into len(values) + 1 counters."""
        return np.where(self.codes == ABSENT, len(self.values), self.codes).astype(np.intp)


class NodeTable:
    """All nodes of a cluster, one row each, ordered by name; or in a given order, as later nodes come last."""

    def __init__(self, nodes: Sequence[Node], *, keeps_order: bool = False) -> None:
        #: the objects, by row
        self.nodes = list(nodes) if keeps_order else sorted(nodes, key=lambda node: node.metadata.name)
        self.names = [node.metadata.name for node in self.nodes]  #: their names, by row
        self.row_of = {name: row for row, name in enumerate(self.names)}  #: name -> row
        self._labels: dict[str, LabelColumn] = {}
        self._allocatable: dict[str, Int64Array] = {}
        #: resource -> the smallest allocatable amount of it on any node; 0 without nodes
        self.least_allocatable = Built[str, int](lambda key: min(self.allocatable(key).tolist(), default=0))
        self._derived: Recent[Any] = Recent(MAX_DERIVED)
        self._of_taints: Recent[Any] = Recent(MAX_DERIVED)

        taint_code: dict[tuple[Taint, ...], int] = {}
        self.taint_codes: CodeArray = np.fromiter(
            (taint_code.setdefault(node.spec.taints, len(taint_code)) for node in self.nodes), np.int32, len(self.nodes)
        )
        self.taint_sets = list(taint_code)  #: distinct tuples of taints; `taint_codes` (int32 a row) points into it
        #: bool array of shape (n_nodes,), ``spec.unschedulable``
        self.unschedulable: BoolArray = np.fromiter(
            (bool(node.spec.unschedulable) for node in self.nodes), np.bool_, len(self.nodes)
        )
        #: bool array of shape (n_nodes,): nodes that do not exist at present, on which no pod runs, and which form no
        #: topology domains; None where all exist
        self.absent: BoolArray | None = None
        self.allowed_pods: Int64Array = _amounts(self.nodes, PODS, value)  #: int64 array of shape (n_nodes,)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def present(self) -> list[Node]:
        absent = self.absent
        return self.nodes if absent is None else [node for row, node in enumerate(self.nodes) if not absent[row]]

    def with_schedulable(self, rows: Collection[int], *, schedulable: bool) -> NodeTable:
        """Return the table with some nodes cordoned or uncordoned; everything else is shared."""
        return self._replacing({row: cordoned(self.nodes[row], is_cordoned=not schedulable) for row in rows})

    def _replacing(self, nodes: Mapping[int, Node]) -> NodeTable:
        """Return the table with other objects in some rows, which differ in their taints and in being cordoned only."""
        changed = copy.copy(self)
        changed.nodes, changed.unschedulable = self.nodes.copy(), self.unschedulable.copy()
        changed.taint_sets, changed.taint_codes = self.taint_sets.copy(), self.taint_codes.copy()
        if any(node.spec.taints != self.nodes[row].spec.taints for row, node in nodes.items()):
            changed.forget_taints()
        code_of = {taints: code for code, taints in enumerate(self.taint_sets)}
        for row, node in nodes.items():
            taints = node.spec.taints
            if taints not in code_of:
                code_of[taints] = len(code_of)
                changed.taint_sets.append(taints)
            changed.nodes[row], changed.taint_codes[row] = node, code_of[taints]
            changed.unschedulable[row] = bool(node.spec.unschedulable)
        return changed

    def grown(self, nodes: Sequence[Node]) -> NodeTable:
        grown = NodeTable([*self.nodes, *nodes], keeps_order=True)
        if self.absent is not None:
            grown.absent = np.append(self.absent, np.zeros(len(nodes), np.bool_))
        return grown

    def with_absent(self, absent: BoolArray) -> NodeTable:
        """Return the table with other nodes absent; everything else is shared."""
        changed = copy.copy(self)
        changed.absent = absent
        return changed

    def with_taints(self, row: int, taints: tuple[Taint, ...]) -> NodeTable:
        node = self.nodes[row]
        return self._replacing({row: replace(node, spec=replace(node.spec, taints=taints))})

    def changed(self, nodes: Sequence[Node]) -> NodeTable:
        """Return the table of other nodes; columns are shared where only taints and cordons differ."""
        own = set(map(id, self.nodes))
        new = {node.metadata.name: node for node in nodes if id(node) not in own}
        rows = [self.row_of.get(name) for name in new]
        if len(nodes) != len(self.nodes) or None in rows:
            return NodeTable(nodes)
        older = [self.nodes[row] for row in rows if row is not None]
        if any(map(_differ_otherwise, older, new.values())):
            return NodeTable(nodes)
        return self._replacing({self.row_of[name]: node for name, node in new.items()})

    def label(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None:
            column = LabelColumn([node.metadata.labels.get(key) for node in self.nodes])
            self._labels[key] = column
        return column

    def allocatable(self, resource: str) -> Int64Array:
        """Return each node's allocatable amount of a resource: milliCPU, bytes or counts, 0 where it has none."""
        column = self._allocatable.get(resource)
        if column is None:
            column = _amounts(self.nodes, resource, milli_value if resource == CPU else value)
            self._allocatable[resource] = column
        return column

    def forget_taints(self) -> None:
        self._of_taints = Recent(MAX_DERIVED)

    def derived(self, key: Hashable, build: Callable[[], T], *, of_taints: bool = False) -> T:
        """Return a value that depends on the nodes alone, built when first used and cached.

        `of_taints`: on their taints, too, which no other value may depend on.
        """
        result: T = (self._of_taints if of_taints else self._derived).get(key, build)
        return result

    @cached_property
    def resources(self) -> frozenset[str]:
        return frozenset(name for node in self.nodes for name in node.status.allocatable if is_counted(name))

    @cached_property
    def all_rows(self) -> RowArray:
        """All rows, ascending; do not write to it."""
        return np.arange(len(self.nodes))

    @cached_property
    def zone_order(self) -> RowArray:
        """Rows in the order in which kube-scheduler's node tree lists them: zone by zone in turn.

        The tree adds nodes as the scheduler's cache receives them; here that is the order of their names, and nodes
        that join later are the last of their zones. Tables with other taints share what is known.
        Upstream: backend/cache/node_tree.go, component-helpers/node/topology GetZoneKey.
        """
        zones: dict[str, list[int]] = {}
        for row, node in enumerate(self.nodes):
            zones.setdefault(zone_key(node.metadata.labels), []).append(row)
        turns = zip_longest(*zones.values())
        return np.asarray([row for turn in turns for row in turn if row is not None], np.intp)

    @cached_property
    def zone_places(self) -> RowArray:
        """The index of each node in `zone_order`, intp of shape (n_nodes,)."""
        return np.argsort(self.zone_order)


def _amounts(nodes: Sequence[Node], resource: str, read: Callable[[QuantityLike], int]) -> Int64Array:
    """Return how much of a resource each node has allocatable, 0 where it has none; equal texts are read once."""
    written = [node.status.allocatable.get(resource, 0) for node in nodes]
    amounts = {quantity: read(quantity) for quantity in set(written)}
    return np.fromiter(map(amounts.__getitem__, written), np.int64, len(written))


def _differ_otherwise(node: Node, other: Node) -> bool:
    """Whether two nodes differ in anything but their taints and being cordoned."""
    spec = replace(other.spec, unschedulable=node.spec.unschedulable, taints=node.spec.taints)
    return node != replace(other, spec=spec)


def zone_key(labels: Mapping[str, str]) -> str:
    """Return the region and the zone of a node, empty for none. Upstream: component-helpers/node/topology."""
    zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
    region = labels.get(BETA_REGION, labels.get(REGION, ""))
    return "" if not zone and not region else f"{region}:\x00:{zone}"


class ImageIndex:
    """Images by the names under which nodes list them.

    An image has the size that the first node (by name) lists: kube-scheduler stores a single size per image name, that
    of the node it saw first. Upstream: backend/cache/cache.go addNodeImageStates.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._sizes: dict[str, int] = {}
        self._rows: dict[str, dict[int, None]] = {}
        for row, node in enumerate(nodes.nodes):
            for image in node.status.images:
                for name in image.names:
                    self._sizes.setdefault(name, image.size_bytes)
                    self._rows.setdefault(name, {})[row] = None

    @staticmethod
    def of(nodes: NodeTable) -> ImageIndex:
        return nodes.derived("image index", lambda: ImageIndex(nodes))

    def size(self, name: str) -> int:
        return self._sizes[name]

    def rows(self, name: str) -> RowArray:
        rows = self._rows.get(name, {})
        return np.fromiter(rows, np.intp, len(rows))
