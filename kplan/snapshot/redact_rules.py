"""The rules by which each text of each kind is redacted: by its field, or with the fields on which it depends.

Every field that holds text has a rule, or its name is listed as harmless; a field without either is an error, so that
no new field leaks.

A name becomes the pseudonym ``PREFIX-RANK-HASH``. The rank is its position among the names of its domain, so that all
that depends on the order of names (ties, queues, victims) stays the same; the hash is keyed with random bytes that are
not stored. This takes two passes: one collects all names of a domain, and one replaces them. `Words` say what becomes
of single texts.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api import core, meta, pod, provisioning, resource, scheduling, storage, workloads
from kplan.api.affinity import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySelectorLabelRequirement,
)
from kplan.api.core import HEADLESS, ServicePort, ServiceSpec
from kplan.api.kinds import NODE_LEASES
from kplan.api.pod import PodAnnotations
from kplan.api.resource import RESOURCE_DEVICE_CLASS_PREFIX as CLASS_PREFIX
from kplan.api.time import from_micros, seconds
from kplan.api.workloads import (
    ContainerResourcePolicy,
    CrossVersionObjectReference,
    JobTemplateSpec,
    ReplicaSetAnnotations,
    StatefulSetSpec,
    StatefulSetStatus,
    VolumeClaimTemplate,
)
from kplan.reading.yaml import YamlProblem, read_yaml
from kplan.snapshot.defaults import SYSTEM_PRIORITIES
from kplan.snapshot.own_file import DECIDING_ANNOTATIONS, short_resource

#: Domains whose pseudonyms have another form.
IMAGE = "image"
IP_ADDRESS = "ip"
UID = "uid"
LABEL_VALUE = "value"

_PREFIXES = {
    "Node": "node",
    "Namespace": "ns",
    "Pod": "pod",
    "PersistentVolume": "pv",
    "PersistentVolumeClaim": "pvc",
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "HorizontalPodAutoscaler": "hpa",
    "VerticalPodAutoscaler": "vpa",
    "PodDisruptionBudget": "pdb",
    "PriorityClass": "prio",
    "StorageClass": "sc",
    "Service": "svc",
    LABEL_VALUE: "v",
}

_HASH_DIGITS = 8

#: Labels whose values describe machines in general terms, or number pods, and so identify nobody.
KEPT_LABELS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "pod-template-generation",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "karpenter.sh/capacity-type",
    }
)

#: Labels whose values are names of objects of another kind.
_LABELS_OF_NAMES = {
    "karpenter.sh/nodepool": "NodePool",
    "karpenter.k8s.aws/ec2nodeclass": "EC2NodeClass",
    "karpenter.azure.com/aksnodeclass": "AKSNodeClass",
    "karpenter.kwok.sh/kwoknodeclass": "KWOKNodeClass",
}

#: Names of the ConfigMaps of every cluster-autoscaler.
_AUTOSCALERS = ("cluster-autoscaler-status", "cluster-autoscaler-priority-expander")

#: Values that identify nothing.
_PLAIN_VALUES = frozenset({"true", "false"})

_WORD = "(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"

#: Numbers in node labels with at most so many digits are counts; longer ones may identify an account.
_SHORT_NUMBER = 6

_EBS_URL = "aws://"
_EBS_VOLUME = "vol-"

#: Host addresses that mean every address.
_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, never bound to

#: Zones of a volume that spans several are joined with this (component-helpers LabelMultiZoneDelimiter).
_ZONE_DELIMITER = "__"

_QUOTA_SUFFIXES = {".storageclass.storage.k8s.io/": "StorageClass", ".deviceclass.resource.k8s.io/": "DeviceClass"}


class Pseudonyms:
    """Collects the names of each domain, then maps them to pseudonyms.

    Parameters
    ----------
    key : the key of the hash; random by default, and not stored
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._names: dict[str, set[str]] = {}
        self._pseudonyms: dict[str, dict[str, str]] = {}
        self.is_sealed = False  #: whether all names are collected, so that `of` returns pseudonyms

    def of(self, domain: str, name: str) -> str:
        """Return the pseudonym of a name; before `seal`, collect the name and return it unchanged.

        The empty name stays empty.
        """
        if not name:
            return name
        if self.is_sealed:
            return self._pseudonyms[domain][name]
        self._names.setdefault(domain, set()).add(name)
        return name

    def known(self, domain: str, name: str) -> bool:
        return name in self._names.get(domain, ())

    def seal(self) -> None:
        """Rank all names; from now on `of` returns pseudonyms."""
        for domain, names in self._names.items():
            width = len(str(len(names)))
            self._pseudonyms[domain] = {
                name: self._form(domain, name, rank, width) for rank, name in enumerate(sorted(names), start=1)
            }
        self.is_sealed = True

    def derive(self, domain: str, name: str, pseudonym: str) -> None:
        self._pseudonyms[domain][name] = pseudonym

    def table(self, domain: str) -> dict[str, str]:
        return dict(self._pseudonyms.get(domain, {}))

    def originals(self) -> dict[str, str]:
        """Return the names of all domains by pseudonym; no two domains share a pseudonym."""
        return {pseudonym: name for pseudonyms in self._pseudonyms.values() for name, pseudonym in pseudonyms.items()}

    def _form(self, domain: str, name: str, rank: int, width: int) -> str:
        digest = hmac.new(self._key, f"{domain}\0{name}".encode(), hashlib.sha256).digest()
        if domain == UID:
            return str(uuid.UUID(bytes=rank.to_bytes(4) + digest[:12]))
        if domain == IP_ADDRESS:
            # 198.18.0.0/15 is set aside for tests and belongs to nobody.
            return f"198.{18 + (rank >> 16)}.{rank >> 8 & 255}.{rank & 255}"
        readable = f"{_PREFIXES.get(domain, domain.lower())}-{rank:0{width}d}-{digest.hex()[:_HASH_DIGITS]}"
        return f"{readable}:r" if domain == IMAGE else readable


