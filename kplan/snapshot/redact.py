"""Redacted snapshots, which can be shown to others: the same decisions, without the names.

Replaced, each text by the same pseudonym everywhere: names of all objects, namespaces, containers, volumes,
devices and requests; values of labels, taints and selectors; images; UIDs; volume handles and addresses. Removed:
messages, paths, names of secrets and config maps, addresses of services, provider and node IDs, the source of the
snapshot.

Kept, since decisions or their explanation hang on it, is what :data:`KEPT` lists; the file lists it, too. A scheduler
configuration's ``addedAffinity`` is not part of a snapshot: its label values do not match any more.

Pseudonyms sort as the originals do, so that whatever is decided by name comes out the same. This tells the order of the
names, and nothing else about them.

Every field that holds text has a rule, by its name or with the fields on which it depends, or its name is listed as
harmless; a field without either is an error, so that no new field leaks. `kplan.snapshot.pseudonyms` says what becomes
of single texts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, inspect
from msgspec.structs import replace

from kplan.api import affinity, core, meta, pod, provisioning, resource, scheduling, storage, workloads
from kplan.api.core import HEADLESS
from kplan.api.kinds import type_of
from kplan.api.labels import REVISION_HASH
from kplan.api.pod import PodAnnotations
from kplan.api.time import from_micros, seconds
from kplan.facts import MissingKind
from kplan.reading.yaml import YamlProblem, read_yaml
from kplan.snapshot.build import build_snapshot
from kplan.snapshot.model import FORBIDDEN, FORBIDDEN_IN, READ_IN, Snapshot
from kplan.snapshot.own_file import DECIDING_ANNOTATIONS, short_resource
from kplan.snapshot.pseudonyms import Pseudonyms, Words

#: What stays as it was, for people who decide whether to show the file. The help of `kplan snapshot save` says so, too.
KEPT = (
    "quantities, numbers, times, versions, phases and reasons",
    "keys of labels, taints, annotations and selectors, and annotations about storage",
    "names of resources, drivers, provisioners, schedulers, scheduling gates, finalizers, conditions and API groups",
    "values of the labels for operating system, architecture, Windows build, instance type and capacity type",
    "label values that are compared as numbers (Gt, Lt), short numbers in labels of nodes, true and false",
    "the priority classes that every cluster has",
    "attributes, capacities and counters of devices, and the CEL expressions over them",
    "the alphabetical order of the names that are replaced, and which of them are the same",
)

#: The warning that only reading the cluster raises; building the redacted snapshot raises all others again.
_KEPT_WARNING = "InconsistentList"

_SOURCE = "redacted"  #: the source of a redacted snapshot
_LABEL = re.compile(r"(?P<key>[^=]*)=(?P<value>[^=]*)(?P<rest>)")
_TAINT = re.compile(r"(?P<key>[^=:]*)=(?P<value>[^=:]*)(?P<rest>:[A-Za-z]+)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Fields whose texts are enums, times, versions, quantities, or keys of labels, taints and resources.
KEPT_FIELDS = _words(
    """
    access_modes action allocation_mode allocation_timestamp api_group api_version attacher azure_kind
    binding_conditions binding_failure_conditions capacity_key completed_indexes completion_mode completion_time
    concurrency_policy consolidate_after consolidation_policy counter_set cpu creation_timestamp daemon_set_pod
    declared_features deletion_cost deletion_timestamp desired_replicas distinct_attribute do_not_disrupt driver
    duration effect ephemeral_disk expire_after extended_resource_name external_traffic_policy failed_indexes finalizers
    finished_at fs_type gpu_count gpu_type group internal_traffic_policy ip_families ip_family_policy
    job_completion_index job_index_failure_count job_index_ignored_failure_count key kind kubelet_version
    last_heartbeat_time last_pod_event_time last_schedule_time last_transition_time managed_by match_attribute
    match_label_keys max_pods max_replicas max_size max_surge max_unavailable medium memory min_available min_size
    mirror mismatch_label_keys node_affinity_policy node_taints_policy nodes operator persistent_volume_reclaim_policy
    phase pod_management_policy pod_replacement_policy preemption_policy price price_adjustment protocol provisioner
    qos_class reason reasons reclaim_policy renew_time resource resource_name resource_version restart_policy
    safe_to_evict scale_down_disabled scale_up_delay schedule scheduler_name scope_name scopes session_affinity
    start_time status succeeded_indexes termination_grace_period time_added time_zone topology_key topology_keys type
    unhealthy_pod_eviction_policy volume_binding_mode volume_mode when_deleted when_scaled when_unsatisfiable
    """
)

Rule = Callable[[Words, Any], Any]  #: redacts the content of one field


def _named(kind: str) -> Rule:
    return lambda words, value: words.name(kind, value)


def _all(rule: Rule) -> Rule:
    return lambda words, values: tuple(rule(words, value) for value in values)


def _keep(_words: Words, value: Any) -> Any:
    return value


def _drop(_words: Words, value: Any) -> Any:
    return "" if isinstance(value, str) else type(value)()


_OF_GROUP = _words(
    "health minSize maxSize cloudProviderTarget nodeCounts registered total ready unready scaleUp status"
)
_STATES = _words("Healthy Unhealthy Backoff InProgress NoActivity")


def _groups(words: Words, text: str) -> str:
    """Keep the sizes of groups in the cluster-autoscaler's status, and whether scale-ups go on or have failed."""
    try:
        content = next((document.value() for document in read_yaml(text.encode(), "status")), None)
    except YamlProblem:
        return ""
    groups = content.get("nodeGroups") if isinstance(content, dict) else None
    named = [one for one in groups if isinstance(one, dict) and one.get("name")] if isinstance(groups, list) else []
    redacted = [{"name": words.node_group(str(one["name"])), **_counts(one)} for one in named]
    return msgspec.json.encode({"nodeGroups": redacted}).decode() if redacted else ""


