"""Warnings about features of objects and of the configuration that kplan does not model.

Each names the object and the feature, in every output format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from kplan.api.affinity import COMPARISON_GATE, is_comparison
from kplan.api.core import Pod
from kplan.api.names import object_name
from kplan.config.model import SchedulerConfiguration
from kplan.documents.base import Context
from kplan.facts import InputWarning
from kplan.framework.interface import Extender
from kplan.plugins import node_volume_limits as volume_gates
from kplan.plugins.dynamic_resources import inventory as device_gates
from kplan.rules.volumes import PLUGIN_BY_NAME
from kplan.snapshot.model import Snapshot
from kplan.visible import without_account

CODE = "UnmodelledFeature"
APART = "PodGroupApart"
"""The code of warnings that a pod is placed without its group, by questions that do not try whole groups."""
_PORTWORX = "kubernetes.io/portworx-volume"
_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_VERBS = ("filter", "prioritize", "preempt")


def unmodelled(
    snapshot: Snapshot, config: SchedulerConfiguration, extenders: Sequence[Extender]
) -> tuple[InputWarning, ...]:
    """Return the warnings about a cluster, as an API server serves it, and a configuration with called extenders."""
    warnings = [
        *_extenders(config, extenders),
        *_portworx(snapshot, config),
        *unmodelled_of(snapshot.pods, config),
        *(
            InputWarning(CODE, selector.object, f"{selector.feature}: {selector.message}")
            for selector in device_gates.unevaluated_selectors(snapshot)
        ),
        *(
            InputWarning(CODE, feature.object, f"{feature.feature}: {feature.message}; the gate is off")
            for feature in (*device_gates.off_gate_features(snapshot), *volume_gates.off_gate_features(snapshot))
            if not config.release.is_on(feature.feature)
        ),
    ]
    return tuple(dict.fromkeys(warnings))


def with_whole_groups(warnings: Iterable[InputWarning]) -> tuple[InputWarning, ...]:
    """Return the warnings without those that are not true of an answer that tries whole groups."""
    return tuple(warning for warning in warnings if warning.code != APART)


def in_whole_groups(make_context: Callable[[], Context]) -> Context:
    context = make_context()
    return replace(context, warnings=with_whole_groups(context.warnings))


def _portworx(snapshot: Snapshot, config: SchedulerConfiguration) -> Iterator[InputWarning]:
    """Yield a warning that in-tree Portworx volumes count on every node, even if the release would not count them."""
    driver = PLUGIN_BY_NAME[_PORTWORX].driver
    if not config.release.rules.migrates_portworx_by_annotation:
        return
    limited = [csi_node for csi_node in snapshot.csi_nodes if any(of.name == driver for of in csi_node.spec.drivers)]
    unlisted = [
        csi_node
        for csi_node in limited
        if _PORTWORX not in csi_node.metadata.annotations.get(_MIGRATED_PLUGINS, "").split(",")
    ]
    if unlisted and any(volume.spec.portworx_volume is not None for volume in snapshot.persistent_volumes):
        message = f"in-tree Portworx volumes count towards its limit of {driver}, and in {config.release.minor} do not"
        yield InputWarning(CODE, f"CSINode/{unlisted[0].metadata.name}", f"CSIMigrationPortworx: {message}")


def unmodelled_of(pods: Iterable[Pod], config: SchedulerConfiguration) -> Iterator[InputWarning]:
    compares, groups = config.release.is_on(COMPARISON_GATE), config.release.is_on("GenericWorkload")
    for pod in pods:
        if pod.spec.tolerations or pod.spec.scheduling_group:
            yield from _pod(pod, compares=compares, groups=groups)


def _extenders(config: SchedulerConfiguration, called: Sequence[Extender]) -> Iterator[InputWarning]:
    names = {extender.name for extender in called}
    for extender in config.extenders_in_call_order():
        if without_account(extender.url_prefix) in names:
            continue
        verbs = (extender.filter_verb, extender.prioritize_verb, extender.preempt_verb)
        offered = [name for name, verb in zip(_VERBS, verbs, strict=True) if verb]
        if offered:
            what = f"{' and '.join(offered)} {'verb is' if len(offered) == 1 else 'verbs are'}"
            message = f"its {what} not called, so its decisions are missing here; --extenders call calls it"
            yield InputWarning("ExtenderNotCalled", f"Extender/{without_account(extender.url_prefix)}", message)


def _pod(pod: Pod, *, compares: bool, groups: bool) -> Iterator[InputWarning]:
    """Yield warnings about fields of a pod that kplan ignores, most of them because their gates are off."""
    spec = pod.spec
    name = object_name("Pod", pod.metadata.namespace, pod.metadata.name)
    if not compares and any(map(is_comparison, spec.tolerations)):
        message = "a toleration with operator Lt or Gt tolerates nothing"
        yield InputWarning(CODE, name, f"{COMPARISON_GATE}: {message}; the gate is off")
    if spec.scheduling_group is not None:
        message = "the pod is scheduled on its own, not with its group"
        if groups:
            yield InputWarning(APART, name, f"{message}; kplan plan schedules whole groups")
        else:
            yield InputWarning(CODE, name, f"GenericWorkload, GangScheduling: {message}; the gates are off")
