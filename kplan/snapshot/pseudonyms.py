"""Pseudonyms, and what becomes of single texts.

A name becomes the pseudonym ``PREFIX-RANK-HASH``. The rank is its position among the names of its domain, so that all
that depends on the order of names (ties, queues, victims) stays the same; the hash is keyed with random bytes that are
not stored. This takes two passes: one collects all names of a domain, and one replaces them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid

from kplan.api.kinds import NODE_LEASES
from kplan.api.labels import ARCH, BETA_ARCH, BETA_INSTANCE_TYPE, BETA_OS, INSTANCE_TYPE, NODEPOOL, OS
from kplan.api.resource import RESOURCE_DEVICE_CLASS_PREFIX as CLASS_PREFIX
from kplan.snapshot.defaults import SYSTEM_PRIORITIES

IMAGE = "image"  #: domains whose pseudonyms have another form
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
        OS,
        ARCH,
        BETA_OS,
        BETA_ARCH,
        INSTANCE_TYPE,
        BETA_INSTANCE_TYPE,
        "node.kubernetes.io/windows-build",
        "karpenter.sh/capacity-type",
    }
)

#: Labels whose values are names of objects of another kind.
_LABELS_OF_NAMES = {
    NODEPOOL: "NodePool",
    "karpenter.k8s.aws/ec2nodeclass": "EC2NodeClass",
    "karpenter.azure.com/aksnodeclass": "AKSNodeClass",
    "karpenter.kwok.sh/kwoknodeclass": "KWOKNodeClass",
}

#: Names of the ConfigMaps of every cluster-autoscaler.
_AUTOSCALERS = ("cluster-autoscaler-status", "cluster-autoscaler-priority-expander")

_PLAIN_VALUES = frozenset({"true", "false"})  #: values that identify nothing

_WORD = "(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"

_SHORT_NUMBER = 6  #: numbers in node labels with at most so many digits are counts; longer ones may identify an account

_EBS_URL = "aws://"
_EBS_VOLUME = "vol-"

#: Host addresses that mean every address.
_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, never bound to

#: Zones of a volume that spans several are joined with this (component-helpers LabelMultiZoneDelimiter).
_ZONE_DELIMITER = "__"

_QUOTA_SUFFIXES = {".storageclass.storage.k8s.io/": "StorageClass", ".deviceclass.resource.k8s.io/": "DeviceClass"}


class Pseudonyms:
    """Collects the names of each domain, then maps them to pseudonyms; the `key` is that of the hash."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._names: dict[str, set[str]] = {}
        self._pseudonyms: dict[str, dict[str, str]] = {}
        self.is_sealed = False  #: whether all names are collected, so that `of` returns pseudonyms

    def of(self, domain: str, name: str) -> str:
        """Return the pseudonym of a name, of an empty one itself; before `seal`, collect the name and return it."""
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
            ranked = enumerate(sorted(names), start=1)
            self._pseudonyms[domain] = {name: self._form(domain, name, rank, width) for rank, name in ranked}
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
        self.compared_keys: set[str] = set()  #: of labels whose values are compared as numbers
        self.node_keys: set[str] = set()  #: of labels of nodes: configurations and later pods may compare their values

    def name(self, kind: str, name: str) -> str:
        if kind == "CSIDriver" or (kind == "PriorityClass" and name in SYSTEM_PRIORITIES) or name in _AUTOSCALERS:
            return name
        if kind == "Namespace" and name == NODE_LEASES:
            return name
        return self._pseudonyms.of("Node" if kind in ("CSINode", "Lease") else kind, name)

    def value(self, key: str, value: str) -> str:
        """Redact the value of a label or taint: equal texts get the same pseudonym, whatever the key.

        Names of nodes and namespaces become what those become, since labels repeat them (``kubernetes.io/hostname``,
        ``kubernetes.io/metadata.name``). Numbers that are compared stay.
        """
        digits = value.removeprefix("-")
        counts = key in self.compared_keys or (key in self.node_keys and len(digits) <= _SHORT_NUMBER)
        if key in KEPT_LABELS or value in _PLAIN_VALUES or (counts and digits.isdecimal()):
            return value
        if key in _LABELS_OF_NAMES:
            return self.name(_LABELS_OF_NAMES[key], value)
        if _ZONE_DELIMITER in value and key.rpartition("/")[2] in {"zone", "region"}:
            return _ZONE_DELIMITER.join(self.value(key, part) for part in value.split(_ZONE_DELIMITER))
        for kind in ("Node", "Namespace"):
            if self._pseudonyms.is_sealed and self._pseudonyms.known(kind, value):
                return self._pseudonyms.of(kind, value)
        return self._pseudonyms.of(LABEL_VALUE, value)

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
        """Redact the handle of a volume; EBS needs ``vol-…``, and means the same by ``aws://ZONE/vol-…``."""
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
        values = (one for one in self._pseudonyms.table(LABEL_VALUE) if re.search(_WORD.format(re.escape(one)), last))
        pool = self.value("", max(values, key=len, default=""))
        redacted = pool if last == name and self._pseudonyms.known(LABEL_VALUE, name) else f"{own}.{pool}"
        return f"zones/{self.value('zone', zone)}/instanceGroups/{redacted}" if zone else redacted

    def uid(self, uid: str) -> str:
        return self._pseudonyms.of(UID, uid)
