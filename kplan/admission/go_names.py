"""Go's names of field types, for messages about values that do not decode.

Upstream: k8s.io/api core/v1, apps/v1 and batch/v1 types.go, for pods and workloads.
"""

from __future__ import annotations

_NAMED = """
AppArmorProfileType AppArmorProfile.type
AzureDataDiskCachingMode AzureDiskVolumeSource.cachingMode
AzureDataDiskKind AzureDiskVolumeSource.kind
Capability Capabilities.add Capabilities.drop
CompletionMode JobSpec.completionMode
ConcurrencyPolicy CronJobSpec.concurrencyPolicy
ConditionStatus PodFailurePolicyOnPodConditionsPattern.status
ContainerRestartPolicy Container.restartPolicy EphemeralContainer.restartPolicy
ContainerRestartRuleAction ContainerRestartRule.action
ContainerRestartRuleOnExitCodesOperator ContainerRestartRuleOnExitCodes.operator
DNSPolicy PodSpec.dnsPolicy
DaemonSetUpdateStrategyType DaemonSetUpdateStrategy.type
DeploymentStrategyType DeploymentStrategy.type
HostPathType HostPathVolumeSource.type
LabelSelectorOperator LabelSelectorRequirement.operator
ManagedFieldsOperationType ManagedFieldsEntry.operation
MountPropagationMode VolumeMount.mountPropagation
NodeInclusionPolicy TopologySpreadConstraint.nodeAffinityPolicy TopologySpreadConstraint.nodeTaintsPolicy
NodeSelectorOperator NodeSelectorRequirement.operator
OSName PodOS.name
PersistentVolumeAccessMode PersistentVolumeClaimSpec.accessModes
PersistentVolumeClaimRetentionPolicyType StatefulSetPersistentVolumeClaimRetentionPolicy.whenDeleted
PersistentVolumeClaimRetentionPolicyType StatefulSetPersistentVolumeClaimRetentionPolicy.whenScaled
PersistentVolumeMode PersistentVolumeClaimSpec.volumeMode
PodConditionType PodFailurePolicyOnPodConditionsPattern.type PodReadinessGate.conditionType
PodFSGroupChangePolicy PodSecurityContext.fsGroupChangePolicy
PodFailurePolicyAction PodFailurePolicyRule.action
PodFailurePolicyOnExitCodesOperator PodFailurePolicyOnExitCodesRequirement.operator
PodManagementPolicyType StatefulSetSpec.podManagementPolicy
PodReplacementPolicy JobSpec.podReplacementPolicy
PodSELinuxChangePolicy PodSecurityContext.seLinuxChangePolicy
PreemptionPolicy PodSpec.preemptionPolicy
ProcMountType SecurityContext.procMount
Protocol ContainerPort.protocol
PullPolicy Container.imagePullPolicy EphemeralContainer.imagePullPolicy ImageVolumeSource.pullPolicy
RecursiveReadOnlyMode VolumeMount.recursiveReadOnly
ResourceName ContainerResizePolicy.resourceName
ResourceResizeRestartPolicy ContainerResizePolicy.restartPolicy
RestartPolicy PodSpec.restartPolicy
SeccompProfileType SeccompProfile.type
Signal Lifecycle.stopSignal
StatefulSetUpdateStrategyType StatefulSetUpdateStrategy.type
StorageMedium EmptyDirVolumeSource.medium
SupplementalGroupsPolicy PodSecurityContext.supplementalGroupsPolicy
TaintEffect Toleration.effect
TerminationMessagePolicy Container.terminationMessagePolicy EphemeralContainer.terminationMessagePolicy
TolerationOperator Toleration.operator
URIScheme HTTPGetAction.scheme
UnsatisfiableConstraintAction TopologySpreadConstraint.whenUnsatisfiable
"""
#: Field, such as ``Toleration.effect`` -> the name of its string type, where it is not ``string``.
_TYPES = {field: f"v1.{name}" for name, *fields in map(str.split, _NAMED.strip().splitlines()) for field in fields} | {
    "ObjectMeta.uid": "types.UID",
    "OwnerReference.uid": "types.UID",
}

_WITH_REFERENCE = frozenset(
    {
        "ConfigMapEnvSource",
        "ConfigMapKeySelector",
        "ConfigMapProjection",
        "ConfigMapVolumeSource",
        "SecretEnvSource",
        "SecretKeySelector",
        "SecretProjection",
    }
)


def text_type(struct: str, field: str) -> str:
    """Return the string type of a field, such as ``v1.TaintEffect``."""
    return _TYPES.get(f"{struct}.{field}", "string")


def embedding(struct: str, field: str) -> str:
    """Return the embedded struct that holds a field in Go, with a dot after it; "" for the struct's own fields."""
    if struct in _WITH_REFERENCE:
        return "LocalObjectReference." if field == "name" else ""
    if struct == "Volume":
        return "" if field == "name" else "VolumeSource."
    if struct == "EphemeralContainer":
        return "" if field == "targetContainerName" else "EphemeralContainerCommon."
    is_handler = struct == "Probe" and field in ("exec", "httpGet", "tcpSocket", "grpc")
    return "ProbeHandler." if is_handler else ""
