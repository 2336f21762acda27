"""RuntimeClass: overhead, node selector and tolerations of the runtime (plugin/pkg/admission/runtimeclass)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kplan.admission.rejection import Rejection
from kplan.admission.validation.errors import quoted
from kplan.api.base import ResourceList
from kplan.api.core import Pod
from kplan.api.node import RuntimeClass, Scheduling
from kplan.api.quantity import parse
from kplan.api.references import object_name
from kplan.api.tolerations import NO_EXECUTE, Toleration
from kplan.snapshot.model import Warning  # noqa: A004 - the contract's word

_STRAY_OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def apply(pod: Pod, classes: Sequence[RuntimeClass], warnings: list[Warning]) -> Pod:
    """Return the pod with the overhead, node selector and tolerations of its runtime class.

    A snapshot without any runtime classes may have been taken without them: an unknown name is then a warning. Raises
    Rejection for an unknown class, an overhead that is not that of the class, or a node selector that contradicts it.
    """
    name = pod.spec.runtime_class_name
    if name is None:
        return pod
    runtime_class = next((entry for entry in classes if entry.metadata.name == name), None)
    if runtime_class is None:
        if classes:
            raise Rejection(f"pod rejected: RuntimeClass {quoted(name)} not found")
        where = object_name("Pod", pod.metadata.namespace, pod.metadata.name or pod.metadata.generate_name)
        message = f"the snapshot holds no runtime classes; overhead and node selector of {name!r} are unknown"
        warnings.append(Warning("UnknownRuntimeClass", where, message))
        return pod
    if runtime_class.overhead is not None:
        overhead = runtime_class.overhead.pod_fixed
        if pod.spec.overhead and not _same(pod.spec.overhead, overhead):
            raise Rejection("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        pod = replace(pod, spec=replace(pod.spec, overhead=overhead))
    return _schedule(pod, runtime_class.scheduling) if runtime_class.scheduling else pod


def check(pod: Pod, classes: Sequence[RuntimeClass]) -> None:
    """Refuse an overhead that the pod's runtime class does not have; an unknown class passes.

    Raises
    ------
    Rejection
    """
    name = pod.spec.runtime_class_name
    runtime_class = next((entry for entry in classes if entry.metadata.name == name), None)
    is_known = name is None or runtime_class is not None
    if pod.spec.overhead and is_known and (runtime_class is None or runtime_class.overhead is None):
        raise Rejection(_STRAY_OVERHEAD)


def _schedule(pod: Pod, scheduling: Scheduling) -> Pod:
    for key, value in scheduling.node_selector.items():
        own = pod.spec.node_selector.get(key, value)
        if own != value:
            raise Rejection(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            )
    spec = replace(
        pod.spec,
        node_selector={**pod.spec.node_selector, **scheduling.node_selector},
        tolerations=merge_tolerations(pod.spec.tolerations, scheduling.tolerations),
    )
    return replace(pod, spec=spec)


def _same(amounts: ResourceList, other: ResourceList) -> bool:
    return amounts.keys() == other.keys() and all(
        parse(amounts[name]).nanos == parse(other[name]).nanos for name in amounts
    )


def merge_tolerations(first: Sequence[Toleration], second: Sequence[Toleration]) -> tuple[Toleration, ...]:
    """Return both without those that another one covers (upstream pkg/util/tolerations MergeTolerations)."""
    everything = (*first, *second)
    merged: list[Toleration] = []
    for index, toleration in enumerate(everything):
        is_covered = any(_covers(existing, toleration) for existing in merged) or any(
            later != toleration and _covers(later, toleration) for later in everything[index + 1 :]
        )
        if not is_covered:
            merged.append(toleration)
    return tuple(merged)


def _covers(wide: Toleration, narrow: Toleration) -> bool:
    """Tell whether `wide` tolerates all that `narrow` does (upstream isSuperset)."""
    if wide == narrow:
        return True
    is_any_key = not wide.key and wide.operator == "Exists"
    if (narrow.key != wide.key and not is_any_key) or (wide.effect and narrow.effect != wide.effect):
        return False
    if wide.effect == NO_EXECUTE and wide.toleration_seconds is not None:
        seconds = narrow.toleration_seconds
        if seconds is None or seconds > wide.toleration_seconds:
            return False
    if wide.operator in {"", "Equal"}:
        return narrow.operator == "Equal" and narrow.value == wide.value
    return wide.operator == "Exists"
