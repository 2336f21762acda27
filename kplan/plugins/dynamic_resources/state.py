"""The plugin's state of a pod, from PreFilter to Reserve."""

from __future__ import annotations

import msgspec
import numpy as np

from kplan.api.resource import ResourceClaim
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.plugins.dynamic_resources.cluster_devices import Outcomes, Solution

#: Upstream's error where PreFilter did not run, because the profile disables it.
NO_STATE = "not found"

#: Upstream's name of the claim for extended resources before it exists.
UNNAMED_CLAIM = "<extended-resources>"


class NodeOutcomes(msgspec.Struct, frozen=True):
    """The outcomes on nodes on which the same claims have to be allocated."""

    is_searched: BoolArray  #: bool array of shape (n_nodes,)
    outcomes: Outcomes  #: by node row


class ClaimState(msgspec.Struct):
    """A pod's claims; empty until PreFilter fills it."""

    namespace: str = ""  #: the pod's
    claims: tuple[ResourceClaim, ...] = ()  #: the claims that the pod names, in its order
    to_allocate: tuple[ResourceClaim, ...] = ()  #: those of them that have no allocation
    #: the pod's requests for extended resources, if a device class provides any of them
    resources: dict[str, int] = {}
    leftover: ResourceClaim | None = None  #: a claim for extended resources from an earlier attempt
    #: claims with an allocation, and the nodes where they cannot be used (bool of shape (n_nodes,))
    unavailable: tuple[tuple[ResourceClaim, BoolArray], ...] = ()
    #: node row -> the solution that was reserved there
    reserved: dict[int, Solution | None] = {}
    node_outcomes: dict[bytes, NodeOutcomes] = {}  #: the outcomes of Filter, by the key of the claims to allocate

    @property
    def is_empty(self) -> bool:
        """Whether the pod needs no devices."""
        return not self.claims and not self.resources

    @property
    def is_stale(self) -> bool:
        """Whether the claim of an earlier attempt has to be deleted first."""
        return self.leftover is not None and bool(self.leftover.spec.devices.requests)

    @property
    def names(self) -> list[str]:
        """Names of the claims to allocate, the one for extended resources last."""
        return [*(claim.metadata.key for claim in self.to_allocate), f"{self.namespace}/{UNNAMED_CLAIM}"]

    def add_outcomes(self, key: bytes, rows: RowArray, n_nodes: int, outcomes: Outcomes) -> None:
        """Store the outcomes on some nodes."""
        group = self.node_outcomes.setdefault(key, NodeOutcomes(np.zeros(n_nodes, np.bool_), outcomes))
        group.is_searched[rows] = True

    def ranks(self, n_nodes: int, allocated: int) -> Int64Array:
        """Return the ranks of the alternatives that requests get on each node, 0 where none was searched for.

        Parameters
        ----------
        allocated : rank of the claims that have an allocation, which is added on the other nodes
        """
        ranks = np.zeros(n_nodes, np.int64)
        for group in self.node_outcomes.values():
            ranks[group.is_searched] = group.outcomes.ranks[group.is_searched] + allocated
        return ranks

    def solution(self, row: int) -> Solution | None:
        """Return the devices for the claims to allocate on a node, or None."""
        groups = self.node_outcomes.values()
        solutions = (group.outcomes.solutions.get(row) for group in groups if group.is_searched[row])
        return next(solutions, None)
