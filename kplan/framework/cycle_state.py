"""What plugins keep during a cycle, and what they answer at each extension point."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from kplan.documents.preemption import Preemption, Victim
from kplan.engine.cluster import Cluster
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


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """What a PreFilter says beyond "go on"."""

    skip: bool = False  #: leave this plugin's filter out of this cycle
    #: the skip holds for every pod of this shape, whatever the cluster holds, so need not be asked again
    for_shape: bool = False
    status: Status | None = None  #: a rejection or an error; None for success
    nodes: frozenset[str] | None = None  #: the only nodes that can be feasible, by name; None for all


SKIP = PreFilterResult(skip=True)
SKIP_SHAPE = PreFilterResult(skip=True, for_shape=True)


class PreScoreResult(enum.Enum):
    """What a PreScore says beyond "go on" (None)."""

    SKIP = enum.auto()
    """Leave this plugin's score out of this cycle."""
    SKIP_SHAPE = enum.auto()
    """Likewise, for every pod of this shape."""


class CycleState:
    """One pod's scheduling cycle: the pod, the cluster, and what plugins keep from one extension point to the next.

    A plugin keeps an object of a class of its own: ``cycle.write(_PreFilterState(...))``, later
    ``cycle.read(_PreFilterState)``. For plugins whose answers are kept per shape, so are these objects.
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
        """Keep an object under its class."""
        self.states[type(state)] = state

    def read(self, kind: type[T]) -> T:
        """Return the object of a class that was kept; KeyError when there is none, which is a bug of the plugin."""
        kept: T = self.states[kind]
        return kept

    def find(self, kind: type[T]) -> T | None:
        """Return the object of a class that was kept, or None."""
        return self.states.get(kind)


class PostFilterFindings(Protocol):
    """How a PostFilter plugin decided; lasts when the cluster changes."""

    def victims(self) -> tuple[Victim, ...]:
        """Return the pods that would be evicted, most important first."""

    def to_document(self, message: str) -> Preemption:
        """Return all that can be told, complete for all nodes; `message` is what all plugins said together."""


@dataclass
class PostFilterResult:
    """What a PostFilter found."""

    status: Status  #: SUCCESS when a node was nominated, UNSCHEDULABLE with the text otherwise, ERROR
    nominated_row: int | None = None  #: the node on which room will be made, or None
    victims: tuple[int, ...] = ()  #: pods that leave it, in the order in which they do
    cleared_nominations: tuple[int, ...] = ()  #: pods of lower priority that lose their nomination to it
    findings: PostFilterFindings | None = None  #: how it was decided; None when nothing can be told
    #: what the plugins change at once, whether or not a node was nominated; for whoever follows the cycle up
    effects: tuple[Callable[[], None], ...] = ()
