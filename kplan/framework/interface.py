"""Extension points: what a plugin may implement, and what it is created with.

A plugin is a class with a `name`, a `scope` and the methods of the extension points that it implements. It is
created once per profile and session as ``Plugin(args, handle)`` with the typed arguments of `kplan.config.args` (None
for a plugin without arguments) and a `Handle`. Upstream: kube-scheduler/framework/interface.go.

Rules that the runtime relies on:

- `Scope.NODE_OBJECT` and `Scope.NODE` plugins run once per pod *shape* (`PodInfo.shape`, equal for pods that differ
  in nothing that scheduling reads); their verdicts and raw scores are cached, and they run again only on rows whose
  pods changed since (never, for NODE_OBJECT).
  So for equal shapes their pre_filter, pre_score and the tuple of reasons must be equal, `Verdicts.unresolvable` must
  be set always or never, and row i's verdict and raw score must not depend on other rows. If such a plugin
  normalizes, equal raw scores must normalize to a value that does not depend on how many nodes there are.
- Verdicts over all nodes that reject none of them may have no reasons (`Verdicts.accepting`); others have all.
- Pods of different shapes may still be equal in what one plugin reads. The results of a plugin that declares what it
  reads of a pod (`KeyedPlugin`) are cached per what it reads instead of per shape. Of a plugin of `Scope.CLUSTER` that
  is whether it skips a pod (`SKIP_SHAPE`), and scores that are the same on all nodes (`ConstantScorePlugin`).
- Shapes are equal for pods whose claims and disks differ only by name, so a plugin that reads a pod's volumes is of
  `Scope.CLUSTER`.
- `Scope.CLUSTER` plugins run in every cycle. They keep what they derive up to date themselves
  (`Cluster.domain_counts`, `Cluster.log`, `TermGroup`).
- Every `filter` must honour `nodes.delta` exactly as upstream's AddPod/RemovePod extensions and NodeInfo would:
  position i is the verdict on its own node with that node's pods changed and all other nodes unchanged. A node may
  stand at two positions, with other pods at each.
- A plugin of cluster scope whose verdicts do not depend on which pods run on a node may declare that with a class
  attribute ``ignores_pods = True``; preemption then runs it once instead of at every step.
- `pre_score` and `score` see a view of the feasible nodes only (CLUSTER) or of any nodes (others), never with a delta.
- Nothing but `reserve` and `unreserve` may change what later cycles see.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable
from weakref import ReferenceType, ref

import msgspec

from kplan.api.core import Node, PersistentVolumeClaim, Pod
from kplan.api.scheduling import PodGroup
from kplan.config.releases import Release, reference
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.resource_scoring import DeviceTotals
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.results import (
    SKIP,
    SKIP_SHAPE,
    SUCCESS,
    CycleState,
    PostFilterFindings,
    PostFilterResult,
    PreFilterResult,
    PreScoreResult,
    Scope,
    Status,
    StatusCode,
)
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:
    from random import Random

    from kplan.framework.listers import Listers


#: Of `kplan.framework.results`: what plugins return and read, too.
__all__ = [
    "SKIP",
    "SKIP_SHAPE",
    "SUCCESS",
    "CycleState",
    "PostFilterFindings",
    "PostFilterResult",
    "PreFilterResult",
    "PreScoreResult",
    "Scope",
    "Status",
    "StatusCode",
]


class ExtenderError(Exception):
    """An extender did not answer, or not in a usable way."""


class ExtenderFilterResult(msgspec.Struct, frozen=True):
    """The nodes that an extender accepts, and why it rejects the others."""

    nodes: Sequence[str]  #: names of the nodes that passed
    failed: Mapping[str, str]  #: name -> message; preemption may help
    unresolvable: Mapping[str, str]  #: name -> message; preemption cannot help


class ExtenderVictims(msgspec.Struct, frozen=True):
    """Victims on one node: pod keys (NAMESPACE/NAME), most important first."""

    pods: Sequence[str]
    num_pdb_violations: int


PodsOn = Callable[[str], Mapping[str, Pod]]
"""Node name -> the pods that run there, by NAMESPACE/NAME: an extender may name other victims than those proposed."""


class Extender(Protocol):
    """One configured extender."""

    name: str
    weight: int
    is_ignorable: bool
    filters: bool
    prioritizes: bool
    preempts: bool

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod requests a resource that this extender manages, or the extender manages all pods."""

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Return which nodes pass; raises ExtenderError."""

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Return scores by node name, 0 to 10; raises ExtenderError."""

    def preempt(
        self, pod: Pod, victims: Mapping[str, ExtenderVictims], pods_on: PodsOn
    ) -> Mapping[str, ExtenderVictims]:
        """Return the candidates that the extender accepts, with their victims; raises ExtenderError."""


