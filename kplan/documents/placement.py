"""PlacementReport: where each pod goes, and why; PreemptionReport: whom pods evict; ClustersReport: who has room."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from kplan.api.kinds import DAEMON_SET
from kplan.api.names import object_name
from kplan.changes.remedy import Remedy
from kplan.documents.base import Report
from kplan.documents.nodes import ClusterMap, NewNodeRef, NodeChanges, RightSizing
from kplan.engine.details import Code, Detail
from kplan.facts import Count, Document, Positive
from kplan.framework.results import Outcome, Preemption
from kplan.health.pods import PodHealth
from kplan.health.workloads import WorkloadHealth

Undecided = Literal["refused", "other-scheduler"]
GroupState = Literal["Scheduled", "Partial", "Waits", "Preempts", "Gated", "Error"]


class TopologyDomain(Document, frozen=True, kw_only=True):
    """The nodes on which a label has one value."""

    key: str
    value: str


class InNamespace(Document, frozen=True):
    """Something by namespace and name."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class EvictedGroup(InNamespace, frozen=True, kw_only=True):
    """A group of which pods leave."""

    pods: Count


class GroupPlan(InNamespace, frozen=True, kw_only=True):
    """What becomes of a PodGroup, as one thing."""

    policy: Literal["gang", "basic"] | UnsetType = UNSET  #: absent where the cluster has no such PodGroup
    #: how many pods of a gang must fit at the same time; absent for other policies
    min_count: Count | UnsetType = UNSET
    members: tuple[str, ...]  #: NAMESPACE/NAME of its pods at the end, by name
    placed: Count  #: how many of them have a node at the end
    fit: Count  #: how many found a node when the group was last tried, or have one
    #: Scheduled: all have a node. Partial: enough have one, others fit nowhere. Waits: no further pod gets a node
    #: before more fit. Preempts: it fits once the pods that it evicts have left. Gated: the pods are kept out of the
    #: queue. Error: the scheduler fails.
    state: GroupState
    #: where all run, for a group with a topology key that is placed in this answer
    topology: TopologyDomain | UnsetType = UNSET
    evicted: tuple[str, ...] = ()  #: NAMESPACE/NAME of the pods that leave for it, in order
    evicted_groups: tuple[EvictedGroup, ...] = ()  #: how many of these belong to which group
    #: those of the evicted pods that the group evicts as a whole against a disruption budget
    violating: tuple[str, ...] = ()
    pdb_violations: Count = 0  #: how many units these are: single pods, or groups that are only evicted whole
    message: str = ""  #: of the group's condition PodGroupScheduled; empty where the scheduler has not tried it
    #: kube-scheduler's message about the first member that fits nowhere, or that is kept out of the queue
    because: str = ""
    #: the least changes that would let the group run, the smallest first; each was tried with the whole group
    remedies: tuple[Remedy, ...] = ()


class Luck(Document, frozen=True, kw_only=True):
    """What depends on draws among equal nodes and equal pods; the report itself is about one way to draw."""

    runs: Positive  #: the number of draws
    seed: int  #: of the draws
    fails: Count  #: draws in which something happens that --fail-on lists
    #: pods that stay pending in some draws only -> in how many; in none or all of them where the report itself says
    #: otherwise
    pending: dict[str, Count]
    #: pods that make room for others in some draws only -> in how many; in none or all as above
    evicted: dict[str, Count]
    #: pods of drained nodes that cannot be evicted in some draws only -> in how many, or as above; absent for none
    blocked: dict[str, Count] | UnsetType = UNSET


class Origin(Document, frozen=True):
    """The manifest of a pod."""

    file: str
    document: int | None = None
    kind: str = "Pod"
    name: str = ""
    line: Positive | UnsetType = UNSET  #: of the object's name; absent where it is not known

    def key_in(self, namespace: str) -> str:
        return object_name(self.kind, namespace, self.name)


class PodRef(InNamespace, frozen=True):
    """The pod that is placed."""

    uid: str
    priority: int
    scheduler_name: str
    #: the manifest of the pod; absent for a pod of the snapshot
    origin: Origin | UnsetType = field(name="from", default=UNSET)

    @property
    def is_daemon(self) -> bool:
        """Whether it is a pod of the manifest of a DaemonSet."""
        return bool(self.origin and self.origin.kind == DAEMON_SET)

    @property
    def owner_key(self) -> str:
        """KIND/NAMESPACE/NAME of the workload of its manifest; ``Pod/NAMESPACE/NAME`` for a pod without one."""
        return self.origin.key_in(self.namespace) if self.origin else f"Pod/{self.key}"


