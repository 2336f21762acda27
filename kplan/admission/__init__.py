"""Admission of new pods: the built-in plugins of a default API server, in their order.

LimitRanger, Priority, DefaultTolerationSeconds, RuntimeClass and PodTopologyLabels change the pod; the pod is then
validated; then LimitRanger, PodSecurity, RuntimeClass and ResourceQuota may refuse it. Webhooks and policies of a
cluster are not modelled.

Upstream: pkg/kubeapiserver/options/plugins.go for the order, plugin/pkg/admission for the plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kplan.admission import limits
from kplan.admission.gates import NEWEST, is_on
from kplan.admission.limits import QuotaLedger, Refusal, Rejection
from kplan.admission.podsecurity import enforced
from kplan.admission.stored import Stage, WholeTemplate
from kplan.api.affinity import NO_EXECUTE, Toleration
from kplan.api.core import PersistentVolumeClaim, Pod, ServiceAccount
from kplan.api.field_errors import quoted
from kplan.api.labels import NOT_READY, REGION, UNREACHABLE, ZONE
from kplan.api.names import object_name
from kplan.api.quantity import milli_value, nanos_of
from kplan.api.scheduling import RuntimeClass, Scheduling
from kplan.facts import RefusedPods
from kplan.rules.resources import EPHEMERAL_STORAGE, MEMORY
from kplan.snapshot.defaults import complete_pod, resolve_priority
from kplan.snapshot.model import Snapshot, Warning  # noqa: A004 - the contract's word

_BYTES = frozenset({MEMORY, EPHEMERAL_STORAGE})
_DEFAULT_TOLERATION_SECONDS = 300
_EVERYWHERE = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""Namespaces that every cluster has."""


class Named(msgspec.Struct, frozen=True):
    """The identity of an object, for quotas and messages; `resource` such as ``deployments``."""

    group: str
    resource: str
    namespace: str
    name: str


class Admission(msgspec.Struct, frozen=True):
    """A pod after admission, as the API server stores it."""

    pod: Pod
    warnings: tuple[Warning, ...] = ()
    rejected: str | None = None  #: why the API server refuses it, in upstream's text; None where it does not
    stages: tuple[Stage, ...] = ()  #: the plugins that changed it, in order
    because: RefusedPods | None = None  #: the facts behind a refusal
    account: ServiceAccount | None = None  #: that of the pod, where it is known