class Nominator:
    """Nominations by node row and by pod (rows of the pod table)."""

    def __init__(self) -> None:
        self._pods_by_row: dict[int, list[int]] = {}
        self._row_by_pod: dict[int, int] = {}
        self.n_changes = 0  #: grows whenever a pod is nominated, or a nomination dropped
        self.in_cycle: frozenset[int] = frozenset()  #: pods of the group whose cycle runs; they take no room from it

    def copy(self) -> Nominator:
        copied = Nominator()
        copied._pods_by_row = {row: pods.copy() for row, pods in self._pods_by_row.items()}
        copied._row_by_pod, copied.n_changes = self._row_by_pod.copy(), self.n_changes
        return copied

    def __bool__(self) -> bool:
        return bool(self._row_by_pod)

    def nominate(self, pod: int, row: int) -> None:
        """Nominate a pod to a node, in place of an earlier nomination."""
        self.drop(pod)
        self.n_changes += 1
        self._row_by_pod[pod] = row
        self._pods_by_row.setdefault(row, []).append(pod)

    def drop(self, pod: int) -> None:
        row = self._row_by_pod.pop(pod, None)
        if row is not None:
            self.n_changes += 1
            pods = self._pods_by_row[row]
            pods.remove(pod)
            if not pods:
                del self._pods_by_row[row]

    def row_of(self, pod: int) -> int | None:
        return self._row_by_pod.get(pod)

    def pods_for(self, row: int) -> tuple[int, ...]:
        return tuple(self._pods_by_row.get(row, ()))

    def rows(self) -> list[int]:
        return sorted(self._pods_by_row)


class PodAdded(msgspec.Struct, frozen=True):
    """A pod was bound to a node."""

    info: PodInfo


class PodDeleted(msgspec.Struct, frozen=True):
    """A pod that ran or was nominated to a node is gone."""

    info: PodInfo


class NodeUncordoned(msgspec.Struct, frozen=True):
    """A node takes pods again."""

    node: Node


class NodeChanged(msgspec.Struct, frozen=True):
    """The taints of a node have changed."""

    former: Node
    node: Node


class NodeDeleted(msgspec.Struct, frozen=True):
    """A node is gone, while pods of it may stay."""

    node: Node


class ClaimFreed(msgspec.Struct, frozen=True):
    """A plugin gave up the devices of a resource claim that no pod uses."""


Event = PodAdded | PodDeleted | NodeUncordoned | NodeChanged | NodeDeleted | ClaimFreed
"""What happens in a cluster in which no node joins; upstream knows more, such as a change of labels."""


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has."""

    name: ClassVar[str]  #: the name by which profiles enable the plugin

    @property
    def scope(self) -> Scope:
        """What the plugin's verdict and score for a node depend on."""


class PreEnqueuePlugin(Plugin, Protocol):
    """May keep a pod out of the queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return whether the pod may enter the queue."""


