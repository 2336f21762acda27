"""The causes why a pod has no node, as facts; `kplan.diagnosis.sentence` writes the sentence."""

from __future__ import annotations

from typing import Literal

import msgspec

from kplan.engine.details import Detail
from kplan.facts import MissingName, QuotaRaise, QuotaUse
from kplan.health.nodes import UnusableResource


class Refused(msgspec.Struct, frozen=True):
    """The API server refuses the pod."""

    message: str
    lacks: MissingName | None = None  #: what the pod names and does not exist; None for another reason
    by: str = ""  #: what refuses it, such as LimitRange web/defaults; empty where that has no name
    uses: tuple[QuotaUse, ...] = ()  #: where a quota does
    raises: tuple[QuotaRaise, ...] = ()  #: what quotas have to allow for all pods that they refuse


class MissingNamespace(msgspec.Struct, frozen=True):
    """The pod's namespace does not exist."""

    name: str
    nearest: str = ""


class Gated(msgspec.Struct, frozen=True):
    """Scheduling gates keep the pod out of the queue."""

    gates: tuple[str, ...]


class OtherScheduler(msgspec.Struct, frozen=True):
    """The pod names a scheduler that the configuration has no profile for: another one, or a misspelt one."""

    name: str
    nearest: str = ""  #: the one that was probably meant; empty for none


class BeforeNodes(msgspec.Struct, frozen=True):
    """Any other failure before the first node is filtered; `message` is kube-scheduler's."""

    message: str


class Leaving(msgspec.Struct, frozen=True):
    """The pod itself is being deleted."""


class NoNodes(msgspec.Struct, frozen=True):
    """The cluster has no node."""


class MissingClaim(msgspec.Struct, frozen=True):
    """A claim that the pod mounts does not exist."""

    claim: str
    nearest: str = ""


class Released(msgspec.Struct, frozen=True):
    """A volume that would do for a claim, had it not belonged to another one that is gone."""

    volume: str
    former_claim: str


class UnboundClaim(msgspec.Struct, frozen=True):
    """A claim that has to be bound before the pod is scheduled, and is not."""

    claim: str
    storage_class: str  #: empty for none
    class_exists: bool
    nearest: str = ""  #: the class with the most similar name; empty for none
    provisioner: str = ""
    released: Released | None = None
    classes: tuple[str, ...] = ()  #: of which it may name one, where it names none and none is the default


class LostClaim(msgspec.Struct, frozen=True):
    """A claim that the pod mounts has lost its volume."""

    claim: str
    volume: str  #: empty where it names none any more
    holder: str | None = None  #: the claim to which the volume is bound instead, empty for none; None if it is gone


class LeavingClaim(msgspec.Struct, frozen=True):
    """A claim that the pod mounts is being deleted, which waits until no pod mounts it."""

    claim: str


class MissingOfDevices(msgspec.Struct, frozen=True):
    """An object that the pod needs for its devices, and that does not exist."""

    kind: Literal["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"]
    name: str  #: NAMESPACE/NAME, or that of a class
    nearest: str = ""
    claim: str = ""  #: the claim that requests devices of the class; empty for other kinds


class ClaimNotMade(msgspec.Struct, frozen=True):
    """A claim of the pod is not made yet from its template."""

    template: str


class Promised(msgspec.Struct, frozen=True):
    """The pod is nominated to a node whose victims are still being deleted."""

    node: str
    pods: tuple[str, ...]


class NoSuchLabel(msgspec.Struct, frozen=True):
    """A label that the pod requires and no node has."""

    nodes: int
    label: str  #: the key
    wanted: tuple[str, ...]  #: the values of which a node must have one
    values: tuple[str, ...]  #: the values that nodes have
    nearest: str = ""  #: the most similar value, or key when no node has the key; empty for none
    runtime_class: str = ""  #: the one that requires it of its pods; empty where the pod itself does


