"""The devices of a cluster, and the outcomes of searches, cached per node until a device there changes.

A search depends on a node, the slices that it can reach, the requests of the claims and the allocated devices among
those in reach. So the outcome for a set of requests is cached for each node, and the search is repeated only where a
device in reach was allocated or freed since. Upstream has no counterpart: it searches every node for every pod.

For the scores of node resources, devices that provide an extended resource are counted on each node. As upstream counts
them, slices of every generation count, whether or not their pool is complete, and selectors see every device as one
that cannot be shared. Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
calculateDRAResourceTotals.
"""

from __future__ import annotations

import copy
import enum
import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary, WeakSet

import msgspec
import numpy as np
from msgspec import UNSET

from kplan.api import resource as dra
from kplan.api.affinity import compile_node_selector
from kplan.api.core import Node
from kplan.api.quantity import grouped
from kplan.cel.values import CelCompileError, CelError, CostLimitError
from kplan.config.releases import Release
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.details import MissingDevices
from kplan.engine.mappings import Recent
from kplan.engine.matching import match_node_selector
from kplan.engine.node_table import NodeTable
from kplan.framework.listers import Listers, by_name, key_of
from kplan.plugins.dynamic_resources import inventory
from kplan.plugins.dynamic_resources.allocator import Positions, Search, Solution, TimedOutError, positions, transferred
from kplan.plugins.dynamic_resources.claims import ClaimTracker, rank
from kplan.plugins.dynamic_resources.requests import UNNAMED_CLAIM, ClaimSpec, RequestSpec, claim_spec, expressions

RULES_GATE = "DRADeviceTaintRules"  #: the feature gate with which DeviceTaintRules taint devices
LISTS_GATE = "DRAListTypeAttributes"  #: the feature gate with which selectors read lists as attributes
_MAX_KINDS = 32  #: how many sets of requests have their outcomes cached
#: Devices that a search may try before nodes in the same situation share a search.
_COSTLY_TRIES = 48
#: Steps that a search may execute. They take some seconds; most longer searches would never end.
_MAX_EXECUTED = 50_000
#: How many searches may execute so many steps: upstream ends a pod's cycle with the first that times out.
_MAX_TIMED_OUT = 3


class SearchOutcome(enum.IntEnum):
    """The outcome of the search on a node; TIMED_OUT counts as an ERROR once it is stored."""

    FOUND = 0
    NOT_FOUND = 1
    FAILED = 2
    ERROR = 3
    TIMED_OUT = 4


class Outcomes:
    """The outcomes of searches for a set of requests, node by node."""

    def __init__(self, n_nodes: int) -> None:
        self.codes = np.zeros(n_nodes, np.uint8)  #: uint8 array of shape (n_nodes,), a SearchOutcome each
        self.ranks: Int64Array = np.zeros(n_nodes, np.int64)  #: int64 array of shape (n_nodes,), for prioritized lists
        self.solutions: dict[int, Solution] = {}  #: node row -> devices for each claim
        self.messages: dict[int, str] = {}  #: node row -> error
        self.timed_out: BoolArray = np.zeros(n_nodes, np.bool_)  #: searches that timed out
        self.is_costly = False  #: searches try so many devices that nodes in the same situation should share a search
        #: situation -> a solution and the positions of its devices, or NOT_FOUND or TIMED_OUT
        self.by_situation: dict[Hashable, tuple[Solution, Positions] | SearchOutcome] = {}
        #: the versions of nodes for which they were searched; -1: never, or to be searched again
        self.versions: Int64Array = np.full(n_nodes, -1, np.int64)

    def copy(self) -> Outcomes:
        copied = copy.copy(self)
        for name, value in vars(self).items():
            setattr(copied, name, copy.copy(value))
        return copied

    def set(self, row: int, version: int, outcome: SearchOutcome, result: Solution | str | None, rank: int) -> None:
        self.versions[row] = version
        self.timed_out[row] = outcome is SearchOutcome.TIMED_OUT
        self.codes[row] = min(outcome, SearchOutcome.ERROR)
        self.ranks[row] = rank
        self.solutions.pop(row, None)
        self.messages.pop(row, None)
        if isinstance(result, str):
            self.messages[row] = result
        elif result is not None:
            self.solutions[row] = result


