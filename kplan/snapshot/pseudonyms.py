"""Names that stand for names: consistent, in the same order, and of no use to somebody who does not have the originals.

A name becomes ``PREFIX-RANK-HASH``. The rank is its place among the names of its domain, so that whatever goes by name
(ties, queues, victims) comes out the same; the hash is keyed with random bytes that are thrown away. Two passes are
needed: one that sees all names of a domain, and one that replaces them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid

#: Domains whose pseudonyms have a form of their own.
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
    "PodDisruptionBudget": "pdb",
    "PriorityClass": "prio",
    "StorageClass": "sc",
    "Service": "svc",
    LABEL_VALUE: "v",
}

_HASH_DIGITS = 8


class Pseudonyms:
    """Collects names domain by domain, then gives each its pseudonym.

    Parameters
    ----------
    key : the key of the hash; random if not given, and nowhere stored
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._names: dict[str, set[str]] = {}
        self._given: dict[str, dict[str, str]] = {}
        self._sealed = False

    @property
    def is_sealed(self) -> bool:
        """Whether all names have been seen, and pseudonyms are given."""
        return self._sealed

    def of(self, domain: str, name: str) -> str:
        """Return the pseudonym; while names are still being collected, note the name and return it as it is.

        The empty name stays empty: it says that there is none.
        """
        if not name:
            return name
        if self._sealed:
            return self._given[domain][name]
        self._names.setdefault(domain, set()).add(name)
        return name

    def known(self, domain: str, name: str) -> bool:
        """Tell whether the name was seen in the domain."""
        return name in self._names.get(domain, ())

    def seal(self) -> None:
        """Rank all names; from now on pseudonyms are given."""
        for domain, names in self._names.items():
            width = len(str(len(names)))
            self._given[domain] = {
                name: self._form(domain, name, rank, width) for rank, name in enumerate(sorted(names), start=1)
            }
        self._sealed = True

    def derive(self, domain: str, name: str, pseudonym: str) -> None:
        """Give a name that is made of other names the pseudonym that is made of theirs."""
        self._given[domain][name] = pseudonym

    def table(self, domain: str) -> dict[str, str]:
        """Return names and pseudonyms of a domain."""
        return dict(self._given.get(domain, {}))

    def originals(self) -> dict[str, str]:
        """Return the name behind each pseudonym, of all domains: pseudonyms of two domains are never the same."""
        return {pseudonym: name for given in self._given.values() for name, pseudonym in given.items()}

    def _form(self, domain: str, name: str, rank: int, width: int) -> str:
        digest = hmac.new(self._key, f"{domain}\0{name}".encode(), hashlib.sha256).digest()
        if domain == UID:
            return str(uuid.UUID(bytes=rank.to_bytes(4) + digest[:12]))
        if domain == IP_ADDRESS:
            # 198.18.0.0/15 is set aside for tests and belongs to nobody.
            return f"198.{18 + (rank >> 16)}.{rank >> 8 & 255}.{rank & 255}"
        readable = f"{_PREFIXES.get(domain, domain.lower())}-{rank:0{width}d}-{digest.hex()[:_HASH_DIGITS]}"
        return f"{readable}:r" if domain == IMAGE else readable
