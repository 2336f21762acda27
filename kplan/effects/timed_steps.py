"""Changes that begin at a time: each knows how to begin in a course with a clock, and which nodes it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from kplan.api.affinity import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from kplan.api.decode import DecodeError, convert
from kplan.changes.values import MAX_GRACE, DrainOptions, Upgrade
from kplan.documents.change import StepEvent
from kplan.effects.clock import is_seconds
from kplan.errors import NotFoundError, UsageError
from kplan.reading.arguments import listed
from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.loop import Simulation
from kplan.simulation.node_lifecycle import TaintName
from kplan.simulation.node_upgrade import NodeUpgrade
from kplan.simulation.timed_drain import TimedDrain
from kplan.workloads.manifests import WrittenWorkload

APPLY_SECONDS = 0.02
"""Between two objects that a client applies one after the other."""

_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_POD, _NODE = "Pod", "Node"


class Course(Protocol):
    """A course in which steps begin."""

    simulation: Simulation
    drains: list[TimedDrain]
    namespace: str

    def apply(self, workload: WrittenWorkload) -> None:
        """Apply an object."""


class TimedStep(msgspec.Struct, frozen=True):
    """A change that begins at a time, in seconds."""

    at: float

    @property
    def needs(self) -> Sequence[str]:
        """The nodes that have to be there when the course begins."""
        return ()

    def with_options(self, options: DrainOptions | None) -> TimedStep:
        """Return the same with other options of a drain; None for its own."""
        del options
        return self

    def begin(self, course: Course) -> None:
        """Begin, as the time has come."""
        raise NotImplementedError


class Apply(TimedStep, frozen=True):
    """Objects that are applied, one after the other."""

    workloads: Sequence[WrittenWorkload]
    additions: Sequence[msgspec.Struct] = ()  #: other objects; they are there from the start

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        for number, workload in enumerate(self.workloads):
            course.simulation.later(number * APPLY_SECONDS, partial(course.apply, workload))


class Drained(TimedStep, frozen=True):
    """Nodes that are drained.

    `upgrade` is for an upgrade of the nodes, which come back; None for a plain ``kubectl drain``.
    """

    nodes: Sequence[str]
    options: DrainOptions | None = None
    timeout: float = math.inf
    upgrade: Upgrade | None = None

    def with_options(self, options: DrainOptions | None) -> TimedStep:
        return self if options is None else msgspec.structs.replace(self, options=options)

    @property
    def needs(self) -> Sequence[str]:
        """See `TimedStep`."""
        return self.nodes

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        if self.upgrade is not None:
            NodeUpgrade(course.simulation, self.nodes, self.upgrade, self.options, course.drains).begin()
            return
        drain = TimedDrain(course.simulation, self.nodes, self.options, timeout=self.timeout)
        course.drains.append(drain)
        drain.begin()


class Failed(TimedStep, frozen=True):
    """Nodes whose kubelets fall silent: their last heartbeat is now."""

    nodes: Sequence[str]
    is_machine_gone: bool = False  #: a cloud's controller deletes the nodes

    @property
    def needs(self) -> Sequence[str]:
        """See `TimedStep`."""
        return self.nodes

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        course.simulation.node_lifecycle.fail(self.nodes, is_machine_gone=self.is_machine_gone)


class Recovered(TimedStep, frozen=True):
    """Nodes whose kubelets answer again, and are ready."""

    nodes: Sequence[str]

    @property
    def needs(self) -> Sequence[str]:
        """See `TimedStep`."""
        return self.nodes

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        course.simulation.node_lifecycle.recover(self.nodes)


class NotReady(TimedStep, frozen=True):
    """Nodes whose kubelets post that they are not ready."""

    nodes: Sequence[str]
    handles_pods: bool = False  #: they start and end pods all the same

    @property
    def needs(self) -> Sequence[str]:
        """See `TimedStep`."""
        return self.nodes

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        course.simulation.node_lifecycle.not_ready(self.nodes, handles_pods=self.handles_pods)


class Deleted(TimedStep, frozen=True):
    """Nodes and pods whose objects are deleted by hand."""

    objects: Sequence[tuple[str, str]]  #: kind and name; of pods with or without the namespace
    grace_period: int | None = None  #: seconds in which pods have to stop; None for their own

    @property
    def needs(self) -> Sequence[str]:
        """See `TimedStep`."""
        return [name for kind, name in self.objects if kind == _NODE]

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        simulation = course.simulation
        for kind, name in self.objects:
            if kind == _NODE:
                simulation.node_lifecycle.delete(name, "somebody deletes it")
                continue
            pod = _named(simulation, name, course.namespace)
            if pod is None:
                raise NotFoundError(f"there is no pod {name} at {self.at:g} s", hint="write NAMESPACE/NAME")
            if not pod.is_terminating:
                gone = msgspec.structs.replace(pod, is_deleted=True)
                simulation.remove(gone, StepEvent.DELETED, "somebody deletes it", grace=self.grace_period)
            elif self.grace_period == 0:
                simulation.end(pod.row)


def _named(simulation: Simulation, name: str, namespace: str) -> ObservedPod | None:
    """Return the pod of a name; without a namespace, the only one that any namespace has."""
    keys = [f"{namespace}/{name}"] if namespace and "/" not in name else [name]
    matches = [pod for pod in simulation.pods.values() if pod.key in keys or (not namespace and pod.name == name)]
    return matches[0] if len(matches) == 1 else None


class Tainted(TimedStep, frozen=True):
    """Nodes that get taints, or lose them, by hand."""

    add: Mapping[str, Sequence[Taint]]
    remove: Mapping[str, Sequence[TaintName]]

    @property
    def needs(self) -> Sequence[str]:
        """See `TimedStep`."""
        return [*self.add]

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        for name, taints in self.add.items():
            course.simulation.node_lifecycle.taint(name, taints, self.remove[name])


class Posted(TimedStep, frozen=True):
    """Conditions that kubelets post of their nodes."""

    conditions: Mapping[str, Mapping[str, str]]

    @property
    def needs(self) -> Sequence[str]:
        """See `TimedStep`."""
        return [*self.conditions]

    def begin(self, course: Course) -> None:
        """See `TimedStep`."""
        for name, conditions in self.conditions.items():
            course.simulation.node_lifecycle.post(name, conditions)


# Steps as they are written.

KEYS = frozenset(
    {"at", "apply", "drain", "options", "fail", "recover", "notReady", "podsHandled", "delete", "taint", "conditions"}
)


class _Options(msgspec.Struct, frozen=True, rename="camel"):
    """The options of a drain or a deletion; retry, poll and ignoreDaemonSets are kubectl's own and have no effect."""

    timeout: Any = None
    retry: Any = None
    poll: Any = None
    ignore_daemon_sets: Any = None
    force: Any = False
    delete_empty_dir_data: Any = False
    disable_eviction: Any = False
    grace_period: Any = -1
    skip_wait_for_delete_timeout: Any = 0


