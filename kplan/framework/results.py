"""What extension points return for one pod, and how a decision about it ends.

Statuses, results and the state of a cycle; of preemption the victims, the candidates, and why other nodes do not help.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, field

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.details import Code
from kplan.facts import Count, Document, Positive
from kplan.rules.pod_info import PodInfo


class Outcome(enum.StrEnum):
    """How a decision about a pod ends."""

    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    GATED = "Gated"
    ERROR = "Error"


class StatusCode(enum.IntEnum):
    """Outcome of an extension point for the pod as a whole rather than for its nodes."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4  #: only from Permit: the pod keeps its node and is not bound yet


# Python 3.11 takes far longer to look a member of an enumeration up than a name of the module.
_SUCCESS = StatusCode.SUCCESS


class Status(msgspec.Struct, frozen=True):
    """A code with its reasons and the plugin that gave them (filled in by the runtime)."""

    code: StatusCode
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        return self.code is _SUCCESS

    @property
    def is_wait(self) -> bool:
        return self.code is StatusCode.WAIT

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected; an error is no rejection."""
        return self.code in (StatusCode.UNSCHEDULABLE, StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def by(self, plugin: str) -> Status:
        return Status(self.code, self.reasons, plugin)

    @staticmethod
    def error(text: str) -> Status:
        return Status(StatusCode.ERROR, (text,))

    @staticmethod
    def unschedulable(*reasons: str) -> Status:
        """Return a rejection that preemption may cure."""
        return Status(StatusCode.UNSCHEDULABLE, reasons)

    @staticmethod
    def unresolvable(*reasons: str) -> Status:
        """Return a rejection that preemption cannot cure."""
        return Status(StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


SUCCESS = Status(StatusCode.SUCCESS)


class PluginError(Exception):
    """A plugin failed; ends the cycle with the text that kube-scheduler would report."""

    @staticmethod
    def in_score(plugin: str, text: str) -> PluginError:
        return PluginError(f'running Score plugins: plugin "{plugin}" failed with: {text}')


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """The combined result of all PreFilter plugins."""

    status: Status | None = None  #: a rejection of the pod, or None
    nodes: frozenset[str] | None = None  #: the only nodes left, or None for all
    plugins_with_nodes: frozenset[str] = frozenset()  #: plugins that named nodes
    skipped: frozenset[str] = frozenset()  #: plugins whose filter is left out


class ScorePart(msgspec.Struct, frozen=True):
    """One plugin's scores: normalized, not yet weighted."""

    rank: int  #: place of the plugin in the profile
    name: str
    weight: int
    scores: Int64Array  #: int64 array, over the feasible nodes or, with `is_full`, over all nodes
    is_full: bool


class ScoreOutcome(msgspec.Struct):
    """Scores of the feasible nodes; valid until the cluster changes."""

    rows: RowArray  #: feasible node rows, ascending
    total: Int64Array  #: int64 array over `rows`
    parts: list[ScorePart] = []  #: the scores of each plugin
    #: bool array of shape (n_nodes,): nodes that an extender scored, for which kube-scheduler draws a random number;
    #: None for none
    drawn: BoolArray | None = None

    def plugins_at(self, positions: RowArray) -> dict[str, list[int]]:
        """Return the weighted scores of every plugin for some feasible nodes, in the order of the profile."""
        rows = self.rows[positions]
        return {
            part.name: (part.scores[rows if part.is_full else positions] * part.weight).tolist()
            for part in sorted(self.parts, key=lambda part: part.rank)
        }


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
        self.states[type(state)] = state

    def read(self, kind: type[T]) -> T:
        """Return the stored object of a class; KeyError when there is none, which is a bug of the plugin."""
        state: T = self.states[kind]
        return state

    def find(self, kind: type[T]) -> T | None:
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


