"""Priority: a new pod's priority and preemption policy, from its priority class (plugin/pkg/admission/priority)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kplan.admission.rejection import Rejection
from kplan.api.core import Pod
from kplan.api.references import object_name
from kplan.api.scheduling import PriorityClass
from kplan.snapshot.defaults import resolve_priority
from kplan.snapshot.model import Warning  # noqa: A004 - the contract's word


def set_priority(pod: Pod, classes: Sequence[PriorityClass], warnings: list[Warning]) -> Pod:
    """Return the pod with the priority and preemption policy of its class.

    Every cluster has priority classes. A snapshot without any was taken without them: an unknown name is then a
    warning, and the pod has the priority in its manifest, or 0. Raises Rejection for an unknown class, or where the
    manifest's priority or policy differs from the class.
    """
    spec = pod.spec
    resolved = resolve_priority(spec.priority_class_name, classes)
    if resolved is None:
        if classes:
            raise Rejection(f"no PriorityClass with name {spec.priority_class_name} was found")
        priority = spec.priority or 0
        name = object_name("Pod", pod.metadata.namespace, pod.metadata.name or pod.metadata.generate_name)
        message = f"the snapshot holds no priority classes; {spec.priority_class_name!r} counts as priority {priority}"
        warnings.append(Warning("UnknownPriorityClass", name, message))
        return replace(pod, spec=replace(spec, priority=priority))
    if spec.priority is not None and spec.priority != resolved.priority:
        raise Rejection(
            f"the integer value of priority ({spec.priority}) must not be provided in pod spec; priority admission"
            f" controller computed {resolved.priority} from the given PriorityClass name"
        )
    if spec.preemption_policy is not None and spec.preemption_policy != resolved.preemption_policy:
        raise Rejection(
            f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be provided in pod spec;"
            f" priority admission controller computed {resolved.preemption_policy} from the given PriorityClass name"
        )
    return resolved.applied_to(pod)