def read_steps(change: Mapping[str, Any]) -> list[TimedStep]:
    """Return the steps of a change as it is written, but what it applies; raises UsageError."""
    unknown = sorted(set(change) - KEYS)
    if unknown:
        raise UsageError(f"a change has no field {unknown[0]}", hint=f"use {', '.join(sorted(KEYS))}")
    at = time_of(change)
    return [read(at, change) for key, read in _READERS.items() if key in change]


def time_of(change: Mapping[str, Any]) -> float:
    """Return when a change begins; raises UsageError."""
    at = change.get("at", 0)
    if not is_seconds(at) or at == math.inf:
        raise UsageError(f"at: {at!r} is no number of seconds")
    return float(at)


def _read(key: str, value: object, kind: Any, hint: str) -> Any:
    try:
        return convert(value, kind)
    except DecodeError as error:
        raise UsageError(f"{key}: {'; '.join(str(problem) for problem in error.problems)}", hint=hint) from None


def _nodes(key: str, change: Mapping[str, Any]) -> list[str]:
    names: list[str] = _read(key, listed(change[key]), list[str], "list the names of nodes")
    return names


def _options(change: Mapping[str, Any]) -> _Options:
    options = change.get("options") or {}
    known = {field.encode_name for field in msgspec.structs.fields(_Options)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"a drain has no option {unknown[0]}", hint=f"use {', '.join(sorted(known))}")
    read: _Options = convert(dict(options), _Options)
    return read


