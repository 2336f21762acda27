"""Extension points: what a plugin may implement, and what it is given.

A plugin is a class with a `name`, a `scope` and the methods of the extension points that it has, and no others. It is
made once per profile and session as ``Plugin(args, handle)`` with the typed arguments of `kplan.config.args` (None
for a plugin without arguments) and a `Handle`. Upstream: kube-scheduler/framework/interface.go.

Rules that the runtime relies on:

- `Scope.NODE_OBJECT` and `Scope.NODE` plugins are asked once per pod *shape* (pods that say the same,
  `PodInfo.shape`); their verdicts and raw scores are kept, and only rows whose pods changed since are asked again
  (never, for NODE_OBJECT).
  So for equal shapes their pre_filter, pre_score and the tuple of reasons must be equal, `Verdicts.unresolvable` must
  be given always or never, and row i's verdict and raw score must not depend on other rows. If such a plugin
  normalizes, equal raw scores must normalize to a value that does not depend on how many nodes there are.
- Pods of different shapes may still say the same to one plugin. A plugin that says what it reads of a pod
  (`KeyedPlugin`) has whatever is kept per shape kept for all pods of which it reads the same.
- A shape does not tell one claim or disk from another, so a plugin that reads a pod's volumes is of `Scope.CLUSTER`.
- `Scope.CLUSTER` plugins are asked in every cycle. They keep what they derive up to date themselves
  (`Cluster.match_counts`, `Cluster.log`, `TermGroup`).
- Every `filter` must honour `nodes.delta` exactly as upstream's AddPod/RemovePod extensions and NodeInfo would:
  position i answers for its own node with its own pods changed, all other nodes unchanged.
- A plugin of cluster scope whose verdicts do not depend on which pods run on a node may say so, with a class attribute
  ``ignores_pods = True``; preemption then asks it once instead of at every step.
- `pre_score` and `score` see a view of the feasible nodes only (CLUSTER) or of any nodes (others), never with a delta.
- Nothing but `reserve` and `unreserve` may change what later cycles see.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from kplan.config.releases import Release, newest
from kplan.documents.preemption import Preemption, Victim
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.resource_scoring import DeviceTotals
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.status import SUCCESS, Status, StatusCode
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:
    from random import Random

    from kplan.framework.extenders import Extender
    from kplan.framework.listers import Listers
    from kplan.framework.nominator import Nominator

__all__ = [
    "SKIP",
    "SKIP_SHAPE",
    "SUCCESS",
    "ConstantScorePlugin",
    "CycleState",
    "FilterPlugin",
    "Handle",
    "KeyedPlugin",
    "NormalizeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "PostFilterFindings",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "PreScoreResult",
    "ProfileFilters",
    "QueueSortPlugin",
    "ReservePlugin",
    "Scope",
    "ScoreDetailPlugin",
    "ScorePlugin",
    "Status",
    "StatusCode",
]

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
    """What a PreFilter says beyond "go on".

    Attributes
    ----------
    skip : leave this plugin's filter out of this cycle
    for_shape : the skip holds for every pod of this shape, whatever the cluster holds, so need not be asked again
    status : a rejection or an error; None for success
    nodes : the only nodes that can be feasible, by name; None for all
    """

    skip: bool = False
    for_shape: bool = False
    status: Status | None = None
    nodes: frozenset[str] | None = None


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


class ProfileFilters(Protocol):
    """The filters of a profile, as preemption tries them: the runtime is one."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that they look at."""
        ...

    @property
    def filter_plugins(self) -> Sequence[FilterPlugin]:
        """The filters, in the profile's order."""
        ...

    def ignores_pods(self, name: str) -> bool:
        """Whether the verdicts of a filter do not depend on which pods run on a node."""
        ...

    def nominated_changes(self, cycle: CycleState, rows: RowArray) -> PodDelta | None:
        """Return what pods nominated to nodes change there, None for nothing."""
        ...


@dataclass
class Handle:
    """What a plugin may look at besides the cycle.

    Attributes
    ----------
    cluster : nodes, pods and their sums, as they stand
    listers : all other objects of the snapshot, indexed
    nominator : pods that are nominated to nodes
    framework : the profile's runtime; set once all plugins are made (PostFilter plugins run filters again through it)
    extenders : called by whoever has a verb for them, in this order
    is_sampling : stop early where kube-scheduler would, instead of looking at everything
    random : draws among equals; None takes the first by name
    release : the release of Kubernetes whose rules hold
    device_totals : counts the devices behind an extended resource, for scores; set by DynamicResources
    shared : what the plugins of all profiles of a session have in common, by its type
    """

    cluster: Cluster
    listers: Listers
    nominator: Nominator
    framework: ProfileFilters | None = None
    extenders: Sequence[Extender] = ()
    is_sampling: bool = False
    random: Random | None = None
    device_totals: DeviceTotals | None = None
    release: Release = field(default_factory=newest)
    shared: dict[type, Any] = field(default_factory=dict)


