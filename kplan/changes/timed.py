"""How changes are written: as texts of options, or with a time, as changes or in the short form of a timeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.decode import DecodeError, convert
from kplan.changes import values as c
from kplan.errors import UsageError
from kplan.reading.arguments import listed
from kplan.workloads import WrittenWorkload

_WRITTEN: Mapping[str, Callable[[Any], c.Change]] = {
    "with_": lambda source: c.Apply((str(source) if isinstance(source, Path) else source,)),
    "without": lambda text: c.Delete((text,)),
    "add_nodes": c.AddNodes.parse,
    "cordon": lambda name: c.Cordon((name,)),
    "uncordon": lambda name: c.Uncordon((name,)),
    "scale": c.Scale.parse,
    "recommendations": c.Resize,
}


def change_of(name: str, value: Any) -> c.Change:
    """Return the change that a parameter such as ``scale`` writes as a text; raises UsageError for what is none."""
    return _WRITTEN[name](value)


def changes_of(*, settle: bool = False, **written: Iterable[Any]) -> list[c.Change]:
    """Return the changes of parameters such as ``scale``, in the order of `kplan.Planner.changed`."""
    changes = [read(value) for name, read in _WRITTEN.items() for value in listed(written.get(name, ()))]
    return [*changes, c.Settle()] if settle else changes


class Timed(msgspec.Struct, frozen=True):
    """A change that begins at a time, in seconds; what manifests of an `Apply` say was read before."""

    at: float
    change: c.Change
    workloads: Sequence[WrittenWorkload] = ()  #: are applied one after the other
    additions: Sequence[msgspec.Struct] = ()  #: other objects, which are there from the start

    def with_options(self, options: c.DrainOptions | None) -> Timed:
        """Return the same with other options of a drain; None for its own."""
        if options is None or not isinstance(self.change, c.Drain):
            return self
        return replace(self, change=replace(self.change, options=options))


def applied(workloads: Sequence[WrittenWorkload], additions: Sequence[msgspec.Struct] = ()) -> Timed:
    """Return that manifests which were read are applied at once."""
    return Timed(0.0, c.Apply(()), tuple(workloads), additions)


_FIELDS: Mapping[str, str] = {
    "apply": "manifests",
    **dict.fromkeys(("drain", "fail", "recover", "notReady"), "nodes"),
    "delete": "objects",
    "taint": "taints",
    "conditions": "conditions",
}
"""The changes that a step may say in short, each with the field that it gives so."""

_OPTIONS: Mapping[str, str | None] = {
    "deleteEmptyDirData": "deleteEmptydirData",
    **{name: name for name in ("disableEviction", "force", "gracePeriod", "skipWaitForDeleteTimeout")},
    **dict.fromkeys(("timeout", "ignoreDaemonSets", "poll", "retry")),
}
"""The options of a drain or a deletion, with their fields; the last three are kubectl's own and have no effect."""


def read_changes(step: Mapping[str, Any]) -> list[Timed]:
    """Return the changes of a step of a timeline as it is written; raises UsageError.

    A step is the document of a change with its time, ``{"at": 5, "change": "cordon", "nodes": ["n1"]}``, or has one or
    more changes in short, ``{"at": 5, "drain": ["n1"], "options": {"timeout": 60}}``.
    """
    at = step.get("at", 0)
    if not is_seconds(at) or at == math.inf:
        raise UsageError(f"at: {at!r} is no number of seconds")
    if "change" in step:
        return [Timed(float(at), read_change({key: value for key, value in step.items() if key != "at"}))]
    _check_known("a change has no field", step, ("at", "options", "podsHandled", *_FIELDS))
    return [Timed(float(at), _read_short(key, step)) for key in _FIELDS if key in step]


def read_change(document: Mapping[str, Any]) -> c.Change:
    """Return the change that a document says, such as ``{"change": "cordon", "nodes": ["n1"]}``; raises UsageError."""
    hint = "kplan schema WhatIfQuestion has its fields"
    change: c.Change = _read(f"change {document.get('change', '')}", document, c.Change, hint)
    for text in chain.from_iterable(change.taints.values()) if isinstance(change, c.Taint) else ():
        c.taint_of(text)  # raises UsageError for what is no taint
    return change


def is_seconds(value: object) -> bool:
    """Tell whether a value is a number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _read(key: str, value: object, kind: Any, hint: str) -> Any:
    try:
        return convert(value, kind)
    except DecodeError as error:
        raise UsageError(f"{key}: {'; '.join(str(problem) for problem in error.problems)}", hint=hint) from None


def _check_known(words: str, names: Iterable[str], known: Iterable[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise UsageError(f"{words} {unknown[0]}", hint=f"use {', '.join(sorted(known))}")


def _options(step: Mapping[str, Any]) -> Mapping[str, Any]:
    hint = f"write {{OPTION: VALUE}}, with {', '.join(sorted(_OPTIONS))}"
    options: Mapping[str, Any] = _read("options", step.get("options") or {}, dict[str, Any], hint)
    _check_known("a drain has no option", options, _OPTIONS)
    return {name: value for name, value in options.items() if (name, value) != ("gracePeriod", -1)}


def _read_short(key: str, step: Mapping[str, Any]) -> c.Change:
    """Return a change that a step says in short, read as its document; manifests may be any that Python takes."""
    value = step[key] if key in ("taint", "conditions") else listed(step[key])
    document = {"change": key, _FIELDS[key]: value}
    match key:
        case "apply":
            return c.Apply(tuple(value))
        case "drain":
            options = _options(step)
            own = {field: options[name] for name, field in _OPTIONS.items() if field and name in options}
            document |= {"options": own, "timeout": options.get("timeout") or None}
        case "delete":
            pairs = _read(key, value, list[tuple[str, str]], "write [[KIND, NAME], …], where KIND is Node or Pod")
            document |= {"objects": list(map("/".join, pairs)), "gracePeriod": _options(step).get("gracePeriod")}
        case "notReady":
            document["podsHandled"] = bool(step.get("podsHandled"))
    return read_change(document)
