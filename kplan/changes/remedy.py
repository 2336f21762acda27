"""The least changes that let a pod, or a pod group, run; quantities are Kubernetes' texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeVar

from msgspec import UNSET, UnsetType
from msgspec import field as named
from msgspec.structs import replace

from kplan.facts import Count, Document, Positive

if TYPE_CHECKING:
    from kplan.api.names import WorkloadRef
    from kplan.workloads.autoscalers import Bounds

RESOURCE, TOLERATION, TOPOLOGY_KEY = "resource", "toleration", "topologyKey"
"""What a `NameChange` may be about, besides kinds of objects."""


class Helped(Document, frozen=True):
    """How many pending pods of a workload a remedy lets run."""

    pods: Count
    of: Positive  #: how many are pending


class RemedyBase(Document, frozen=True, kw_only=True, tag_field="kind"):
    """The fields that all remedies share."""

    then: str | None  #: the node of the pod after the change; null where it is not known, or for many pods
    checked: bool = True  #: the decision was made again with the change, and has this result
    #: how many pending pods of the workload, or of the pod group, get a node; absent where only one is pending
    helps: Helped | UnsetType = UNSET
    #: of a pod group: NAMESPACE/NAME of the pods that change, where others wait that do not; absent otherwise
    members: tuple[str, ...] | UnsetType = UNSET


C = TypeVar("C")


class RemedyOf(RemedyBase, Generic[C], frozen=True, kw_only=True):
    """A remedy that changes one thing."""

    change: C


class RequestChange(Document, frozen=True, kw_only=True):
    """A lower request of a container, or of the pod where `container` is empty: the largest amount that fits."""

    container: str
    resource: str
    old: str = named(name="from")
    to: str
    #: by a VerticalPodAutoscaler, NAMESPACE/NAME, from what the container uses; empty where none is known
    recommended: str = ""


class LowerRequest(RemedyOf[RequestChange], frozen=True, kw_only=True, tag="lower-request"):
    """Lower requests of the pod."""

    #: further requests that must be lowered with it; absent for none
    also: tuple[RequestChange, ...] | UnsetType = UNSET


class PortsChange(Document, frozen=True, kw_only=True):
    """Ports of nodes that the pod does without."""

    ports: tuple[str, ...]  #: such as 9100/TCP


class DropHostPorts(RemedyOf[PortsChange], frozen=True, kw_only=True, tag="drop-host-ports"):
    """Leave out host ports that other pods have."""


class TolerationChange(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Taints that the pod is to tolerate, KEY=VALUE:EFFECT."""

    taints: tuple[str, ...]
    #: one of them keeps nodes free for other pods, such as those that request what only these nodes have
    for_others: bool = False


class TolerateTaint(RemedyOf[TolerationChange], frozen=True, kw_only=True, tag="tolerate-taint"):
    """Tolerate taints of a node."""