class PostFilterFindings(Protocol):
    """How a PostFilter plugin decided; lasts when the cluster changes."""

    def victims(self) -> tuple[Victim, ...]:
        """Return the pods that would be evicted, most important first."""
        ...

    def to_document(self, message: str) -> Preemption:
        """Return all that can be told, complete for all nodes; `message` is what all plugins said together."""
        ...


@dataclass
class PostFilterResult:
    """What a PostFilter found.

    Attributes
    ----------
    status : SUCCESS when a node was nominated, UNSCHEDULABLE with the text otherwise, ERROR
    nominated_row : the node on which room will be made, or None
    victims : pods that leave it, in the order in which they do
    cleared_nominations : pods of lower priority that lose their nomination to it
    findings : how it was decided; None when nothing can be told
    effects : what the plugins change at once, whether or not a node was nominated; for whoever follows the cycle up
    """

    status: Status
    nominated_row: int | None = None
    victims: tuple[int, ...] = ()
    cleared_nominations: tuple[int, ...] = ()
    findings: PostFilterFindings | None = None
    effects: tuple[Callable[[], None], ...] = ()


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has."""

    name: ClassVar[str]

    @property
    def scope(self) -> Scope:
        """What the plugin's answer for a node depends on."""
        ...


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """May keep a pod out of the queue."""

    name: ClassVar[str]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Say whether the pod may enter the queue."""
        ...


@runtime_checkable
class KeyedPlugin(Protocol):
    """Says what it reads of a pod (optional)."""

    name: ClassVar[str]

    def reads(self, pod: PodInfo) -> Hashable:
        """Return all that the plugin's kept answers for a pod depend on; equal where they are the same."""
        ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Orders the queue."""

    name: ClassVar[str]

    def sort_key(self, pod: PodInfo) -> Any:
        """Return a key; smaller ones come first."""
        ...


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Looks at the pod once, before any node; None is success for all nodes."""

    name: ClassVar[str]

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Look at the pod."""
        ...


@runtime_checkable
class FilterPlugin(Protocol):
    """Answers for all nodes of a view: an error is a Reason with Code.ERROR."""

    name: ClassVar[str]

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Answer for every position of the view."""
        ...


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Tries to help a pod that fits nowhere."""

    name: ClassVar[str]

    def post_filter(self, cycle: CycleState, outcome: FilterOutcome) -> PostFilterResult:
        """Look for a way to make room."""
        ...


@runtime_checkable
class PreScorePlugin(Protocol):
    """Looks at the feasible nodes once; may skip, and reports an error as a Status."""

    name: ClassVar[str]

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> PreScoreResult | Status | None:
        """Look at the feasible nodes."""
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Gives raw scores, int64 of shape (n_view,)."""

    name: ClassVar[str]

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return a raw score for every position of the view."""
        ...


@runtime_checkable
class ConstantScorePlugin(Protocol):
    """Knows of some pods that all nodes get the same raw score, whatever else happens in the cluster (optional)."""

    name: ClassVar[str]

    def constant_score(self, cycle: CycleState) -> int | None:
        """Return the raw score that every node gets, for all pods of this shape; None where it may differ."""
        ...


@runtime_checkable
class NormalizeScorePlugin(Protocol):
    """Brings raw scores of the feasible nodes into 0 to 100."""

    name: ClassVar[str]

    def normalize_score(self, cycle: CycleState, scores: Int64Array) -> Int64Array:
        """Return the scores brought into range; the argument stays as it is."""
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    """Takes what the pod needs on its node, so that later pods of a plan do not get it."""

    name: ClassVar[str]

    def reserve(self, cycle: CycleState, row: int) -> Status:
        """Take what the pod needs on its node."""
        ...

    def unreserve(self, cycle: CycleState, row: int) -> None:
        """Give back what was taken, if anything."""
        ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Has the last word before binding."""

    name: ClassVar[str]

    def permit(self, cycle: CycleState, row: int) -> Status:
        """Say whether the pod may be bound."""
        ...


@runtime_checkable
class ScoreDetailPlugin(Protocol):
    """Says in words and numbers where a node's raw score comes from (optional; for explanations)."""

    name: ClassVar[str]

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        """Tell where the raw score of a node comes from, a line each."""
        ...