class NoSuchCombination(msgspec.Struct, frozen=True):
    """Labels each of which some nodes have, and no node has all."""

    nodes: int
    labels: tuple[tuple[str, int], ...]  #: KEY=VALUE, and the number of nodes that have it


class NoSuchNode(msgspec.Struct, frozen=True):
    """The pod names a node that does not exist."""

    nodes: int
    name: str
    nearest: str = ""


class TooLarge(msgspec.Struct, frozen=True):
    """A request that is larger than any node, even an empty one; `largest` is 0 where no node offers the resource."""

    nodes: int
    resource: str
    requested: str
    largest: str
    node: str
    nearest: str = ""  #: when no node offers the resource, the one with the most similar name; empty for none


class Meant(msgspec.Struct, frozen=True):
    """What a rule of the pod probably means, or where what it needs is; empty for what is not known."""

    suggested: str = ""  #: a pod label, a topology key, or a taint that a toleration was meant for
    instead: str = ""  #: a toleration that was probably meant for the taint, or tolerates its key with another value
    lost_node: str = ""  #: the node that does not exist any more and alone can attach a volume of the pod
    daemon_set: str = ""  #: the DaemonSet, NAMESPACE/NAME, whose pod has the host port
    runs_in: str = ""  #: the namespace where pods run that a required pod affinity would match there


class DevicesOut(msgspec.Struct, frozen=True):
    """What nodes have of what a claim asks for."""

    held_by: tuple[str, ...] = ()  #: the pods that use it
    tainted: tuple[str, ...] = ()  #: KEY=VALUE:EFFECT of taints for which some is not free
    number: int | None = None  #: None where it is not known


class NodesOut(msgspec.Struct, frozen=True):
    """Nodes that are rejected for the same reasons."""

    nodes: int  #: number of these nodes
    closest: str  #: the node to which least is missing
    plugin: str
    reasons: tuple[str, ...]  #: as kube-scheduler writes them
    details: tuple[Detail, ...] = ()  #: about the closest node
    #: resource -> the largest allocatable amount of these nodes, where that is less than the request
    largest: dict[str, str] = {}
    domains: int = 0  #: number of domains of the topology key that these nodes are in; 0 where the reason has none
    meant: Meant = Meant()
    devices: DevicesOut = DevicesOut()  #: of all these nodes
    reserved_for: tuple[str, ...] = ()  #: pods that are nominated to the closest node, for which room there is kept


Whole = (
    Refused
    | MissingNamespace
    | Gated
    | OtherScheduler
    | BeforeNodes
    | Leaving
    | NoNodes
    | MissingClaim
    | UnboundClaim
    | LostClaim
    | LeavingClaim
    | MissingOfDevices
    | ClaimNotMade
    | Promised
    | NoSuchLabel
    | NoSuchCombination
    | NoSuchNode
    | TooLarge
)
"""A cause that alone keeps the pod from running."""


class Surplus(msgspec.Struct, frozen=True):
    """Why a pod requests more of a resource than its containers do together, or than its manifest says."""

    overhead: str = ""  #: of its runtime class, as a quantity; empty for none
    runtime_class: str = ""
    init_container: str = ""  #: the one that requests more than all containers; empty for none
    limit_range: str = ""  #: whose default the request is, where the manifest requests none; empty for none


class Causes(msgspec.Struct, frozen=True):
    """All causes why a pod has no node."""

    whole: tuple[Whole, ...] = ()  #: causes each of which alone keeps the pod from running
    n_nodes: int = 0  #: number of nodes in the cluster
    #: the only nodes that the pod's affinity names, as that of a DaemonSet's pod does; empty where it names none
    named: tuple[str, ...] = ()
    out: tuple[NodesOut, ...] = ()  #: rejected nodes by reason, the most first; empty where none is filtered
    surplus: dict[str, Surplus] = {}  #: resource -> why the pod requests more of it than its containers
    #: nodes that have enough of what it requests, and of which none, or too little, can be used
    unusable: tuple[tuple[str, UnusableResource], ...] = ()