class SelectorChange(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of the pod on node labels, KEY=VALUE."""

    where: Literal["nodeSelector", "nodeAffinity"]  #: nodeSelector or nodeAffinity
    old: str = named(name="from")
    to: str | None  #: null for a condition that is left out
    is_met: bool = False  #: some node has such a label, so that it is probably meant as it is


class CorrectSelector(RemedyOf[SelectorChange], frozen=True, kw_only=True, tag="correct-selector"):
    """Select a label that nodes have."""


class NameChange(Document, frozen=True, kw_only=True):
    """A name that the pod, or something that it uses, refers to."""

    what: str  #: such as claim, storage class, scheduler, toleration, topologyKey
    of: str = ""  #: the object whose reference it is; empty for the pod itself
    old: str = named(name="from")
    to: str


class CorrectName(RemedyOf[NameChange], frozen=True, kw_only=True, tag="correct-name"):
    """Refer to something that exists."""


class NamespaceAddition(Document, frozen=True, kw_only=True):
    """A namespace that a required affinity to other pods is to search as well."""

    namespace: str
    selector: str  #: the label selector of the term, which matches pods there
    topology_key: str


class SearchNamespace(RemedyOf[NamespaceAddition], frozen=True, kw_only=True, tag="search-namespace"):
    """Add the namespace in which the other pods run to the term's ``namespaces``."""


Policy = Literal["nodeTaintsPolicy", "nodeAffinityPolicy"]


class PolicyChange(Document, frozen=True, kw_only=True):
    """A policy of a topology spread constraint that becomes Honor."""

    policy: Policy
    topology_key: str


class HonorPolicy(RemedyOf[PolicyChange], frozen=True, kw_only=True, tag="honor-policy"):
    """Spread only over the domains of nodes on which the pod may run."""


class MissingObject(Document, frozen=True, kw_only=True):
    """An object that does not exist."""

    what: str
    name: str


class CreateObject(RemedyOf[MissingObject], frozen=True, kw_only=True, tag="create"):
    """Create a missing object."""


class Awaited(Document, frozen=True, kw_only=True):
    """Something under way after which the pod runs, or is scheduled, without anybody's doing."""

    #: node (it is being set up), pod (it ends), gates (the named controller removes them), claim (it is being deleted,
    #: once no pod uses it), or volume (it is kept for a claim that is gone)
    what: Literal["node", "pod", "gates", "claim", "volume"]
    #: of the node or volume, NAMESPACE/NAME of the pod or claim, or the name of the controller, such as Kueue
    name: str
    #: keys of the node's taints that go away then, the node of the pod, the gates, the pod or the claim that keeps it
    because: tuple[str, ...] = ()


class Await(RemedyOf[Awaited], frozen=True, kw_only=True, tag="wait"):
    """Wait for what is under way already."""

    command: str = ""  #: shows how far it is


class GateChange(Document, frozen=True, kw_only=True):
    """Scheduling gates that are removed."""

    gates: tuple[str, ...]


class RemoveGates(RemedyOf[GateChange], frozen=True, kw_only=True, tag="remove-gates"):
    """Have whoever set scheduling gates remove them, so that the pod is scheduled."""


class NodeChange(Document, frozen=True, kw_only=True):
    """A node that is uncordoned."""

    node: str


class Uncordon(RemedyOf[NodeChange], frozen=True, kw_only=True, tag="uncordon"):
    """Uncordon a node."""

    also: tuple[NodeChange, ...] | UnsetType = UNSET  #: further nodes that must be uncordoned with it; absent for none


class NodeRepair(Document, frozen=True, kw_only=True):
    """A node that would take the pod if it were well."""

    node: str
    taints: tuple[str, ...]  #: keys of taints that state what is wrong with it, also of one that it is to get
    message: str | UnsetType = UNSET  #: why it is not ready, as its kubelet says; absent where none says so
    #: resource, capacity: what it has, and how much, while less is allocatable: its device plugin does not work
    resource: str = ""
    capacity: str = ""
    allocatable: str = "0"
    hanging: tuple[str, ...] | UnsetType = UNSET  #: pods, as NAMESPACE/NAME, that its kubelet does not end in time


class RepairNode(RemedyOf[NodeRepair], frozen=True, kw_only=True, tag="repair-node"):
    """Make a node ready again, or free what it is short of."""


Rule = Literal["topologySpreadConstraints", "podAffinity", "podAntiAffinity"]


class RuleChange(Document, frozen=True, kw_only=True):
    """A rule that is required and becomes preferred."""

    rule: Rule
    topology_key: str
    min_domains: Positive | UnsetType = UNSET  #: so many domains are enough then, and the rule stays; else absent


class NodeAddition(Document, frozen=True, kw_only=True, omit_defaults=True):
    """New nodes that equal an existing one."""

    nodes: Positive
    like: str
    #: the pods claim devices, which the nodes have to bring; absent where they claim none
    devices: Literal[True] | UnsetType = UNSET
    #: KEY=VALUE of labels that differ, as the pods require them; KEY alone for one that no node has, each its own
    labels: tuple[str, ...] = ()
    room: tuple[str, ...] = ()  #: RESOURCE=AMOUNT of what is to be allocatable, where no node has as much


class RelaxRule(RemedyOf[RuleChange], frozen=True, kw_only=True, tag="relax"):
    """Prefer where the pod requires now: ScheduleAnyway, or preferredDuringScheduling."""


class MovedPod(Document, frozen=True, kw_only=True):
    """A running pod that is moved to make room."""

    pod: str
    node: str
    goes_to: str  #: where it fits as well
    #: NAMESPACE/NAME of the disruption budgets that count it; all of them allow its disruption
    budgets: tuple[str, ...] = ()
    of_others: str = ""  #: NAMESPACE/NAME of its workload, where that is of another namespace than the pod that waits


class MovePod(RemedyOf[MovedPod], frozen=True, kw_only=True, tag="move-pod"):
    """Move a running pod that fits elsewhere."""

    also: tuple[MovedPod, ...] | UnsetType = UNSET  #: further pods that must be moved with it; absent for none


class AddNodes(RemedyOf[NodeAddition], frozen=True, kw_only=True, tag="add-nodes"):
    """Add nodes."""


class PoolChange(Document, frozen=True, kw_only=True):
    """What an autoscaler may add besides."""

    pools: tuple[str, ...]  #: names of the NodePools or node groups that change
    text: str  #: the change in words, as that of the change ``pool``


class WidenPool(RemedyOf[PoolChange], frozen=True, kw_only=True, tag="pool"):
    """Let an autoscaler add more."""


class PriorityChange(Document, frozen=True, kw_only=True):
    """A priority at which the pod may evict others."""

    old: int = named(name="from")
    to: int
    priority_class: str  #: a class that has it
    evicts: tuple[str, ...]  #: pods that would be evicted
    #: NAMESPACE/NAME of the disruption budgets that count one of these; all of them allow it
    budgets: tuple[str, ...] = ()
    #: NAMESPACE/NAME of the PodGroup that has to name the class besides its pods; absent for a pod on its own
    group: str | UnsetType = UNSET


class RaisePriority(RemedyOf[PriorityChange], frozen=True, kw_only=True, tag="raise-priority"):
    """Raise the priority of the pod, so that it may evict others."""


class ReplicasChange(Document, frozen=True, kw_only=True):
    """A workload with another number of replicas, such as Deployment default/web."""

    workload: str
    old: Positive = named(name="from")
    to: Positive
    #: autoscaler, min_replicas, max_replicas: the HorizontalPodAutoscaler that would set the number back, and the
    #: bounds that it gets so that it does not; absent without one, and where a bound stays
    autoscaler: str | UnsetType = UNSET
    min_replicas: Count | UnsetType = UNSET
    max_replicas: Count | UnsetType = UNSET

    @classmethod
    def between(cls, workload: WorkloadRef, old: int, to: int, bounds: Bounds | None) -> Self:
        """Return a change of a workload with these bounds of its autoscaler, if it has one."""
        change = cls(workload=workload.title, old=old, to=to)
        return change if bounds is None else replace(change, autoscaler=bounds.name, **bounds.to_keep(old, to))

    @property
    def bounds_words(self) -> str:
        return bounds_words(self.autoscaler or "", self.min_replicas, self.max_replicas)


def bounds_words(autoscaler: str, lowest: int | UnsetType, highest: int | UnsetType) -> str:
    """Return which bounds an autoscaler gets so that it keeps a number of replicas, in parentheses; empty for none."""
    bounds = {"minReplicas": lowest, "maxReplicas": highest}
    texts = [f"{field} {bound}" for field, bound in bounds.items() if bound is not UNSET]
    return f" ({' and '.join(texts)} in autoscaler {autoscaler})" if texts else ""


class LowerReplicas(RemedyOf[ReplicasChange], frozen=True, kw_only=True, tag="lower-replicas"):
    """Lower the number of replicas to those that fit."""


class MoreReplicas(RemedyOf[ReplicasChange], frozen=True, kw_only=True, tag="more-replicas"):
    """Run more replicas first, so that a disruption budget lets one go."""


class BudgetChange(Document, frozen=True, kw_only=True):
    """A field of a disruption budget."""

    budget: str  #: NAMESPACE/NAME
    old: str = named(name="from")  #: the field as it is, such as ``minAvailable: 3``; empty where it is not set
    to: str  #: the field as it has to be


class ChangeBudget(RemedyOf[BudgetChange], frozen=True, kw_only=True, tag="change-budget"):
    """Change what a disruption budget asks for."""


class RolloutChange(Document, frozen=True, kw_only=True):
    """How a rollout goes, such as ``maxUnavailable: 1`` instead of ``maxUnavailable: 0``."""

    workload: str
    replicas: Positive  #: of which one may be missing meanwhile
    old: str = named(name="from")
    to: str


class AllowUnavailable(RemedyOf[RolloutChange], frozen=True, kw_only=True, tag="allow-unavailable"):
    """Let a rollout delete old pods before the new ones run."""


class MinCountChange(Document, frozen=True, kw_only=True):
    """Fewer pods of a gang that must fit at the same time."""

    group: str  #: NAMESPACE/NAME of the PodGroup
    old: Positive = named(name="from")
    to: Positive


class LowerMinCount(RemedyOf[MinCountChange], frozen=True, kw_only=True, tag="lower-min-count"):
    """Create a PodGroup anew with the largest ``minCount`` with which its gang starts; the field is immutable."""


class MemberAddition(Document, frozen=True, kw_only=True):
    """Further pods of a group, like those that it has."""

    group: str  #: NAMESPACE/NAME of the PodGroup
    pods: Positive


class AddMembers(RemedyOf[MemberAddition], frozen=True, kw_only=True, tag="add-members"):
    """Create the pods that are missing in a gang."""


class TopologyRelease(Document, frozen=True, kw_only=True):
    """A topology constraint of a PodGroup that is left out."""

    group: str  #: NAMESPACE/NAME of the PodGroup
    key: str  #: the label that need not have one value any more


class DropTopology(RemedyOf[TopologyRelease], frozen=True, kw_only=True, tag="drop-topology"):
    """Create a PodGroup anew without its topology constraint, which is immutable."""


Single = (
    LowerRequest
    | DropHostPorts
    | SearchNamespace
    | HonorPolicy
    | TolerateTaint
    | CorrectSelector
    | CorrectName
    | CreateObject
    | Await
    | RemoveGates
    | Uncordon
    | RepairNode
    | RelaxRule
    | MovePod
    | WidenPool
    | AddNodes
    | RaisePriority
    | LowerReplicas
    | MoreReplicas
    | ChangeBudget
    | AllowUnavailable
    | LowerMinCount
    | AddMembers
    | DropTopology
)
"""Every remedy that changes one thing."""


class Together(RemedyBase, frozen=True, kw_only=True, tag="together"):
    """Changes of which none helps without the others, in the order in which they are made."""

    changes: tuple[Single, ...]


Remedy = Single | Together  #: every remedy; the tag ``kind`` tells them apart in JSON

WEIGHTS: Mapping[type[RemedyBase], int] = {
    Await: 0,
    CorrectName: 1,
    SearchNamespace: 1,
    AddMembers: 1,
    AllowUnavailable: 1,
    CreateObject: 1,
    RemoveGates: 1,
    HonorPolicy: 1,
    Uncordon: 1,
    RepairNode: 1,
    MovePod: 2,
    WidenPool: 4,
    AddNodes: 5,
    TolerateTaint: 6,
    DropHostPorts: 6,
    RelaxRule: 6,
    CorrectSelector: 6,
    DropTopology: 6,
    LowerReplicas: 8,
    RaisePriority: 8,
    LowerRequest: 9,
    LowerMinCount: 10,
}
"""How much each disturbs, which is the order in which an expert tries them: of equal ones, as they are offered.

What is under way comes first, then mistakes, nodes that are there, the place of pods that run elsewhere as well, new
nodes, what the pod asks for, fewer replicas, the place of others for good, and last with how much less it could do.
"""

_MEANT, _FOR_OTHERS = 7, 11
"""Of what is probably meant as it is: a condition that some node meets, and a taint for other pods."""


def parts_of(remedy: Remedy) -> tuple[Single, ...]:
    """Return the changes of a remedy, each of which is one by itself."""
    return remedy.changes if isinstance(remedy, Together) else (remedy,)


def rank_of(remedy: Remedy) -> tuple[bool, int]:
    """Return the place of a remedy: what helps all pods comes first, then what disturbs least."""
    helps_all = not remedy.helps or remedy.helps.pods == remedy.helps.of  # as far as is known
    return isinstance(remedy, LowerReplicas) or not helps_all, weight_of(remedy)


def weight_of(remedy: RemedyBase) -> int:
    """Return how much a remedy disturbs, `WEIGHTS`: a misspelt label is a misspelt name."""
    match remedy:
        case Together(changes=changes):
            return max(map(weight_of, changes)) + len(changes) - 1
        case CorrectSelector(change=change) if change.to is not None:
            return WEIGHTS[CorrectName]
        case CorrectSelector(change=SelectorChange(is_met=True)):
            return _MEANT
        case TolerateTaint(change=TolerationChange(for_others=True)):
            return _FOR_OTHERS
        case _:
            return WEIGHTS[type(remedy)]
