"""Pods of manifests, one after the other, before the API server: admission, and validation of the whole object."""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.admission.admit import Admission, Admitter
from kplan.admission.judge import invalid_words
from kplan.admission.podsecurity import Policy, violations
from kplan.admission.rejection import Refusal, Rejection
from kplan.admission.stored import created_pod, for_validation
from kplan.admission.validation.errors import FieldError
from kplan.admission.validation.pods import pod_errors
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


class Admitting:
    """Admits pods in the order given; each takes its share of the quotas.

    The pods of a workload are alike but for their names, so the first one is validated for all.

    Parameters
    ----------
    standing : what exists already and counts in quotas, where that is not all of the snapshot

    Attributes
    ----------
    problems : what is invalid in pods that are written down as such
    warnings : what was odd, each once
    """

    def __init__(self, snapshot: Snapshot, standing: Snapshot | None = None) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[InputWarning] = []
        self._admitter = Admitter(snapshot, standing)
        self._snapshot = standing or snapshot
        self._standing: dict[str, set[tuple[str, str]]] = {}
        self._errors: dict[int, tuple[FieldError, ...]] = {}
        self._forbidden: dict[tuple[int, Policy], str] = {}
        self._refused: dict[int, str] = {}

    def admit(self, each: ManifestPod) -> Admission:
        """Put one pod through admission."""
        refused = self.refusal_of(each.workload)
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
        try:
            self._admitter.check_namespace(workload.namespace, self.warnings)
            self._admitter.quotas.charge_object(workload.namespace, workload.group, workload.resource)
        except Refusal as refusal:
            return str(refusal)
        except Rejection as rejection:
            full = f"{workload.resource}.{workload.group}" if workload.group else workload.resource
            return f'{full} "{workload.name}" is forbidden: {rejection}'
        return ""

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
        admission = self._admitter.admit(
            pod,
            lambda changed: self._invalid(changed, workload),
            lambda changed, policy: self._insecure(changed, policy, workload),
        )
        self.warnings += [warning for warning in admission.warnings if warning not in self.warnings]
        return admission

    def _invalid(self, pod: Pod, workload: ManifestWorkload) -> str:
        key = id(workload)
        if key not in self._errors:
            whole = for_validation(created_pod(workload.template, pod), pod)
            self._errors[key] = tuple(pod_errors(whole))
            if workload.kind == "Pod":
                self.problems += dict.fromkeys(map(workload.locate, self._errors[key]))
        errors = self._errors[key]
        return invalid_words("Pod", "", pod.metadata.name, errors) if errors else ""

    def _insecure(self, pod: Pod, policy: Policy, workload: ManifestWorkload) -> str:
        key = (id(workload), policy)
        if key not in self._forbidden:
            whole = for_validation(created_pod(workload.template, pod), pod) if policy.is_demanding else {}
            self._forbidden[key] = violations(policy, whole)
        return self._forbidden[key]
