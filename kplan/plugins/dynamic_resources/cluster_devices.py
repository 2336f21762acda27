"""The devices of a cluster, and the outcomes of searches, cached per node until a device there changes.

A search depends on a node, the slices that it can reach, the requests of the claims and the allocated devices among
those in reach. So the outcome for a set of requests is cached for each node, and the search is repeated only where a
device in reach was allocated or freed since.

Upstream has no counterpart: it searches every node for every pod.
"""

from __future__ import annotations

import copy
import enum
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from kplan.api.core import Node
from kplan.api.resource import DeviceClass, ResourceClaim
from kplan.cel.values import CelCompileError, CelError, CostLimitError
from kplan.config.releases import Release
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.details import MissingDevices
from kplan.engine.mappings import Recent
from kplan.engine.node_table import NodeTable
from kplan.framework.listers import Listers, by_name
from kplan.plugins.dynamic_resources.allocator import Limits, NamedClaim, Search, SearchContext, TimedOutError
from kplan.plugins.dynamic_resources.inventory import (
    DeviceInfo,
    Inventory,
    PoolId,
    Selection,
    prevents_allocation,
    with_rules,
)
from kplan.plugins.dynamic_resources.picks import Positions, positions, transferred
from kplan.plugins.dynamic_resources.pools import (
    AllocationError,
    ClaimTracker,
    DeviceResult,
    NodePools,
    device_matches,
    gather_pools,
    rank,
)
from kplan.plugins.dynamic_resources.requests import ClaimSpec, RequestSpec, claim_spec, expressions, key_of

RULES_GATE = "DRADeviceTaintRules"
"""The feature gate with which DeviceTaintRules taint devices."""
LISTS_GATE = "DRAListTypeAttributes"
"""The feature gate with which selectors read lists as attributes."""

#: How many sets of requests have their outcomes cached.
_MAX_KINDS = 32
#: Devices that a search may try before nodes in the same situation share a search.
_COSTLY_TRIES = 48
#: Stands for the name of the claim at a position in cached messages, which hold for claims of any name.
_PLACEHOLDER = "\x00{}\x00"
#: Stands for the claim's name without the namespace.
_BARE_PLACEHOLDER = "\x01{}\x01"
#: Steps that a search may execute. They take some seconds; most longer searches would never end.
_MAX_EXECUTED = 50_000
#: How many searches may execute so many steps: upstream ends a pod's cycle with the first that times out.
_MAX_TIMED_OUT = 3

Solution = list[list[DeviceResult]]


class SearchOutcome(enum.IntEnum):
    """The outcome of the search on a node."""

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
        #: bool array of shape (n_nodes,), searches that timed out
        self.timed_out: BoolArray = np.zeros(n_nodes, np.bool_)
        self.is_costly = False  #: searches try so many devices that nodes in the same situation should share a search
        #: situation -> a solution and the positions of its devices, or NOT_FOUND or TIMED_OUT
        self.by_situation: dict[Hashable, tuple[Solution, Positions] | SearchOutcome] = {}
        self._searched_versions: Int64Array = np.full(n_nodes, -1, np.int64)

    def copy(self) -> Outcomes:
        copied = copy.copy(self)
        for name, value in vars(self).items():
            setattr(copied, name, copy.copy(value))
        return copied

    def stale(self, rows: RowArray, versions: Int64Array) -> RowArray:
        """Return the rows whose devices changed since they were searched."""
        stale: RowArray = rows[self._searched_versions[rows] != versions[rows]]
        return stale

    def set(self, row: int, version: int, outcome: SearchOutcome, result: Solution | str | None, rank: int) -> None:
        """Store the outcome of a search on a node, with its solution or error."""
        self._searched_versions[row] = version  # -1: searched again next time
        self.timed_out[row] = outcome is SearchOutcome.TIMED_OUT
        self.codes[row] = min(outcome, SearchOutcome.ERROR)
        self.ranks[row] = rank
        self.solutions.pop(row, None)
        self.messages.pop(row, None)
        if isinstance(result, str):
            self.messages[row] = result
        elif result is not None:
            self.solutions[row] = result


