"""New pods as controllers create them: their claims, the nodes of a daemon set, and what is added to templates."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import (
    NAME_FIELD,
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
    Tolerations,
    compile_node_selector,
    required_node_affinity,
)
from kplan.api.core import Node, PersistentVolumeClaim, Pod, PodSpec, PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.labels import (
    DISK_PRESSURE,
    JOB_NAME,
    LEGACY_JOB_NAME,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    TEMPLATE_HASH,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from kplan.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kplan.api.pod import PodResourceClaimStatus
from kplan.api.resource import ResourceClaim
from kplan.api.storage import PersistentVolumeClaimVolumeSource, Volume
from kplan.api.workloads import DaemonSet, ReplicaSet, ReplicaSetMeta, ReplicaSetSpec, StatefulSet
from kplan.snapshot.defaults import with_default_class
from kplan.snapshot.model import Snapshot


def stateful_claims(
    obj: StatefulSet, pod: Pod, snapshot: Snapshot, known: Container[tuple[str, str]] | None = None
) -> tuple[Pod, list[PersistentVolumeClaim]]:
    """Return the pod with its claims as volumes, and the claims among them that the cluster does not have yet.

    Of several claim templates with one name the last one counts. Upstream: getPersistentVolumeClaims, updateStorage.

    `known`: (namespace, name) of the claims that the cluster has; None for those of the snapshot.
    """
    if not obj.spec.volume_claim_templates:
        return pod, []
    if known is None:
        known = {(claim.metadata.namespace, claim.metadata.name) for claim in snapshot.persistent_volume_claims}
    namespace = pod.metadata.namespace
    selected = obj.spec.selector.match_labels if obj.spec.selector is not None else {}
    volumes: list[Volume] = []
    claims: list[PersistentVolumeClaim] = []
    for template in {template.metadata.name: template for template in obj.spec.volume_claim_templates}.values():
        name = f"{template.metadata.name}-{pod.metadata.name}"
        source = PersistentVolumeClaimVolumeSource(claim_name=name)
        volumes.append(Volume(name=template.metadata.name, persistent_volume_claim=source))
        if (namespace, name) not in known:
            labels = {**template.metadata.labels, **selected}
            metadata = replace(template.metadata, name=name, namespace=namespace, labels=labels)
            claim = PersistentVolumeClaim(metadata=metadata, spec=template.spec)
            claims.append(with_default_class(claim, snapshot.storage_classes))
    replaced = {volume.name for volume in volumes}
    others = tuple(volume for volume in pod.spec.volumes if volume.name not in replaced)
    return replace(pod, spec=replace(pod.spec, volumes=(*volumes, *others))), claims


def generated_claims(pod: Pod, snapshot: Snapshot) -> tuple[Pod, list[msgspec.Struct]]:
    """Return the pod and the claims that controllers create for it, for volumes and for devices.

    The pod needs a uid, because the owner references of its claims hold it.
    """
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
    objects: list[msgspec.Struct] = []
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None:
            metadata = ObjectMeta(
                name=f"{pod.metadata.name}-{volume.name}",
                namespace=pod.metadata.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=(owner,),
            )
            claim = PersistentVolumeClaim(metadata=metadata, spec=template.spec)
            objects.append(with_default_class(claim, snapshot.storage_classes))
    known = {(one.metadata.namespace, one.metadata.name): one.spec for one in snapshot.resource_claim_templates}
    statuses = {status.name: status for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        spec = known.get((pod.metadata.namespace, entry.resource_claim_template_name or ""))
        if spec is not None and entry.name not in statuses:
            name = f"{pod.metadata.name}-{entry.name}"
            metadata = replace(
                spec.metadata, name=name, namespace=pod.metadata.namespace, uid=name, owner_references=(owner,)
            )
            objects.append(ResourceClaim(metadata=metadata, spec=spec.spec))
            statuses[entry.name] = PodResourceClaimStatus(name=entry.name, resource_claim_name=name)
    if pod.spec.resource_claims:
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses.values())))
    return pod, objects


_EXISTS = "Exists"
_HARD = frozenset({"NoSchedule", "NoExecute"})
_ALWAYS_TOLERATED = (
    Toleration(key=NOT_READY, operator=_EXISTS, effect="NoExecute"),
    Toleration(key=UNREACHABLE, operator=_EXISTS, effect="NoExecute"),
    Toleration(key=DISK_PRESSURE, operator=_EXISTS, effect="NoSchedule"),
    Toleration(key=MEMORY_PRESSURE, operator=_EXISTS, effect="NoSchedule"),
    Toleration(key=PID_PRESSURE, operator=_EXISTS, effect="NoSchedule"),
    Toleration(key=UNSCHEDULABLE, operator=_EXISTS, effect="NoSchedule"),
)
_ON_HOST_NETWORK = Toleration(key=NETWORK_UNAVAILABLE, operator=_EXISTS, effect="NoSchedule")


def template_pod(template: PodTemplateSpec, name: str, namespace: str, owner: OwnerReference | None) -> Pod:
    owners = () if owner is None else (owner,)
    metadata = replace(template.metadata, name=name, namespace=namespace, owner_references=owners)
    return Pod(metadata=metadata, spec=template.spec)


def with_tolerations(pod: Pod) -> Pod:
    added = (*_ALWAYS_TOLERATED, _ON_HOST_NETWORK) if pod.spec.host_network else _ALWAYS_TOLERATED
    own = pod.spec.tolerations
    return replace(
        pod, spec=replace(pod.spec, tolerations=(*own, *(toleration for toleration in added if toleration not in own)))
    )


def eligibilities(template: PodTemplateSpec, nodes: Iterable[Node]) -> Iterator[tuple[bool, bool]]:
    """Yield for each node whether it needs a pod of the template, and whether a pod that runs there may stay.

    The controller asks for names, selectors and taints, not for resources.
    """
    spec = with_tolerations(Pod(metadata=template.metadata, spec=template.spec)).spec
    own, required = Tolerations(spec.tolerations), required_node_affinity(spec.affinity)
    selector = None if required is None else compile_node_selector(required)
    for node in nodes:
        name, labels = node.metadata.name, node.metadata.labels
        untolerated = {taint.effect for taint in node.spec.taints if not own.tolerate(taint)}
        is_selected = (
            spec.node_name in ("", name)
            and all(labels.get(key) == value for key, value in spec.node_selector.items())
            and (selector is None or selector.matches(labels, name))
        )
        yield is_selected and untolerated.isdisjoint(_HARD), is_selected and "NoExecute" not in untolerated


def runs_on(template: PodTemplateSpec, node: Node) -> bool:
    return next(eligibilities(template, (node,)))[0]


def new_daemon_pod(obj: DaemonSet, name: str, uid: str) -> Pod:
    """Return a pod of a daemon set as its controller creates it, but for the node for which it is."""
    template, own = obj.spec.template, obj.metadata
    owner = OwnerReference(api_version="apps/v1", kind=DAEMON_SET, name=own.name, uid=own.uid, controller=True)
    pod = with_tolerations(template_pod(template, name, own.namespace, owner))
    return replace(pod, metadata=replace(pod.metadata, uid=uid))


def pinned(pod: Pod, node_name: str) -> Pod:
    """Return the pod with the controller's required node affinity for one node name, in place of its own terms."""
    by_name = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(node_name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(by_name,)),))
    return replace(pod, spec=requiring(pod.spec, required))


