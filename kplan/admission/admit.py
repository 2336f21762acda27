"""Admission of new pods: the built-in plugins of a default API server, in their order.

LimitRanger, Priority, DefaultTolerationSeconds, RuntimeClass and PodTopologyLabels change the pod; then LimitRanger and
ResourceQuota may refuse it. Webhooks and policies of a cluster are not known here.

Upstream: pkg/kubeapiserver/options/plugins.go for the order, plugin/pkg/admission for the plugins (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from kplan.admission import limitranger, runtimeclass
from kplan.admission.priority import set_priority
from kplan.admission.quota import QuotaLedger
from kplan.admission.rejection import Rejection
from kplan.api.core import Pod
from kplan.api.tolerations import NO_EXECUTE, Toleration
from kplan.api.wellknown import REGION, ZONE
from kplan.snapshot.defaults import complete_pod
from kplan.snapshot.model import Snapshot, Warning, object_name  # noqa: A004 - the contract's word

__all__ = ["Admission", "Admitter", "admit"]

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_DEFAULT_TOLERATION_SECONDS = 300
_TOPOLOGY_LABELS = (REGION, ZONE)


@dataclass(frozen=True, slots=True)
class Admission:
    """A pod as the API server would have stored it; `rejected` is why it would not, with upstream's text."""

    pod: Pod
    warnings: tuple[Warning, ...] = ()
    rejected: str | None = None


def admit(pod: Pod, snapshot: Snapshot) -> Admission:
    """Put one new pod through admission; quotas stand as in the snapshot."""
    return Admitter(snapshot).admit(pod)


class Admitter:
    """Admission for several pods one after the other: each admitted pod uses up its share of the quotas."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._quotas = QuotaLedger(snapshot)
        self._namespaces = {entry.metadata.name: entry for entry in snapshot.namespaces}

    def admit(self, pod: Pod) -> Admission:
        """Put one pod through admission and, if it is admitted, count it in the quotas."""
        pod = complete_pod(pod)
        warnings: list[Warning] = []
        steps: tuple[Callable[[Pod, list[Warning]], Pod], ...] = (
            self._check_namespace,
            self._apply_limit_ranges,
            self._set_priority,
            _add_default_tolerations,
            self._apply_runtime_class,
            self._copy_topology_labels,
            self._check_limit_ranges,
            self._charge_quotas,
        )
        try:
            for step in steps:
                pod = step(pod, warnings)
        except Rejection as rejection:
            name = pod.metadata.name or pod.metadata.generate_name
            return Admission(pod, tuple(warnings), f'pods "{name}" is forbidden: {rejection}')
        return Admission(pod, tuple(warnings))

    def release(self, pod: Pod) -> None:
        """Take a pod that is gone out of the quotas again."""
        self._quotas.release(pod)

    def _check_namespace(self, pod: Pod, warnings: list[Warning]) -> Pod:
        name = pod.metadata.namespace
        namespace = self._namespaces.get(name)
        if namespace is None and self._namespaces:
            message = "not in the snapshot; the API server would refuse its pods until it is created"
            warnings.append(Warning("UnknownNamespace", object_name("Namespace", "", name), message))
        elif namespace is not None and (
            namespace.metadata.deletion_timestamp or namespace.status.phase == "Terminating"
        ):
            raise Rejection(f"unable to create new content in namespace {name} because it is being terminated")
        return pod

    def _apply_limit_ranges(self, pod: Pod, _warnings: list[Warning]) -> Pod:
        return limitranger.apply_defaults(pod, self._snapshot.limit_ranges)

    def _check_limit_ranges(self, pod: Pod, _warnings: list[Warning]) -> Pod:
        limitranger.check(pod, self._snapshot.limit_ranges)
        return pod

    def _set_priority(self, pod: Pod, warnings: list[Warning]) -> Pod:
        return set_priority(pod, self._snapshot.priority_classes, warnings)

    def _apply_runtime_class(self, pod: Pod, warnings: list[Warning]) -> Pod:
        return runtimeclass.apply(pod, self._snapshot.runtime_classes, warnings)

    def _copy_topology_labels(self, pod: Pod, _warnings: list[Warning]) -> Pod:
        """Copy region and zone of a node that the manifest names (PodTopologyLabels)."""
        node = self._snapshot.node_by_name.get(pod.spec.node_name)
        if node is None:
            return pod
        copied = {key: node.metadata.labels[key] for key in _TOPOLOGY_LABELS if key in node.metadata.labels}
        return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, **copied}))

    def _charge_quotas(self, pod: Pod, _warnings: list[Warning]) -> Pod:
        self._quotas.charge(pod)
        return pod


def _add_default_tolerations(pod: Pod, _warnings: list[Warning]) -> Pod:
    """Let the pod stay five minutes on nodes that stop answering (DefaultTolerationSeconds)."""
    added = tuple(
        Toleration(key=key, operator="Exists", effect=NO_EXECUTE, toleration_seconds=_DEFAULT_TOLERATION_SECONDS)
        for key in (_NOT_READY, _UNREACHABLE)
        if not any(
            toleration.key in {key, ""} and toleration.effect in {NO_EXECUTE, ""} for toleration in pod.spec.tolerations
        )
    )
    return replace(pod, spec=replace(pod.spec, tolerations=pod.spec.tolerations + added)) if added else pod