class QueueingHintPlugin(Plugin, Protocol):
    """Knows what may change its mind (optional): a pod waits for any event that a plugin without hints rejected.

    Upstream: EventsToRegister, and the QueueingHintFn of each event.
    """

    def queueing_hint(self, pod: PodInfo, event: Event) -> bool:
        """Return whether an event may make a pod schedulable that this plugin rejected."""


def no_event_helps(_pod: PodInfo, _event: Event) -> bool:
    """Return false: the queueing hint of a plugin that waits for what no event brings."""
    return False


class ReservedObjects(msgspec.Struct, frozen=True):
    """The objects that change once a plugin's reservations are written to the API server."""

    objects: tuple[msgspec.Struct, ...]  #: claims and volumes as they are afterwards
    unnamed: frozenset[str] = frozenset()  #: identities of pods with a reservation that none of the objects records


class ReservedObjectsPlugin(Plugin, Protocol):
    """Reserves what the API server records in objects (optional)."""

    def reserved_objects(self) -> ReservedObjects:
        """Return the objects that differ from the snapshot's once everything reserved is bound."""


class ClaimBindingPlugin(Plugin, Protocol):
    """Knows which volumes claims are bound to (optional)."""

    def bound_at_once(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a new claim, bound to a volume where its class does not wait for a pod and there is one for it."""

    def bind_claims(self, pod: Pod, row: int) -> tuple[PersistentVolumeClaim, ...]:
        """Provision what is reserved for a pod on its node, and return its claims that are bound from now on."""


class KeyedPlugin(Plugin, Protocol):
    """Declares which part of a pod it reads (optional)."""

    def reads(self, pod: PodInfo) -> Hashable:
        """Return a key of all that the plugin reads of a pod: pods with equal keys share cached results."""


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue."""

    def sort_key(self, pod: PodInfo) -> Any:
        """Return a key; pods with smaller keys come first."""


class PreFilterPlugin(Plugin, Protocol):
    """Looks at the pod once, before any node."""

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Prepare the cycle's state; None when the plugin's filter runs on all nodes."""


class FilterPlugin(Plugin, Protocol):
    """Accepts or rejects all nodes of a view; an error is a Reason with Code.ERROR."""

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Return a verdict for every position of the view."""


class PostFilterPlugin(Plugin, Protocol):
    """Tries to make room for a pod that fits no node."""

    def post_filter(self, cycle: CycleState, outcome: FilterOutcome) -> PostFilterResult:
        """Return the node to nominate with its victims, or why there is none."""


class GroupVictims(msgspec.Struct, frozen=True):
    """The pods that leave for a group."""

    pods: list[int] = []  #: the most important first
    violating: list[int] = []  #: those that belong to a unit whose eviction breaks a budget
    n_violating: int = 0  #: how many units those are. Upstream: numViolatingVictim


class GroupPostFilterPlugin(Plugin, Protocol):
    """Tries to make room for a group of pods that does not fit."""

    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[int], fits: Callable[[], Status]
    ) -> tuple[Status, GroupVictims]:
        """Return whether there is room for the members without a node once some pods leave, and these pods.

        `fits` runs the group's cycle in the cluster as it is now.
        """


class PreScorePlugin(Plugin, Protocol):
    """Looks at the feasible nodes once, before any score."""

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> PreScoreResult | Status | None:
        """Prepare the cycle's state; a Status is an error, a PreScoreResult leaves the plugin's score out."""


class ScorePlugin(Plugin, Protocol):
    """Scores nodes."""

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return a raw score for every position of the view, int64 of shape (n_view,)."""


class ConstantScorePlugin(Plugin, Protocol):
    """Knows for which pods every node gets the same raw score, whatever the cluster contains (optional)."""

    def constant_score(self, cycle: CycleState) -> int | None:
        """Return the raw score that every node gets for pods of this shape; None where nodes may differ."""


class NormalizeScorePlugin(Plugin, Protocol):
    """Brings raw scores of the feasible nodes into 0 to 100."""

    def normalize_score(self, cycle: CycleState, scores: Int64Array) -> Int64Array:
        """Return the scores scaled to 0 to 100; the argument stays unchanged."""


class FinalScorePlugin(Plugin, Protocol):
    """Scores and normalizes at once (optional), where that takes less than one after the other."""

    def final_score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return what `normalize_score` returns for the scores of a view, int64 of shape (n_view,)."""