class NodeOutcomes(msgspec.Struct, frozen=True):
    """The outcomes on nodes on which the same claims have to be allocated."""

    is_searched: BoolArray  #: bool array of shape (n_nodes,)
    outcomes: Outcomes  #: by node row


class ClaimState(msgspec.Struct):
    """A pod's claims; empty until PreFilter fills it."""

    namespace: str = ""  #: the pod's
    claims: tuple[dra.ResourceClaim, ...] = ()  #: the claims that the pod names, in its order
    to_allocate: tuple[dra.ResourceClaim, ...] = ()  #: those of them that have no allocation
    resources: dict[str, int] = {}  #: the pod's requests for extended resources, if a device class provides any of them
    leftover: dra.ResourceClaim | None = None  #: a claim for extended resources from an earlier attempt
    #: claims with an allocation, and the nodes where they cannot be used (bool of shape (n_nodes,))
    unavailable: tuple[tuple[dra.ResourceClaim, BoolArray], ...] = ()
    reserved: dict[int, Solution | None] = {}  #: node row -> the solution that was reserved there
    node_outcomes: dict[bytes, NodeOutcomes] = {}  #: the outcomes of Filter, by the key of the claims to allocate

    @property
    def is_empty(self) -> bool:
        return not self.claims and not self.resources

    @property
    def is_stale(self) -> bool:
        """Whether the claim of an earlier attempt has to be deleted first."""
        return self.leftover is not None and bool(self.leftover.spec.devices.requests)

    @property
    def names(self) -> list[str]:
        """Names of the claims to allocate, the one for extended resources last."""
        return [*(claim.metadata.key for claim in self.to_allocate), f"{self.namespace}/{UNNAMED_CLAIM}"]

    def ranks(self, n_nodes: int, allocated: int) -> Int64Array:
        """Return the ranks of the alternatives that requests get on each node, 0 where none was searched for.

        `allocated` is the rank of the claims that have an allocation, which is added on the other nodes.
        """
        ranks = np.zeros(n_nodes, np.int64)
        for group in self.node_outcomes.values():
            ranks[group.is_searched] = group.outcomes.ranks[group.is_searched] + allocated
        return ranks

    def solution(self, row: int) -> Solution | None:
        groups = self.node_outcomes.values()
        solutions = (group.outcomes.solutions.get(row) for group in groups if group.is_searched[row])
        return next(solutions, None)


class Catalogue:
    """What a plan does not change: slices, classes, the pools that each node can reach, and results of selectors."""

    def __init__(self, release: Release, listers: Listers) -> None:
        snapshot = listers.snapshot
        lists = release.is_on(LISTS_GATE)
        rules = snapshot.device_taint_rules if release.is_on(RULES_GATE) else ()
        self.inventory = inventory.Inventory(inventory.with_rules(snapshot.resource_slices, rules), lists=lists)
        self.classes: Mapping[str, dra.DeviceClass] = by_name(snapshot.device_classes)
        self.selection = inventory.Selection(lists=lists)
        self.blind_selection = inventory.Selection(lists=lists)  #: of devices that count as ones that cannot be shared
        self._pools: dict[str, tuple[Node, inventory.NodePools | inventory.AllocationError]] = {}
        self._nodes_of_pool: defaultdict[inventory.PoolId, set[str]] = defaultdict(set)
        self._matching: Recent[dict[str, tuple[Node, tuple[inventory.DeviceInfo, ...]]]] = Recent(_MAX_KINDS)
        self._gathered: WeakSet[NodeTable] = WeakSet()
        self._first_outcomes: WeakKeyDictionary[NodeTable, Recent[Outcomes]] = WeakKeyDictionary()

    def pools(self, node: Node) -> inventory.NodePools:
        """Return the pools that a node can reach; raises AllocationError if a slice cannot be used."""
        cached = self._pools.get(node.metadata.name)
        if cached is None or cached[0] is not node:
            try:
                cached = node, inventory.gather_pools(self.inventory, node)
            except inventory.AllocationError as error:
                cached = node, error
            else:
                for pool in cached[1].pools:
                    self._nodes_of_pool[pool.id].add(node.metadata.name)
            self._pools[node.metadata.name] = cached
        if isinstance(cached[1], inventory.AllocationError):
            raise cached[1]
        return cached[1]

    def gather_all_pools(self, nodes: NodeTable) -> None:
        if nodes not in self._gathered:
            self._gathered.add(nodes)
            for node in nodes.nodes:
                with suppress(inventory.AllocationError):
                    self.pools(node)

    def matching(self, node: Node, request: RequestSpec) -> tuple[inventory.DeviceInfo, ...]:
        """Return the devices that a node can reach and a request accepts; none where a selector or a slice fails."""
        by_node = self._matching.get((request.class_name, request.expressions), dict)
        cached = by_node.get(node.metadata.name)
        if cached is None or cached[0] is not node:
            cached = by_node[node.metadata.name] = node, self._match(node, request)
        return cached[1]

    def _match(self, node: Node, request: RequestSpec) -> tuple[inventory.DeviceInfo, ...]:
        device_class = self.classes.get(request.class_name)
        if device_class is None:
            return ()
        texts = (*expressions(device_class.spec.selectors), *request.expressions)
        try:
            results = [self.selection.results(text) for text in texts if text is not None]
            return tuple(
                device
                for _, device in self.pools(node).candidates
                if device.is_on(node) and all(result.matches(device) for result in results)
            )
        except (inventory.AllocationError, CelCompileError, CelError, CostLimitError):
            return ()

    def nodes_of(self, pool: inventory.PoolId) -> set[str]:
        """Return the names of the nodes that can reach a pool, among those whose pools were gathered."""
        return self._nodes_of_pool.get(pool, set())

    def first_outcomes(self, nodes: NodeTable, key: bytes) -> Outcomes:
        """Return the outcomes for a set of requests while nothing but the snapshot's claims is allocated."""
        kinds: Recent[Outcomes] = self._first_outcomes.setdefault(nodes, Recent(_MAX_KINDS))
        return kinds.get(key, lambda: Outcomes(len(nodes)))


