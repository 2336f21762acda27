"""The revisions of stateful sets and daemon sets: the pod templates that they have or had, with their names.

Pods are labelled with the name of the revision that they were created from. A template that a workload had before has
its former name again, so that pods of that revision stay.

Upstream: pkg/controller/history/controller_history.go ListControllerRevisions, FindEqualRevisions;
pkg/controller/statefulset/stateful_set_control.go getStatefulSetRevisions; pkg/controller/daemon/update.go
constructHistory, dedupCurHistories, controlledHistories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kplan.api.apps import ControllerRevision
from kplan.api.core import PodTemplateSpec
from kplan.api.labels import Selector
from kplan.api.meta import controller_of
from kplan.api.references import WorkloadRef, object_name
from kplan.simulation.templates import default_identity, lean_identity
from kplan.simulation.updates import whole_object
from kplan.snapshot.model import Snapshot

REVISION_LABEL = "controller-revision-hash"


class Revision(msgspec.Struct, frozen=True):
    """A revision of a workload."""

    name: str  #: as pods of it are labelled
    template: PodTemplateSpec
    whole: Mapping[str, Any] | None = None  #: its template with all fields, where the snapshot has them


class Revisions:
    """The revisions of a snapshot, by the workloads that have them."""

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
        owned = [obj for obj in self._owned.get((ref.kind, ref.namespace, ref.name), ()) if _is_of(ref, obj)]
        if selector is not None:
            orphans = self._orphans.get(ref.namespace, ())
            owned += [obj for obj in orphans if selector.matches(obj.metadata.labels)]
        owned.sort(key=lambda obj: (obj.revision, obj.metadata.creation_timestamp or "", obj.metadata.name))
        return [self._revision(ref.kind, obj) for obj in owned]

    def _revision(self, kind: str, obj: ControllerRevision) -> Revision:
        metadata = obj.metadata
        name = metadata.labels.get(REVISION_LABEL, metadata.name) if kind == "DaemonSet" else metadata.name
        whole = whole_object(self._snapshot, object_name("ControllerRevision", metadata.namespace, metadata.name))
        return Revision(name, obj.data.spec.template, None if whole is None else _template_in(whole))


def equal_revision(
    revisions: Sequence[Revision], template: PodTemplateSpec, stored: Mapping[str, Any] | None
) -> Revision | None:
    """Return the newest revision with a template; None where there is none.

    Fields that the snapshot does not have of both are not compared.

    Parameters
    ----------
    revisions : the oldest first
    stored : the template with all fields and defaults; None where they are not known
    """
    if not revisions:
        return None
    wanted = lean_identity(template, stored)
    whole = None if stored is None else default_identity(stored)
    for revision in reversed(revisions):
        if lean_identity(revision.template, None) != wanted:
            continue
        if whole is None or revision.whole is None or default_identity(revision.whole) == whole:
            return revision
    return None


def _is_of(ref: WorkloadRef, obj: ControllerRevision) -> bool:
    """Tell whether a revision belongs to this workload, rather than to an earlier one of its name."""
    owner = controller_of(obj.metadata)
    return owner is not None and (not owner.uid or not ref.uid or owner.uid == ref.uid)


def _template_in(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod template in a revision as it was read."""
    content: Any = whole
    for field in ("data", "spec", "template"):
        content = content.get(field) or {}
    return {field: item for field, item in content.items() if field != "$patch"}
