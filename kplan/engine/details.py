"""Why a plugin rejects a node, in numbers and names; the sentence for each stands in `kplan.report.details`.

Quantities are strings in Kubernetes form. A plugin from outside describes its rejections with `OtherFacts`.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from kplan.api.quantity import listing
from kplan.facts import Count, Document
from kplan.rules.resources import quantity_text

Code = Literal["Unschedulable", "UnschedulableAndUnresolvable", "Error"]
"""Unschedulable: preemption may help; UnschedulableAndUnresolvable: it cannot; Error: the plugin could not tell."""


class DetailBase(Document, frozen=True, kw_only=True, tag_field="kind"):
    """The fields that all details share."""

    reason: str = ""  #: the reason that it belongs to, as kube-scheduler writes it


class InsufficientResource(DetailBase, frozen=True, kw_only=True, tag="resource"):
    """A resource of which too little is free."""

    resource: str
    requested: str
    free: str
    allocatable: str
    short: str
    capacity: str | UnsetType = UNSET  #: what the node has, where none of it is allocatable; absent otherwise


def insufficient(reason: str, resource: str, requested: int, allocatable: int, used: int) -> InsufficientResource:
    """Return the detail of a resource from amounts in the scheduler's units."""
    amounts = (requested, allocatable - used, allocatable, requested - allocatable + used)
    wanted, free, in_all, short = (quantity_text(resource, amount) for amount in amounts)
    return InsufficientResource(
        reason=reason, resource=resource, requested=wanted, free=free, allocatable=in_all, short=short
    )


class MissingResource(DetailBase, frozen=True, kw_only=True, tag="missing-resource"):
    """A resource that the node does not offer, neither itself nor as devices."""

    resource: str
    requested: str


class UntoleratedTaint(DetailBase, frozen=True, kw_only=True, tag="taint"):
    """A taint that the pod does not tolerate."""

    taint: str  #: KEY=VALUE:EFFECT
    unschedulable: bool | UnsetType = UNSET  #: true for a node that is cordoned


class UnmatchedNodeSelector(DetailBase, frozen=True, kw_only=True, tag="node-selector"):
    """An entry of the pod's nodeSelector that the node does not match."""

    node_selector: str  #: KEY=VALUE
    actual: str | None  #: the node's value; null when it has no such label


class FailedCondition(Document, frozen=True):
    """A condition of a node affinity term that a node does not meet."""

    condition: str
    actual: str | None = None  #: the node's value; null when it has no such label
    is_name: bool = False  #: the condition is about the node's name


class UnmatchedNodeAffinity(DetailBase, frozen=True, kw_only=True, tag="node-affinity"):
    """A node affinity term that the node does not match."""

    term: str
    failed: tuple[str, ...]  #: the conditions that fail, with what the node has instead
    conditions: tuple[FailedCondition, ...] = ()  #: the same as facts; empty where the term itself is wrong


class OtherNodeName(DetailBase, frozen=True, kw_only=True, tag="node-name"):
    """A node that is not the one of the pod's nodeName."""

    requested: str
    node: str


class UndeclaredFeature(DetailBase, frozen=True, kw_only=True, tag="feature"):
    """A feature that the pod needs and the node does not declare."""

    feature: str


class TakenHostPort(DetailBase, frozen=True, kw_only=True, tag="host-port"):
    """A host port that other pods use."""

    host_ip: str = field(name="hostIP")
    protocol: str
    host_port: int
    pods: tuple[str, ...]  #: some of them
    and_more: Count | UnsetType = UNSET  #: how many others; absent for none


class SpreadLabelMissing(DetailBase, frozen=True, kw_only=True, tag="spread-label"):
    """A node without the topologyKey label of a topology spread constraint."""

    topology_key: str
    max_skew: int
    label_selector: str
    missing_label: str


class TooMuchSkew(DetailBase, frozen=True, kw_only=True, tag="skew"):
    """A topology spread constraint that the pod would violate."""

    topology_key: str
    max_skew: int
    label_selector: str
    domain: str
    matching_pods: int  #: in the node's domain
    self_match: int  #: 1 where the constraint selects the pod itself, else 0
    minimum: int  #: matching pods in the emptiest domain
    skew: int
    domains: int  #: how many there are
    min_domains: int | UnsetType = UNSET  #: absent where there are enough domains
    emptiest_domains: tuple[str, ...] | UnsetType = UNSET  #: absent where there are too few domains


class PodTerm(Document, frozen=True, kw_only=True):
    """The pods that an affinity term selects."""

    label_selector: str
    namespaces: tuple[str, ...] | Literal["all"]  #: their names, or all
    namespace_selector: str | UnsetType = UNSET


class AffinityLabelMissing(DetailBase, frozen=True, kw_only=True, tag="affinity-label"):
    """A node without the topologyKey label of a pod affinity term."""

    topology_key: str
    terms: tuple[PodTerm, ...]
    missing_label: str


class UnmetAffinity(DetailBase, frozen=True, kw_only=True, tag="affinity"):
    """A pod affinity term that finds no pod in the node's domain."""

    topology_key: str
    terms: tuple[PodTerm, ...]
    domain: str
    matching_pods: Count = 0
    domains_with_matching_pods: tuple[str, ...]  #: some of them
    and_more: Count = 0  #: how many others