def _counts(part: dict[str, Any]) -> dict[str, Any]:
    inner = ((key, value) for key, value in part.items() if key in _OF_GROUP)
    counts: dict[str, Any] = {key: _counts(value) for key, value in inner if isinstance(value, dict)}
    counts |= {key: value for key, value in part.items() if key in _OF_GROUP and isinstance(value, int)}
    since = seconds(str(part.get("lastTransitionTime")))
    counts |= {} if since is None else {"lastTransitionTime": from_micros(round(since * 1e6))}
    return counts | ({"status": part["status"]} if part.get("status") in (*_STATES,) else {})


def _address(_words: Words, address: str) -> str:
    return address if address == HEADLESS else ""


def _revision(words: Words, revision: str) -> str:
    return words.value(REVISION_HASH, revision) if revision else ""


def _pairs(words: Words, text: str, form: re.Pattern[str]) -> str:
    """Redact the values of labels or taints in one text; what has another form says nothing, and is removed."""
    matches = filter(None, map(form.fullmatch, text.split(",")))
    return ",".join(f"{one['key']}={words.value(one['key'], one['value'])}{one['rest']}" for one in matches)


#: Annotations that scheduling reads, with the rules for their values; all others are removed.
KEPT_ANNOTATIONS: dict[str, Rule] = {
    **dict.fromkeys(DECIDING_ANNOTATIONS - {"volume.alpha.kubernetes.io/node-affinity"}, _keep),
    "resource.kubernetes.io/pod-claim-name": _named("podclaim"),
    "volume.beta.kubernetes.io/storage-class": _named("StorageClass"),
    "volume.kubernetes.io/selected-node": _named("Node"),
}


def _annotations(words: Words, annotations: dict[str, str]) -> dict[str, str]:
    return {key: KEPT_ANNOTATIONS[key](words, value) for key, value in annotations.items() if key in KEPT_ANNOTATIONS}


def metadata_rule(kind: str) -> Rule:
    """Return the rule for the metadata of an object of a kind."""

    def rule(words: Words, metadata: meta.PlainMeta) -> meta.PlainMeta:
        changes: dict[str, Any] = {
            "name": words.name(kind, metadata.name),
            "generate_name": "",
            "namespace": words.name("Namespace", metadata.namespace),
            "uid": words.uid(metadata.uid),
            "labels": words.labels(metadata.labels),
        }
        if kind == "ControllerRevision":
            changes["name"] = _revision(words, metadata.name)
        if kind == "Node":
            words.node_keys.update(metadata.labels)
        if isinstance(metadata, meta.ObjectMeta):
            changes["annotations"] = _annotations(words, metadata.annotations)
        redacted: meta.PlainMeta = _walk(words, metadata)
        return replace(redacted, **changes)

    return rule