Criterion = Literal[
    "pdb-violations", "lowest-highest-victim-priority", "lowest-priority-sum", "fewest-victims", "latest-start-time"
]
"""The criteria that compare candidates, in this order."""

DecidedBy = Literal["only-candidate", "tie"] | Criterion


Ineligible = Literal[
    "preemption-policy-never",
    "victims-are-leaving",
    "group-is-missing",
    "group-has-constraints",
    "group-preempts-as-a-whole",
]
"""Why a pod may not preempt at all.

group-is-missing, group-has-constraints, group-preempts-as-a-whole: a pod of a pod group does not preempt on its own;
victims-are-leaving: pods that were evicted for it before are still terminating.
"""

WhyNot = Ineligible | Literal["no-node-helps", "extenders-refuse", "not-tried", "failed"]
"""Why preemption finds no node; not-tried: another PostFilter plugin ended the search before."""


class Freed(Document, frozen=True):
    """How much of a resource an eviction frees, and which share of the node that is, in per cent."""

    amount: str
    percent: int | None


class Victim(Document, frozen=True, kw_only=True):
    """A pod that would be evicted."""

    namespace: str
    name: str
    priority: int
    pdb_violation: bool
    owner: str | None  #: KIND/NAME of its controller
    start_time: str | None
    node: str | UnsetType = UNSET  #: where it runs
    frees: dict[str, Freed] | UnsetType = UNSET  #: resource -> what its eviction frees
    budgets: tuple[str, ...] | UnsetType = UNSET  #: disruption budgets that cover the pod
    termination_grace_period_seconds: int | UnsetType | None = UNSET

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class Criteria(Document, frozen=True, kw_only=True):
    """The values of the criteria for a candidate."""

    pdb_violations: Count
    highest_victim_priority: int
    priority_sum: int
    victims: Count
    latest_start_time: str | None


class Reprieve(Document, frozen=True, kw_only=True):
    """Whether a pod of lower priority is spared, tried while the more important ones that are spared stay."""

    pod: str
    step: Positive
    pdb_violation: bool  #: its eviction would violate a budget, so it was tried before the others
    reprieved: bool = field(name="kept")  #: the incoming pod fits beside it, so it is no victim


class Candidate(Document, frozen=True, kw_only=True):
    """A node on which evicting pods makes room."""

    victims: tuple[str, ...]
    pdb_violations: Count
    criteria: Criteria
    lost_by: Criterion | UnsetType | None = UNSET  #: the criterion by which it lost; null for the best
    #: its pods of lower priority, in the order in which the scheduler tries to spare them
    reprieve: tuple[Reprieve, ...] | UnsetType = UNSET


class NotHelped(Document, frozen=True, kw_only=True):
    """Why evictions on a node do not help."""

    code: Code
    plugin: str | None
    reasons: tuple[str, ...]


class NotHelpful(Document, frozen=True, kw_only=True):
    """Nodes where no eviction helps, for one reason."""

    tried: bool  #: evictions were tried in vain; where false, no eviction can help
    plugin: str | None
    reason: str
    nodes: Positive
    examples: tuple[str, ...]


class Preemption(Document, frozen=True, kw_only=True):
    """The result of PostFilter, for a pod that every node rejects."""

    eligible: bool  #: the pod may preempt at all
    message: str  #: of all PostFilter plugins together; empty when there is a node
    nominated_node: str | None = None  #: null when no candidate helps
    ties: tuple[str, ...] = ()  #: candidates equal on all criteria, by name
    decided_by: DecidedBy | None = None
    victims: tuple[Victim, ...] = ()
    candidates: dict[str, Candidate] = {}
    rejected: dict[str, NotHelped] = {}  #: node -> why evictions there do not help
    cleared_nominations: tuple[str, ...] = ()  #: pods of lower priority that lose their nomination to that node
    not_helpful: tuple[NotHelpful, ...] | UnsetType = UNSET
    why_not: WhyNot | None = None  #: why there is no node; null when there is one
