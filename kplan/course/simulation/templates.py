"""Which pod templates are equal, and the names of their revisions.

Controllers compare whole templates. A snapshot holds them whole (`Snapshot.whole`), or only what scheduling reads.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kplan.admission.decoding import decode_object
from kplan.admission.defaults import default_template
from kplan.admission.stored import WholeTemplate
from kplan.api.core import PodSpec, PodTemplateSpec
from kplan.api.decode import convert
from kplan.api.labels import REVISION_HASH, TEMPLATE_HASH, Selector
from kplan.api.meta import controller_of
from kplan.api.names import WorkloadRef, in_letters, object_name
from kplan.api.quantity import InvalidQuantity, parse
from kplan.api.workloads import ControllerRevision
from kplan.snapshot.model import Snapshot
from kplan.workloads.merging import AMOUNTS, is_blank, whole_object

_DIGITS = 10
_TEMPLATE = "V1PodTemplateSpec"
_ESCAPED = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters that Go's JSON encoder escapes."""


class Templates:
    """Templates by workload; `full`: KIND/NAMESPACE/NAME -> its ``spec`` as it was read, where that is known."""

    def __init__(self, full: Mapping[str, Mapping[str, Any]]) -> None:
        self.full = dict(full)
        #: id of a template's spec -> the spec, the template as it is written, and the whole one once it was asked for
        self._whole: dict[int, tuple[PodSpec, Mapping[str, Any], WholeTemplate | None]] = {}

    @staticmethod
    def of(snapshot: Snapshot) -> Templates:
        """Return the templates of the workloads that a snapshot has whole."""
        specs: dict[str, Mapping[str, Any]] = {}
        for key in snapshot.whole:
            whole = None if key.startswith("ControllerRevision/") else whole_object(snapshot, key)
            spec = None if whole is None else whole.get("spec")
            if isinstance(spec, Mapping):
                specs[key] = spec
        return Templates(specs)

    def copy(self) -> Templates:
        """Return a copy, to which templates can be added independently."""
        copied = Templates(self.full)
        # Shared, as the keys are the ids of specs that the values hold: an entry of one copy is no other's key.
        copied._whole = self._whole
        return copied

    def note(self, key: str, template: PodTemplateSpec) -> None:
        """Remember the whole template of a workload, where the snapshot has it."""
        spec = self.full.get(key)
        if spec is not None and isinstance(written := spec.get("template"), Mapping):
            self.note_whole(template, written)

    def note_whole(self, template: PodTemplateSpec, written: Mapping[str, Any]) -> None:
        known = self._whole.get(id(template.spec))
        if known is None or known[1] is not written:
            self._whole[id(template.spec)] = (template.spec, written, None)

    def whole(self, template: PodTemplateSpec) -> WholeTemplate | None:
        """Return a whole template; None where the snapshot does not have it."""
        known = self._whole.get(id(template.spec))
        if known is None:
            return None
        spec, written, whole = known
        if whole is None:
            whole = WholeTemplate(decode_object(dict(written), _TEMPLATE).content)
            self._whole[id(spec)] = (spec, written, whole)
        return whole

    def is_whole(self, key: str) -> bool:
        """Tell whether the snapshot has a workload's template with all fields."""
        return isinstance(self.full.get(key, {}).get("template"), Mapping)

    def identity(self, key: str, template: PodTemplateSpec) -> bytes:
        """Return bytes that are equal for equal templates, the hash label aside."""
        whole = self.full.get(key, {}).get("template")
        return _identity(msgspec.to_builtins(template) if whole is None else whole)

    def completed_identity(self, key: str, template: PodTemplateSpec) -> bytes:
        """Return the identity of a template as the API server stores it, with its defaults."""
        stored = self.stored(key)
        return self.identity(key, template) if stored is None else _identity(stored)

    def stored(self, key: str) -> dict[str, Any] | None:
        """Return a workload's whole template with the API server's defaults; None where it is not known whole."""
        written = self.full.get(key, {}).get("template")
        return _with_defaults(written) if isinstance(written, Mapping) else None

    def stateful_revision(self, ref: WorkloadRef, template: PodTemplateSpec) -> str:
        """Return the name that the controller of a stateful set gives to the revision of its template.

        Upstream: pkg/controller/history/controller_history.go HashControllerRevision, statefulset getPatch.
        """
        stored = self.stored(ref.key)
        if stored is None:
            return self.revision(ref, template)
        fields = {field: stored[field] for field in ("metadata", "spec") if field in stored}
        patch: dict[str, Any] = {"spec": {"template": {"$patch": "replace", **fields}}}
        data = json.dumps(patch, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        for char, escaped in _ESCAPED.items():
            data = data.replace(char, escaped)
        return f"{ref.name}-{in_letters(str(_fnv32(data.encode() + b'0')).encode())}"

    def revision(self, ref: WorkloadRef, template: PodTemplateSpec) -> str:
        return f"{ref.name}-{self.digest(self.identity(ref.key, template))}"

    @staticmethod
    def digest(identity: bytes) -> str:
        """Return a short hash of a template, in the letters that Kubernetes uses for hashes."""
        return in_letters(hashlib.sha256(identity).digest()[:_DIGITS])


def _with_defaults(written: Mapping[str, Any]) -> dict[str, Any]:
    return default_template(copy.deepcopy(decode_object(dict(written), _TEMPLATE).content))


def _identity(template: Mapping[str, Any]) -> bytes:
    plain = canonical(template)
    metadata = plain.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("creationTimestamp", None)
        labels = metadata.get("labels")
        if isinstance(labels, dict):
            labels.pop(TEMPLATE_HASH, None)
    return msgspec.json.encode(plain, order="deterministic")


def _fnv32(data: bytes) -> int:
    """Return the 32-bit FNV-1 hash (hash/fnv New32)."""
    total = 2166136261
    for byte in data:
        total = ((total * 16777619) & 0xFFFFFFFF) ^ byte
    return total


def canonical(value: Any, field: str = "", *, is_amount: bool = False) -> Any:
    """Return a deep copy of plain values, with quantities as numbers and without empty fields; `field`: their name."""
    if isinstance(value, Mapping):
        items = {
            str(key): canonical(item, str(key), is_amount=is_amount or key in AMOUNTS) for key, item in value.items()
        }
        return {key: item for key, item in items.items() if item is False or not is_blank(item, key, field)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if is_amount and isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return parse(value).nanos
        except InvalidQuantity:
            return value
    return value


class Revision(msgspec.Struct, frozen=True):
    """A revision of a workload."""

    name: str  #: as pods of it are labelled
    template: PodTemplateSpec
    whole: Mapping[str, Any] | None = None  #: its template with all fields, where the snapshot has them


class Revisions:
    """The revisions of a snapshot, by the stateful sets and daemon sets that have them: the templates of these by name.

    Pods are labelled with the name of the revision that they were created from. A template that a workload had before
    has its former name again, so that pods of that revision stay.

    Upstream: pkg/controller/history/controller_history.go ListControllerRevisions, FindEqualRevisions;
    pkg/controller/statefulset/stateful_set_control.go getStatefulSetRevisions; pkg/controller/daemon/update.go
    constructHistory, dedupCurHistories, controlledHistories.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._owned: dict[tuple[str, str, str], list[ControllerRevision]] = {}  #: by kind, namespace, name of owners
        self._orphans: dict[str, list[ControllerRevision]] = {}  #: by namespace
        for obj in snapshot.controller_revisions:
            owner, namespace = controller_of(obj.metadata), obj.metadata.namespace
            if owner is None:
                self._orphans.setdefault(namespace, []).append(obj)
            else:
                self._owned.setdefault((owner.kind, namespace, owner.name), []).append(obj)

    def of(self, ref: WorkloadRef, selector: Selector | None) -> list[Revision]:
        """Return the revisions that a workload has, or takes over as nobody has them; the oldest first."""
        owned = [
            obj
            for obj in self._owned.get((ref.kind, ref.namespace, ref.name), ())
            if (owner := controller_of(obj.metadata)) is not None and (not owner.uid or ref.uid in ("", owner.uid))
        ]
        if selector is not None:
            orphans = self._orphans.get(ref.namespace, ())
            owned += [obj for obj in orphans if selector.matches(obj.metadata.labels)]
        owned.sort(key=lambda obj: (obj.revision, obj.metadata.creation_timestamp or "", obj.metadata.name))
        return [self._revision(ref.kind, obj) for obj in owned]

    def _revision(self, kind: str, obj: ControllerRevision) -> Revision:
        metadata = obj.metadata
        name = metadata.labels.get(REVISION_HASH, metadata.name) if kind == "DaemonSet" else metadata.name
        whole = whole_object(self._snapshot, object_name("ControllerRevision", metadata.namespace, metadata.name))
        if whole is None:
            return Revision(name, obj.data.spec.template)
        template = part_of(whole, "data", "spec", "template")
        return Revision(name, obj.data.spec.template, {key: item for key, item in template.items() if key != "$patch"})


def equal_revision(
    revisions: Sequence[Revision], template: PodTemplateSpec, stored: Mapping[str, Any] | None
) -> Revision | None:
    """Return the newest revision with a template; None where there is none.

    Fields that the snapshot does not have of both are not compared.

    `revisions`: the oldest first. `stored`: the template with all fields and defaults; None where they are not known.
    """
    if not revisions:
        return None
    lean = template if stored is None else convert(dict(stored), PodTemplateSpec)  # what scheduling reads
    wanted = _identity(msgspec.to_builtins(lean))
    whole = None if stored is None else _identity(_with_defaults(stored))
    for revision in reversed(revisions):
        if _identity(msgspec.to_builtins(revision.template)) != wanted:
            continue
        if whole is None or revision.whole is None or _identity(_with_defaults(revision.whole)) == whole:
            return revision
    return None


def part_of(content: Any, *fields: str) -> Mapping[str, Any]:
    """Return the mapping at the end of a path of fields in a plain object; empty where there is none."""
    for field in fields:
        content = content.get(field) or {}
    part: Mapping[str, Any] = content
    return part
