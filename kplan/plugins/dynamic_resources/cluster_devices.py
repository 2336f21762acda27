"""The devices of a cluster and what searches for them found, node by node, kept until something changes there.

A search depends on a node, the slices that it can reach, what the claims ask for and which of the devices in reach are
taken. So the outcome for a kind of claims is kept with each node, and searched anew only where a device in reach came
or went since.

Upstream has no counterpart: it searches every node for every pod.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import cast
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from kplan.api.core import Node
from kplan.api.resource import DeviceClass
from kplan.cel import CelCompileError, CelError, CostLimitError
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.framework.interface import Handle
from kplan.framework.listers import Listers, by_name
from kplan.plugins.dynamic_resources.allocator import Limits, Market, NamedClaim, Search, TimedOutError
from kplan.plugins.dynamic_resources.claims import key_of
from kplan.plugins.dynamic_resources.inventory import DeviceInfo, Inventory, PoolId
from kplan.plugins.dynamic_resources.pools import AllocationError, NodePools, device_matches, gather_pools
from kplan.plugins.dynamic_resources.ranks import rank
from kplan.plugins.dynamic_resources.requests import ClaimSpec, RequestSpec, expressions
from kplan.plugins.dynamic_resources.results import DeviceResult
from kplan.plugins.dynamic_resources.selection import Selection
from kplan.plugins.dynamic_resources.situations import Positions, positions, transferred
from kplan.plugins.dynamic_resources.tracker import ClaimTracker

#: Kinds of claims whose outcomes are kept at a time.
_MAX_KINDS = 32
#: Devices that a search may try before nodes in the same situation share one.
_COSTLY_TRIES = 48
#: Stands for the name of the claim at a position, in messages that are kept for claims of any name.
_PLACEHOLDER = "\x00{}\x00"
#: The same for its name without the namespace.
_BARE_PLACEHOLDER = "\x01{}\x01"
#: Steps that a search may really take. It takes some seconds; most of what goes on longer never ends.
_MAX_TAKEN = 50_000
#: Searches that may take so many: upstream ends a pod's cycle with the first that gives up.
_MAX_TIMED_OUT = 3

Solution = list[list[DeviceResult]]


class Outcome(enum.IntEnum):
    """What a search on one node ended with."""

    FOUND = 0
    NOT_FOUND = 1
    FAILED = 2
    ERROR = 3
    TIMED_OUT = 4


class Outcomes:
    """What was found for one kind of claims, node by node."""

    def __init__(self, n_nodes: int) -> None:
        self.codes = np.zeros(n_nodes, np.uint8)  #: uint8 array of shape (n_nodes,), an Outcome each
        self.ranks: Int64Array = np.zeros(n_nodes, np.int64)  #: int64 array of shape (n_nodes,), for prioritized lists
        self.solutions: dict[int, Solution] = {}  #: devices for each claim, by node row, where they were found
        self.messages: dict[int, str] = {}  #: what is wrong, by node row
        #: bool array of shape (n_nodes,), searches that took too long
        self.timed_out: BoolArray = np.zeros(n_nodes, np.bool_)
        self.is_costly = False  #: searches try so many devices that nodes in the same situation should share one
        #: solutions of such nodes, and where their devices stand; None where there is none, and the text where the
        #: search took too long
        self.by_situation: dict[Hashable, tuple[Solution, Positions] | Outcome] = {}
        self._seen: Int64Array = np.full(n_nodes, -1, np.int64)

    def copy(self) -> Outcomes:
        """Return outcomes that can change without these noticing."""
        copied = Outcomes(0)
        copied.codes, copied.ranks, copied._seen = self.codes.copy(), self.ranks.copy(), self._seen.copy()
        copied.solutions, copied.messages = self.solutions.copy(), self.messages.copy()
        copied.timed_out = self.timed_out.copy()
        copied.is_costly, copied.by_situation = self.is_costly, self.by_situation.copy()
        return copied

    def stale(self, rows: RowArray, versions: Int64Array) -> RowArray:
        """Return those of the rows whose devices changed since they were searched."""
        stale: RowArray = rows[self._seen[rows] != versions[rows]]
        return stale

    def set(self, row: int, version: int, outcome: Outcome, found: Solution | str | None, ranked: int) -> None:
        """Keep the outcome of a search."""
        self._seen[row] = version  # -1: to be searched again in any case
        self.timed_out[row] = outcome is Outcome.TIMED_OUT
        self.codes[row] = min(outcome, Outcome.ERROR)
        self.ranks[row] = ranked
        self.solutions.pop(row, None)
        self.messages.pop(row, None)
        if isinstance(found, str):
            self.messages[row] = found
        elif found is not None:
            self.solutions[row] = found


class Catalogue:
    """What stays as it is during a plan: slices, classes, what each node can reach, and the answers of selectors."""

    def __init__(self, listers: Listers) -> None:
        self.inventory = Inventory(listers.snapshot.resource_slices)
        self.classes: Mapping[str, DeviceClass] = by_name(listers.snapshot.device_classes)
        self.selection = Selection()
        self._pools: dict[str, tuple[Node, NodePools | AllocationError]] = {}
        self._nodes_of_pool: defaultdict[PoolId, set[str]] = defaultdict(set)
        self._matching: OrderedDict[
            tuple[str, tuple[str | None, ...]], dict[str, tuple[Node, tuple[DeviceInfo, ...]]]
        ] = OrderedDict()
        self._known: WeakSet[NodeTable] = WeakSet()
        self._first_outcomes: WeakKeyDictionary[NodeTable, OrderedDict[bytes, Outcomes]] = WeakKeyDictionary()

    def pools(self, node: Node) -> NodePools:
        """Return the pools that a node can reach; raises AllocationError if some slice cannot be used."""
        known = self._pools.get(node.metadata.name)
        if known is None or known[0] is not node:
            known = self._pools[node.metadata.name] = node, self._gather(node)
        if isinstance(known[1], AllocationError):
            raise known[1]
        return known[1]

    def _gather(self, node: Node) -> NodePools | AllocationError:
        try:
            pools = NodePools(gather_pools(self.inventory, node))
        except AllocationError as error:
            return error
        for pool in pools.pools:
            self._nodes_of_pool[pool.id].add(node.metadata.name)
        return pools

    def get_to_know(self, nodes: NodeTable) -> None:
        """Find out what every node can reach, so that no change of a device misses a node."""
        if nodes not in self._known:
            self._known.add(nodes)
            for node in nodes.nodes:
                with suppress(AllocationError):
                    self.pools(node)

    def matching(self, node: Node, request: RequestSpec) -> tuple[DeviceInfo, ...]:
        """List the devices that a node can reach and a request accepts; none where that cannot be said."""
        key = request.class_name, request.expressions
        by_node = self._matching.setdefault(key, {})
        found = by_node.get(node.metadata.name)
        if found is None or found[0] is not node:
            found = by_node[node.metadata.name] = node, self._match(node, request)
            if len(self._matching) > _MAX_KINDS:
                self._matching.popitem(last=False)
        return found[1]

    def _match(self, node: Node, request: RequestSpec) -> tuple[DeviceInfo, ...]:
        device_class = self.classes.get(request.class_name)
        if device_class is None:
            return ()
        texts = [each for each in (*expressions(device_class.spec.selectors), *request.expressions) if each is not None]
        try:
            results = [self.selection.results(text) for text in texts]
            return tuple(
                device
                for _, device in self.pools(node).candidates
                if (not device.slice.is_per_device or device_matches(device, node))
                and all(result.matches(device) for result in results)
            )
        except (AllocationError, CelCompileError, CelError, CostLimitError):
            return ()

    def nodes_of(self, pool: PoolId) -> set[str]:
        """Return the names of the nodes that can reach a pool, among those that were asked about."""
        return self._nodes_of_pool.get(pool, set())

    def first_outcomes(self, nodes: NodeTable, key: bytes) -> Outcomes:
        """Return what is known of a kind of claims while nothing is allocated beyond the snapshot's own claims."""
        kinds = self._first_outcomes.setdefault(nodes, OrderedDict())
        return _recent(kinds, key, lambda: Outcomes(len(nodes)))


