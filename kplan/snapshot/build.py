"""Building a snapshot from objects: duplicates, completion, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as with_changes
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api import core
from kplan.api.kinds import KINDS, Kind, type_of
from kplan.api.provisioning import NodeOverlay, NodePool
from kplan.api.references import object_name
from kplan.api.workloads import ControllerRevision
from kplan.errors import ENOUGH_PROBLEMS, Problem, SnapshotError
from kplan.facts import MissingKind
from kplan.reading.positions import Document
from kplan.snapshot.checks import QuantityCheck, have_times, node_pool_problems, reference_warnings, time_problems
from kplan.snapshot.defaults import complete, resolve_priority
from kplan.snapshot.lean import lean
from kplan.snapshot.model import LIVE, Snapshot, Warning, missing_warning  # noqa: A004 - the contract's word


class Place(msgspec.Struct, frozen=True):
    """The position of an object in its file; without `origin`, the object is from memory."""

    origin: Document | None = None
    json_path: str = "$"

    def locate(self, problem: Problem, prefix: str = "") -> Problem:
        """Return a problem of the object with its position in the file."""
        message = f"{prefix}: {problem.message}" if prefix else problem.message
        located = with_changes(problem.below(self.json_path), message=message)
        return self.origin.locate(located) if self.origin is not None else located


NOWHERE = Place()

_MOST_DIGITS = 20
"""A resource version has fewer: it is an unsigned 64-bit number."""


def build_snapshot(
    objects: Iterable[msgspec.Struct],
    *,
    source: str = "objects",
    taken_at: str | None = None,
    server_version: str | None = None,
    missing: Iterable[MissingKind] = (),
    skipped: dict[str, int] | None = None,
    warnings: Iterable[Warning] = (),
    whole: Mapping[str, msgspec.Raw | dict[str, Any]] | None = None,
    completes: bool = True,
) -> Snapshot:
    """Build a snapshot from objects; without `completes`, they have all defaults already.

    Raises SnapshotError if two objects of one kind and name differ, or a quantity does not parse.
    """
    builder = SnapshotBuilder()
    for obj in objects:
        builder.add(obj, type_of(obj), completes=completes)
    about = Snapshot(
        source=source,
        from_server=source.startswith(LIVE),
        taken_at=taken_at,
        server_version=server_version,
        missing=tuple(missing),
        skipped=skipped or {},
        warnings=tuple(warnings),
        whole=whole or {},
    )
    return builder.finish(about)


class SnapshotBuilder:
    """Collects objects and their problems; :meth:`finish` returns the snapshot.

    Parameters
    ----------
    refuses_odd : whether negative amounts and amounts beyond int64 are errors, as they are in files that people write
    """

    def __init__(self, *, refuses_odd: bool = False) -> None:
        self.problems: list[Problem] = []
        self.unchecked = 0  #: objects that were not added, as there are problems enough
        self.warnings: list[Warning] = []
        self._quantities = QuantityCheck(refuses_odd=refuses_odd)
        #: attribute of a kind -> NAMESPACE/NAME -> object
        self._objects: dict[str, dict[str, Any]] = {kind.attribute: {} for kind in KINDS}
        #: attribute of a kind -> the same objects as the snapshot has them
        self._lean: dict[str, list[Any]] = {kind.attribute: [] for kind in KINDS}
        self._not_stored: set[str] = set()  #: attributes of the kinds of which an object has no uid

    def has_enough_problems(self) -> bool:
        """Tell whether a further object need not be checked, and count it then."""
        if len(self.problems) < ENOUGH_PROBLEMS:
            return False
        self.unchecked += 1
        return True

    def add(self, obj: Any, kind: Kind, place: Place = NOWHERE, *, completes: bool = True) -> None:
        """Add an object; with `completes`, the defaults of an API server are filled in."""
        if isinstance(obj, ControllerRevision) and obj.is_foreign:
            return
        wrong = [*self._quantities.problems(obj), *time_problems(obj), *node_pool_problems(obj)]
        if not obj.metadata.name:
            wrong.append(Problem("has no name", json_path="$.metadata.name", hint="every object of a cluster has one"))
        if wrong:
            name = object_name(kind.name, obj.metadata.namespace, obj.metadata.name)
            self.problems += [place.locate(problem, name) for problem in wrong]
            return
        self._keep([obj], kind, lambda _: place, completes=completes)

    def add_sound(
        self, objects: Sequence[Any], kind: Kind, place_of: Callable[[int], Place], *, completes: bool = True
    ) -> bool:
        """Add objects of one kind as `add` does, but quicker; where one has a problem, none, and return False.

        Parameters
        ----------
        place_of : returns the position of the object with an index
        """
        is_sound = (
            all(obj.metadata.name for obj in objects)
            and self._quantities.are_good(objects)
            and have_times(objects)
            and not (isinstance(objects[0], NodePool | NodeOverlay) and any(map(node_pool_problems, objects)))
        )
        if is_sound:
            self._keep(objects, kind, place_of, completes=completes)
        return is_sound

    def _keep(self, objects: Iterable[Any], kind: Kind, place_of: Callable[[int], Place], *, completes: bool) -> None:
        same_kind, reduced = self._objects[kind.attribute], self._lean[kind.attribute]
        for index, written in enumerate(objects):
            obj = complete(written, kind) if completes else written
            metadata = obj.metadata
            earlier = same_kind.setdefault(f"{metadata.namespace}/{metadata.name}", obj)
            if earlier is not obj:
                name = object_name(kind.name, metadata.namespace, metadata.name)
                self._note_duplicate(earlier, obj, name, place_of(index))
            elif len(same_kind) > len(reduced):
                # At once, as the processor's cache still holds the object; duplicates are compared with all they have.
                reduced.append(lean(obj))
            if not metadata.uid:
                self._not_stored.add(kind.attribute)

    def objects(self) -> tuple[msgspec.Struct, ...]:
        """Return the collected objects, kind by kind, without contents that do not affect scheduling.

        Raises SnapshotError with all problems of all objects.
        """
        if self.problems:
            raise SnapshotError(self.problems, unchecked=self.unchecked)
        return tuple(chain.from_iterable(self._lean.values()))

    def finish(self, about: Snapshot) -> Snapshot:
        """Return the snapshot, with all that `about` says of it besides its objects.

        Raises SnapshotError with all problems of all objects.
        """
        if self.problems:
            raise SnapshotError(self.problems, unchecked=self.unchecked)
        objects: dict[str, Any] = {name: tuple(reduced) for name, reduced in self._lean.items()}
        if "pods" in self._not_stored:
            objects["pods"] = tuple(
                pod if pod.metadata.uid else self._with_priority(pod, objects["priority_classes"])
                for pod in objects["pods"]
            )
        objects["nodes"] = tuple(self._with_allocatable(node) for node in objects["nodes"])
        pods = self._objects["pods"]
        snapshot = with_changes(about, **objects, versions=_versions(pods))
        snapshot.__dict__["pod_by_key"] = dict(zip(pods, objects["pods"], strict=True))  # what it would derive itself
        unread = map(missing_warning, about.missing)
        all_warnings = (*about.warnings, *self.warnings, *unread, *reference_warnings(snapshot))
        object.__setattr__(snapshot, "warnings", all_warnings)
        return snapshot

    def _note_duplicate(self, earlier: Any, obj: Any, name: str, place: Place) -> None:
        if earlier == obj:
            self.warnings.append(
                Warning("Duplicate", name, "is in the input twice with equal content; the second is ignored")
            )
            return
        problem = Problem(
            "is in the input twice with different content",
            json_path="$.metadata.name",
            hint="leave one of them out, or give it another name",
        )
        self.problems.append(place.locate(problem, name))

    def _with_priority(self, pod: core.Pod, classes: tuple[Any, ...]) -> core.Pod:
        if pod.spec.priority is not None:
            return pod
        resolved = resolve_priority(pod.spec.priority_class_name, classes)
        if resolved is None:
            self.warnings.append(
                Warning(
                    "UnknownPriorityClass",
                    object_name("Pod", pod.metadata.namespace, pod.metadata.name),
                    f"priority class {pod.spec.priority_class_name!r} is not in the snapshot; the priority counts as 0",
                )
            )
            return replace(pod, spec=replace(pod.spec, priority=0))
        return resolved.applied_to(pod)

    def _with_allocatable(self, node: core.Node) -> core.Node:
        """Fill in an absent allocatable from capacity, as the API server does when it reads a node."""
        if node.status.allocatable or not node.status.capacity:
            return node
        name = object_name("Node", "", node.metadata.name)
        self.warnings.append(Warning("NoAllocatable", name, "has no allocatable; its capacity counts instead"))
        return replace(node, status=replace(node.status, allocatable=node.status.capacity))


def _versions(pods: Mapping[str, core.Pod]) -> dict[str, int]:
    return {
        key: int(version)
        for key, pod in pods.items()
        if (version := pod.metadata.resource_version)
        and version.isascii()
        and version.isdecimal()
        and len(version) < _MOST_DIGITS
    }
