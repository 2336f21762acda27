"""Pods of the snapshot as their controllers see them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from kplan.api.affinity import required_node_affinity
from kplan.api.core import Pod
from kplan.api.labels import parse_int64
from kplan.api.time import seconds
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.owners import DaemonSetState, Owner, StatefulSetState
from kplan.course.simulation.pod_creation import COMPLETION_INDEX_LABEL, POD_INDEX_LABEL
from kplan.course.simulation.templates import REVISION_LABEL
from kplan.rules.pod_info import PodInfo
from kplan.workloads.expansion import TEMPLATE_HASH


def stamp(at: float) -> str:
    """Return seconds since 1970 as a time of an object, which has whole seconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def observe(row: int, info: PodInfo, node: str, order: int) -> ObservedPod:
    """Return a pod of the snapshot as controllers see it.

    A running pod counts as ready unless its Ready condition is not True: then it never becomes ready.
    """
    pod, labels = info.pod, info.labels
    created = seconds(pod.metadata.creation_timestamp) or 0.0
    ready = next((condition for condition in pod.status.conditions if condition.type == "Ready"), None)
    is_ready = bool(node) and (ready is None or ready.status == "True")
    since = (seconds(ready.last_transition_time) if ready is not None else None) or seconds(pod.status.start_time)
    cost = parse_int64(pod.metadata.annotations.deletion_cost)
    return ObservedPod(
        row,
        info.namespace,
        info.name,
        info.uid,
        node,
        pod.status.phase or ("Running" if node else "Pending"),
        created,
        (since or created) if is_ready else None,
        labels.get(TEMPLATE_HASH) or labels.get(REVISION_LABEL, ""),
        deletion_cost=cost or 0,
        restarts=_restarts(pod),
        order=order,
    )


def _restarts(pod: Pod) -> tuple[int, int]:
    if not pod.status.container_statuses and not pod.status.init_container_statuses:
        return 0, 0
    sidecars = {
        init_container.name for init_container in pod.spec.init_containers if init_container.restart_policy == "Always"
    }
    return (
        max((container_status.restart_count for container_status in pod.status.container_statuses), default=0),
        max(
            (status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars),
            default=0,
        ),
    )


def ordinal_of(name: str) -> int | None:
    """Return the number at the end of a pod's name; None where it has none."""
    _, _, digits = name.rpartition("-")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else None


def next_ordinal(owner: StatefulSetState, pod: ObservedPod, info: PodInfo) -> int:
    """Return a pod's ordinal in its stateful set; where its name has none, such as a pseudonym, the next free one."""
    ordinal = parse_int64(info.labels.get(POD_INDEX_LABEL, ""))
    if ordinal is None and pod.name.startswith(f"{owner.ref.name}-"):
        ordinal = ordinal_of(pod.name)
    used = {sibling.index for sibling in owner.pods.values()}
    if ordinal is not None and ordinal not in used:
        return ordinal
    return next(number for number in itertools.count(owner.wanted.start) if number not in used)


def adopted_by(owner: Owner, pod: ObservedPod, info: PodInfo) -> ObservedPod:
    """Return a pod as a workload sees it that adopts it, as if created from the workload's current template."""
    if isinstance(owner, StatefulSetState):
        return replace(pod, index=next_ordinal(owner, pod, info), revision=owner.wanted.update)
    return claimed_by(owner, pod, info, is_current=True, has_claims=True)


def claimed_by(owner: Owner, pod: ObservedPod, info: PodInfo, *, is_current: bool, has_claims: bool) -> ObservedPod:
    """Return a pod as a workload sees it that takes it over because its labels match.

    `is_current`: it looks as if created from the current template of a daemon set. `has_claims`: it has the volumes of
    a stateful set's pod.
    """
    revision = info.labels.get(REVISION_LABEL, "")
    if isinstance(owner, StatefulSetState):
        return replace(pod, index=ordinal_of(pod.name), revision=revision, is_misfit=not has_claims)
    if isinstance(owner, DaemonSetState):
        return replace(pod, target=target_of(info.pod), revision=owner.wanted.revision if is_current else revision)
    if isinstance(owner, JobState) and owner.wanted.is_indexed:
        return replace(pod, index=completion_index(info), revision="")
    return replace(pod, revision="")


def completion_index(info: PodInfo) -> int | None:
    """Return a pod's completion index in its job; None where it has none."""
    annotation = info.pod.metadata.annotations.job_completion_index
    return parse_int64(info.labels.get(COMPLETION_INDEX_LABEL, annotation))


def target_of(pod: Pod) -> str:
    """Return the node that a daemon pod is meant for. Upstream: daemonset util GetTargetNodeName."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = required_node_affinity(pod.spec.affinity)
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def latest(times: Iterable[float | None]) -> float:
    """Return the latest of some times; the current time where there are none."""
    known = [time for time in times if time is not None]
    return max(known) if known else datetime.now(UTC).timestamp()
