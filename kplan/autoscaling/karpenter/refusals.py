"""Why a node or pool does not take a pod, as facts; `texts` makes Karpenter's sentences of them.

Upstream: provisioning/scheduling/nodeclaim.go InstanceTypeFilterError, scheduler.go.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from kplan.api.tolerations import Taint
from kplan.autoscaling.karpenter.amounts import Amounts
from kplan.autoscaling.karpenter.ports import PortConflict
from kplan.autoscaling.karpenter.requirements import Misfit, Requirements
from kplan.autoscaling.karpenter.topology import Unsatisfiable


class Untolerated(msgspec.Struct, frozen=True):
    """Taints that the pod does not tolerate."""

    taints: tuple[Taint, ...]


class Incompatible(msgspec.Struct, frozen=True):
    """Requirements that exclude each other."""

    misfits: tuple[Misfit, ...]
    of_volumes: bool = False


class NoInstanceType(msgspec.Struct, frozen=True):
    """No instance type passes all three tests; which of them some type passes, and which pairs."""

    meets: bool
    fits: bool
    is_offered: bool
    meets_and_fits: bool
    meets_and_is_offered: bool
    fits_and_is_offered: bool
    lacking: dict[str, int]  #: labels with too few values, where only these are the reason
    requirements: Requirements
    requests: Amounts  #: of daemons and the pod
    pod_requests: Amounts


class Plain(Enum):
    """Reasons without particulars."""

    NODE_LIMIT = "node limits have been exhausted for nodepool"
    LIMITS = "all available instance types exceed limits for nodepool"
    NO_POOL = "no dynamic nodepools found"
    NO_TEMPLATE = "nodepool requirements filtered out all available instance types"
    CLAIMS = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
    NOT_RESERVABLE = (
        "one or more instance types with compatible reserved offerings are available, but could not be reserved"
    )
    LOSES_RESERVATION = "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"
    MIN_VALUES = "pod didn’t schedule because NodePool couldn’t meet minValues requirements"  # noqa: RUF001 - upstream's

    @property
    def is_deferred(self) -> bool:
        """Whether it is about reserved capacity, which a later pass may have."""
        return self in {Plain.NOT_RESERVABLE, Plain.LOSES_RESERVATION}


class Uninitialized(msgspec.Struct, frozen=True):
    """The pod's place would be on a node that is not ready yet."""

    claim: str
    node: str  #: empty for none


Refusal: TypeAlias = Untolerated | PortConflict | Incompatible | Unsatisfiable | NoInstanceType | Plain | Uninitialized


class PoolRefusal(msgspec.Struct, frozen=True):
    """Why a pool has no node for a pod."""

    pool: str
    refusal: Refusal