class ClusterDevices:
    """The devices, claims and outcomes of a session; all its profiles share them."""

    def __init__(self, cluster: Cluster, listers: Listers, release: Release) -> None:
        self.catalogue = listers.catalogue(Catalogue, release)
        self.tracker = ClaimTracker(listers.snapshot.resource_claims)
        self._new_claims = listers.device_claims
        self._n_new_claims = 0
        self._nodes = cluster.nodes
        self._pods = cluster.pods
        self._changes = cluster.log
        self._n_changes = len(cluster.log)
        self._versions: Int64Array = np.zeros(len(self._nodes), np.int64)
        self._position = 0
        self._held_at, self._held = -1, dict[inventory.DeviceId, list[str]]()
        self._outcomes: Recent[Outcomes] = Recent(_MAX_KINDS)

    def solve(self, specs: Sequence[ClaimSpec], key: bytes, rows: RowArray, n_steps: int | None) -> Outcomes:
        """Return the outcomes of the search for devices on some nodes; claims with equal requests have equal keys.

        Upstream would take `n_steps` on a node within its timeout; None without a timeout.
        """
        first = self.catalogue.first_outcomes(self._nodes, key)
        outcomes = self._outcomes.get(key, first.copy)
        self.catch_up()
        # A node is listed twice where preemption tries it with nominated pods and without.
        for row in np.unique(rows[outcomes.versions[rows] != self._versions[rows]]).tolist():
            n_timed_out = 0
            if outcomes.timed_out.any():
                n_timed_out = int(np.count_nonzero(outcomes.timed_out[np.unique(rows[rows < row])]))
            most_executed = _MAX_EXECUTED if n_timed_out < _MAX_TIMED_OUT else _COSTLY_TRIES
            outcome, result = self._search(outcomes, self._nodes.nodes[row], specs, n_steps, most_executed)
            claims_rank = 0
            if isinstance(result, list):
                requests = ([device.request.full_name for device in devices] for devices in result)
                claims_rank = sum(map(rank, specs, requests))
            # A search with fewer steps, because others timed out, is no outcome for later cycles.
            is_cut_short = outcome is SearchOutcome.TIMED_OUT and most_executed < _MAX_EXECUTED
            version = -1 if is_cut_short else int(self._versions[row])
            outcomes.set(row, version, outcome, result, claims_rank)
            if not self.tracker.log:
                first.set(row, version, outcome, result, claims_rank)
        return outcomes

    def catch_up(self) -> None:
        """Free devices of pods that left, add new claims, and mark the nodes of devices whose state changed."""
        for change in self._changes[self._n_changes :]:
            if change.sign < 0 and not change.is_trial:
                self.tracker.release(self._pods.infos[change.pod].pod)
        self._n_changes = len(self._changes)
        for claim in self._new_claims[self._n_new_claims :]:
            self.tracker.claims[key_of(claim)] = claim
        self._n_new_claims = len(self._new_claims)
        log = self.tracker.log
        if self._position == len(log):
            return
        self.catalogue.gather_all_pools(self._nodes)
        for pool in {inventory.PoolId(device.driver, device.pool) for device in log[self._position :]}:
            rows = [self._nodes.row_of[name] for name in self.catalogue.nodes_of(pool) if name in self._nodes.row_of]
            self._versions[rows] += 1
        self._position = len(log)

    def missing(self, node: Node, claims: Iterable[dra.ResourceClaim]) -> Iterator[MissingDevices]:
        """Yield, for each request of claims to allocate, how many devices of a node match it and are free.

        ``matching`` counts the devices that match the class and the selectors of a request, ``free`` those of them that
        are not allocated and have no untolerated taint. Every alternative has an entry.
        """
        allocated = self.tracker.allocated.devices
        for claim in claims:
            for request in itertools.chain.from_iterable(claim_spec(claim.spec).requests):
                matching = self.catalogue.matching(node, request)
                unused = [one for one in matching if request.admin_access or one.id not in allocated]
                taints = [inventory.untolerated_taints(one, request.tolerations) for one in unused]
                tainted = tuple(dict.fromkeys(taint.text for one in taints for taint in one))
                yield MissingDevices(
                    claim=claim.metadata.key,
                    request=request.full_name,
                    device_class=request.class_name,
                    wanted="all" if request.wants_all else str(request.count),
                    matching=str(len(matching)),
                    free=str(sum(not one for one in taints)),
                    held_by=tuple(dict.fromkeys(name for one in matching for name in self._holders.get(one.id, ()))),
                    tainted=tainted or UNSET,
                )

    @property
    def _holders(self) -> Mapping[inventory.DeviceId, Sequence[str]]:
        """The pods that use each allocated device, NAMESPACE/NAME, or the claim where no pod does."""
        if self._held_at != len(self.tracker.log):
            self._held_at = len(self.tracker.log)
            self._held = grouped(
                (inventory.DeviceId(result.driver, result.pool, result.device), f"{claim.metadata.namespace}/{name}")
                for claim in self.tracker.claims.values()
                for result in (() if claim.status.allocation is None else claim.status.allocation.devices.results)
                for name in ([one.name for one in claim.status.reserved_for] or [claim.metadata.name])
                if not result.admin_access
            )
        return self._held

    def _search(
        self, outcomes: Outcomes, node: Node, specs: Sequence[ClaimSpec], n_steps: int | None, most_executed: int
    ) -> tuple[SearchOutcome, Solution | str | None]:
        catalogue = self.catalogue
        try:
            pools = catalogue.pools(node)
            search = Search(
                node,
                pools,
                specs,
                allocated=self.tracker.allocated,
                classes=catalogue.classes,
                selection=catalogue.selection,
                n_steps=n_steps,
                most_executed=most_executed,
            )
            solution = _run(outcomes, pools, search, is_whole=most_executed == _MAX_EXECUTED)
        except TimedOutError as error:
            return SearchOutcome.TIMED_OUT, str(error)
        except inventory.AllocationError as error:
            return SearchOutcome.ERROR, str(error)
        if solution is None:
            return SearchOutcome.FAILED if pools.has_invalid else SearchOutcome.NOT_FOUND, None
        return SearchOutcome.FOUND, solution


