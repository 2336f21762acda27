"""When a snapshot was taken, as far as it tells, and which kubelets did not answer then.

A kubelet renews its lease every ten seconds, or a little later.
Upstream: staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kplan.api.meta import PlainMeta
from kplan.api.time import seconds
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


def latest_known(snapshot: Snapshot) -> float | None:
    """Return the last moment of which a snapshot tells, in seconds since 1970; None where it tells of none.

    Whatever happens next happens after it. A time that lies ahead, such as the end of a deletion, is none of these.
    """
    return max(filter(None, map(seconds, set(_past(snapshot)))), default=None)


def _past(snapshot: Snapshot) -> Iterator[str | None]:
    """Yield the times at which something happened."""
    for obj in snapshot:
        metadata: PlainMeta = obj.metadata  # type: ignore[attr-defined]  # every kind has metadata
        yield metadata.creation_timestamp
        status = getattr(obj, "status", None)
        for condition in getattr(status, "conditions", ()):
            yield getattr(condition, "last_transition_time", None)
            yield getattr(condition, "last_heartbeat_time", None)
    for pod in snapshot.pods:
        yield pod.status.start_time
    for node in snapshot.nodes:
        yield from (taint.time_added for taint in node.spec.taints)
    for lease in snapshot.leases:
        yield lease.spec.renew_time
    for job in snapshot.jobs:
        yield job.status.start_time
        yield job.status.completion_time


def moment(snapshot: Snapshot) -> float | None:
    """Return when a snapshot was taken, or the last moment of which it tells, in seconds since 1970."""
    return seconds(snapshot.taken_at) or latest_known(snapshot)
