"""How changes are written: as texts of options, or with a time, as changes or in the short form of a timeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.decode import DecodeError, convert
from kplan.changes import values as c
from kplan.errors import UsageError
from kplan.reading.arguments import listed
from kplan.workloads import WrittenWorkload

_POD, _NODE = "Pod", "Node"


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


_OPTIONS = (
    *("deleteEmptyDirData", "disableEviction", "force", "gracePeriod", "skipWaitForDeleteTimeout", "timeout"),
    *("ignoreDaemonSets", "poll", "retry"),
)
"""The options of a drain or a deletion; the last three are kubectl's own and have no effect."""


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
    _check_known("a change has no field", step, ("at", "options", "podsHandled", *_READERS))
    return [Timed(float(at), read(step)) for key, read in _READERS.items() if key in step]


def read_change(document: Mapping[str, Any]) -> c.Change:
    """Return the change that a document says, such as ``{"change": "cordon", "nodes": ["n1"]}``; raises UsageError."""
    hint = "kplan schema WhatIfQuestion has its fields"
    change: c.Change = _read(f"change {document.get('change', '')}", document, c.Change, hint)
    return _with_known_taints(change) if isinstance(change, c.Taint) else change


def is_seconds(value: object) -> bool:
    """Tell whether a value is a number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _read(key: str, value: object, kind: Any, hint: str) -> Any:
    try:
        return convert(value, kind)
    except DecodeError as error:
        raise UsageError(f"{key}: {'; '.join(str(problem) for problem in error.problems)}", hint=hint) from None


def _nodes(key: str, step: Mapping[str, Any]) -> tuple[str, ...]:
    names: tuple[str, ...] = _read(key, listed(step[key]), tuple[str, ...], "list the names of nodes")
    return names


def _check_known(words: str, names: Iterable[str], known: Iterable[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise UsageError(f"{words} {unknown[0]}", hint=f"use {', '.join(sorted(known))}")


def _options(step: Mapping[str, Any]) -> Mapping[str, Any]:
    hint = f"write {{OPTION: VALUE}}, with {', '.join(sorted(_OPTIONS))}"
    options: Mapping[str, Any] = _read("options", step.get("options") or {}, dict[str, Any], hint)
    _check_known("a drain has no option", options, _OPTIONS)
    return options


def _whole(options: Mapping[str, Any], name: str, least: int) -> int:
    """Return a whole number of seconds among options; the least one where it is not there."""
    number = options.get(name, least)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= c.MAX_GRACE:
        raise UsageError(f"{name}: {number!r} is no whole number of seconds")
    return number


def _grace_of(options: Mapping[str, Any]) -> int | None:
    grace = _whole(options, "gracePeriod", -1)
    return None if grace < 0 else grace


def _drain(step: Mapping[str, Any]) -> c.Drain:
    options = _options(step)
    timeout = options.get("timeout") or None
    if timeout is not None and not is_seconds(timeout):
        raise UsageError(f"timeout: {timeout!r} is no number of seconds")
    drain_options = c.DrainOptions(
        force=bool(options.get("force")),
        delete_emptydir_data=bool(options.get("deleteEmptyDirData")),
        disable_eviction=bool(options.get("disableEviction")),
        grace_period=_grace_of(options),
        skip_wait_for_delete_timeout=_whole(options, "skipWaitForDeleteTimeout", 0),
    )
    return c.Drain(_nodes("drain", step), drain_options, timeout)


def _delete(step: Mapping[str, Any]) -> c.Delete:
    hint = f"write [[KIND, NAME], …], where KIND is {_NODE} or {_POD}"
    objects: list[tuple[str, str]] = _read("delete", step["delete"], list[tuple[str, str]], hint)
    for kind, _ in objects:
        if kind not in (_NODE, _POD):
            raise UsageError(f"delete: {kind!r} is not deleted by a step", hint=hint)
    return c.Delete(tuple(f"{kind}/{name}" for kind, name in objects), _grace_of(_options(step)))


def _taint(step: Mapping[str, Any]) -> c.Taint:
    return _with_known_taints(c.Taint(_read("taint", step["taint"], dict[str, tuple[str, ...]], c.TAINTS_HINT)))


def _with_known_taints(change: c.Taint) -> c.Taint:
    """Return a change whose taints can be read; raises UsageError for another."""
    for text in (text for texts in change.taints.values() for text in texts):
        c.taint_of(text)
    return change


def _conditions(step: Mapping[str, Any]) -> c.Conditions:
    hint = "write {NODE: {CONDITION: STATUS}}, where STATUS is True, False or Unknown"
    conditions: dict[str, dict[str, Any]] = _read("conditions", step["conditions"], dict[str, dict[str, str]], hint)
    for status in (status for posted in conditions.values() for status in posted.values()):
        if status not in ("True", "False", "Unknown"):
            raise UsageError(f"conditions: {status!r} is no status", hint=hint)
    return c.Conditions(conditions)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], c.Change]] = {
    "apply": lambda step: c.Apply(tuple(listed(step["apply"]))),
    "drain": _drain,
    "fail": lambda step: c.Fail(_nodes("fail", step)),
    "recover": lambda step: c.Recover(_nodes("recover", step)),
    "notReady": lambda step: c.NotReady(_nodes("notReady", step), bool(step.get("podsHandled"))),
    "delete": _delete,
    "taint": _taint,
    "conditions": _conditions,
}