class Failure(Document, frozen=True):
    """Why a plugin rejects a node."""

    code: Code
    reasons: tuple[str, ...]
    #: the numbers and names behind the reasons; quantities are strings in Kubernetes form
    details: tuple[Detail, ...] = ()


class Rejection(Document, frozen=True):
    """Why a node was rejected."""

    code: Code
    plugin: str | None  #: the first plugin that rejects, the one that kube-scheduler reports; null when it names none
    reasons: tuple[str, ...]
    #: the numbers and names behind the reasons; quantities are strings in Kubernetes form
    details: tuple[Detail, ...] = ()
    also_failing: dict[str, Failure] = {}  #: why every other plugin rejects the node, as far as it does


class NodeScore(Document, frozen=True):
    """A node's score."""

    total: int
    plugins: dict[str, int]  #: final scores, normalized and times the weight; a plugin that skipped scoring is absent


class ReasonCount(Document, frozen=True):
    """How many nodes a plugin rejected for a reason."""

    plugin: str | None
    reason: str
    nodes: Positive
    closest: tuple[str, ...] = ()  #: the nodes to which least is missing, the closest first


class Current(Document, frozen=True, kw_only=True):
    """Where a pod runs, compared with where it would be placed now."""

    node: str
    still_fits: bool
    still_best: bool
    score: int | None
    best_score: int | None


class PodField(Document, frozen=True, kw_only=True):
    """A field of a pod."""

    path: str  #: JSON path in the pod, such as $.spec.nodeSelector.disk
    line: Positive | UnsetType = UNSET  #: in the manifest of the pod; absent where it is not known


class PodPlacement(Document, frozen=True, kw_only=True):
    """A decision about one pod."""

    pod: PodRef
    outcome: Outcome
    node: str | None  #: null unless Scheduled
    #: where an autoscaler adds the node, what it is; its name is made up; absent for other nodes
    new_node: NewNodeRef | UnsetType = UNSET
    #: why the autoscaler adds none, though the pod would fit one; absent where that is not so
    no_new_node: str | UnsetType = UNSET
    #: how many nodes there were, where an autoscaler had added some by then; else absent
    nodes_count: Count | UnsetType = UNSET
    ties: tuple[str, ...] = ()  #: every node with the best total score, by name
    ties_count: Count | UnsetType = UNSET  #: where ties names the first of them only
    message: str  #: what kube-scheduler writes, for a gated pod the text of PreEnqueue; empty when Scheduled
    #: what the condition PodScheduled of a pod with scheduling gates says, which the API server writes; absent for
    #: others, of which it says the message
    stored_message: str | UnsetType = UNSET
    feasible_count: Count = 0
    feasible_nodes: tuple[str, ...] = ()  #: by name; complete with --explain
    not_evaluated_count: Count = 0
    not_evaluated: tuple[str, ...] = ()  #: nodes that the scheduler does not evaluate
    rejections: dict[str, Rejection] = {}  #: node -> why it was rejected; complete with --explain
    #: nodes per plugin and reason, most frequent first; always about all nodes
    rejection_summary: tuple[ReasonCount, ...] = ()
    scores: dict[str, NodeScore] = {}  #: node -> score; empty when one node or none is feasible
    #: node -> plugin -> where its score comes from; with --explain
    score_details: dict[str, dict[str, tuple[str, ...]]] = {}
    preemption: Preemption | None = None
    #: where the pod runs, for the question why it is there; null for a pending pod
    current: Current | UnsetType | None = UNSET
    health: PodHealth | UnsetType = UNSET  #: what the pod is at present, for the same question
    diagnosis: str | UnsetType = UNSET  #: why it is not scheduled, in one sentence; absent for a pod that is
    #: the least changes that would let it run, the smallest first; absent for a pod that is scheduled, and beyond the
    #: first fifty different pods of a report
    remedies: tuple[Remedy, ...] | UnsetType = UNSET
    #: the field of the pod that is at fault; absent where it is not one field, and for a pod that is scheduled
    at_fault: PodField | UnsetType = UNSET
    #: PodGroup/NAMESPACE/NAME of its group, where a node fits the pod while the group waits; else absent
    held_back_by: str | UnsetType = UNSET
    #: of a pod whose group runs where a label has one value: the nodes that were looked at; absent for others
    among: TopologyDomain | UnsetType = UNSET
    #: why kube-scheduler never sees it: the API server refuses it, or another scheduler decides; else absent
    undecided: Undecided | UnsetType = UNSET

    @property
    def why(self) -> str:
        """Why it is not scheduled: the diagnosis, or where there is none kube-scheduler's words."""
        return self.diagnosis or self.message

    @property
    def eviction(self) -> Preemption | None:
        """The preemption that makes room for the pod; None where none does."""
        return self.preemption if self.preemption and self.preemption.nominated_node else None


