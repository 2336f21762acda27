"""When two pod templates say the same, and what their revisions are called here.

Controllers compare whole templates. A snapshot may hold them whole (`Snapshot.whole`), or only what scheduling reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from kplan.admission.decoding import decode_object
from kplan.admission.whole import WholeTemplate
from kplan.api.core import PodSpec, PodTemplateSpec
from kplan.api.quantity import InvalidQuantity, parse
from kplan.simulation.owners import WorkloadRef
from kplan.workloads.expansion import TEMPLATE_HASH

_AMOUNTS = frozenset({"requests", "limits", "overhead", "capacity"})
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_DIGITS = 10
_TEMPLATE = "V1PodTemplateSpec"


class Templates:
    """Templates by the workload that has them.

    Parameters
    ----------
    full : KIND/NAMESPACE/NAME -> ``spec`` of the object as it was read, where the snapshot holds it
    """

    def __init__(self, full: Mapping[str, Mapping[str, Any]]) -> None:
        self.full = dict(full)
        self._whole: dict[int, tuple[PodSpec, Mapping[str, Any] | WholeTemplate]] = {}

    def copy(self) -> Templates:
        """Return templates to which others can be added without these noticing."""
        copied = Templates(self.full)
        # Known by the identity of their spec, which is held here: what another adds, nobody else asks for.
        copied._whole = self._whole
        return copied

    def note(self, key: str, template: PodTemplateSpec) -> None:
        """Take note of how the template of a workload is written, where that is known."""
        written = self.full.get(key, {}).get("template")
        if isinstance(written, Mapping):
            self._whole[id(template.spec)] = (template.spec, written)

    def whole(self, template: PodTemplateSpec) -> WholeTemplate | None:
        """Return how a template is written; None where the snapshot does not say."""
        spec, found = self._whole.get(id(template.spec), (template.spec, None))
        if found is None or isinstance(found, WholeTemplate):
            return found
        whole = WholeTemplate(decode_object(dict(found), _TEMPLATE).content)
        self._whole[id(spec)] = (spec, whole)
        return whole

    def identity(self, key: str, template: PodTemplateSpec) -> bytes:
        """Return what is equal for templates that say the same, the hash label aside."""
        whole = self.full.get(key, {}).get("template")
        found = canonical(msgspec.to_builtins(template) if whole is None else whole)
        metadata = found.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("creationTimestamp", None)
            labels = metadata.get("labels")
            if isinstance(labels, dict):
                labels.pop(TEMPLATE_HASH, None)
        return msgspec.json.encode(found, order="deterministic")

    def revision(self, ref: WorkloadRef, template: PodTemplateSpec) -> str:
        """Return a name for a template of a workload."""
        return f"{ref.name}-{self.digest(self.identity(ref.key, template))}"

    @staticmethod
    def digest(identity: bytes) -> str:
        """Return a short text for a template, in the letters that Kubernetes takes for such."""
        found = hashlib.sha256(identity).digest()
        return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in found[:_DIGITS])


def canonical(value: Any, *, is_amount: bool = False) -> Any:
    """Return plain values with equal quantities written alike, and without what is empty; all containers are fresh."""
    if isinstance(value, Mapping):
        found = {str(key): canonical(item, is_amount=is_amount or key in _AMOUNTS) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, {}, [], "")}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if is_amount and isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return parse(value).nanos
        except InvalidQuantity:
            return value
    return value
