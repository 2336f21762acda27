"""A cycle's state, and what plugins return at its extension points."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from kplan.engine.cluster import Cluster
from kplan.framework.post_filter import Preemption, Victim
from kplan.framework.status import Status
from kplan.rules.pod_info import PodInfo

T = TypeVar("T")


class Scope(enum.Enum):
    """What the verdict and the raw score of row i depend on, besides the incoming pod."""

    NODE_OBJECT = enum.auto()
    """The node object of row i alone; its pods do not matter."""
    NODE = enum.auto()
    """Row i alone: its object and its pods."""
    CLUSTER = enum.auto()
    """Other rows too, or objects that a plan changes."""


class PreFilterResult(msgspec.Struct, frozen=True):
    """What a PreFilter plugin returns when it does more than accept all nodes."""

    skip: bool = False  #: leave this plugin's filter out of this cycle
    #: the skip holds for every pod of this shape, whatever the cluster contains, so it is cached
    for_shape: bool = False
    status: Status | None = None  #: a rejection or an error; None for success
    nodes: frozenset[str] | None = None  #: the only nodes that can be feasible, by name; None for all


SKIP = PreFilterResult(skip=True)
SKIP_SHAPE = PreFilterResult(skip=True, for_shape=True)


class PreScoreResult(enum.Enum):
    """What a PreScore plugin returns to leave out its score; None keeps the score."""

    SKIP = enum.auto()
    """Leave this plugin's score out of this cycle."""
    SKIP_SHAPE = enum.auto()
    """Likewise, for every pod of this shape."""


class CycleState:
    """One pod's scheduling cycle: the pod, the cluster, and the state that plugins pass between extension points.

    A plugin writes an object of a class of its own, ``cycle.write(_PreFilterState(...))``, and reads it later with
    ``cycle.read(_PreFilterState)``. Where a plugin's results are cached per shape, its state is too.
    """

    __slots__ = ("cluster", "pod", "pod_id", "skipped_filters", "states")

    def __init__(self, pod: PodInfo, pod_id: int, cluster: Cluster) -> None:
        self.pod = pod
        self.pod_id = pod_id
        self.cluster = cluster
        self.skipped_filters: frozenset[str] = frozenset()
        """Plugins whose PreFilter left their filter out of this cycle."""
        self.states: dict[type, Any] = {}

    def write(self, state: object) -> None:
        """Store an object under its class."""
        self.states[type(state)] = state

    def read(self, kind: type[T]) -> T:
        """Return the stored object of a class; KeyError when there is none, which is a bug of the plugin."""
        state: T = self.states[kind]
        return state

    def find(self, kind: type[T]) -> T | None:
        """Return the stored object of a class, or None."""
        return self.states.get(kind)


class PostFilterFindings(Protocol):
    """How a PostFilter plugin decided; stays valid when the cluster changes."""

    def victims(self) -> tuple[Victim, ...]:
        """Return the pods that would be evicted, most important first."""

    def to_document(self, message: str) -> Preemption:
        """Return the document of the decision, with every node; `message` joins what all PostFilter plugins say."""


class PostFilterResult(msgspec.Struct):
    """The result of PostFilter: a nominated node with its victims, or why there is none."""

    status: Status  #: SUCCESS when a node was nominated, UNSCHEDULABLE with the text otherwise, ERROR
    nominated_row: int | None = None  #: the node on which room will be made, or None
    victims: tuple[int, ...] = ()  #: pods that leave it, in the order in which they do
    cleared_nominations: tuple[int, ...] = ()  #: pods of lower priority that lose their nomination to it
    findings: PostFilterFindings | None = None  #: how the plugin decided; None when it does not say
    #: changes that hold whether or not a node was nominated; the caller of the cycle runs them
    effects: tuple[Callable[[], None], ...] = ()