class ClusterDevices:
    """One cluster's devices, claims and outcomes; shared by all profiles."""

    def __init__(self, cluster: Cluster, listers: Listers) -> None:
        self.catalogue = catalogue_of(listers)
        self.tracker = ClaimTracker(listers.snapshot.resource_claims)
        self._made = listers.device_claims
        self._n_made = 0
        self._nodes = cluster.nodes
        self._pods = cluster.pods
        self._changes = cluster.log
        self._n_changes = len(cluster.log)
        self._versions: Int64Array = np.zeros(len(self._nodes), np.int64)
        self._position = 0
        self._outcomes: OrderedDict[bytes, Outcomes] = OrderedDict()
        self._market = Market(self.tracker.allocated, self.catalogue.classes, self.catalogue.selection)

    def solve(self, specs: Sequence[ClaimSpec], key: bytes, rows: RowArray, n_steps: int | None) -> Outcomes:
        """Search devices for claims on some nodes; equal keys say that the claims ask for the same.

        Parameters
        ----------
        n_steps : how many steps upstream would take on a node in the time that it has; None for any number
        """
        first = self.catalogue.first_outcomes(self._nodes, key)
        outcomes = _recent(self._outcomes, key, first.copy)
        self.catch_up()
        claims = [
            NamedClaim(_PLACEHOLDER.format(index), _BARE_PLACEHOLDER.format(index), spec)
            for index, spec in enumerate(specs)
        ]
        for row in outcomes.stale(rows, self._versions).tolist():
            n_timed_out = int(np.count_nonzero(outcomes.timed_out[rows[rows < row]])) if outcomes.timed_out.any() else 0
            limits = Limits(n_steps, _MAX_TAKEN if n_timed_out < _MAX_TIMED_OUT else _COSTLY_TRIES)
            outcome, found = self._search(outcomes, self._nodes.nodes[row], claims, limits)
            ranked = sum(map(rank, specs, found)) if isinstance(found, list) else 0
            # What was cut short because of others is no answer to another question.
            is_cut = outcome is Outcome.TIMED_OUT and limits.n_taken < _MAX_TAKEN
            version = -1 if is_cut else int(self._versions[row])
            outcomes.set(row, version, outcome, found, ranked)
            if not self.tracker.log:
                first.set(row, version, outcome, found, ranked)
        return outcomes

    def catch_up(self) -> None:
        """Free devices of pods that left, take in new claims, and mark the nodes of devices whose state changed."""
        for change in self._changes[self._n_changes :]:
            if change.sign < 0:
                self.tracker.release(self._pods.infos[change.pod].pod)
        self._n_changes = len(self._changes)
        for claim in self._made[self._n_made :]:
            self.tracker.claims[key_of(claim)] = claim
        self._n_made = len(self._made)
        log = self.tracker.log
        if self._position == len(log):
            return
        self.catalogue.get_to_know(self._nodes)
        for pool in {PoolId(device.driver, device.pool) for device in log[self._position :]}:
            rows = [self._nodes.row_of[name] for name in self.catalogue.nodes_of(pool) if name in self._nodes.row_of]
            self._versions[rows] += 1
        self._position = len(log)

    def _search(
        self, outcomes: Outcomes, node: Node, claims: Sequence[NamedClaim], limits: Limits
    ) -> tuple[Outcome, Solution | str | None]:
        try:
            pools = self.catalogue.pools(node)
            found = self._run(outcomes, pools, Search(node, pools, claims, self._market, limits), limits)
        except TimedOutError as error:
            return Outcome.TIMED_OUT, str(error)
        except AllocationError as error:
            return Outcome.ERROR, str(error)
        if found is None:
            return Outcome.FAILED if pools.has_invalid else Outcome.NOT_FOUND, None
        return Outcome.FOUND, found

    def _run(self, outcomes: Outcomes, pools: NodePools, search: Search, limits: Limits) -> Solution | None:
        """Run a search; once one was costly, look first whether another node was in the same situation."""
        if not outcomes.is_costly:
            try:
                return search.run()
            finally:
                outcomes.is_costly = search.n_tries > _COSTLY_TRIES
        try:
            seen = search.situation()
        except AllocationError:
            return search.run()  # which may well end before it comes to the device on which a selector fails
        known = outcomes.by_situation.get(seen)
        if known is Outcome.TIMED_OUT:
            raise search.timed_out()
        if isinstance(known, tuple):
            return transferred(pools, *known)
        if known is None:
            try:
                found = search.run()
            except TimedOutError:
                if limits.n_taken == _MAX_TAKEN:
                    outcomes.by_situation[seen] = Outcome.TIMED_OUT
                raise
            outcomes.by_situation[seen] = Outcome.NOT_FOUND if found is None else (found, positions(pools, found))
            return found
        return None


