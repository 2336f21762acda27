"""Pseudonyms of names: consistent, in the same order, and of no use without the original names.

A name becomes ``PREFIX-RANK-HASH``. The rank is its position among the names of its domain, so that all that depends on
the order of names (ties, queues, victims) stays the same; the hash is keyed with random bytes that are not stored. This
takes two passes: one collects all names of a domain, and one replaces them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid

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
        self._sealed = False

    @property
    def is_sealed(self) -> bool:
        """Whether all names are collected, so that `of` returns pseudonyms."""
        return self._sealed

    def of(self, domain: str, name: str) -> str:
        """Return the pseudonym of a name; before `seal`, collect the name and return it unchanged.

        The empty name stays empty.
        """
        if not name:
            return name
        if self._sealed:
            return self._pseudonyms[domain][name]
        self._names.setdefault(domain, set()).add(name)
        return name

    def known(self, domain: str, name: str) -> bool:
        """Tell whether the domain has the name."""
        return name in self._names.get(domain, ())

    def seal(self) -> None:
        """Rank all names; from now on `of` returns pseudonyms."""
        for domain, names in self._names.items():
            width = len(str(len(names)))
            self._pseudonyms[domain] = {
                name: self._form(domain, name, rank, width) for rank, name in enumerate(sorted(names), start=1)
            }
        self._sealed = True

    def derive(self, domain: str, name: str, pseudonym: str) -> None:
        """Set the pseudonym of a name that is composed of other names."""
        self._pseudonyms[domain][name] = pseudonym

    def table(self, domain: str) -> dict[str, str]:
        """Return the pseudonyms of a domain by name."""
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