class Words:
    """Redacts single texts; every text passes through it once before `Pseudonyms.seal`, and once after it."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self._compared_keys: set[str] = set()
        self._node_keys: set[str] = set()

    def name(self, kind: str, name: str) -> str:
        if kind == "CSIDriver" or (kind == "PriorityClass" and name in SYSTEM_PRIORITIES) or name in _AUTOSCALERS:
            return name
        if kind == "Namespace" and name == NODE_LEASES:
            return name
        return self._pseudonyms.of("Node" if kind in ("CSINode", "Lease") else kind, name)

    def note_comparison(self, key: str) -> None:
        self._compared_keys.add(key)

    def note_node_labels(self, keys: Iterable[str]) -> None:
        """Record labels of nodes: configurations and later pods may compare their values as numbers."""
        self._node_keys.update(keys)

    def value(self, key: str, value: str) -> str:
        """Redact the value of a label or taint: equal texts get the same pseudonym, whatever the key.

        Names of nodes and namespaces become what those become, since labels repeat them (``kubernetes.io/hostname``,
        ``kubernetes.io/metadata.name``). Numbers that are compared stay.
        """
        if key in KEPT_LABELS or value in _PLAIN_VALUES or self._stays_number(key, value):
            return value
        if key in _LABELS_OF_NAMES:
            return self.name(_LABELS_OF_NAMES[key], value)
        if _ZONE_DELIMITER in value and key.rpartition("/")[2] in {"zone", "region"}:
            return _ZONE_DELIMITER.join(self.value(key, part) for part in value.split(_ZONE_DELIMITER))
        for kind in ("Node", "Namespace"):
            if self._pseudonyms.is_sealed and self._pseudonyms.known(kind, value):
                return self._pseudonyms.of(kind, value)
        return self._pseudonyms.of(LABEL_VALUE, value)

    def _stays_number(self, key: str, value: str) -> bool:
        digits = value.removeprefix("-")
        if not digits.isdecimal():
            return False
        return key in self._compared_keys or (key in self._node_keys and len(digits) <= _SHORT_NUMBER)

    def labels(self, labels: dict[str, str]) -> dict[str, str]:
        """Redact the values of labels, or of a selector by equal labels; keys stay."""
        return {key: self.value(key, value) for key, value in labels.items()}

    def image(self, image: str) -> str:
        """Redact an image; as for the scheduler, a name without a tag means ``:latest``."""
        if not image:
            return image
        has_tag = image.rfind(":") > image.rfind("/")
        return self._pseudonyms.of(IMAGE, image if has_tag else f"{image}:latest")

    def pool(self, pool: str) -> str:
        """Redact the name of a pool; pools have a domain of their own, as devices are tried in their order."""
        return self._pseudonyms.of("pool", pool)

    def host_ip(self, address: str) -> str:
        """Redact the address of a host port; wildcards stay."""
        return address if address in _WILDCARDS else self._pseudonyms.of(IP_ADDRESS, address)

    def request(self, request: str) -> str:
        """Redact the name of a device request, ``REQUEST`` or ``REQUEST/ALTERNATIVE``."""
        return "/".join(self._pseudonyms.of("request", part) for part in request.split("/"))

    def volume(self, volume: str) -> str:
        """Redact the handle of a volume.

        EBS needs ``vol-…``, alone or at the end of ``aws://ZONE/``; both forms mean the same volume.
        """
        if volume.startswith(_EBS_URL):
            zone, slash, name = volume.removeprefix(_EBS_URL).rpartition("/")
            return f"{_EBS_URL}{self.value('zone', zone)}{slash}{self.volume(name)}"
        if volume.startswith(_EBS_VOLUME):
            return _EBS_VOLUME + self._pseudonyms.of("volume", volume.removeprefix(_EBS_VOLUME))
        return self._pseudonyms.of("volume", volume)

    def resource_name(self, name: str) -> str:
        """Redact the name of a resource: only device and storage classes in it are replaced."""
        if name.startswith(CLASS_PREFIX):
            return CLASS_PREFIX + self.name("DeviceClass", name.removeprefix(CLASS_PREFIX))
        for suffix, kind in _QUOTA_SUFFIXES.items():
            owner, separator, rest = name.partition(suffix)
            if separator:
                return f"{self.name(kind, owner)}{suffix}{rest}"
        return name

    def node_group(self, name: str) -> str:
        """Redact the cloud's name of a node group: it goes on to hold a zone, and the label that names its pool."""
        path, _, last = name.rpartition("/")
        own, zone = self._pseudonyms.of("NodeGroup", name), path.removesuffix("/instanceGroups").partition("/zones/")[2]
        values = (
            value for value in self._pseudonyms.table(LABEL_VALUE) if re.search(_WORD.format(re.escape(value)), last)
        )
        pool = self.value("", max(values, key=len, default=""))
        redacted = pool if last == name and self._pseudonyms.known(LABEL_VALUE, name) else f"{own}.{pool}"
        return f"zones/{self.value('zone', zone)}/instanceGroups/{redacted}" if zone else redacted

    def uid(self, uid: str) -> str:
        return self._pseudonyms.of(UID, uid)


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
    last_heartbeat_time last_pod_event_time last_transition_time managed_by match_attribute match_label_keys max_pods
    max_replicas max_size max_surge max_unavailable medium memory min_available min_size mirror mismatch_label_keys
    node_affinity_policy node_taints_policy nodes operator persistent_volume_reclaim_policy phase pod_management_policy
    pod_replacement_policy preemption_policy price price_adjustment protocol provisioner qos_class reason reasons
    reclaim_policy renew_time resource resource_name resource_version restart_policy safe_to_evict scale_down_disabled
    scale_up_delay schedule scheduler_name scope_name scopes session_affinity start_time status succeeded_indexes
    termination_grace_period time_added time_zone topology_key topology_keys type unhealthy_pod_eviction_policy
    volume_binding_mode volume_mode when_deleted when_scaled when_unsatisfiable
    """
)

#: Redacts the content of one field.
Rule = Callable[[Words, Any], Any]


def _named(kind: str) -> Rule:
    return lambda words, value: words.name(kind, value)


def _all(rule: Rule) -> Rule:
    return lambda words, values: tuple(rule(words, value) for value in values)


def _keep(_words: Words, value: Any) -> Any:
    return value


def _container_or_any(words: Words, value: Any) -> Any:
    return value if value == "*" else words.name("container", value)


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
    return words.value("controller-revision-hash", revision) if revision else ""


_LABEL = re.compile(r"(?P<key>[^=]*)=(?P<value>[^=]*)(?P<rest>)")
_TAINT = re.compile(r"(?P<key>[^=:]*)=(?P<value>[^=:]*)(?P<rest>:[A-Za-z]+)")


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
    """Return the rule for the metadata of an object of a kind, which returns the changed fields."""

    def rule(words: Words, metadata: meta.PlainMeta) -> dict[str, Any]:
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
            words.note_node_labels(metadata.labels)
        if isinstance(metadata, meta.ObjectMeta):
            changes["annotations"] = _annotations(words, metadata.annotations)
        return changes

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

#: (struct, field) -> its rule, before that of the field alone. Metadata rules return changes of the metadata.
RULES: dict[tuple[type, str], Rule] = {
    (meta.LabelSelector, "match_labels"): Words.labels,
    (PodAffinityTerm, "namespaces"): _all(_named("Namespace")),
    # Pods
    (core.PodSpec, "runtime_class_name"): _named("RuntimeClass"),
    (core.PodSpec, "node_selector"): Words.labels,
    (PodAnnotations, "safe_local_volumes"): lambda words, names: ",".join(
        words.name("podvolume", name) for name in names.split(",") if name
    ),
    (PodAnnotations, "limit_ranger"): _drop,
    (core.PodTemplateSpec, "metadata"): metadata_rule("Pod"),
    (pod.PodSchedulingGate, "name"): _keep,
    (pod.PodOS, "name"): _keep,
    (pod.PodSchedulingGroup, "pod_group_name"): _named("PodGroup"),
    (core.Container, "name"): _named("container"),
    (core.Container, "image"): Words.image,
    (pod.ContainerPort, "name"): _drop,
    (pod.ContainerPort, "host_ip"): Words.host_ip,
    (pod.ContainerStatus, "name"): _named("container"),
    (ContainerResourcePolicy, "container_name"): _container_or_any,
    (ContainerResourcePolicy, "mode"): _keep,
    (ContainerResourcePolicy, "controlled_resources"): _keep,
    (pod.ClaimReference, "name"): _named("podclaim"),
    (pod.PodResourceClaim, "name"): _named("podclaim"),
    (core.PodStatus, "nominated_node_name"): _named("Node"),
    (core.PodStatus, "message"): lambda _words, message: short_resource(message),
    (pod.PodReadinessGate, "condition_type"): _keep,
    (pod.PodResourceClaimStatus, "name"): _named("podclaim"),
    (pod.ContainerExtendedResourceRequest, "resource_name"): Words.resource_name,
    (pod.ContainerExtendedResourceRequest, "request_name"): Words.request,
    (pod.NodeAllocatableResourceClaimStatus, "containers"): _all(_named("container")),
    # Nodes
    (core.NodeAnnotations, "machine"): _named("Machine"),
    (core.ContainerImage, "names"): _all(Words.image),
    (provisioning.ScalableAnnotations, "labels"): lambda words, text: _pairs(words, text, _LABEL),
    (provisioning.ScalableAnnotations, "taints"): lambda words, text: _pairs(words, text, _TAINT),
    (provisioning.ScalableSpec, "cluster_name"): _named("Cluster"),
    (provisioning.MachineTemplate, "metadata"): metadata_rule("Machine"),
    (provisioning.NodeReference, "name"): _named("Node"),
    (provisioning.NodeClaimTemplate, "metadata"): lambda _words, _metadata: {},
    (provisioning.TemplateReference, "name"): _named("PodTemplate"),
    (provisioning.TemplateMeta, "labels"): Words.labels,
    (provisioning.TemplateMeta, "annotations"): _annotations,
    (core.ConfigMapData, "status"): _groups,
    (core.ConfigMapData, "priorities"): _drop,
    # Workloads and services
    (ServiceSpec, "selector"): Words.labels,
    (ServiceSpec, "cluster_ip"): _address,
    (ServiceSpec, "cluster_ips"): lambda words, addresses: tuple(
        filter(None, (_address(words, one) for one in addresses))
    ),
    (core.ServiceCIDRSpec, "cidrs"): _drop,
    (ServiceSpec, "external_ips"): _drop,
    (ServiceSpec, "external_name"): _drop,
    (ServiceSpec, "load_balancer_class"): _named("LoadBalancerClass"),
    (ServiceSpec, "load_balancer_source_ranges"): _drop,
    (ServicePort, "name"): _named("serviceport"),
    (core.ReplicationControllerSpec, "selector"): Words.labels,
    (StatefulSetSpec, "service_name"): _named("Service"),
    (StatefulSetStatus, "current_revision"): _revision,
    (StatefulSetStatus, "update_revision"): _revision,
    (ReplicaSetAnnotations, "revision"): _keep,
    (VolumeClaimTemplate, "metadata"): metadata_rule("podvolume"),
    (JobTemplateSpec, "metadata"): metadata_rule("Job"),
    (workloads.PodDisruptionBudgetStatus, "disrupted_pods"): lambda words, pods: {
        words.name("Pod", name): moment for name, moment in pods.items()
    },
    # Volumes
    (storage.Volume, "name"): _named("podvolume"),
    (storage.GCEPersistentDiskVolumeSource, "pd_name"): _named("volume"),
    (storage.AWSElasticBlockStoreVolumeSource, "volume_id"): Words.volume,
    (storage.NFSVolumeSource, "server"): _drop,
    (storage.ISCSIVolumeSource, "target_portal"): _named("volume"),
    (storage.ISCSIVolumeSource, "iqn"): _named("volume"),
    (storage.ISCSIVolumeSource, "portals"): _all(_named("volume")),
    (storage.RBDVolumeSource, "monitors"): _all(_named("volume")),
    (storage.RBDVolumeSource, "image"): _named("volume"),
    (storage.RBDVolumeSource, "pool"): _named("volume"),
    (storage.CinderVolumeSource, "volume_id"): _named("volume"),
    (storage.AzureDiskVolumeSource, "disk_name"): _named("volume"),
    (storage.AzureDiskVolumeSource, "disk_uri"): _named("volume"),
    (storage.AzureFileVolumeSource, "secret_name"): _named("volume"),
    (storage.AzureFileVolumeSource, "secret_namespace"): _named("Namespace"),
    (storage.AzureFileVolumeSource, "share_name"): _named("volume"),
    (storage.VsphereVirtualDiskVolumeSource, "volume_path"): _named("volume"),
    (storage.VsphereVirtualDiskVolumeSource, "storage_policy_name"): _drop,
    (storage.VsphereVirtualDiskVolumeSource, "storage_policy_id"): _drop,
    (storage.PortworxVolumeSource, "volume_id"): _named("volume"),
    (storage.CSIPersistentVolumeSource, "volume_handle"): Words.volume,
    (storage.ConfigMapVolumeSource, "name"): _drop,
    (storage.SecretVolumeSource, "secret_name"): _drop,
    (storage.ImageVolumeSource, "reference"): Words.image,
    (storage.PersistentVolumeClaimVolumeSource, "claim_name"): _named("PersistentVolumeClaim"),
    (storage.PersistentVolumeClaimTemplate, "metadata"): metadata_rule("PersistentVolumeClaim"),
    (storage.PersistentVolumeClaimSpec, "volume_name"): _named("PersistentVolume"),
    (storage.CSINodeDriver, "name"): _keep,
    (storage.VolumeAttachmentSource, "persistent_volume_name"): _named("PersistentVolume"),
    # Pod groups
    (scheduling.PodGroupSpec, "disruption_mode"): _keep,
    # Runtime classes
    (scheduling.Scheduling, "node_selector"): Words.labels,
    (scheduling.RuntimeClass, "handler"): _named("handler"),
    # Devices. Attributes and CEL expressions describe hardware and may be compared with one another in ways that no
    # pseudonym preserves: they stay.
    (resource.DeviceRequest, "name"): Words.request,
    (resource.DeviceSubRequest, "name"): Words.request,
    (resource.CELDeviceSelector, "expression"): _keep,
    (resource.DeviceConstraint, "requests"): _all(Words.request),
    (resource.ResourceClaimTemplateSpec, "metadata"): metadata_rule("ResourceClaim"),
    (resource.ResourcePool, "name"): Words.pool,
    (resource.Device, "name"): _named("device"),
    (resource.DeviceAttribute, "string_value"): _keep,
    (resource.DeviceAttribute, "version_value"): _keep,
    (resource.DeviceAttribute, "string_values"): _keep,
    (resource.DeviceAttribute, "version_values"): _keep,
    (resource.CounterSet, "name"): _keep,
}


def _by_kind(words: Words, reference: Any) -> dict[str, Any]:
    is_claim = isinstance(reference, meta.TypedObjectReference) and not reference.kind
    return _identity(words, "PersistentVolumeClaim" if is_claim else reference.kind, reference)


def _consumer(words: Words, consumer: resource.ResourceClaimConsumerReference) -> dict[str, Any]:
    return _identity(words, "Pod" if consumer.resource == "pods" else consumer.resource, consumer)


def _identity(words: Words, kind: str, reference: Any) -> dict[str, Any]:
    rules: dict[str, Rule] = {"name": _named(kind), "namespace": _named("Namespace"), "uid": Words.uid}
    return {field: rules[field](words, getattr(reference, field)) for field in rules if hasattr(reference, field)}


def _by_key(words: Words, holder: Any) -> dict[str, Any]:
    if getattr(holder, "operator", "") in {"Gt", "Lt", "Gte", "Lte"}:
        words.note_comparison(holder.key)
    if hasattr(holder, "value"):
        return {"value": words.value(holder.key, holder.value)}
    return {"values": tuple(words.value(holder.key, value) for value in holder.values)}


def _node_term(words: Words, term: NodeSelectorTerm) -> dict[str, Any]:
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


_IDENTITY = frozenset({"name", "namespace", "uid"})
_VALUES = frozenset({"value", "values"})

STRUCT_RULES: dict[type, StructRule] = {
    meta.OwnerReference: StructRule(_IDENTITY, _by_kind),
    meta.TypedObjectReference: StructRule(_IDENTITY, _by_kind),
    CrossVersionObjectReference: StructRule(_IDENTITY, _by_kind),
    provisioning.NodeClassReference: StructRule(_IDENTITY, _by_kind),
    provisioning.ScalableReference: StructRule(_IDENTITY, _by_kind),
    resource.ResourceClaimConsumerReference: StructRule(_IDENTITY, _consumer),
    meta.LabelSelectorRequirement: StructRule(_VALUES, _by_key),
    NodeSelectorRequirement: StructRule(_VALUES, _by_key),
    provisioning.NodeRequirement: StructRule(_VALUES, _by_key),
    TopologySelectorLabelRequirement: StructRule(_VALUES, _by_key),
    Taint: StructRule(_VALUES, _by_key),
    Toleration: StructRule(_VALUES, _by_key),
    resource.DeviceTaint: StructRule(_VALUES, _by_key),
    resource.DeviceToleration: StructRule(_VALUES, _by_key),
    NodeSelectorTerm: StructRule(frozenset({"match_fields"}), _node_term),
    core.ScopedResourceSelectorRequirement: StructRule(_VALUES, _scoped_values),
}
