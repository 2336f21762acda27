"""Feature gates that a user sets: which can be set.

Upstream: component-base featuregate/feature_gate.go SetFromMap, pkg/features/kube_features.go.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.config.releases.model import Release

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def parse_gates(text: str) -> dict[str, bool]:
    """Parse ``NAME=BOOL,…`` as kube-scheduler's ``--feature-gates`` does.

    Raises UsageError when a part is not of that form.
    """
    gates: dict[str, bool] = {}
    for part in text.split(","):
        name, separator, value = (word.strip() for word in part.partition("="))
        if not name and not separator:
            continue
        if not separator or not name:
            raise UsageError(f"--feature-gates: missing bool value for {part.strip()}", hint="write NAME=true or false")
        if value not in _TRUE | _FALSE:
            hint = f"write {name}=true or {name}=false"
            raise UsageError(f"--feature-gates: invalid value of {name}={value}, expected a bool", hint=hint)
        gates[name] = value in _TRUE
    return gates


def with_gates(release: Release, gates: Mapping[str, bool]) -> Release:
    """Return a release with feature gates set.

    Raises UsageError for a gate that the release does not have, or that is locked.
    """
    if not gates:
        return release
    for name, is_on in gates.items():
        gate = release.gates.get(name)
        if gate is None:
            raise _unknown(release, name)
        if gate.is_locked and gate.is_on is not is_on:
            message = f"cannot set feature gate {name} to {_go(is_on)}, feature is locked to {_go(gate.is_on)}"
            raise UsageError(message, hint=f"leave {name} out: Kubernetes {release.minor} does not let it be changed")
    changed = replace(release, switched={**release.switched, **gates})
    for name, others in changed.needs.items():
        off = [other for other in others if not changed.is_on(other)]
        if off and changed.is_on(name):
            message = f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
            raise UsageError(message, hint=f"set {name}=false too: kube-scheduler does not start otherwise")
    return changed


def _unknown(release: Release, name: str) -> UsageError:
    if name in release.merged_gates:
        message = f"feature gate {name} is a part of {release.merged_gates[name]} in Kubernetes {release.minor}"
        return UsageError(message, hint=f"write {release.merged_gates[name]} instead")
    near = difflib.get_close_matches(name, release.gates, n=1)
    hint = f"did you mean {near[0]}?" if near else "kplan config show lists the gates that scheduling depends on"
    return UsageError(f"no feature gate {name!r} touches scheduling in Kubernetes {release.minor}", hint=hint)


def _go(value: bool) -> str:  # noqa: FBT001 - it is the value, not a switch
    return str(value).lower()
