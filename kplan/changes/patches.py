"""What a change of a pod is as a strategic merge patch of the template that it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from kplan.api.core import Pod, PodTemplateSpec
from kplan.workloads.merging import DELETES, MERGE_KEYS, REPLACES, identity

_SET_ANEW = ("priority", "preemptionPolicy")  #: by the API server, as the priority class has them


def patch_of(old: Pod, new: Pod, template: Pod | PodTemplateSpec) -> dict[str, Any]:
    """Return the patch of a template's ``spec`` that changes its pods as one pod was changed.

    `template` is of the pod's workload, or the pod itself; it may lack what admission adds to pods.
    """
    before, after, own = (to_builtins(spec) for spec in (old.spec, new.spec, template.spec))
    patch = {field: value for field, value in _difference(before, after).items() if field not in _SET_ANEW}
    if "priorityClassName" in patch:
        patch["priority"] = None
    for field, whole in (("tolerations", _tolerations), ("topologySpreadConstraints", _spreads)):
        if field in patch:
            patch[field] = whole(*(spec.get(field, []) for spec in (before, after, own)))
    if "affinity" in patch:
        patch["affinity"] = _with_nulls(own.get("affinity"), after.get("affinity"))
    return patch


def _difference(before: Any, after: Any, field: str = "") -> Any:
    """Return what makes a value another one where it is merged with it: null for what is removed."""
    if isinstance(before, Mapping):
        changed: dict[str, Any] = {}
        for name in {**before, **after}:
            old = before.get(name)
            new = after.get(name, {} if isinstance(old, Mapping) else None)
            if new != old:
                changed[name] = _difference(old, new, name)
        return changed
    keys = MERGE_KEYS.get(field)
    if keys is None or before is None or after is None:
        return after
    if len(before) != len(after):
        return [REPLACES, *after]
    elements = [(item, new) for item, new in zip(before, after, strict=True) if item != new]
    firsts = [item.get(keys[0]) for item in before]
    if any(firsts.count(item.get(keys[0])) > 1 for item, _ in elements):
        return [REPLACES, *after]  # the first key alone tells them apart (patchMergeKey in k8s.io/api/core/v1/types.go)
    return [_named(item, keys) | _difference(item, new) for item, new in elements]


def _named(item: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the keys by which an element of a list is known, with their defaults."""
    return {key: item.get(key, text) for key, text in zip(keys, identity(item, keys), strict=True) if text}


def _tolerations(before: Sequence[Any], after: Sequence[Any], template: Sequence[Any]) -> list[Any]:
    """Return all tolerations of a template, as their list is replaced as a whole."""
    remaining = [toleration for toleration in template if toleration not in before or toleration in after]
    return [*remaining, *(toleration for toleration in after if toleration not in before)]


def _spreads(before: Sequence[Any], after: Sequence[Any], _template: Sequence[Any]) -> list[Any]:
    """Return all constraints, behind what deletes those that are no more, as the key of which others may have it."""
    keys = MERGE_KEYS["topologySpreadConstraints"]
    remaining = [identity(one, keys) for one in after]
    gone = (one for one in before if identity(one, keys) not in remaining)
    return [*(DELETES | _named(one, keys) for one in gone), *after]


def _with_nulls(before: Any, after: Any) -> Any:
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return after
    gone: dict[str, Any] = {key: None for key in before if key not in after}
    return gone | {key: _with_nulls(before.get(key), value) for key, value in after.items()}
