"""Pods held whole before the API server: what is invalid in them, and what PodSecurity forbids of them.

Admission works on the part of a pod that scheduling reads. The rest stands in the pod or template as it is written, and
is the same for all pods that are made from it, so they are looked at once.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.gated_fields import NEWEST
from kplan.admission.judge import invalid_words
from kplan.admission.podsecurity import Policy, violations
from kplan.admission.serviceaccount import mirror_problem
from kplan.admission.stored import for_validation
from kplan.admission.validation.errors import FieldError
from kplan.admission.validation.pods import pod_errors
from kplan.api.core import Pod


class WholeTemplate:
    """What pods are made from, as it is written: ``metadata`` and ``spec``, decoded."""

    def __init__(self, template: dict[str, Any]) -> None:
        self.errors: tuple[FieldError, ...] | None = None  #: what is invalid in its pods; None before one was looked at
        self._template = template
        self._forbidden: dict[Policy, str] = {}

    def unaccountable(self) -> str:
        """Say what its pods must not refer to if they are mirror pods; nothing otherwise."""
        return mirror_problem(self._template)

    def invalid(self, pod: Pod, minor: int = NEWEST) -> str:
        """Say what is invalid for an API server of a minor in a pod of it that admission has changed."""
        if self.errors is None:
            self.errors = tuple(pod_errors(self._whole(pod, minor)))
        return invalid_words("Pod", "", pod.metadata.name, self.errors) if self.errors else ""

    def insecure(self, pod: Pod, policy: Policy) -> str:
        """Say what a policy forbids of a pod of it; nothing where nothing is."""
        if policy not in self._forbidden:
            self._forbidden[policy] = violations(policy, self._whole(pod, policy.newest) if policy.is_demanding else {})
        return self._forbidden[policy]

    def _whole(self, pod: Pod, minor: int) -> dict[str, Any]:
        return for_validation(self._template, pod, minor)
