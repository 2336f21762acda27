"""What the plugin knows of one pod from PreFilter to Reserve."""

from __future__ import annotations

import msgspec
import numpy as np

from kplan.api.resource import ResourceClaim
from kplan.engine.arrays import BoolArray, RowArray
from kplan.plugins.dynamic_resources.claims import key_of
from kplan.plugins.dynamic_resources.cluster_devices import Outcomes, Solution

#: How upstream calls the claim for extended resources before it exists.
UNNAMED_CLAIM = "<extended-resources>"


class Found(msgspec.Struct, frozen=True):
    """What was found on nodes that have to allocate the same claims."""

    where: BoolArray  #: bool array of shape (n_nodes,), those that were asked
    outcomes: Outcomes  #: by node row


class ClaimState(msgspec.Struct):
    """One pod's claims; none until PreFilter is through."""

    namespace: str = ""  #: the pod's
    claims: tuple[ResourceClaim, ...] = ()  #: the claims that the pod names, in its order
    to_allocate: tuple[ResourceClaim, ...] = ()  #: those of them that have no allocation
    #: extended resources that the pod asks for, if a device class stands behind one of them
    resources: dict[str, int] = {}
    leftover: ResourceClaim | None = None  #: a claim for extended resources from an earlier attempt
    #: claims with an allocation, and the nodes where they cannot be used (bool of shape (n_nodes,))
    unavailable: tuple[tuple[ResourceClaim, BoolArray], ...] = ()
    found: dict[bytes, Found] = {}  #: what filter found, by the key of the claims to allocate

    @property
    def is_empty(self) -> bool:
        """Whether the pod has nothing to do with devices."""
        return not self.claims and not self.resources

    @property
    def is_stale(self) -> bool:
        """Whether the claim of an earlier attempt has to go before anything else."""
        return self.leftover is not None and bool(self.leftover.spec.devices.requests)

    @property
    def names(self) -> list[str]:
        """Names of the claims to allocate, the one for extended resources last."""
        return [*("/".join(key_of(claim)) for claim in self.to_allocate), f"{self.namespace}/{UNNAMED_CLAIM}"]

    def keep(self, key: bytes, rows: RowArray, n_nodes: int, outcomes: Outcomes) -> None:
        """Keep what was found on some nodes."""
        found = self.found.setdefault(key, Found(np.zeros(n_nodes, np.bool_), outcomes))
        found.where[rows] = True

    def solution(self, row: int) -> Solution | None:
        """Return the devices that were found on a node, for the claims to allocate."""
        solutions = (found.outcomes.solutions.get(row) for found in self.found.values() if found.where[row])
        return next(solutions, None)