def _recent(kinds: OrderedDict[bytes, Outcomes], key: bytes, make: Callable[[], Outcomes]) -> Outcomes:
    """Return what is kept under a key, made when it is new; the kinds that were not asked for longest are forgotten."""
    outcomes = kinds.get(key)
    if outcomes is None:
        outcomes = kinds[key] = make()
        if len(kinds) > _MAX_KINDS:
            kinds.popitem(last=False)
    else:
        kinds.move_to_end(key)
    return outcomes


def named(message: str, names: Sequence[str]) -> str:
    """Put the names of the claims into a message that was kept without them."""
    for index, name in enumerate(names):
        message = message.replace(_PLACEHOLDER.format(index), name)
        message = message.replace(_BARE_PLACEHOLDER.format(index), name.partition("/")[2])
    return message


def catalogue_of(listers: Listers) -> Catalogue:
    """Return the one catalogue of a snapshot."""
    catalogue = listers.catalogues.get(Catalogue)
    if catalogue is None:
        catalogue = listers.catalogues[Catalogue] = Catalogue(listers)
    return cast("Catalogue", catalogue)


def devices_of(handle: Handle) -> ClusterDevices:
    """Return the one record of a session's devices: what one profile hands out is gone for the others too."""
    devices = handle.shared.get(ClusterDevices)
    if devices is None:
        devices = handle.shared[ClusterDevices] = ClusterDevices(handle.cluster, handle.listers)
    return cast("ClusterDevices", devices)
