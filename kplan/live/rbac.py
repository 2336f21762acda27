"""The smallest role with which kplan sees all it needs."""

from __future__ import annotations

from typing import Any

from kplan.live.resources import RESOURCES

#: Only these; a test holds the transport to GET, and get and list are what GET needs.
VERBS = ("get", "list")


def cluster_role(name: str = "kplan") -> dict[str, Any]:
    """Return a ClusterRole (rbac.authorization.k8s.io/v1) over exactly the kinds that the collector asks for.

    Discovery and ``/version`` need no rule: every signed-in user may ask for them (system:discovery).
    """
    groups: dict[str, list[str]] = {}
    for resource in RESOURCES:
        groups.setdefault(resource.group, []).append(resource.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(VERBS)}
        for group, plurals in sorted(groups.items())
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
