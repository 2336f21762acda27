"""PlacementReport: where each pod goes, and why; PreemptionReport: whom pods evict; ClustersReport: who has room."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from kplan.api.names import PodKey, object_name
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


class EvictedGroup(Document, frozen=True, kw_only=True):
    """A group of which pods leave."""

    namespace: str
    name: str
    pods: Count

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class GroupPlan(Document, frozen=True, kw_only=True):
    """What becomes of a PodGroup, as one thing.

    Attributes
    ----------
    policy : absent where the cluster has no such PodGroup
    min_count : how many pods of a gang must fit at the same time; absent for other policies
    members : NAMESPACE/NAME of its pods at the end, by name
    placed : how many of them have a node at the end
    fit : how many found a node when the group was last tried, or have one
    state : Scheduled: all have a node. Partial: enough have one, others fit nowhere. Waits: no further pod gets a node
        before more fit. Preempts: it fits once the pods that it evicts have left. Gated: the pods are kept out of the
        queue. Error: the scheduler fails.
    topology : where all run, for a group with a topology key that is placed in this answer
    evicted : NAMESPACE/NAME of the pods that leave for it, in order
    evicted_groups : how many of these belong to which group
    violating : those of the evicted pods that the group evicts as a whole against a disruption budget
    pdb_violations : how many units these are: single pods, or groups that are only evicted whole
    message : of the group's condition PodGroupScheduled; empty where the scheduler has not tried it
    because : kube-scheduler's message about the first member that fits nowhere, or that is kept out of the queue
    remedies : the least changes that would let the group run, the smallest first; each was tried with the whole group
    """

    namespace: str
    name: str
    policy: Literal["gang", "basic"] | UnsetType = UNSET
    min_count: Count | UnsetType = UNSET
    members: tuple[str, ...]
    placed: Count
    fit: Count
    state: GroupState
    topology: TopologyDomain | UnsetType = UNSET
    evicted: tuple[str, ...] = ()
    evicted_groups: tuple[EvictedGroup, ...] = ()
    violating: tuple[str, ...] = ()
    pdb_violations: Count = 0
    message: str = ""
    because: str = ""
    remedies: tuple[Remedy, ...] = ()

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class Luck(Document, frozen=True, kw_only=True):
    """What depends on draws among equal nodes and equal pods; the report itself is about one way to draw.

    Attributes
    ----------
    runs : the number of draws
    seed : of the draws
    fails : draws in which something happens that --fail-on lists
    pending : pods that stay pending in some draws only -> in how many; in none or all of them where the report itself
        says otherwise
    evicted : pods that make room for others in some draws only -> in how many; in none or all as above
    """

    runs: Positive
    seed: int
    fails: Count
    pending: dict[str, Count]
    evicted: dict[str, Count]


class Origin(Document, frozen=True):
    """The manifest of a pod.

    Attributes
    ----------
    line : of the object's name; absent where it is not known
    """

    file: str
    document: int | None = None
    kind: str = "Pod"
    name: str = ""
    line: Positive | UnsetType = UNSET

    def key_in(self, namespace: str) -> str:
        return object_name(self.kind, namespace, self.name)


class PodRef(Document, frozen=True):
    """The pod that is placed.

    Attributes
    ----------
    origin : the manifest of the pod; absent for a pod of the snapshot
    """

    namespace: str
    name: str
    uid: str
    priority: int
    scheduler_name: str
    origin: Origin | UnsetType = field(name="from", default=UNSET)

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return PodKey(self.namespace, self.name).key

    @property
    def owner_key(self) -> str:
        """KIND/NAMESPACE/NAME of the workload of its manifest; ``Pod/NAMESPACE/NAME`` for a pod without one."""
        return self.origin.key_in(self.namespace) if self.origin else f"Pod/{self.key}"


class Failure(Document, frozen=True):
    """Why a plugin rejects a node.

    Attributes
    ----------
    details : the numbers and names behind the reasons; quantities are strings in Kubernetes form
    """

    code: Code
    reasons: tuple[str, ...]
    details: tuple[Detail, ...] = ()


class Rejection(Document, frozen=True):
    """Why a node was rejected.

    Attributes
    ----------
    plugin : the first plugin that rejects, the one that kube-scheduler reports; null when it names none
    details : the numbers and names behind the reasons; quantities are strings in Kubernetes form
    also_failing : why every other plugin rejects the node, as far as it does
    """

    code: Code
    plugin: str | None
    reasons: tuple[str, ...]
    details: tuple[Detail, ...] = ()
    also_failing: dict[str, Failure] = {}


class NodeScore(Document, frozen=True):
    """A node's score.

    Attributes
    ----------
    plugins : final scores, normalized and times the weight; a plugin that skipped scoring is absent
    """

    total: int
    plugins: dict[str, int]


class ReasonCount(Document, frozen=True):
    """How many nodes a plugin rejected for a reason.

    Attributes
    ----------
    closest : the nodes to which least is missing, the closest first
    """

    plugin: str | None
    reason: str
    nodes: Positive
    closest: tuple[str, ...] = ()


class Current(Document, frozen=True, kw_only=True):
    """Where a pod runs, compared with where it would be placed now."""

    node: str
    still_fits: bool
    still_best: bool
    score: int | None
    best_score: int | None


class PodField(Document, frozen=True, kw_only=True):
    """A field of a pod.

    Attributes
    ----------
    path : JSON path in the pod, such as $.spec.nodeSelector.disk
    line : in the manifest of the pod; absent where it is not known
    """

    path: str
    line: Positive | UnsetType = UNSET


class PodPlacement(Document, frozen=True, kw_only=True):
    """A decision about one pod.

    Attributes
    ----------
    node : null unless Scheduled
    new_node : where an autoscaler adds the node, what it is; its name is made up; absent for other nodes
    nodes_count : how many nodes there were, where an autoscaler had added some by then; else absent
    ties : every node with the best total score, by name
    ties_count : where ties names the first of them only
    message : what kube-scheduler writes, for a gated pod the text of PreEnqueue; empty when Scheduled
    stored_message : what the condition PodScheduled of a pod with scheduling gates says, which the API server writes;
        absent for others, of which it says the message
    feasible_nodes : by name; complete with --explain
    not_evaluated : nodes that the scheduler does not evaluate
    rejections : node -> why it was rejected; complete with --explain
    rejection_summary : nodes per plugin and reason, most frequent first; always about all nodes
    scores : node -> score; empty when one node or none is feasible
    score_details : node -> plugin -> where its score comes from; with --explain
    current : where the pod runs, for the question why it is there; null for a pending pod
    health : what the pod is at present, for the same question
    diagnosis : why it is not scheduled, in one sentence; absent for a pod that is
    remedies : the least changes that would let it run, the smallest first; absent for a pod that is scheduled
        Only for the first fifty different pods of a report.
    among : of a pod whose group runs where a label has one value: the nodes that were looked at; absent for others
    held_back_by : PodGroup/NAMESPACE/NAME of its group, where a node fits the pod while the group waits; else absent
    at_fault : the field of the pod that is at fault; absent where it is not one field, and for a pod that is scheduled
    undecided : why kube-scheduler never sees it: the API server refuses it, or another scheduler decides; else absent
    """

    pod: PodRef
    outcome: Outcome
    node: str | None
    new_node: NewNodeRef | UnsetType = UNSET
    nodes_count: Count | UnsetType = UNSET
    ties: tuple[str, ...] = ()
    ties_count: Count | UnsetType = UNSET
    message: str
    stored_message: str | UnsetType = UNSET
    feasible_count: Count = 0
    feasible_nodes: tuple[str, ...] = ()
    not_evaluated_count: Count = 0
    not_evaluated: tuple[str, ...] = ()
    rejections: dict[str, Rejection] = {}
    rejection_summary: tuple[ReasonCount, ...] = ()
    scores: dict[str, NodeScore] = {}
    score_details: dict[str, dict[str, tuple[str, ...]]] = {}
    preemption: Preemption | None = None
    current: Current | UnsetType | None = UNSET
    health: PodHealth | UnsetType = UNSET
    diagnosis: str | UnsetType = UNSET
    remedies: tuple[Remedy, ...] | UnsetType = UNSET
    at_fault: PodField | UnsetType = UNSET
    held_back_by: str | UnsetType = UNSET
    among: TopologyDomain | UnsetType = UNSET
    undecided: Undecided | UnsetType = UNSET


class Unlisted(Document, frozen=True, kw_only=True):
    """Pods that are not listed one by one, being too many: of one workload, with one end.

    Attributes
    ----------
    workload : KIND/NAMESPACE/NAME; Pod/NAMESPACE/NAME for a pod of its own
    pods : how many
    outcome : null for pods that were not decided about, since there are too many
    nodes : node -> how many of them go there
    message : what kube-scheduler writes about each; empty when Scheduled
    """

    workload: str
    pods: Positive
    outcome: Outcome | None
    nodes: dict[str, Positive] = {}
    message: str = ""


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
    """The answer of kplan place and kplan explain: where each pod goes, and why there or nowhere.

    Attributes
    ----------
    cluster : every node before and after; where --explain or a picture asks for it
    nodes : what an autoscaler adds; absent where none is followed
    placements : in the order in which they were decided; at most maxListed
    max_listed : so many are listed one by one at most; absent for all
    unlisted : the others
    groups : what becomes of the pod groups of these pods, where the scheduler has groups
    luck : what depends on draws among equals; absent where nothing does, or there are too many pods to draw
    right_sizing : with recommended requests and without manifests: which nodes are not needed any more
    workloads : what the workloads are at present that the question names; absent where it names none
    """

    kind: Literal["PlacementReport"] = "PlacementReport"
    summary: Summary
    placements: tuple[PodPlacement, ...]
    cluster: ClusterMap | UnsetType = UNSET
    nodes: NodeChanges | UnsetType = UNSET
    max_listed: Positive | UnsetType = UNSET
    unlisted: tuple[Unlisted, ...] = ()
    groups: tuple[GroupPlan, ...] | UnsetType = UNSET
    right_sizing: RightSizing | UnsetType = UNSET
    luck: Luck | UnsetType = UNSET
    workloads: tuple[WorkloadHealth, ...] | UnsetType = UNSET


class Aftermath(Document, frozen=True, kw_only=True):
    """What becomes of one victim.

    Attributes
    ----------
    victim : NAMESPACE/NAME of the pod that is evicted
    by : the pod for which it is evicted
    from_node : the node that it leaves
    recreated_as : the pod that replaces it; null for none, and where replacements keep being evicted
    circling : its replacements keep being evicted, and were followed no further
    placement : the last decision about that pod
    """

    victim: str
    by: str
    from_node: str = field(name="from")
    recreated_as: str | None
    circling: bool
    placement: PodPlacement | None


class PreemptionReport(Report, frozen=True, kw_only=True):
    """The answer of kplan preempt: which pods would be evicted for others, why those, and where they go.

    Attributes
    ----------
    placements : in the order in which they were decided; with --settle-preemption a pod that gets in has two in a row
    aftermath : where the victims go, when all the pods are scheduled in queue order; null unless followed
    cluster : every node before and after these pods; where --explain or a picture asks for it, if followed
    nodes : what an autoscaler adds for pods that neither fit nor preempt; absent where none is followed
    groups : what becomes of the pod groups of these pods, where the scheduler has groups
    luck : what depends on draws among equals, where the victims are followed; absent where nothing does, or there are
        too many pods to draw
    """

    kind: Literal["PreemptionReport"] = "PreemptionReport"
    summary: Summary
    placements: tuple[PodPlacement, ...]
    aftermath: tuple[Aftermath, ...] | None
    cluster: ClusterMap | UnsetType = UNSET
    nodes: NodeChanges | UnsetType = UNSET
    groups: tuple[GroupPlan, ...] | UnsetType = UNSET
    luck: Luck | UnsetType = UNSET


class ClusterAnswer(Document, frozen=True, kw_only=True):
    """The answer of one cluster.

    Attributes
    ----------
    source : the snapshot of the cluster
    nodes : how many it has
    has_room : nothing happens there that --fail-on lists
    because : what happens, a line for each event
    answer : in one sentence
    report : the whole document, as the question about this cluster alone has it
    """

    source: str
    nodes: Count
    has_room: bool
    because: tuple[str, ...] = ()
    answer: str
    report: dict[str, Any]


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
