"""What the leases of a snapshot tell: when it was taken, and which kubelets do not answer.

A kubelet renews its lease every ten seconds, or a little later.
Upstream: staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from kplan.simulation.observing import seconds
from kplan.snapshot.model import Snapshot

RENEWAL_SECONDS = 10.4
"""From a renewal to the next one, at most."""
_SLACK = 4.6
"""A renewal may take time, and so may a list of leases."""


def renewals(snapshot: Snapshot) -> dict[str, float]:
    """Return when each node's lease was renewed last, of those that have one."""
    times = {
        lease.metadata.name: seconds(lease.spec.renew_time)
        for lease in snapshot.leases
        if lease.metadata.name in snapshot.node_by_name
    }
    return {name: at for name, at in times.items() if at is not None}


def present(renewed: Mapping[str, float], latest: float) -> float | None:
    """Return when the leases were read, most likely; None without any.

    That is after the latest renewal, and before the next one of any kubelet that answers.

    Parameters
    ----------
    latest : another time that has passed by then
    """
    answering = [at for at in renewed.values() if at >= max(renewed.values()) - RENEWAL_SECONDS]
    if not answering:
        return None
    earliest = max(*answering, latest)
    return (earliest + max(min(answering) + RENEWAL_SECONDS, earliest)) / 2


def silent_nodes(snapshot: Snapshot, renewed: Mapping[str, float], now: float) -> dict[str, float]:
    """Return the nodes whose kubelets do not answer, with the time when they were heard last."""
    reference = max(renewed.values(), default=now)
    silent: dict[str, float] = {}
    for node in snapshot.nodes:
        name = node.metadata.name
        heard = renewed.get(name)
        is_unknown = any((one.type, one.status) == ("Ready", "Unknown") for one in node.status.conditions)
        if is_unknown or (heard is not None and heard < reference - RENEWAL_SECONDS - _SLACK):
            silent[name] = now if heard is None else heard
    return silent