def _run(outcomes: Outcomes, pools: inventory.NodePools, search: Search, *, is_whole: bool) -> Solution | None:
    """Run a search; once a search was costly, use the solution of a node in the same situation instead.

    Only a search `is_whole` that may execute all steps tells that nodes in its situation time out.
    """
    if not outcomes.is_costly:
        try:
            return search.run()
        finally:
            outcomes.is_costly = search.n_tries > _COSTLY_TRIES
    try:
        situation = search.situation()
    except inventory.AllocationError:
        return search.run()  # which may end before it reaches the device on which a selector fails
    cached = outcomes.by_situation.get(situation)
    if cached is SearchOutcome.TIMED_OUT:
        raise search.timed_out()
    if isinstance(cached, tuple):
        return transferred(pools, *cached)
    if cached is not None:
        return None
    try:
        solution = search.run()
    except TimedOutError:
        if is_whole:
            outcomes.by_situation[situation] = SearchOutcome.TIMED_OUT
        raise
    outcomes.by_situation[situation] = (
        SearchOutcome.NOT_FOUND if solution is None else (solution, positions(pools, solution))
    )
    return solution


class _ClassCount(msgspec.Struct):
    """The devices of a class: how many each node has, and the nodes for which each device counts."""

    capacity: Int64Array
    in_use: Int64Array
    rows: dict[inventory.DeviceId, list[RowArray]] = {}
    counted: set[inventory.DeviceId] = set()
    position: int = 0