class Admitter:
    """Admission for several pods one after the other: each admitted pod uses up its share of the quotas.

    `existing`: objects that count in quotas, where these are not all of the snapshot. `minor`: the API server's.
    """

    def __init__(self, snapshot: Snapshot, existing: Snapshot | None = None, *, minor: int = NEWEST) -> None:
        self._minor = minor
        has_names = is_on("DRAExtendedResource", minor)  # of classes, as extended resources
        self.quotas = QuotaLedger(snapshot if has_names else replace(snapshot, device_classes=()), existing)
        self._snapshot = snapshot
        self._namespaces = {entry.metadata.name: entry for entry in snapshot.namespaces}
        self._accounts = {obj.metadata.key: obj for obj in snapshot.service_accounts}
        self._knows_all_accounts = (existing or snapshot).knows_all("service_accounts")
        self._knows_all_namespaces = snapshot.knows_all("namespaces")

    def admit(self, pod: Pod, whole: WholeTemplate | None = None) -> Admission:
        """Return one new pod after admission; an admitted pod counts in the quotas."""
        if not is_on("PodLevelResources", self._minor):
            pod = replace(pod, spec=replace(pod.spec, resources=None))
        pod = complete_pod(pod)
        warnings: list[Warning] = []
        stages: list[Stage] = []
        # Messages of plugins do not know a generated name yet (NewForbidden).
        name = pod.metadata.generate_name or pod.metadata.name or "Unknown"
        try:
            self.check_namespace(pod.metadata.namespace, warnings)
            if whole is not None and (unaccountable := whole.unaccountable()):
                raise Rejection(unaccountable)  # noqa: TRY301 - as the plugins do
            for stage in self._changes(pod, whole, warnings):
                stages += [stage] if stage.pod is not pod else []
                pod = stage.pod
            name = pod.metadata.name
            if whole is not None and (invalid := whole.invalid(pod, self._minor)):
                raise Refusal(invalid)
            limits.check(pod, self._snapshot.limit_ranges)
            namespace = self._namespaces.get(pod.metadata.namespace)
            policy = enforced({} if namespace is None else namespace.metadata.labels, self._minor)
            if whole is not None and (forbidden := whole.insecure(pod, policy)):
                raise Rejection(forbidden)  # noqa: TRY301 - as the plugins do
            check_overhead(pod, self._snapshot.runtime_classes)
            self.quotas.charge(pod)
            warnings += _fractions(pod)
        except Rejection as rejection:
            return Admission(pod, tuple(warnings), rejection.answer("", "pods", name), tuple(stages), rejection.facts)
        return Admission(pod, tuple(warnings), stages=tuple(stages), account=self._account(pod, whole))

    def refusal_of_object(self, what: Named, warnings: list[Warning], obj: object = None) -> str:
        """Return why an object other than a pod is refused; "" where it is admitted and counted.

        `obj`: the object itself, where its fields may matter.
        """
        try:
            self.check_namespace(what.namespace, warnings)
            if isinstance(obj, PersistentVolumeClaim):
                limits.check(obj, self._snapshot.limit_ranges)
            if isinstance(obj, limits.Measured):
                self.quotas.charge(obj)
            else:
                self.quotas.charge_object(what.namespace, what.group, what.resource)
        except Rejection as rejection:
            return rejection.answer(what.group, what.resource, what.name)
        return ""

    def why_claim_refused(self, claim: PersistentVolumeClaim) -> RefusedPods | None:
        """Return the facts for which one more claim is refused; None where it is taken. None is counted."""
        try:
            limits.check(claim, self._snapshot.limit_ranges)
            self.quotas.charge(claim)
        except Rejection as rejection:
            return rejection.facts
        self.quotas.release(claim)
        return None

    def check_namespace(self, name: str, warnings: list[Warning]) -> None:
        """Refuse objects in a namespace that does not exist (raises Refusal) or is being deleted (raises Rejection)."""
        if (namespace := self._namespaces.get(name)) is not None:
            if namespace.metadata.deletion_timestamp or namespace.status.phase == "Terminating":
                raise Rejection(f"unable to create new content in namespace {name} because it is being terminated")
        elif name not in _EVERYWHERE and self._namespaces:
            if self._knows_all_namespaces:
                raise Refusal(f'namespaces "{name}" not found')
            message = "not in the snapshot; the API server would refuse its pods until it is created"
            warnings.append(Warning("UnknownNamespace", object_name("Namespace", "", name), message))

    def _changes(self, pod: Pod, whole: WholeTemplate | None, warnings: list[Warning]) -> Iterator[Stage]:
        for limit_range in limits.of_namespace(pod, self._snapshot.limit_ranges):
            pod = limits.apply_defaults(pod, limit_range)
            metadata = limit_range.metadata
            yield Stage(f"LimitRange {metadata.namespace}/{metadata.name}", pod)
        self._account(pod, whole)
        pod = set_priority(pod, self._snapshot, warnings)
        name = pod.spec.priority_class_name
        yield Stage(f"PriorityClass {name}" if name else "Priority", pod)
        # Five minutes on nodes that are not ready or unreachable.
        tolerated = [own.key for own in pod.spec.tolerations if own.effect in (NO_EXECUTE, "")]
        added = tuple(
            Toleration(key=key, operator="Exists", effect=NO_EXECUTE, toleration_seconds=_DEFAULT_TOLERATION_SECONDS)
            for key in (NOT_READY, UNREACHABLE)
            if key not in tolerated and "" not in tolerated
        )
        if added:
            pod = replace(pod, spec=replace(pod.spec, tolerations=pod.spec.tolerations + added))
        yield Stage("DefaultTolerationSeconds", pod)
        pod = apply_runtime_class(pod, self._snapshot, warnings)
        yield Stage(f"RuntimeClass {pod.spec.runtime_class_name or ''}".rstrip(), pod)
        node = self._snapshot.node_by_name.get(pod.spec.node_name)
        if node is not None and is_on("PodTopologyLabelsAdmission", self._minor):
            copied = {key: node.metadata.labels[key] for key in (REGION, ZONE) if key in node.metadata.labels}
            pod = replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, **copied}))
        yield Stage(f"Node {pod.spec.node_name}", pod)

    def _account(self, pod: Pod, whole: WholeTemplate | None) -> ServiceAccount | None:
        """Return the service account of a pod, and None for an unknown one; raises Rejection where all are known.

        ``default`` is made in every namespace.
        """
        name = whole.account() if whole is not None else ""
        key = f"{pod.metadata.namespace}/{name}"
        if name not in ("", "default") and key not in self._accounts and self._knows_all_accounts:
            raise Rejection(f'error looking up service account {key}: serviceaccount "{name}" not found')
        return self._accounts.get(key)


