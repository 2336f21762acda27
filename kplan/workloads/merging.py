"""An object after a manifest was applied to it, and patches that are applied so.

Fields that the manifest does not name stay as they are; lists whose elements have a merge key are merged by it; other
lists are replaced as a whole, unless no element changes. Fields that the manifest named when it was applied last, and
names no more, are dropped. Upstream: strategic merge patch keys in k8s.io/api, kubectl apply.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from kplan.admission.decoding import emptiness
from kplan.api.core import Pod, PodTemplateSpec
from kplan.api.quantity import InvalidQuantity, parse
from kplan.snapshot.model import Snapshot

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), ("name",)),
    **dict.fromkeys(("resourceClaims", "claims", "schedulingGates"), ("name",)),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ports": ("containerPort", "port", "protocol"),
}
"""Lists that are merged, with the fields that tell their elements apart; ports of containers and of services alike."""

REPLACES = {"$patch": "replace"}  #: the element with which the others of a list take the place of all that is there
DELETES = {"$patch": "delete"}  #: what an element says, besides its merge keys, that is not to be there any more

_RETAIN_KEYS = frozenset({"strategy", "volumes", "resourceClaims"})
"""Fields whose maps keep only the keys that a manifest names, once it changes them (patchStrategy ``retainKeys``)."""

_DEFAULTS = {"protocol": "TCP", "request": ""}  #: defaults of merge keys that are not written

AMOUNTS = frozenset({"requests", "limits", "overhead", "capacity", "sizeLimit", "divisor", "storage"})
"""Fields that hold quantities, which may be written in several ways."""

Plain = Any
Name: TypeAlias = tuple[str, ...]  #: the values of an element's merge keys


def merged(live: Plain, wanted: Plain, field: str = "", *, is_amount: bool = False) -> Plain:
    """Return a live value with a wanted one applied to it; the live value itself where nothing changes."""
    is_amount = is_amount or field in AMOUNTS
    if isinstance(wanted, Mapping):
        old = live if isinstance(live, Mapping) else {}
        new = dict(old)
        for key, item in wanted.items():
            if item is None:
                new.pop(key, None)
            elif key in new or not is_blank(item, key, field):
                new[key] = merged(new.get(key), item, key, is_amount=is_amount)
        # A new kind of strategy, or another volume source, takes the place of the old one: the two exclude each other.
        return {key: new[key] for key in new if key in wanted} if field in _RETAIN_KEYS and new != old else new
    if isinstance(wanted, list | tuple):
        return _merged_list(live if isinstance(live, list | tuple) else [], wanted, field)
    return live if _is_same(live, wanted, is_amount=is_amount) else wanted


def removals(wanted: Plain, field: str = "") -> Plain:
    """Return what a manifest sets to null or deletes, with the keys of the elements in which it stands.

    A list that replaces another one is there as a whole.
    """
    if isinstance(wanted, Mapping):
        below = {key: None if item is None else removals(item, key) for key, item in wanted.items()}
        removed = {key: item for key, item in below.items() if item is None or item}
        return removed | DELETES if DELETES.items() <= wanted.items() else removed
    keys = MERGE_KEYS.get(field)
    if keys is None or not isinstance(wanted, list | tuple):
        return []
    if REPLACES in wanted:
        return wanted
    named = [
        ({key: item[key] for key in keys if key in item}, removals(item))
        for item in wanted
        if isinstance(item, Mapping)
    ]
    return [{**name, **below} for name, below in named if below]


def is_blank(item: Plain, name: str, holder: str = "") -> bool:
    """Tell whether a value means the same as none at all, as the field `name` of the object in a field `holder`."""
    if item is None or holder in emptiness().maps:
        return item is None
    return item in ([], ()) or ((item is False or item in ("", {})) and name not in emptiness().pointers)


def _merged_list(live: Sequence[Plain], wanted: Sequence[Plain], field: str) -> Plain:
    keys = MERGE_KEYS.get(field)
    if REPLACES in wanted:
        return [item for item in wanted if item != REPLACES]
    if keys is None or not all(isinstance(item, Mapping) for item in (*live, *wanted)):
        return list(wanted)
    elements = {identity(item, keys): item for item in live}
    places = {name: place for place, name in enumerate(elements)}
    applied = [identity(item, keys) for item in wanted]
    others = defaultdict[Name, list[Name]](list)
    for name in elements.keys() - set(applied) if len(keys) > 1 else ():
        others[name[:-1]].append(name)
    for name, item in zip(applied, wanted, strict=True):
        if DELETES.items() <= item.items():
            elements.pop(name, None)
            continue
        # kubectl tells elements apart by all keys but the last where that is unique: a port may change its protocol.
        if name not in elements and len(others[name[:-1]]) == 1:
            former = others.pop(name[:-1])[0]
            elements[name], places[name] = elements.pop(former), places[former]
        elements[name] = merged(elements.get(name), item, field if field in _RETAIN_KEYS else "")
    return [elements[name] for name in _in_order(elements, dict.fromkeys(applied), places)]


def _in_order(names: Collection[Name], applied: Collection[Name], places: Mapping[Name, int]) -> Iterator[Name]:
    """Yield elements as they are applied, others before those that they came before (upstream: mergeSortedSlice)."""
    others = deque(name for name in names if name not in applied)
    for name in applied:
        while others and places[others[0]] < places.get(name, -1):
            yield others.popleft()
        if name in names:
            yield name
    yield from others


def identity(item: Mapping[str, Plain], keys: tuple[str, ...]) -> Name:
    return tuple(str(item.get(key, _DEFAULTS.get(key, ""))) for key in keys)


def _is_same(live: Plain, wanted: Plain, *, is_amount: bool) -> bool:
    if type(live) is type(wanted) and live == wanted:
        return True
    if is_amount and isinstance(live, str | int | float) and isinstance(wanted, str | int | float):
        try:
            return parse(live).nanos == parse(wanted).nanos
        except InvalidQuantity:
            return False
    return isinstance(live, int | float) and isinstance(wanted, int | float) and live == wanted


def without_dropped(live: Plain, last: Plain, wanted: Plain, field: str = "") -> Plain:
    """Return the live value without fields that were applied last and are not wanted any more."""
    if isinstance(live, Mapping) and isinstance(last, Mapping):
        new = wanted if isinstance(wanted, Mapping) else {}
        return {
            key: without_dropped(item, last.get(key), new.get(key), key)
            for key, item in live.items()
            if key not in last or key in new
        }
    keys = MERGE_KEYS.get(field)
    if keys is None or not (_has_elements(live) and _has_elements(last)):
        return live
    last_elements = {identity(item, keys): item for item in last}
    new_elements = {identity(item, keys): item for item in (wanted if _has_elements(wanted) else ())}
    return [
        without_dropped(item, last_elements.get(name), new_elements.get(name))
        for item in live
        if (name := identity(item, keys)) not in last_elements or name in new_elements
    ]


def _has_elements(value: Plain) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value)


def unseen_fields(wanted: Plain, decoded: Plain, path: str = "") -> list[str]:
    """List the paths of a manifest's fields that its decoded object lacks."""
    if isinstance(wanted, Mapping):
        known = decoded if isinstance(decoded, Mapping) else {}
        paths: list[str] = []
        for key, item in wanted.items():
            where = f"{path}.{key}" if path else str(key)
            if key not in known:
                paths += [] if is_blank(item, key) or key in DELETES else [where]
            else:
                paths += unseen_fields(item, known[key], where)
        return paths
    if _has_elements(wanted) and isinstance(decoded, list | tuple):
        return [
            unseen_field
            for index, item in enumerate(wanted)
            for unseen_field in unseen_fields(item, decoded[index] if index < len(decoded) else {}, f"{path}[{index}]")
        ]
    return []


def whole_object(snapshot: Snapshot, key: str) -> Mapping[str, Any] | None:
    """Return a workload with all its fields; None where the snapshot does not have it whole."""
    whole = snapshot.whole.get(key)
    return msgspec.json.decode(whole, type=dict[str, Any]) if isinstance(whole, msgspec.Raw) else whole


def last_applied(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``spec`` that kubectl applied last, as it notes it on the object; empty where it does not."""
    annotations = (whole.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(_LAST_APPLIED)
    if not isinstance(text, str):
        return {}
    try:
        applied = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    spec = applied.get("spec") if isinstance(applied, dict) else None
    return spec if isinstance(spec, dict) else {}


_SET_ANEW = ("priority", "preemptionPolicy")  #: by the API server, as the priority class has them


def patch_of(old: Pod, new: Pod, template: Pod | PodTemplateSpec) -> dict[str, Any]:
    """Return the strategic merge patch of a template's ``spec`` that changes its pods as one pod was changed.

    `template` is of the pod's workload, or the pod itself; it may lack what admission adds to pods.
    """
    before, after, own = (msgspec.to_builtins(spec) for spec in (old.spec, new.spec, template.spec))
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
