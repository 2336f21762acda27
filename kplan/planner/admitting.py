"""Pods of manifests, one after the other, before the API server: admission, and validation of the whole object."""

from __future__ import annotations

from kplan.admission.admit import Admission, Admitter
from kplan.admission.judge import invalid_words
from kplan.admission.rejection import Refusal, Rejection
from kplan.admission.stored import created_pod, for_validation
from kplan.admission.validation.errors import FieldError
from kplan.admission.validation.pods import pod_errors
from kplan.api.core import Pod
from kplan.errors import Problem
from kplan.snapshot.model import Snapshot
from kplan.snapshot.model import Warning as InputWarning
from kplan.workloads.manifests import ManifestPod, ManifestWorkload

__all__ = ["Admitting"]


class Admitting:
    """Admits pods in the order given; each takes its share of the quotas.

    The pods of a workload are alike but for their names, so the first one is validated for all.

    Attributes
    ----------
    problems : what is invalid in pods that are written down as such
    warnings : what was odd, each once
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[InputWarning] = []
        self._admitter = Admitter(snapshot)
        self._errors: dict[int, tuple[FieldError, ...]] = {}
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

    def admit_pod(self, pod: Pod, workload: ManifestWorkload) -> Admission:
        """Put a pod of a workload through admission."""
        admission = self._admitter.admit(pod, lambda changed: self._invalid(changed, workload))
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