def _fractions(pod: Pod) -> Iterator[Warning]:
    """Warn of amounts that are no whole bytes, as the API server does: 512m is half a byte.

    Upstream: pkg/api/pod/warnings.go warningsForPodSpecAndMeta.
    """
    groups = ("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)
    for group, containers in groups:
        for index, container in enumerate(containers):
            resources = container.resources
            for field, amounts in (("limits", resources.limits), ("requests", resources.requests)):
                for name in sorted(_BYTES & amounts.keys()):
                    if milli_value(amounts[name]) % 1000:
                        path = f"spec.{group}[{index}].resources.{field}[{name}]"
                        words = f'fractional byte value "{amounts[name]}" is invalid, must be an integer'
                        milli = str(amounts[name])
                        meant = f"; was {milli[:-1]}Mi meant?" if milli.endswith("m") else ""
                        where = object_name("Pod", pod.metadata.namespace, pod.metadata.name)
                        yield Warning("FractionalBytes", where, f"{path}: {words}{meant}")


def set_priority(pod: Pod, snapshot: Snapshot, warnings: list[Warning]) -> Pod:
    """Return the pod with the priority and preemption policy of its class (plugin/pkg/admission/priority).

    Every cluster has priority classes. A file without any was made without them: an unknown name is then a warning,
    and the pod has the priority in its manifest, or 0. Raises Rejection for an unknown class, or where the manifest's
    priority or policy differs from the class.
    """
    spec = pod.spec
    if (resolved := resolve_priority(spec.priority_class_name, snapshot.priority_classes)) is None:
        if snapshot.knows_all("priority_classes"):
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


def apply_runtime_class(pod: Pod, snapshot: Snapshot, warnings: list[Warning]) -> Pod:
    """Return the pod with overhead, node selector and tolerations of its class (plugin/pkg/admission/runtimeclass).

    A file without any runtime classes may have been made without them: an unknown name is then a warning. Raises
    Rejection for an unknown class, an overhead that is not that of the class, or a node selector that contradicts it.
    """
    if (name := pod.spec.runtime_class_name) is None:
        return pod
    runtime_class = next((entry for entry in snapshot.runtime_classes if entry.metadata.name == name), None)
    if runtime_class is None:
        if snapshot.knows_all("runtime_classes"):
            raise Rejection(f"pod rejected: RuntimeClass {quoted(name)} not found")
        where = object_name("Pod", pod.metadata.namespace, pod.metadata.name or pod.metadata.generate_name)
        message = f"the snapshot holds no runtime classes; overhead and node selector of {name!r} are unknown"
        warnings.append(Warning("UnknownRuntimeClass", where, message))
        return pod
    if runtime_class.overhead is not None:
        overhead = runtime_class.overhead.pod_fixed
        if pod.spec.overhead and nanos_of(pod.spec.overhead) != nanos_of(overhead):
            raise Rejection("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        pod = replace(pod, spec=replace(pod.spec, overhead=overhead))
    return _schedule(pod, runtime_class.scheduling) if runtime_class.scheduling else pod


def check_overhead(pod: Pod, classes: Sequence[RuntimeClass]) -> None:
    """Refuse an overhead that the pod's runtime class does not have (raises Rejection); an unknown class passes."""
    name = pod.spec.runtime_class_name
    runtime_class = next((entry for entry in classes if entry.metadata.name == name), None)
    has_none = name is None if runtime_class is None else runtime_class.overhead is None
    if pod.spec.overhead and has_none:
        raise Rejection("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


def _schedule(pod: Pod, scheduling: Scheduling) -> Pod:
    for key, value in scheduling.node_selector.items():
        own = pod.spec.node_selector.get(key, value)
        if own != value:
            what = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            raise Rejection(f"conflict: {what}")
    # Without tolerations that another one covers (upstream pkg/util/tolerations MergeTolerations).
    everything = (*pod.spec.tolerations, *scheduling.tolerations)
    merged: list[Toleration] = []
    for index, toleration in enumerate(everything):
        later = (other for other in everything[index + 1 :] if other != toleration)
        if not any(_covers(other, toleration) for other in (*merged, *later)):
            merged.append(toleration)
    selector = {**pod.spec.node_selector, **scheduling.node_selector}
    return replace(pod, spec=replace(pod.spec, node_selector=selector, tolerations=tuple(merged)))


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