#: Fields of metadata that :func:`metadata_rule` covers.
METADATA_FIELDS = frozenset({"name", "generate_name", "namespace", "uid", "labels", "annotations"})

#: Text field -> its rule, whatever the struct.
FIELD_RULES: dict[str, Rule] = {
    "node_name": _named("Node"),
    "resource_claim_name": _named("ResourceClaim"),
    "resource_claim_template_name": _named("ResourceClaimTemplate"),
    "storage_class_name": _named("StorageClass"),
    "volume_attributes_class_name": _named("VolumeAttributesClass"),
    "device_class_name": _named("DeviceClass"),
    "priority_class_name": _named("PriorityClass"),
    "container_name": _named("container"),
    "device": _named("device"),
    "provider_id": _named("machine"),
    "pool": Words.pool,
    "request": Words.request,
    "share_id": Words.uid,
    "message": _drop,
    "path": _drop,
}

_VOLUME = _named("volume")

#: Fields of a struct, with the rule that comes before those of fields of these names.
_OF_STRUCTS: tuple[tuple[type, str, Rule], ...] = (
    (meta.LabelSelector, "match_labels", Words.labels),
    (affinity.PodAffinityTerm, "namespaces", _all(_named("Namespace"))),
    # Pods
    (core.PodSpec, "runtime_class_name", _named("RuntimeClass")),
    (core.PodSpec, "node_selector", Words.labels),
    (
        PodAnnotations,
        "safe_local_volumes",
        lambda words, names: ",".join(words.name("podvolume", name) for name in names.split(",") if name),
    ),
    (PodAnnotations, "limit_ranger", _drop),
    (core.NodeAnnotations, "like", _drop),
    (core.PodTemplateSpec, "metadata", metadata_rule("Pod")),
    (pod.PodSchedulingGate, "name", _keep),
    (pod.PodOS, "name", _keep),
    (pod.PodSchedulingGroup, "pod_group_name", _named("PodGroup")),
    (core.Container, "name", _named("container")),
    (core.Container, "image", Words.image),
    (pod.ContainerPort, "name", _drop),
    (pod.ContainerPort, "host_ip", Words.host_ip),
    (pod.ContainerStatus, "name", _named("container")),
    (
        workloads.ContainerResourcePolicy,
        "container_name",
        lambda words, name: name if name == "*" else words.name("container", name),
    ),
    (workloads.ContainerResourcePolicy, "mode controlled_resources", _keep),
    (pod.ClaimReference, "name", _named("podclaim")),
    (pod.PodResourceClaim, "name", _named("podclaim")),
    (core.PodStatus, "nominated_node_name", _named("Node")),
    (core.PodStatus, "message", lambda _words, message: short_resource(message)),
    (pod.PodReadinessGate, "condition_type", _keep),
    (pod.PodResourceClaimStatus, "name", _named("podclaim")),
    (pod.ContainerExtendedResourceRequest, "resource_name", Words.resource_name),
    (pod.ContainerExtendedResourceRequest, "request_name", Words.request),
    (pod.NodeAllocatableResourceClaimStatus, "containers", _all(_named("container"))),
    # Nodes
    (core.NodeAnnotations, "machine", _named("Machine")),
    (core.ContainerImage, "names", _all(Words.image)),
    (provisioning.ScalableAnnotations, "labels", lambda words, text: _pairs(words, text, _LABEL)),
    (provisioning.ScalableAnnotations, "taints", lambda words, text: _pairs(words, text, _TAINT)),
    (provisioning.ScalableSpec, "cluster_name", _named("Cluster")),
    (provisioning.MachineTemplate, "metadata", metadata_rule("Machine")),
    (provisioning.NodeReference, "name", _named("Node")),
    (provisioning.NodeClaimTemplate, "metadata", lambda words, own: _walk(words, own)),  # noqa: PLW0108 - defined below
    (provisioning.TemplateReference, "name", _named("PodTemplate")),
    (provisioning.TemplateMeta, "labels", Words.labels),
    (provisioning.TemplateMeta, "annotations", _annotations),
    (core.ConfigMapData, "status", _groups),
    (core.ConfigMapData, "priorities", _drop),
    # Workloads and services
    (core.ServiceSpec, "selector", Words.labels),
    (core.ServiceSpec, "cluster_ip", _address),
    (
        core.ServiceSpec,
        "cluster_ips",
        lambda words, addresses: tuple(filter(None, (_address(words, address) for address in addresses))),
    ),
    (core.ServiceSpec, "external_ips external_name load_balancer_source_ranges", _drop),
    (core.ServiceSpec, "load_balancer_class", _named("LoadBalancerClass")),
    (core.ServiceAccount, "image_pull_secrets", _drop),
    (core.ServiceCIDRSpec, "cidrs", _drop),
    (core.ServicePort, "name", _named("serviceport")),
    (core.ReplicationControllerSpec, "selector", Words.labels),
    (workloads.StatefulSetSpec, "service_name", _named("Service")),
    (workloads.StatefulSetStatus, "current_revision update_revision", _revision),
    (workloads.ReplicaSetAnnotations, "revision", _keep),
    (workloads.VolumeClaimTemplate, "metadata", metadata_rule("podvolume")),
    (workloads.JobTemplateSpec, "metadata", metadata_rule("Job")),
    (
        workloads.PodDisruptionBudgetStatus,
        "disrupted_pods",
        lambda words, pods: {words.name("Pod", name): moment for name, moment in pods.items()},
    ),
    # Volumes
    (storage.Volume, "name", _named("podvolume")),
    (storage.GCEPersistentDiskVolumeSource, "pd_name", _VOLUME),
    (storage.AWSElasticBlockStoreVolumeSource, "volume_id", Words.volume),
    (storage.NFSVolumeSource, "server", _drop),
    (storage.ISCSIVolumeSource, "target_portal iqn", _VOLUME),
    (storage.ISCSIVolumeSource, "portals", _all(_VOLUME)),
    (storage.RBDVolumeSource, "monitors", _all(_VOLUME)),
    (storage.RBDVolumeSource, "image pool", _VOLUME),
    (storage.CinderVolumeSource, "volume_id", _VOLUME),
    (storage.AzureDiskVolumeSource, "disk_name disk_uri", _VOLUME),
    (storage.AzureFileVolumeSource, "secret_name share_name", _VOLUME),
    (storage.AzureFileVolumeSource, "secret_namespace", _named("Namespace")),
    (storage.VsphereVirtualDiskVolumeSource, "volume_path", _VOLUME),
    (storage.VsphereVirtualDiskVolumeSource, "storage_policy_name storage_policy_id", _drop),
    (storage.PortworxVolumeSource, "volume_id", _VOLUME),
    (storage.CSIPersistentVolumeSource, "volume_handle", Words.volume),
    (storage.ConfigMapVolumeSource, "name", _drop),
    (storage.SecretVolumeSource, "secret_name", _drop),
    (storage.ImageVolumeSource, "reference", Words.image),
    (storage.PersistentVolumeClaimVolumeSource, "claim_name", _named("PersistentVolumeClaim")),
    (storage.PersistentVolumeClaimTemplate, "metadata", metadata_rule("PersistentVolumeClaim")),
    (storage.PersistentVolumeClaimSpec, "volume_name", _named("PersistentVolume")),
    (storage.CSINodeDriver, "name", _keep),
    (storage.VolumeAttachmentSource, "persistent_volume_name", _named("PersistentVolume")),
    # Pod groups and runtime classes
    (scheduling.PodGroupSpec, "disruption_mode", _keep),
    (scheduling.Scheduling, "node_selector", Words.labels),
    (scheduling.RuntimeClass, "handler", _named("handler")),
    # Devices. Attributes and CEL expressions describe hardware and may be compared with one another in ways that no
    # pseudonym preserves: they stay.
    (resource.DeviceRequest, "name", Words.request),
    (resource.DeviceSubRequest, "name", Words.request),
    (resource.CELDeviceSelector, "expression", _keep),
    (resource.DeviceConstraint, "requests", _all(Words.request)),
    (resource.ResourceClaimTemplateSpec, "metadata", metadata_rule("ResourceClaim")),
    (resource.ResourcePool, "name", Words.pool),
    (resource.Device, "name", _named("device")),
    (resource.DeviceAttribute, "string_value version_value string_values version_values", _keep),
    (resource.CounterSet, "name", _keep),
)