def _whole(name: str, number: object, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= MAX_GRACE:
        raise UsageError(f"{name}: {number!r} is no whole number of seconds")
    return number


def _grace_of(options: _Options) -> int | None:
    grace = _whole("gracePeriod", options.grace_period, -1)
    return None if grace < 0 else grace


def _drained(at: float, change: Mapping[str, Any]) -> Drained:
    options = _options(change)
    timeout = options.timeout or math.inf
    if not is_seconds(timeout):
        raise UsageError(f"timeout: {timeout!r} is no number of seconds")
    drain_options = DrainOptions(
        force=bool(options.force),
        delete_emptydir_data=bool(options.delete_empty_dir_data),
        disable_eviction=bool(options.disable_eviction),
        grace_period=_grace_of(options),
        skip_wait_for_delete_timeout=_whole("skipWaitForDeleteTimeout", options.skip_wait_for_delete_timeout, 0),
    )
    return Drained(at, _nodes("drain", change), drain_options, float(timeout))


def _deleted(at: float, change: Mapping[str, Any]) -> Deleted:
    hint = f"write [[KIND, NAME], …], where KIND is {_NODE} or {_POD}"
    objects: list[tuple[str, str]] = _read("delete", change["delete"], list[tuple[str, str]], hint)
    for kind, _ in objects:
        if kind not in (_NODE, _POD):
            raise UsageError(f"delete: {kind!r} is not deleted by a step", hint=hint)
    return Deleted(at, objects, _grace_of(_options(change)))


def _tainted(at: float, change: Mapping[str, Any]) -> Tainted:
    hint = "write {NODE: [KEY=VALUE:EFFECT, KEY:EFFECT-]}, as for kubectl taint"
    taints: dict[str, list[str]] = _read("taint", change["taint"], dict[str, list[str]], hint)
    read = {name: [_taint(text, hint) for text in texts] for name, texts in taints.items()}
    return Tainted(
        at,
        {name: [taint for taint in both if isinstance(taint, Taint)] for name, both in read.items()},
        {name: [taint for taint in both if not isinstance(taint, Taint)] for name, both in read.items()},
    )


def _taint(text: str, hint: str) -> Taint | TaintName:
    head, _, effect = text.removesuffix("-").partition(":")
    key, _, value = head.partition("=")
    is_removed = text.endswith("-")
    if not key or not (effect in _EFFECTS or (is_removed and not effect)):
        raise UsageError(f"taint: {text!r} is no taint", hint=hint)
    return (key, effect) if is_removed else Taint(key=key, value=value, effect=effect)


def _posted(at: float, change: Mapping[str, Any]) -> Posted:
    hint = "write {NODE: {CONDITION: STATUS}}, where STATUS is True, False or Unknown"
    conditions: dict[str, dict[str, str]] = _read("conditions", change["conditions"], dict[str, dict[str, str]], hint)
    for posted in conditions.values():
        for status in posted.values():
            if status not in ("True", "False", "Unknown"):
                raise UsageError(f"conditions: {status!r} is no status", hint=hint)
    return Posted(at, conditions)


_READERS: Mapping[str, Callable[[float, Mapping[str, Any]], TimedStep]] = {
    "drain": _drained,
    "fail": lambda at, change: Failed(at, _nodes("fail", change)),
    "recover": lambda at, change: Recovered(at, _nodes("recover", change)),
    "notReady": lambda at, change: NotReady(at, _nodes("notReady", change), bool(change.get("podsHandled"))),
    "delete": _deleted,
    "taint": _tainted,
    "conditions": _posted,
}
