"""Why a pod has no node, as facts; the sentence is made in `kplan.planner.diagnosis.sentence`."""

from __future__ import annotations

import msgspec

from kplan.documents.details import Detail


class Refused(msgspec.Struct, frozen=True):
    """The API server would not take the pod."""

    message: str
    missing_class: str = ""  #: the priority class that it names and that does not exist; empty otherwise
    nearest: str = ""  #: the class whose name comes closest; empty for none


class MissingNamespace(msgspec.Struct, frozen=True):
    """The pod's namespace does not exist."""

    name: str
    nearest: str = ""


class Gated(msgspec.Struct, frozen=True):
    """Scheduling gates stand before the queue."""

    gates: tuple[str, ...]


class OtherScheduler(msgspec.Struct, frozen=True):
    """The pod waits for a scheduler that the configuration does not hold."""

    name: str
    known: tuple[str, ...]


class BeforeNodes(msgspec.Struct, frozen=True):
    """Something else that ends the matter before any node is looked at, in kube-scheduler's words."""

    message: str


class Leaving(msgspec.Struct, frozen=True):
    """The pod itself is being deleted."""


class NoNodes(msgspec.Struct, frozen=True):
    """The cluster has no node."""


class MissingClaim(msgspec.Struct, frozen=True):
    """A claim that the pod mounts does not exist."""

    claim: str
    nearest: str = ""


class UnboundClaim(msgspec.Struct, frozen=True):
    """A claim that should be bound before the pod is scheduled, and is not."""

    claim: str
    storage_class: str  #: empty for none
    class_exists: bool  #: whether there is such a class
    nearest: str = ""  #: the class whose name comes closest; empty for none
    provisioner: str = ""


class Promised(msgspec.Struct, frozen=True):
    """A node was promised to the pod, and those who make room there are still leaving."""

    node: str
    pods: tuple[str, ...]


class NoSuchLabel(msgspec.Struct, frozen=True):
    """A condition on a label that no node meets."""

    nodes: int
    #: label, wanted: KEY, and the values of which one is asked for
    label: str
    wanted: tuple[str, ...]
    values: tuple[str, ...]  #: those that there are
    nearest: str = ""  #: the value, or where no node has the label the key, that comes closest; empty for none


class NoSuchCombination(msgspec.Struct, frozen=True):
    """Conditions on labels each of which some nodes meet, and no node meets all."""

    nodes: int
    labels: tuple[tuple[str, int], ...]  #: KEY=VALUE, and how many nodes have it


class NoSuchNode(msgspec.Struct, frozen=True):
    """The pod names a node that does not exist."""

    nodes: int
    name: str
    nearest: str = ""


class TooLarge(msgspec.Struct, frozen=True):
    """More of a resource than any node has, even when it is empty; `largest` is 0 where none offers it."""

    nodes: int
    resource: str
    asks: str
    largest: str
    node: str
    nearest: str = ""  #: where none offers it, the resource whose name comes closest; empty for none


class NodesOut(msgspec.Struct, frozen=True):
    """Nodes that are out for the same."""

    nodes: int  #: how many
    closest: str  #: the one to which least is missing
    plugin: str
    reasons: tuple[str, ...]  #: as kube-scheduler writes them
    details: tuple[Detail, ...] = ()  #: about the closest
    #: resource -> what the largest of these nodes offers of it, where that is less than the pod asks for
    largest: dict[str, str] = {}
    domains: int = 0  #: how many domains of a topology key are out with these nodes; 0 where there is no such key
    meant: str = ""  #: the label of pods that was probably meant, where those to run beside are nowhere


class NotNamed(msgspec.Struct, frozen=True):
    """Nodes that the pod's affinity leaves out by naming others, as a DaemonSet's pods name theirs."""

    nodes: int
    named: tuple[str, ...]


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
    | Promised
    | NoSuchLabel
    | NoSuchCombination
    | NoSuchNode
    | TooLarge
)
"""A cause that alone is enough."""


class Causes(msgspec.Struct, frozen=True):
    """All of it."""

    whole: tuple[Whole, ...] = ()  #: causes each of which alone is enough
    n_nodes: int = 0  #: in the cluster
    named: NotNamed | None = None
    out: tuple[NodesOut, ...] = ()  #: nodes by what they are out for, the most first; empty where `whole` says all