class Unlisted(Document, frozen=True, kw_only=True):
    """Pods that are not listed one by one, being too many: of one workload, with one end."""

    workload: str  #: KIND/NAMESPACE/NAME; Pod/NAMESPACE/NAME for a pod of its own
    pods: Positive  #: how many
    outcome: Outcome | None  #: null for pods that were not decided about, since there are too many
    nodes: dict[str, Positive] = {}  #: node -> how many of them go there
    message: str = ""  #: what kube-scheduler writes about each; empty when Scheduled


class Summary(Document, frozen=True, kw_only=True):
    """Counts; of a pod that was tried twice the last outcome counts."""

    pods: Count
    scheduled: Count
    unschedulable: Count
    gated: Count
    errors: Count
    victims: Count
    pdb_violations: Count


class PlacementReport(Report, frozen=True, kw_only=True):
    """The answer of kplan place and kplan explain: where each pod goes, and why there or nowhere."""

    kind: Literal["PlacementReport"] = "PlacementReport"
    summary: Summary
    placements: tuple[PodPlacement, ...]  #: in the order in which they were decided; at most maxListed
    cluster: ClusterMap | UnsetType = UNSET  #: every node before and after; where --explain or a picture asks for it
    nodes: NodeChanges | UnsetType = UNSET  #: what an autoscaler adds; absent where none is followed
    max_listed: Positive | UnsetType = UNSET  #: so many are listed one by one at most; absent for all
    unlisted: tuple[Unlisted, ...] = ()  #: the others
    #: what becomes of the pod groups of these pods, where the scheduler has groups
    groups: tuple[GroupPlan, ...] | UnsetType = UNSET
    #: with recommended requests and without manifests: which nodes are not needed any more
    right_sizing: RightSizing | UnsetType = UNSET
    #: what depends on draws among equals; absent where nothing does, or there are too many pods to draw
    luck: Luck | UnsetType = UNSET
    #: what the workloads are at present that the question names; absent where it names none
    workloads: tuple[WorkloadHealth, ...] | UnsetType = UNSET


class Aftermath(Document, frozen=True, kw_only=True):
    """What becomes of one victim."""

    victim: str  #: NAMESPACE/NAME of the pod that is evicted
    by: str  #: the pod for which it is evicted
    from_node: str = field(name="from")  #: the node that it leaves
    recreated_as: str | None  #: the pod that replaces it; null for none, and where replacements keep being evicted
    circling: bool  #: its replacements keep being evicted, and were followed no further
    placement: PodPlacement | None  #: the last decision about that pod


class PreemptionReport(Report, frozen=True, kw_only=True):
    """The answer of kplan preempt: which pods would be evicted for others, why those, and where they go."""

    kind: Literal["PreemptionReport"] = "PreemptionReport"
    summary: Summary
    #: in the order in which they were decided; with --settle-preemption a pod that gets in has two in a row
    placements: tuple[PodPlacement, ...]
    #: pending pods that fit without evictions, NAMESPACE/NAME -> node, where the question is about every one that does
    #: not; absent without any
    fits: dict[str, str] | UnsetType = UNSET
    #: where the victims go, when all the pods are scheduled in queue order; null unless followed
    aftermath: tuple[Aftermath, ...] | None
    #: every node before and after these pods; where --explain or a picture asks for it, if followed
    cluster: ClusterMap | UnsetType = UNSET
    #: what an autoscaler adds for pods that neither fit nor preempt; absent where none is followed
    nodes: NodeChanges | UnsetType = UNSET
    #: what becomes of the pod groups of these pods, where the scheduler has groups
    groups: tuple[GroupPlan, ...] | UnsetType = UNSET
    #: what depends on draws among equals, where the victims are followed; absent where nothing does, or there are too
    #: many pods to draw
    luck: Luck | UnsetType = UNSET


class ClusterAnswer(Document, frozen=True, kw_only=True):
    """The answer of one cluster."""

    source: str  #: the snapshot of the cluster
    nodes: Count  #: how many it has
    has_room: bool  #: nothing happens there that --fail-on lists
    because: tuple[str, ...] = ()  #: what happens, a line for each event
    answer: str  #: in one sentence
    report: dict[str, Any]  #: the whole document, as the question about this cluster alone has it


class ClustersReport(Report, frozen=True, kw_only=True):
    """The answer of kplan place about several clusters: which of them has room.

    Attributes
    ----------
    snapshot, scheduler : those of the first cluster
    warnings : those of all clusters, each once
    clusters : in the order in which they were named
    """

    kind: Literal["ClustersReport"] = "ClustersReport"
    clusters: tuple[ClusterAnswer, ...]