class AntiAffinity(DetailBase, frozen=True, kw_only=True):
    """Pods in the node's domain that anti-affinity keeps apart from the pod."""

    topology_key: str
    domain: str
    terms: tuple[PodTerm, ...]
    matching_pods: Count
    pods: tuple[str, ...]  #: some of them
    and_more: Count = 0  #: how many others

    @property
    def pods_in_domain(self) -> str:
        """The pods and where they are, as sentences name them."""
        return f"{listing(self.pods, self.and_more)} in {self.topology_key}={self.domain}"


class OwnAntiAffinity(AntiAffinity, frozen=True, kw_only=True, tag="anti-affinity"):
    """Pods in the node's domain that the pod's own anti-affinity selects."""


class ForeignAntiAffinity(AntiAffinity, frozen=True, kw_only=True, tag="existing-anti-affinity"):
    """Pods in the node's domain whose anti-affinity selects the pod."""


class MountedDisk(DetailBase, frozen=True, kw_only=True, tag="disk"):
    """A disk that other pods on the node mount already."""

    type: str
    disk: str
    read_only: bool
    pods: tuple[str, ...]  #: some of them
    and_more: Count | UnsetType = UNSET  #: how many others; absent for none


class ClaimInUse(DetailBase, frozen=True, kw_only=True, tag="claim-in-use"):
    """A claim for one pod only (ReadWriteOncePod) that another pod uses."""

    claim: str
    used_by: tuple[str, ...]  #: pods and their nodes, some of them
    and_more: Count | UnsetType = UNSET  #: how many others; absent for none


class OtherVolumeZone(DetailBase, frozen=True, kw_only=True, tag="volume-zone"):
    """A volume that is in another zone or region than the node."""

    volume: str
    label: str
    allowed: tuple[str, ...]
    node: str | None  #: the node's value of that label; null for none


class TooManyVolumes(DetailBase, frozen=True, kw_only=True, tag="volume-limit"):
    """A driver that would attach more volumes to the node than it can."""

    driver: str
    limit: str
    used: str
    attached_without_pod: str
    new: str
    short: str
    volumes: tuple[str, ...]


class MissingDriver(DetailBase, frozen=True, kw_only=True, tag="missing-driver"):
    """A CSI driver that is not installed on the node and keeps pods with its volumes off such nodes."""

    driver: str


class UnreachableVolume(DetailBase, frozen=True, kw_only=True, tag="volume-affinity"):
    """A volume that cannot be reached from the node."""

    claim: str
    volume: str
    requires: tuple[str, ...]  #: the terms of its node affinity


class LostVolume(DetailBase, frozen=True, kw_only=True, tag="lost-volume"):
    """A claim that is bound to a volume that does not exist."""

    claim: str
    volume: str


class UnboundClaim(DetailBase, frozen=True, kw_only=True, tag="claim"):
    """A claim for which there is no volume on the node."""

    claim: str
    storage_class: str
    requested: str  #: storage
    selected_node: str | UnsetType = UNSET  #: the node for which its volume is being provisioned
    largest_volume: str | UnsetType | None = UNSET  #: the largest volume that can be provisioned there; null for none
    promised_volume: str | UnsetType = UNSET  #: the volume that is reserved for it, and cannot be used there
    volumes_rejected: dict[str, str] | UnsetType = UNSET  #: why -> how many existing volumes
    provisioner: str | UnsetType = UNSET  #: of its class
    provisions: bool | UnsetType = UNSET  #: false where it creates no new volumes
    allowed_topologies: tuple[str, ...] | UnsetType = UNSET  #: where it creates them


class MissingDevices(DetailBase, frozen=True, kw_only=True, tag="devices"):
    """A request for devices that the node cannot satisfy."""

    claim: str
    request: str
    device_class: str
    wanted: str  #: a number, or all
    matching: str  #: devices that its class and selectors match
    free: str  #: those of them that are not allocated
    held_by: tuple[str, ...] = ()  #: NAMESPACE/NAME of pods that have the others, or of claims that no pod uses
    tainted: tuple[str, ...] | UnsetType = UNSET  #: KEY=VALUE:EFFECT of taints for which the others are not free


class UnavailableClaim(DetailBase, frozen=True, kw_only=True, tag="allocated-claim"):
    """A claim whose devices cannot be used from the node."""

    claim: str
    used_by: tuple[str, ...] = ()  #: NAMESPACE/NAME of the pods for which it is reserved
    usable_on: tuple[str, ...] = ()  #: the first nodes from which they can be used
    and_more: int = 0  #: how many more such nodes there are

    @property
    def where(self) -> str:
        """On which nodes they can be used, and who has them there."""
        users = f", where {listing(self.used_by)} {'has' if len(self.used_by) == 1 else 'have'} them"
        return listing(self.usable_on, self.and_more) + (users if self.used_by else "")


class OtherFacts(DetailBase, frozen=True, kw_only=True, tag="other"):
    """The facts of a plugin from outside."""

    facts: dict[str, Any]  #: names in camelCase -> JSON values


Detail = (
    InsufficientResource
    | MissingResource
    | UntoleratedTaint
    | UnmatchedNodeSelector
    | UnmatchedNodeAffinity
    | OtherNodeName
    | UndeclaredFeature
    | TakenHostPort
    | SpreadLabelMissing
    | TooMuchSkew
    | AffinityLabelMissing
    | UnmetAffinity
    | OwnAntiAffinity
    | ForeignAntiAffinity
    | MountedDisk
    | ClaimInUse
    | OtherVolumeZone
    | TooManyVolumes
    | MissingDriver
    | UnreachableVolume
    | LostVolume
    | UnboundClaim
    | MissingDevices
    | UnavailableClaim
    | OtherFacts
)
"""Every detail; the tag ``kind`` tells them apart in JSON."""