#: (struct, field) -> its rule.
RULES = {(struct, field): rule for struct, fields, rule in _OF_STRUCTS for field in fields.split()}


def _by_kind(words: Words, reference: Any) -> dict[str, Any]:
    if isinstance(reference, resource.ResourceClaimConsumerReference):
        kind = "Pod" if reference.resource == "pods" else reference.resource
    else:
        is_claim = isinstance(reference, meta.TypedObjectReference) and not reference.kind
        kind = "PersistentVolumeClaim" if is_claim else reference.kind
    rules: dict[str, Rule] = {"name": _named(kind), "namespace": _named("Namespace"), "uid": Words.uid}
    return {field: rules[field](words, getattr(reference, field)) for field in rules if hasattr(reference, field)}


def _by_key(words: Words, holder: Any) -> dict[str, Any]:
    if getattr(holder, "operator", "") in {"Gt", "Lt", "Gte", "Lte"}:
        words.compared_keys.add(holder.key)
    if hasattr(holder, "value"):
        return {"value": words.value(holder.key, holder.value)}
    return {"values": tuple(words.value(holder.key, value) for value in holder.values)}


def _node_term(words: Words, term: affinity.NodeSelectorTerm) -> dict[str, Any]:
    """Redact matchFields, which are names of nodes; expressions over labels have their own rule."""
    nodes = _all(_named("Node"))
    return {"match_fields": tuple(replace(field, values=nodes(words, field.values)) for field in term.match_fields)}


