"""Redacted snapshots, which can be shown to others: the same decisions, without the names.

Replaced, each text by the same pseudonym everywhere: names of all objects, namespaces, containers, volumes,
devices and requests; values of labels, taints and selectors; images; UIDs; volume handles and addresses. Removed:
messages, paths, names of secrets and config maps, addresses of services, provider and node IDs, the source of the
snapshot.

Kept, since decisions or their explanation hang on it, is what :data:`KEPT` lists; the file lists it, too. A scheduler
configuration's ``addedAffinity`` is not part of a snapshot: its label values do not match any more.

Pseudonyms sort as the originals do, so that whatever is decided by name comes out the same. This tells the order of the
names, and nothing else about them.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import msgspec
from msgspec import UNSET, inspect
from msgspec.structs import replace

from kplan.api.kinds import type_of
from kplan.api.meta import PlainMeta
from kplan.facts import MissingKind
from kplan.snapshot.build import build_snapshot
from kplan.snapshot.model import FORBIDDEN, FORBIDDEN_IN, READ_IN, Snapshot
from kplan.snapshot.pseudonyms import Pseudonyms, Words
from kplan.snapshot.redact_rules import (
    FIELD_RULES,
    KEPT_FIELDS,
    METADATA_FIELDS,
    RULES,
    STRUCT_RULES,
    Rule,
    metadata_rule,
)

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

#: The source of a redacted snapshot.
_SOURCE = "redacted"


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
    for pod in snapshot.pods:
        for volume in pod.spec.volumes:
            claim = f"{pod.metadata.name}-{volume.name}"
            if volume.ephemeral is not None and pseudonyms.known("PersistentVolumeClaim", claim):
                derived = f"{pseudonyms.of('Pod', pod.metadata.name)}-{pseudonyms.of('podvolume', volume.name)}"
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
    return dataclasses.replace(redacted, unredacted=KEPT)


def _redact(obj: msgspec.Struct, words: Words) -> msgspec.Struct:
    """Redact one object of the snapshot; its metadata is that of its own kind."""
    metadata = obj.metadata  # type: ignore[attr-defined]  # every kind has metadata
    changes = metadata_rule(type_of(obj).name)(words, metadata)
    redacted: msgspec.Struct = _walk(words, obj)
    return replace(redacted, metadata=replace(_walk(words, metadata), **changes))


def _walk(words: Words, value: Any) -> Any:
    """Redact a struct and all structs in it; empty fields are skipped."""
    changes: dict[str, Any] = {}
    for name, step in _steps(type(value)):  # type: ignore[arg-type]  # a class is hashable
        content = getattr(value, name)
        if content:
            changed = step(words, content)
            if changed is not content:
                changes[name] = changed
    if rule := STRUCT_RULES.get(type(value)):
        changes.update(rule.change(words, value))
    return replace(value, **changes) if changes else value


def _without_namespaces(kind: MissingKind) -> MissingKind:
    names = ", ".join(kind.namespaces or ())
    # A file may give any other reason, with any names in it.
    known = {FORBIDDEN: FORBIDDEN} | {
        text.format(names): text.format("some namespaces") for text in (FORBIDDEN_IN, READ_IN)
    }
    return replace(kind, reason=known.get(kind.reason, "in part"), namespaces=UNSET)


@functools.cache
def _steps(struct: Any) -> tuple[tuple[str, Rule], ...]:
    """Return the fields of a struct to redact, with the function for each.

    A text field without a rule raises TypeError, so that no new field leaks.
    """
    steps: list[tuple[str, Rule]] = []
    covered = STRUCT_RULES[struct].fields if struct in STRUCT_RULES else frozenset()
    if issubclass(struct, PlainMeta):
        covered = METADATA_FIELDS
    for field in inspect.type_info(struct).fields:  # type: ignore[attr-defined]  # a StructType, since it is of a struct
        # Annotations that are a struct have a rule for each of its fields.
        if field.name in covered and not (covered is METADATA_FIELDS and isinstance(field.type, inspect.StructType)):
            continue
        rule = RULES.get((struct, field.name)) or (FIELD_RULES.get(field.name) if _is_text(field.type) else None)
        if rule is not None:
            steps.append((field.name, _as_step(rule, field.type)))
        elif field.name != "metadata" and (step := _step_below(struct, field)):
            steps.append((field.name, step))
    return tuple(steps)


def _as_step(rule: Rule, type_info: inspect.Type) -> Rule:
    """Return a rule as a step: rules of metadata return changed fields, other rules the new content."""
    kinds = [kind for kind in _alternatives(type_info) if not isinstance(kind, inspect.NoneType)]
    if not all(isinstance(kind, inspect.StructType) for kind in kinds):
        return rule

    return lambda words, metadata: replace(_walk(words, metadata), **rule(words, metadata))


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
        home = "kplan/snapshot/redact_rules.py"
        raise TypeError(f"no rule says what redacting does with {struct.__name__}.{field.name}; {home} needs one")