class Catalogue:
    """What a plan does not change: slices, classes, the pools that each node can reach, and results of selectors."""

    def __init__(self, release: Release, listers: Listers) -> None:
        snapshot = listers.snapshot
        lists = release.is_on(LISTS_GATE)
        rules = snapshot.device_taint_rules if release.is_on(RULES_GATE) else ()
        self.inventory = Inventory(with_rules(snapshot.resource_slices, rules), lists=lists)
        self.classes: Mapping[str, DeviceClass] = by_name(snapshot.device_classes)
        self.selection = Selection(lists=lists)
        self.blind_selection = Selection(lists=lists)  #: of devices that count as ones that cannot be shared
        self._pools: dict[str, tuple[Node, NodePools | AllocationError]] = {}
        self._nodes_of_pool: defaultdict[PoolId, set[str]] = defaultdict(set)
        self._matching: Recent[dict[str, tuple[Node, tuple[DeviceInfo, ...]]]] = Recent(_MAX_KINDS)
        self._gathered: WeakSet[NodeTable] = WeakSet()
        self._first_outcomes: WeakKeyDictionary[NodeTable, Recent[Outcomes]] = WeakKeyDictionary()

    def pools(self, node: Node) -> NodePools:
        """Return the pools that a node can reach; raises AllocationError if a slice cannot be used."""
        cached = self._pools.get(node.metadata.name)
        if cached is None or cached[0] is not node:
            cached = self._pools[node.metadata.name] = node, self._gather(node)
        if isinstance(cached[1], AllocationError):
            raise cached[1]
        return cached[1]

    def _gather(self, node: Node) -> NodePools | AllocationError:
        try:
            pools = NodePools(gather_pools(self.inventory, node))
        except AllocationError as error:
            return error
        for pool in pools.pools:
            self._nodes_of_pool[pool.id].add(node.metadata.name)
        return pools

    def gather_all_pools(self, nodes: NodeTable) -> None:
        """Gather the pools of every node, so that `nodes_of` is complete."""
        if nodes not in self._gathered:
            self._gathered.add(nodes)
            for node in nodes.nodes:
                with suppress(AllocationError):
                    self.pools(node)

    def matching(self, node: Node, request: RequestSpec) -> tuple[DeviceInfo, ...]:
        """Return the devices that a node can reach and a request accepts; none where a selector or a slice fails."""
        by_node = self._matching.get((request.class_name, request.expressions), dict)
        cached = by_node.get(node.metadata.name)
        if cached is None or cached[0] is not node:
            cached = by_node[node.metadata.name] = node, self._match(node, request)
        return cached[1]

    def _match(self, node: Node, request: RequestSpec) -> tuple[DeviceInfo, ...]:
        device_class = self.classes.get(request.class_name)
        if device_class is None:
            return ()
        texts = (*expressions(device_class.spec.selectors), *request.expressions)
        try:
            results = [self.selection.results(text) for text in texts if text is not None]
            return tuple(
                device
                for _, device in self.pools(node).candidates
                if (not device.slice.is_per_device or device_matches(device, node))
                and all(result.matches(device) for result in results)
            )
        except (AllocationError, CelCompileError, CelError, CostLimitError):
            return ()

    def nodes_of(self, pool: PoolId) -> set[str]:
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
        self._outcomes: Recent[Outcomes] = Recent(_MAX_KINDS)
        self._context = SearchContext(self.tracker.allocated, self.catalogue.classes, self.catalogue.selection)

    def solve(self, specs: Sequence[ClaimSpec], key: bytes, rows: RowArray, n_steps: int | None) -> Outcomes:
        """Return the outcomes of the search for devices on some nodes; claims with equal requests have equal keys.

        Parameters
        ----------
        n_steps : how many steps upstream would take on a node within its timeout; None without a timeout
        """
        first = self.catalogue.first_outcomes(self._nodes, key)
        outcomes = self._outcomes.get(key, first.copy)
        self.catch_up()
        claims = [
            NamedClaim(_PLACEHOLDER.format(index), _BARE_PLACEHOLDER.format(index), spec)
            for index, spec in enumerate(specs)
        ]
        for row in outcomes.stale(rows, self._versions).tolist():
            n_timed_out = int(np.count_nonzero(outcomes.timed_out[rows[rows < row]])) if outcomes.timed_out.any() else 0
            limits = Limits(n_steps, _MAX_EXECUTED if n_timed_out < _MAX_TIMED_OUT else _COSTLY_TRIES)
            outcome, result = self._search(outcomes, self._nodes.nodes[row], claims, limits)
            claims_rank = sum(map(rank, specs, result)) if isinstance(result, list) else 0
            # A search with fewer steps, because others timed out, is no outcome for later cycles.
            is_cut_short = outcome is SearchOutcome.TIMED_OUT and limits.n_executed < _MAX_EXECUTED
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
        for pool in {PoolId(device.driver, device.pool) for device in log[self._position :]}:
            rows = [self._nodes.row_of[name] for name in self.catalogue.nodes_of(pool) if name in self._nodes.row_of]
            self._versions[rows] += 1
        self._position = len(log)

    def missing(self, node: Node, claims: Iterable[ResourceClaim]) -> list[MissingDevices]:
        """Return, for each request of claims to allocate, how many devices of a node match it and are free.

        ``matching`` counts the devices that match the class and the selectors of a request, ``free`` those of them that
        are not allocated and have no untolerated taint. Every alternative has an entry.
        """
        return [
            self._missing_for(node, claim.metadata.key, request)
            for claim in claims
            for alternatives in claim_spec(claim.spec).requests
            for request in alternatives
        ]

    def _missing_for(self, node: Node, claim: str, request: RequestSpec) -> MissingDevices:
        matching = self.catalogue.matching(node, request)
        allocated = self.tracker.allocated.devices
        n_free = sum(
            (request.admin_access or device.id not in allocated)
            and not (device.device.taints and prevents_allocation(device, request.tolerations))
            for device in matching
        )
        return MissingDevices(
            claim=claim,
            request=request.full_name,
            device_class=request.class_name,
            wanted="all" if request.wants_all else str(request.count),
            matching=str(len(matching)),
            free=str(n_free),
        )

    def _search(
        self, outcomes: Outcomes, node: Node, claims: Sequence[NamedClaim], limits: Limits
    ) -> tuple[SearchOutcome, Solution | str | None]:
        try:
            pools = self.catalogue.pools(node)
            solution = self._run(outcomes, pools, Search(node, pools, claims, self._context, limits), limits)
        except TimedOutError as error:
            return SearchOutcome.TIMED_OUT, str(error)
        except AllocationError as error:
            return SearchOutcome.ERROR, str(error)
        if solution is None:
            return SearchOutcome.FAILED if pools.has_invalid else SearchOutcome.NOT_FOUND, None
        return SearchOutcome.FOUND, solution

    def _run(self, outcomes: Outcomes, pools: NodePools, search: Search, limits: Limits) -> Solution | None:
        """Run a search; once a search was costly, use the solution of a node in the same situation instead."""
        if not outcomes.is_costly:
            try:
                return search.run()
            finally:
                outcomes.is_costly = search.n_tries > _COSTLY_TRIES
        try:
            node_situation = search.situation()
        except AllocationError:
            return search.run()  # which may end before it reaches the device on which a selector fails
        cached = outcomes.by_situation.get(node_situation)
        if cached is SearchOutcome.TIMED_OUT:
            raise search.timed_out()
        if isinstance(cached, tuple):
            return transferred(pools, *cached)
        if cached is None:
            try:
                solution = search.run()
            except TimedOutError:
                if limits.n_executed == _MAX_EXECUTED:
                    outcomes.by_situation[node_situation] = SearchOutcome.TIMED_OUT
                raise
            outcomes.by_situation[node_situation] = (
                SearchOutcome.NOT_FOUND if solution is None else (solution, positions(pools, solution))
            )
            return solution
        return None


def with_claim_names(message: str, names: Sequence[str]) -> str:
    """Return a cached message with the names of the claims in place of the placeholders."""
    for index, name in enumerate(names):
        message = message.replace(_PLACEHOLDER.format(index), name)
        message = message.replace(_BARE_PLACEHOLDER.format(index), name.partition("/")[2])
    return message
