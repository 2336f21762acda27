"""PodSecurity: the level that a namespace enforces by its labels, and how a pod violates it.

The API server's own defaults stand (everything is privileged, nothing is exempt); a cluster that configures others is
not modelled. Upstream: k8s.io/pod-security-admission, api/helpers.go, policy/registry.go, admission/admission.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kplan.admission.podsecurity_checks import BASELINE, RESTRICTED, Check, Subject
from kplan.admission.validation.checks import Object

_LABEL = "pod-security.kubernetes.io/enforce"
_VERSION_LABEL = "pod-security.kubernetes.io/enforce-version"
_PRIVILEGED, _BASELINE, _RESTRICTED = "privileged", "baseline", "restricted"
_LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)
NEWEST = 36
"""The newest known minor of the policies."""


class Policy(NamedTuple):
    """A level and its version; `newest` is the newest minor whose policies the API server knows."""

    level: str
    version: str
    newest: int = NEWEST

    @property
    def is_demanding(self) -> bool:
        """Whether the level forbids anything."""
        return self.level != _PRIVILEGED

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


def enforced(labels: Mapping[str, str], newest: int = NEWEST) -> Policy:
    """Return the policy in the labels of a namespace; an invalid level counts as restricted, a version as latest.

    Parameters
    ----------
    newest : minor version of the API server, which knows no newer policies
    """
    level = labels.get(_LABEL, _PRIVILEGED)
    if level not in {_PRIVILEGED, _BASELINE, _RESTRICTED}:
        level = _RESTRICTED
    version = labels.get(_VERSION_LABEL, _LATEST)
    return Policy(level, version if _VERSION.fullmatch(version) else _LATEST, min(newest, NEWEST))


def violations(policy: Policy, pod: Object) -> str:
    """Return in the API server's words how a whole pod violates a policy; "" where it does not."""
    if not policy.is_demanding:
        return ""
    newest = policy.newest
    minor = newest if policy.version == _LATEST else min(int(policy.version.removeprefix("v1.")), newest)
    checks = _in_force(BASELINE, minor)
    if policy.level == _RESTRICTED:
        stricter = _in_force(RESTRICTED, minor)
        overridden = {check.overrides for check in stricter.values()}
        checks = {name: check for name, check in checks.items() if name not in overridden} | stricter
    subject = Subject(pod)
    details = [*filter(None, (check.find(subject) for check in checks.values()))]
    return f'violates PodSecurity "{policy}": {", ".join(details)}' if details else ""


def _in_force(checks: tuple[Check, ...], minor: int) -> dict[str, Check]:
    """Return the revision of each check that is in force in a minor, by name."""
    newest: dict[str, Check] = {}
    for check in checks:
        if check.since <= minor:
            newest[check.name] = check
    return {name: newest[name] for name in sorted(newest)}