class ReservePlugin(Plugin, Protocol):
    """Reserves what the pod needs on its node, so that later pods of a plan do not get it."""

    def reserve(self, cycle: CycleState, row: int) -> Status:
        """Reserve what the pod needs on its node."""

    def unreserve(self, cycle: CycleState, row: int) -> None:
        """Release what `reserve` reserved, if anything."""


class PermitPlugin(Plugin, Protocol):
    """Approves or rejects a pod's node last, before binding."""

    def permit(self, cycle: CycleState, row: int) -> Status:
        """Return whether the pod may be bound."""


class ScoreDetailPlugin(Plugin, Protocol):
    """Explains a node's raw score in words and numbers (optional)."""

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        """Return the lines that explain the raw score of a node."""


P = TypeVar("P")


def plugins_with(point: Callable[..., P], plugins: Iterable[Plugin]) -> list[P]:
    """Return the plugins with the methods of an extension point, in order."""
    return cast("list[P]", [plugin for plugin in plugins if _has_methods(type(plugin), point)])


def plugin_with(point: Callable[..., P], plugin: Plugin) -> P | None:
    """Return a plugin if it has the methods of an extension point."""
    return cast("P", plugin) if _has_methods(type(plugin), point) else None


@lru_cache(maxsize=1024)
def _has_methods(plugin: type, point: Callable[..., Any]) -> bool:
    return all(hasattr(plugin, name) for name in vars(point) if not name.startswith("_"))


T = TypeVar("T")


class ProfileFilters(Protocol):
    """The filters of a profile, for preemption, which runs them again; `Framework` implements it."""

    cluster: Cluster  #: the cluster whose nodes are filtered
    filter_plugins: list[FilterPlugin]  #: in the profile's order
    pod_blind: set[str]  #: the plugins whose verdicts are the same whichever pods run on a node

    def nominated_changes(self, cycle: CycleState, rows: RowArray) -> PodDelta | None:
        """Return the pods nominated to these nodes as additions to them; None when there are none."""


class Handle(msgspec.Struct):
    """What a plugin may read besides the cycle."""

    cluster: Cluster  #: nodes, pods and their sums, kept current
    listers: Listers  #: all other objects of the snapshot, indexed
    nominator: Nominator  #: pods that are nominated to nodes
    extenders: Sequence[Extender] = ()  #: in the order in which they are called
    is_sampling: bool = False  #: stop early where kube-scheduler would, instead of looking at everything
    random: Random | None = None  #: draws among equals; without it the first by name wins
    #: counts the devices behind an extended resource, for scores; set by DynamicResources
    device_totals: DeviceTotals | None = None
    release: Release = msgspec.field(default_factory=reference)  #: the release of Kubernetes whose rules hold
    shared: dict[type, Any] = {}  #: the objects of `session_state`, by their type
    _framework: ReferenceType[ProfileFilters] | None = None  # weak: so a session goes as soon as nobody uses it

    @property
    def framework(self) -> ProfileFilters | None:
        """The profile's runtime, set once all plugins exist; PostFilter plugins run filters again through it."""
        return None if self._framework is None else self._framework()

    @framework.setter
    def framework(self, framework: ProfileFilters) -> None:
        self._framework = ref(framework)

    def session_state(self, kind: type[T], *inputs: object) -> T:
        """Return ``kind(*inputs)``, built when first used: state that all profiles of a session share."""
        state: T | None = self.shared.get(kind)
        if state is None:
            state = self.shared[kind] = kind(*inputs)
        return state