class DeviceCounter:
    """Counts devices by extended resource, and how many of them are allocated."""

    def __init__(self, nodes: NodeTable, devices: ClusterDevices, classes: Mapping[str, dra.DeviceClass]) -> None:
        self._nodes = nodes
        self._catalogue = devices.catalogue
        self._tracker = devices.tracker
        self._classes = classes
        self._counts: dict[str, _ClassCount] = {}

    def __call__(self, resource: str) -> tuple[Int64Array, Int64Array]:
        """Return how many devices each node has, and how many of them are allocated; int64 of shape (n_nodes,)."""
        count = self._counts.get(resource)
        if count is None:
            count = self._counts[resource] = self._count(self._classes.get(resource))
        log = self._tracker.log
        for device in set(count.rows if count.position == 0 else log[count.position - 1 :]):
            is_allocated = self._tracker.allocated.is_allocated(device)
            if device in count.rows and is_allocated != (device in count.counted):
                (count.counted.add if is_allocated else count.counted.remove)(device)
                for rows in count.rows[device]:
                    count.in_use[rows] += 1 if is_allocated else -1
        count.position = len(log) + 1
        return count.capacity, count.in_use

    def _count(self, device_class: dra.DeviceClass | None) -> _ClassCount:
        count = _ClassCount(np.zeros(len(self._nodes), np.int64), np.zeros(len(self._nodes), np.int64))
        if device_class is None:
            return count
        selectors = expressions(device_class.spec.selectors)
        unreadable: list[RowArray] = []
        for slice_ in self._catalogue.inventory.slices:
            for device, rows in self._devices(slice_):
                try:
                    if not self._matches(selectors, device):
                        continue
                except (CelCompileError, CelError, CostLimitError):
                    unreadable.append(rows)
                    continue
                count.capacity[rows] += 1
                count.rows.setdefault(device.id, []).append(rows)
        # A device on which a selector fails makes the count 0 on every node that reaches it.
        for rows in unreadable:
            count.capacity[rows] = 0
        return count

    def _matches(self, selectors: Iterable[str | None], device: inventory.DeviceInfo) -> bool:
        selection = self._catalogue.selection
        if device.allows_multiple:
            selection, device = self._catalogue.blind_selection, device.as_unshared()
        return all(text is None or selection.results(text).matches(device) for text in selectors)

    def _devices(self, slice_: inventory.SliceInfo) -> Iterator[tuple[inventory.DeviceInfo, RowArray]]:
        if slice_.is_per_device:
            for device in slice_.devices:
                yield device, self._rows(device.device)
            return
        spec = slice_.slice.spec
        names_no_node = not spec.node_name and spec.node_selector is None
        rows = self._nodes.all_rows if names_no_node else self._rows(spec)
        for device in slice_.devices:
            yield device, rows

    def _rows(self, place: dra.Device | dra.ResourceSliceSpec) -> RowArray:
        if place.all_nodes:
            return self._nodes.all_rows
        if place.node_name:
            row = self._nodes.row_of.get(place.node_name)
            return np.asarray([] if row is None else [row], np.intp)
        if place.node_selector is None:
            return np.zeros(0, np.intp)
        return np.flatnonzero(match_node_selector(self._nodes, compile_node_selector(place.node_selector)))
