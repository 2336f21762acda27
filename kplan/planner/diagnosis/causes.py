"""Why a pod has no node, as facts; the sentence is made in `kplan.planner.diagnosis.sentence`."""

from __future__ import annotations

from dataclasses import dataclass, field

from kplan.documents.details import Detail


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server would not take the pod."""

    message: str
    missing_class: str = ""  #: the priority class that it names and that does not exist; empty otherwise
    nearest: str = ""  #: the class whose name comes closest; empty for none


@dataclass(frozen=True, slots=True)
class MissingNamespace:
    """The pod's namespace does not exist."""

    name: str
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class Gated:
    """Scheduling gates stand before the queue."""

    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherScheduler:
    """The pod waits for a scheduler that the configuration does not hold."""

    name: str
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BeforeNodes:
    """Something else that ends the matter before any node is looked at, in kube-scheduler's words."""

    message: str


@dataclass(frozen=True, slots=True)
class Leaving:
    """The pod itself is being deleted."""


@dataclass(frozen=True, slots=True)
class NoNodes:
    """The cluster has no node."""


@dataclass(frozen=True, slots=True)
class MissingClaim:
    """A claim that the pod mounts does not exist."""

    claim: str
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class UnboundClaim:
    """A claim that should be bound before the pod is scheduled, and is not."""

    claim: str
    storage_class: str  #: empty for none
    class_exists: bool  #: whether there is such a class
    nearest: str = ""  #: the class whose name comes closest; empty for none
    provisioner: str = ""


@dataclass(frozen=True, slots=True)
class Promised:
    """A node was promised to the pod, and those who make room there are still leaving."""

    node: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoSuchLabel:
    """A condition on a label that no node meets."""

    nodes: int
    #: label, wanted: KEY, and the values of which one is asked for
    label: str
    wanted: tuple[str, ...]
    values: tuple[str, ...]  #: those that there are
    nearest: str = ""  #: the value, or where no node has the label the key, that comes closest; empty for none


@dataclass(frozen=True, slots=True)
class NoSuchCombination:
    """Conditions on labels each of which some nodes meet, and no node meets all."""

    nodes: int
    labels: tuple[tuple[str, int], ...]  #: KEY=VALUE, and how many nodes have it


@dataclass(frozen=True, slots=True)
class NoSuchNode:
    """The pod names a node that does not exist."""

    nodes: int
    name: str
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class TooLarge:
    """More of a resource than any node has, even when it is empty; `largest` is 0 where none offers it."""

    nodes: int
    resource: str
    asks: str
    largest: str
    node: str
    nearest: str = ""  #: where none offers it, the resource whose name comes closest; empty for none


@dataclass(frozen=True, slots=True)
class NodesOut:
    """Nodes that are out for the same."""

    nodes: int  #: how many
    closest: str  #: the one to which least is missing
    plugin: str
    reasons: tuple[str, ...]  #: as kube-scheduler writes them
    details: tuple[Detail, ...] = ()  #: about the closest
    #: resource -> what the largest of these nodes offers of it, where that is less than the pod asks for
    largest: dict[str, str] = field(default_factory=dict)
    domains: int = 0  #: how many domains of a topology key are out with these nodes; 0 where there is no such key
    meant: str = ""  #: the label of pods that was probably meant, where those to run beside are nowhere


@dataclass(frozen=True, slots=True)
class NotNamed:
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


@dataclass(frozen=True, slots=True)
class Causes:
    """All of it."""

    whole: tuple[Whole, ...] = ()  #: causes each of which alone is enough
    n_nodes: int = 0  #: in the cluster
    named: NotNamed | None = None
    out: tuple[NodesOut, ...] = ()  #: nodes by what they are out for, the most first; empty where `whole` says all