def requiring(spec: PodSpec, required: NodeSelector) -> PodSpec:
    """Return a spec with a required node affinity in place of its own."""
    affinity = spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def with_job_name(template: PodTemplateSpec, name: str) -> PodTemplateSpec:
    """Return the template of a new job with the labels by which the job finds its pods; labels of its own stay.

    Upstream: pkg/registry/batch/job/strategy.go generateSelector, without the uid labels: the job has no uid yet.
    """
    labels = {JOB_NAME: name, LEGACY_JOB_NAME: name, **template.metadata.labels}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def with_template_hash(template: PodTemplateSpec, digest: str) -> PodTemplateSpec:
    """Return the template of a deployment as its replica set has it: pods carry the hash of the template as a label."""
    labels = {**template.metadata.labels, TEMPLATE_HASH: digest}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def replica_set_of(
    owner: OwnerReference, namespace: str, template: PodTemplateSpec, selector: LabelSelector | None, digest: str
) -> ReplicaSet:
    """Return the replica set that a deployment makes of a template with this hash; it wants no pods yet."""
    own, selector = with_template_hash(template, digest), selector or LabelSelector()
    name, labels = f"{owner.name}-{digest}", own.metadata.labels
    selector = replace(selector, match_labels={**selector.match_labels, TEMPLATE_HASH: digest})
    metadata = ReplicaSetMeta(name=name, namespace=namespace, labels=labels, owner_references=(owner,))
    return ReplicaSet(metadata=metadata, spec=ReplicaSetSpec(replicas=0, selector=selector, template=own))
