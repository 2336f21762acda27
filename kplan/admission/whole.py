"""Whole pods before the API server: what is invalid in them, and how they violate PodSecurity's policies.

Admission works on the fields of a pod that scheduling reads. The others are those of the manifest or template, the same
for all pods created from it, so that one check serves all of them.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.gated_fields import NEWEST
from kplan.admission.judge import invalid_words
from kplan.admission.podsecurity import Policy, violations
from kplan.admission.serviceaccount import account_of, mirror_problem
from kplan.admission.stored import for_validation
from kplan.admission.validation.errors import FieldError
from kplan.admission.validation.pods import pod_errors
from kplan.api.core import Pod


class WholeTemplate:
    """A decoded pod manifest or pod template: ``metadata`` and ``spec``."""

    def __init__(self, template: dict[str, Any]) -> None:
        self.errors: tuple[FieldError, ...] | None = None  #: what is invalid in its pods; None before the first check
        self._template = template
        self._forbidden: dict[Policy, str] = {}

    def unaccountable(self) -> str:
        """Return why its pods are forbidden as mirror pods; "" where they are not."""
        return mirror_problem(self._template)

    def account(self) -> str:
        """Return the name of the service account of its pods; "" for mirror pods."""
        return account_of(self._template)

    def invalid(self, pod: Pod, minor: int = NEWEST) -> str:
        """Return the API server's answer to an invalid pod after admission; "" where it is valid."""
        if self.errors is None:
            self.errors = tuple(pod_errors(self._whole(pod, minor)))
        return invalid_words("Pod", "", pod.metadata.name, self.errors) if self.errors else ""

    def insecure(self, pod: Pod, policy: Policy) -> str:
        """Return how one of its pods violates a policy; "" where it does not."""
        if policy not in self._forbidden:
            self._forbidden[policy] = violations(policy, self._whole(pod, policy.newest) if policy.is_demanding else {})
        return self._forbidden[policy]

    def _whole(self, pod: Pod, minor: int) -> dict[str, Any]:
        return for_validation(self._template, pod, minor)
