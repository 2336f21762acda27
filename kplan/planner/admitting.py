"""Pods of manifests, one after the other, before the API server: admission, and validation of the whole object."""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.admission.admit import Admission, Admitter, Named
from kplan.admission.podsecurity import NEWEST
from kplan.admission.rejection import Refusal, Rejection
from kplan.admission.whole import WholeTemplate
from kplan.api.core import PersistentVolumeClaim, Pod
from kplan.api.kinds import Kind, type_of
from kplan.api.meta import ObjectMeta
from kplan.errors import Problem
from kplan.snapshot.model import Snapshot, object_name
from kplan.snapshot.model import Warning as InputWarning
from kplan.workloads.manifests import ManifestPod, ManifestWorkload

_OWN_WAY = frozenset(
    {"Pod", "ReplicaSet", "StatefulSet", "Deployment", "DaemonSet", "Job", "CronJob", "ReplicationController"}
)
"""Kinds that are looked at as workloads are."""

_MAKERS = {"Deployment": ("apps", "replicasets"), "CronJob": ("batch", "jobs")}
"""Kinds whose controller makes an object that makes the pods: its group and resource."""


class Admitting:
    """Admits pods in the order given; each takes its share of the quotas.

    The pods of a workload are alike but for their names, so the first one is validated for all.

    Parameters
    ----------
    standing : what exists already and counts in quotas, where that is not all of the snapshot

    minor : the API server's, such as 36
    """

    def __init__(self, snapshot: Snapshot, standing: Snapshot | None = None, *, minor: int = NEWEST) -> None:
        self.minor = minor
        self.problems: list[Problem] = []  #: what is invalid in pods that are written down as such
        self.uncountable: list[Problem] = []  #: amounts of pods that are taken, with which nothing can reckon
        self.warnings: list[InputWarning] = []  #: what was odd, each once
        self._admitter = Admitter(snapshot, standing, minor=minor)
        self._snapshot = standing or snapshot
        self._standing: dict[str, set[tuple[str, str]]] = {}
        self._templates: dict[int, WholeTemplate] = {}
        self._refused: dict[int, str] = {}
        self._makers_refused: dict[int, str] = {}

    def admit(self, each: ManifestPod) -> Admission:
        """Put one pod through admission."""
        refused = self.refusal_of(each.workload) or self._refusal_of_maker(each.workload)
        if refused:
            return Admission(each.pod, (), refused)
        return self.admit_pod(each.pod, each.workload)

    def refusal_of(self, workload: ManifestWorkload) -> str:
        """Return why the workload itself is not taken, so that it makes no pods; looked at once."""
        key = id(workload)
        if key not in self._refused:
            self._refused[key] = "" if workload.kind == "Pod" else self._check_object(workload)
        return self._refused[key]

    def _check_object(self, workload: ManifestWorkload) -> str:
        named = Named(workload.group, workload.resource, workload.namespace, workload.name)
        return self._admitter.refusal_of_object(named, self.warnings)

    def _refusal_of_maker(self, workload: ManifestWorkload) -> str:
        """Return why what stands between a workload and its pods is not taken: a replica set, a job; looked at once."""
        key = id(workload)
        if key not in self._makers_refused:
            made = _MAKERS.get(workload.kind)
            owner = next(iter(workload.created.metadata.owner_references), None)
            name = owner.name if owner is not None else workload.name
            named = Named(*made, workload.namespace, name) if made is not None else None
            words = "" if named is None else self._admitter.refusal_of_object(named, self.warnings)
            self._makers_refused[key] = words
        return self._makers_refused[key]

    def takes(self, obj: msgspec.Struct) -> bool:
        """Tell whether an object that comes with the pods is taken, and count it; one that is not is a warning."""
        kind = type_of(obj)
        metadata = obj.metadata  # type: ignore[attr-defined] # every kind has it
        if not kind.is_namespaced or kind.name in _OWN_WAY or self._stands(kind, metadata):
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

    def _stands(self, kind: Kind, metadata: ObjectMeta) -> bool:
        if kind.attribute not in self._standing:
            held: tuple[Any, ...] = self._snapshot.objects(kind.attribute)
            self._standing[kind.attribute] = {(each.metadata.namespace, each.metadata.name) for each in held}
        return (metadata.namespace, metadata.name) in self._standing[kind.attribute]

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