def _scoped_values(words: Words, requirement: core.ScopedResourceSelectorRequirement) -> dict[str, Any]:
    """Redact the values of a scope: classes by name; other scopes have none, so that theirs may be anything."""
    scope = requirement.scope_name
    redact = words.name if scope in {"PriorityClass", "VolumeAttributesClass"} else words.value
    return {"values": tuple(redact(scope, value) for value in requirement.values)}


class StructRule(NamedTuple):
    """The rule for fields that depend on each other: `change` returns the new contents of some of `fields`."""

    fields: frozenset[str]
    change: Callable[[Words, Any], dict[str, Any]]


_IDENTITY = StructRule(frozenset({"name", "namespace", "uid"}), _by_kind)
_VALUES = frozenset({"value", "values"})

STRUCT_RULES: dict[type, StructRule] = {
    **dict.fromkeys(
        (
            *(meta.OwnerReference, meta.TypedObjectReference, workloads.CrossVersionObjectReference),
            *(provisioning.NodeClassReference, provisioning.ScalableReference, resource.ResourceClaimConsumerReference),
        ),
        _IDENTITY,
    ),
    **dict.fromkeys(
        (
            *(meta.LabelSelectorRequirement, affinity.NodeSelectorRequirement, provisioning.NodeRequirement),
            *(affinity.TopologySelectorLabelRequirement, affinity.Taint, affinity.Toleration),
            *(resource.DeviceTaint, resource.DeviceToleration),
        ),
        StructRule(_VALUES, _by_key),
    ),
    affinity.NodeSelectorTerm: StructRule(frozenset({"match_fields"}), _node_term),
    core.ScopedResourceSelectorRequirement: StructRule(_VALUES, _scoped_values),
}


def redact_snapshot(snapshot: Snapshot, pseudonyms: Pseudonyms | None = None) -> Snapshot:
    """Return the snapshot with pseudonyms for names, in the same order and consistent throughout.

    Afterwards the pseudonyms hold the table of names, which leads back to the originals: keep it to yourself.
    """
    pseudonyms = pseudonyms or Pseudonyms()
    words = Words(pseudonyms)
    for obj in snapshot:
        _redact(obj, words)
    pseudonyms.seal()
    # Name the claim of an ephemeral volume after the pseudonyms of its pod and volume, as the scheduler expects.
    for own in snapshot.pods:
        for volume in own.spec.volumes:
            claim = f"{own.metadata.name}-{volume.name}"
            if volume.ephemeral is not None and pseudonyms.known("PersistentVolumeClaim", claim):
                derived = f"{pseudonyms.of('Pod', own.metadata.name)}-{pseudonyms.of('podvolume', volume.name)}"
                pseudonyms.derive("PersistentVolumeClaim", claim, derived)
    redacted = build_snapshot(
        (_redact(obj, words) for obj in snapshot),
        source=_SOURCE,
        taken_at=snapshot.taken_at,
        server_version=snapshot.server_version,
        warnings=[warning for warning in snapshot.warnings if warning.code == _KEPT_WARNING],
        missing=[*map(_without_namespaces, snapshot.missing)],
        completes=False,
    )
    return replace(redacted, unredacted=KEPT)


