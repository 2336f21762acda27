"""Pods of manifests go through the API server one after the other: admission, and validation of the whole object."""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.admission.admit import Admission, Admitter, Named
from kplan.admission.podsecurity import NEWEST
from kplan.admission.rejection import Refusal, Rejection
from kplan.admission.stored import WholeTemplate
from kplan.api.core import PersistentVolumeClaim, Pod
from kplan.api.kinds import POD_MAKERS, Kind, metadata_of, type_of
from kplan.api.meta import PlainMeta
from kplan.api.references import object_name
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot
from kplan.workloads.contents import ManifestPod, ManifestWorkload

_WORKLOADS = frozenset({"Pod", *POD_MAKERS})
"""Kinds that are admitted as workloads, not as other objects."""

_MAKERS = {"Deployment": ("apps", "replicasets"), "CronJob": ("batch", "jobs")}
"""Kinds whose controller creates pods through another object: group and resource of that object."""


class Admitting:
    """Admits pods in the given order; each pod counts in the quotas of the following ones.

    The pods of a workload differ in their names only, so only the first one is validated.

    Parameters
    ----------
    standing : the objects that exist already and count in quotas; None for the whole snapshot
    minor : minor version of the API server, such as 36
    """

    def __init__(self, snapshot: Snapshot, existing: Snapshot | None = None, *, minor: int = NEWEST) -> None:
        self.minor = minor
        self.problems: list[Problem] = []  #: validation errors of pods in manifests, not of workloads' pods
        self.uncountable: list[Problem] = []  #: resource amounts of accepted pods that overflow int64
        self.warnings: list[InputWarning] = []  #: without duplicates
        self._admitter = Admitter(snapshot, existing, minor=minor)
        self._snapshot = existing or snapshot
        self._existing: dict[str, set[tuple[str, str]]] = {}
        self._templates: dict[int, WholeTemplate] = {}
        self._refused: dict[int, str] = {}
        self._makers_refused: dict[int, str] = {}

    def admit(self, pod: ManifestPod) -> Admission:
        """Put one pod through admission."""
        refused = self.refusal_of(pod.workload) or self._refusal_of_maker(pod.workload)
        if refused:
            return Admission(pod.pod, (), refused)
        return self.admit_pod(pod.pod, pod.workload)

    def refusal_of(self, workload: ManifestWorkload) -> str:
        """Return why the API server refuses the workload itself, so that it has no pods; empty if it accepts it."""
        key = id(workload)
        if key not in self._refused:
            self._refused[key] = "" if workload.kind == "Pod" else self._check_object(workload)
        return self._refused[key]

    def _check_object(self, workload: ManifestWorkload) -> str:
        named = Named(workload.group, workload.resource, workload.namespace, workload.name)
        return self._admitter.refusal_of_object(named, self.warnings)

    def _refusal_of_maker(self, workload: ManifestWorkload) -> str:
        """Return why the API server refuses the replica set or job through which a workload creates its pods."""
        key = id(workload)
        if key not in self._makers_refused:
            resource = _MAKERS.get(workload.kind)
            owner = next(iter(workload.created.metadata.owner_references), None)
            name = owner.name if owner is not None else workload.name
            named = Named(*resource, workload.namespace, name) if resource is not None else None
            words = "" if named is None else self._admitter.refusal_of_object(named, self.warnings)
            self._makers_refused[key] = words
        return self._makers_refused[key]

    def accepts(self, obj: msgspec.Struct) -> bool:
        """Return whether the API server accepts an object other than a workload, and count it; warn if it does not."""
        kind = type_of(obj)
        metadata = metadata_of(obj)
        if not kind.is_namespaced or kind.name in _WORKLOADS or self._exists(kind, metadata):
            return True
        try:
            self._admitter.check_namespace(metadata.namespace, self.warnings)
            if isinstance(obj, PersistentVolumeClaim):
                self._admitter.admit_claim(obj)
            else:
                self._admitter.quotas.charge_object(metadata.namespace, kind.group, kind.resource)
        except Refusal as refusal:
            words = str(refusal)
        except Rejection as rejection:
            full = f"{kind.resource}.{kind.group}" if kind.group else kind.resource
            words = f'{full} "{metadata.name}" is forbidden: {rejection}'
        else:
            return True
        name = object_name(kind.name, metadata.namespace, metadata.name)
        self.warnings.append(InputWarning("Refused", name, words))
        return False

    def _exists(self, kind: Kind, metadata: PlainMeta) -> bool:
        if kind.attribute not in self._existing:
            held: tuple[Any, ...] = self._snapshot.objects(kind.attribute)
            self._existing[kind.attribute] = {(obj.metadata.namespace, obj.metadata.name) for obj in held}
        return (metadata.namespace, metadata.name) in self._existing[kind.attribute]

    def admit_pod(self, pod: Pod, workload: ManifestWorkload) -> Admission:
        """Put a pod of a workload through admission."""
        whole = self._whole(workload)
        is_first = whole.errors is None
        admission = self._admitter.admit(pod, whole)
        if is_first and workload.kind == "Pod":
            self.problems += dict.fromkeys(map(workload.locate, whole.errors or ()))
        if is_first and not admission.rejected:
            self.uncountable += workload.uncountable()
        self.warnings += [warning for warning in admission.warnings if warning not in self.warnings]
        return admission

    def _whole(self, workload: ManifestWorkload) -> WholeTemplate:
        key = id(workload)
        if key not in self._templates:
            self._templates[key] = WholeTemplate(workload.template)
        return self._templates[key]