def _redact(obj: msgspec.Struct, words: Words) -> msgspec.Struct:
    """Redact one object of the snapshot; its metadata is that of its own kind."""
    metadata = metadata_rule(type_of(obj).name)(words, obj.metadata)  # type: ignore[attr-defined]  # every kind has it
    redacted: msgspec.Struct = _walk(words, obj)
    return replace(redacted, metadata=metadata)


def _walk(words: Words, value: Any) -> Any:
    """Redact a struct and all structs in it; empty fields are skipped."""
    changes: dict[str, Any] = {}
    for name, step in _steps(type(value)):  # type: ignore[arg-type]  # a class is hashable
        if content := getattr(value, name):
            changed = step(words, content)
            if changed is not content:
                changes[name] = changed
    if rule := STRUCT_RULES.get(type(value)):
        changes.update(rule.change(words, value))
    return replace(value, **changes) if changes else value


def _without_namespaces(kind: MissingKind) -> MissingKind:
    names = ", ".join(kind.namespaces or ())
    # A file may give any other reason, with any names in it.
    known = {text.format(names): text.format("some namespaces") for text in (FORBIDDEN, FORBIDDEN_IN, READ_IN)}
    return replace(kind, reason=known.get(kind.reason, "in part"), namespaces=UNSET)


@functools.cache
def _steps(struct: Any) -> tuple[tuple[str, Rule], ...]:
    """Return the fields of a struct to redact, each with its rule; raises TypeError for text without one."""
    steps: list[tuple[str, Rule]] = []
    covered = STRUCT_RULES[struct].fields if struct in STRUCT_RULES else frozenset()
    if issubclass(struct, meta.PlainMeta):
        covered = METADATA_FIELDS
    for field in inspect.type_info(struct).fields:  # type: ignore[attr-defined]  # a StructType, since it is of a struct
        # Annotations that are a struct have a rule for each of its fields.
        if field.name in covered and not (covered is METADATA_FIELDS and isinstance(field.type, inspect.StructType)):
            continue
        rule = RULES.get((struct, field.name)) or (FIELD_RULES.get(field.name) if _is_text(field.type) else None)
        if rule is not None:
            steps.append((field.name, rule))
        elif field.name != "metadata" and (step := _step_below(struct, field)):
            steps.append((field.name, step))
    return tuple(steps)


def _step_below(struct: type, field: inspect.Field) -> Rule | None:
    """Return the step for a field without a rule, by its type; None where it contains no text."""
    for kind in _alternatives(field.type):
        match kind:
            case inspect.StructType():
                return _walk
            case inspect.VarTupleType(item_type=inspect.StructType()):
                return lambda words, values: tuple(_walk(words, value) for value in values)
            case inspect.DictType(value_type=inspect.StructType()):
                return lambda words, items: {key: _walk(words, value) for key, value in items.items()}
            case inspect.VarTupleType():
                _check_harmless(struct, field, kind.item_type)
                return None
            case inspect.DictType():  # the keys of maps to quantities are names of resources
                _check_harmless(struct, field, kind.value_type)
                return lambda words, amounts: {words.resource_name(key): amount for key, amount in amounts.items()}
    _check_harmless(struct, field, field.type)
    return None


def _alternatives(type_info: inspect.Type) -> tuple[inspect.Type, ...]:
    return type_info.types if isinstance(type_info, inspect.UnionType) else (type_info,)


def _is_text(type_info: inspect.Type) -> bool:
    kinds = _alternatives(type_info)
    is_quantity = any(isinstance(kind, inspect.IntType | inspect.FloatType) for kind in kinds)
    return not is_quantity and any(isinstance(kind, inspect.StrType) for kind in kinds)


def _check_harmless(struct: type, field: inspect.Field, type_info: inspect.Type) -> None:
    if _is_text(type_info) and field.name not in KEPT_FIELDS:
        home = "kplan/snapshot/redact.py"
        raise TypeError(f"no rule says what redacting does with {struct.__name__}.{field.name}; {home} needs one")
