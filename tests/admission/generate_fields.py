"""Write kplan/admission/fields.json: which fields every Kubernetes object has, and of what type.

The names come from the model classes of the ``kubernetes`` package, which are made from the API's OpenAPI description.
That description does not say everything that an API server's decoder knows; what is missing stands below as facts from
the API's Go types: which numbers are int64, which scalars are pointers (so that a stated zero is kept), which fields
are always written, and which strings are quantities.

Usage: ``python tests/admission/generate_fields.py`` with kubernetes 37 installed. Fields that came after 1.36 are
marked with the release that brought them.
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "kplan" / "admission" / "fields.json"
MAJOR = 37
"""The major version of the package that the facts below belong to."""

_PREFIX = re.compile(r"^(?:[A-Z][a-z]+)?V\d+(?:(?:alpha|beta)\d+)?(?=[A-Z])")


def _fields(text: str) -> frozenset[str]:
    """Read ``Type.one|two Other.three``."""
    words = (word.split(".", 1) for word in text.split())
    return frozenset(f"{kind}.{name}" for kind, names in words for name in names.split("|"))


_INT64 = _fields(
    """
    CronJobSpec.startingDeadlineSeconds JobSpec.activeDeadlineSeconds
    ObjectMeta.generation|deletionGracePeriodSeconds PodSecurityContext.runAsUser|runAsGroup|fsGroup|supplementalGroups
    LinuxContainerUser.uid|gid|supplementalGroups PodSpec.terminationGracePeriodSeconds|activeDeadlineSeconds
    Probe.terminationGracePeriodSeconds
    SecurityContext.runAsUser|runAsGroup ServiceAccountTokenProjection.expirationSeconds SleepAction.seconds
    Toleration.tolerationSeconds
    CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds Condition.observedGeneration ContainerImage.sizeBytes
    ControllerRevision.revision DaemonSetStatus.observedGeneration DeleteOptions.gracePeriodSeconds
    DeploymentStatus.observedGeneration DeviceAttribute.int|ints DeviceRequest.count DeviceSubRequest.count
    DeviceToleration.tolerationSeconds ExactDeviceRequest.count HorizontalPodAutoscalerStatus.observedGeneration
    ListMeta.remainingItemCount NodeSwapStatus.capacity PodCondition.observedGeneration
    PodDisruptionBudgetStatus.observedGeneration PodStatus.observedGeneration PoolStatus.generation
    ReplicaSetStatus.observedGeneration ReplicationControllerStatus.observedGeneration
    ResourcePool.generation|resourceSliceCount StatefulSetStatus.observedGeneration
    StorageVersionCondition.observedGeneration TokenRequest.expirationSeconds TokenRequestSpec.expirationSeconds
    ValidatingAdmissionPolicyStatus.observedGeneration
    """
)

_POINTERS = _fields(
    """
    AppArmorProfile.localhostProfile AzureDiskVolumeSource.cachingMode|fsType|readOnly|kind
    CSIVolumeSource.readOnly|fsType ClusterTrustBundleProjection.name|signerName|optional
    ConfigMapEnvSource.optional ConfigMapKeySelector.optional ConfigMapProjection.optional
    ConfigMapVolumeSource.defaultMode|optional Container.restartPolicy
    CronJobSpec.timeZone|startingDeadlineSeconds|suspend|successfulJobsHistoryLimit|failedJobsHistoryLimit
    DaemonSetSpec.revisionHistoryLimit DeploymentSpec.replicas|revisionHistoryLimit|progressDeadlineSeconds
    DownwardAPIVolumeFile.mode DownwardAPIVolumeSource.defaultMode EphemeralContainer.restartPolicy
    FCVolumeSource.lun FileKeySelector.optional GRPCAction.service HostPathVolumeSource.type
    ISCSIVolumeSource.initiatorName
    JobSpec.parallelism|completions|activeDeadlineSeconds|backoffLimit|backoffLimitPerIndex|maxFailedIndexes|manualSelector|ttlSecondsAfterFinished|completionMode|suspend|podReplacementPolicy|managedBy
    KeyToPath.mode Lifecycle.stopSignal ObjectMeta.deletionGracePeriodSeconds
    OwnerReference.controller|blockOwnerDeletion
    PersistentVolumeClaimSpec.storageClassName|volumeMode|volumeAttributesClassName
    PodCertificateProjection.maxExpirationSeconds PodDNSConfigOption.value
    PodFailurePolicyOnExitCodesRequirement.containerName
    PodResourceClaim.resourceClaimName|resourceClaimTemplateName PodSchedulingGroup.podGroupName
    PodSecurityContext.runAsUser|runAsGroup|runAsNonRoot|supplementalGroupsPolicy|fsGroup|fsGroupChangePolicy|seLinuxChangePolicy
    PodSpec.terminationGracePeriodSeconds|activeDeadlineSeconds|automountServiceAccountToken|shareProcessNamespace|priority|runtimeClassName|enableServiceLinks|preemptionPolicy|setHostnameAsFQDN|hostUsers|hostnameOverride
    Probe.terminationGracePeriodSeconds ProjectedVolumeSource.defaultMode ReplicaSetSpec.replicas
    ReplicationControllerSpec.replicas RollingUpdateStatefulSetStrategy.partition
    SeccompProfile.localhostProfile SecretEnvSource.optional SecretKeySelector.optional
    SecretProjection.optional SecretVolumeSource.defaultMode|optional
    SecurityContext.privileged|runAsUser|runAsGroup|runAsNonRoot|readOnlyRootFilesystem|allowPrivilegeEscalation|procMount
    ServiceAccountTokenProjection.expirationSeconds StatefulSetSpec.replicas|revisionHistoryLimit
    SuccessPolicyRule.succeededIndexes|succeededCount Toleration.tolerationSeconds
    TopologySpreadConstraint.minDomains|nodeAffinityPolicy|nodeTaintsPolicy TypedLocalObjectReference.apiGroup
    TypedObjectReference.apiGroup|namespace VolumeMount.recursiveReadOnly|mountPropagation
    WindowsSecurityContextOptions.gmsaCredentialSpecName|gmsaCredentialSpec|runAsUserName|hostProcess
    AllocatedDeviceStatus.shareID AzureFilePersistentVolumeSource.secretNamespace
    BasicDevice.allNodes|allowMultipleAllocations|bindsToNode|nodeName
    CSIDriverSpec.attachRequired|fsGroupPolicy|nodeAllocatableUpdatePeriodSeconds|podInfoOnMount|preventPodSchedulingIfMissing|requiresRepublish|seLinuxMount|serviceAccountTokenInSecrets|storageCapacity
    CSIStorageCapacity.capacity|maximumVolumeSize CapacityRequestPolicy.default
    CapacityRequestPolicyRange.max|min|step CertificateSigningRequestSpec.expirationSeconds|signerName
    ClientIPConfig.timeoutSeconds ConfigMap.immutable ContainerStatus.started|stopSignal
    DaemonSetStatus.collisionCount
    DeleteOptions.gracePeriodSeconds|ignoreStoreReadErrorWithClusterBreakingPotential|orphanDependents|propagationPolicy
    DeploymentStatus.collisionCount|terminatingReplicas
    Device.allNodes|allowMultipleAllocations|bindsToNode|nodeName DeviceAttribute.bool|int|string|version
    DeviceClassSpec.extendedResourceName DeviceConstraint.distinctAttribute|matchAttribute DeviceRequest.adminAccess
    DeviceRequestAllocationResult.adminAccess|shareID DeviceTaintSelector.device|driver|pool
    DeviceToleration.tolerationSeconds EmptyDirVolumeSource.sizeLimit Endpoint.hostname|nodeName|zone
    EndpointAddress.nodeName EndpointConditions.ready|serving|terminating
    EndpointPort.appProtocol|name|port|protocol ExactDeviceRequest.adminAccess
    ExemptPriorityLevelConfiguration.lendablePercent|nominalConcurrencyShares
    GlusterfsPersistentVolumeSource.endpointsNamespace
    HPAScalingRules.selectPolicy|stabilizationWindowSeconds|tolerance HTTPIngressPath.pathType
    HorizontalPodAutoscalerSpec.minReplicas|targetCPUUtilizationPercentage
    HorizontalPodAutoscalerStatus.currentCPUUtilizationPercentage|observedGeneration
    ISCSIPersistentVolumeSource.initiatorName IngressClassParametersReference.apiGroup|namespace|scope
    IngressPortStatus.error IngressSpec.ingressClassName JobStatus.failedIndexes|ready|terminating
    LeaseSpec.holderIdentity|leaseDurationSeconds|leaseTransitions|preferredHolder|strategy
    LimitedPriorityLevelConfiguration.borrowingLimitPercent|lendablePercent|nominalConcurrencyShares
    ListMeta.remainingItemCount LoadBalancerIngress.ipMode LocalVolumeSource.fsType MatchResources.matchPolicy
    MetricTarget.averageUtilization|averageValue|value MetricValueStatus.averageUtilization|averageValue|value
    MutatingAdmissionPolicySpec.failurePolicy
    MutatingWebhook.failurePolicy|matchPolicy|reinvocationPolicy|sideEffects|timeoutSeconds
    NetworkPolicyPort.endPort|protocol NodeFeatures.supplementalGroupsPolicy
    NodeRuntimeHandlerFeatures.recursiveReadOnlyMounts|userNamespaces NodeSwapStatus.capacity
    ParamRef.parameterNotFoundAction PersistentVolumeClaimStatus.currentVolumeAttributesClassName
    PersistentVolumeSpec.volumeAttributesClassName|volumeMode PodCertificateRequestSpec.maxExpirationSeconds
    PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy
    PodGroupResourceClaim.resourceClaimName|resourceClaimTemplateName PodGroupResourceClaimStatus.resourceClaimName
    PodGroupSpec.priority PodGroupTemplate.priority PodResourceClaimStatus.resourceClaimName
    PoolStatus.allocatedDevices|availableDevices|nodeName|resourceSliceCount|totalDevices|unavailableDevices|validationError
    PortStatus.error Preconditions.resourceVersion|uid PriorityClass.preemptionPolicy
    ReplicaSetStatus.terminatingReplicas ResourceHealth.message ResourcePoolStatusRequestSpec.limit|poolName
    ResourcePoolStatusRequestStatus.poolCount ResourceSliceSpec.allNodes|nodeName|perDeviceNodeSelection
    Secret.immutable ServiceAccount.automountServiceAccountToken ServicePort.appProtocol ServiceReference.path|port
    ServiceSpec.allocateLoadBalancerNodePorts|internalTrafficPolicy|ipFamilyPolicy|loadBalancerClass|trafficDistribution
    StatefulSetStatus.collisionCount|observedGeneration
    StorageClass.allowVolumeExpansion|reclaimPolicy|volumeBindingMode StorageVersionStatus.commonEncodingVersion
    TokenRequest.expirationSeconds TokenRequestSpec.expirationSeconds ValidatingAdmissionPolicySpec.failurePolicy
    ValidatingWebhook.failurePolicy|matchPolicy|sideEffects|timeoutSeconds Validation.reason
    VolumeAttachmentSource.persistentVolumeName VolumeError.errorCode VolumeMountStatus.recursiveReadOnly
    VolumeNodeResources.count WebhookClientConfig.url
    """
)

_ALWAYS = _fields(
    """
    AWSElasticBlockStoreVolumeSource.volumeID AppArmorProfile.type AzureDiskVolumeSource.diskName|diskURI
    AzureFileVolumeSource.secretName|shareName CSIVolumeSource.driver CinderVolumeSource.volumeID
    ClusterTrustBundleProjection.path ConfigMapKeySelector.key Container.name|resources
    ContainerPort.containerPort ContainerResizePolicy.resourceName|restartPolicy CronJob.spec|status|metadata
    CronJobSpec.schedule|jobTemplate DaemonSet.spec|status|metadata DaemonSetSpec.template|updateStrategy
    Deployment.spec|status|metadata DeploymentSpec.template|strategy DownwardAPIVolumeFile.path EnvVar.name
    EphemeralContainer.name|resources FileKeySelector.volumeName|path|key FlexVolumeSource.driver
    GCEPersistentDiskVolumeSource.pdName GRPCAction.port GitRepoVolumeSource.repository
    GlusterfsVolumeSource.endpoints|path HTTPHeader.name|value HostAlias.ip HostPathVolumeSource.path
    ISCSIVolumeSource.targetPortal|iqn|lun Job.spec|status|metadata JobSpec.template
    JobTemplateSpec.spec|metadata KeyToPath.key|path LabelSelectorRequirement.key|operator
    NFSVolumeSource.server|path NodeSelectorRequirement.key|operator ObjectFieldSelector.fieldPath
    OwnerReference.apiVersion|kind|name PersistentVolumeClaim.spec|status|metadata
    PersistentVolumeClaimSpec.resources PersistentVolumeClaimTemplate.spec|metadata
    PersistentVolumeClaimVolumeSource.claimName PhotonPersistentDiskVolumeSource.pdID Pod.spec|status|metadata
    PodAffinityTerm.topologyKey PodFailurePolicyOnExitCodesRequirement.operator
    PodFailurePolicyOnPodConditionsPattern.type|status PodFailurePolicyRule.action PodOS.name
    PodReadinessGate.conditionType PodResourceClaim.name PodSchedulingGate.name PodTemplate.template|metadata
    PodTemplateSpec.spec|metadata PortworxVolumeSource.volumeID PreferredSchedulingTerm.weight|preference
    QuobyteVolumeSource.registry|volume RBDVolumeSource.image ReplicaSet.spec|status|metadata
    ReplicaSetSpec.template ReplicationController.spec|status|metadata ResourceClaim.name
    ResourceFieldSelector.resource ScaleIOVolumeSource.gateway|system SeccompProfile.type
    SecretKeySelector.key ServiceAccountTokenProjection.path SleepAction.seconds
    StatefulSet.spec|status|metadata StatefulSetOrdinals.start
    StatefulSetSpec.serviceName|template|updateStrategy Sysctl.name|value
    TopologySpreadConstraint.maxSkew|topologyKey|whenUnsatisfiable TypedLocalObjectReference.kind|name
    TypedObjectReference.kind|name Volume.name VolumeDevice.name|devicePath VolumeMount.name|mountPath
    VsphereVirtualDiskVolumeSource.volumePath WeightedPodAffinityTerm.weight|podAffinityTerm
    """
)

_QUANTITIES = _fields(
    """
    EmptyDirVolumeSource.sizeLimit ResourceFieldSelector.divisor ResourceRequirements.limits|requests
    VolumeResourceRequirements.limits|requests PodSpec.overhead Overhead.podFixed
    LimitRangeItem.default|defaultRequest|max|min|maxLimitRequestRatio ResourceQuotaSpec.hard
    ResourceQuotaStatus.hard|used PersistentVolumeSpec.capacity PersistentVolumeClaimStatus.capacity|allocatedResources
    NodeStatus.capacity|allocatable CSIStorageCapacity.capacity|maximumVolumeSize
    ContainerStatus.allocatedResources PodStatus.allocatedResources
    MetricTarget.value|averageValue MetricValueStatus.value|averageValue HPAScalingRules.tolerance
    Counter.value DeviceCapacity.value CapacityRequestPolicy.default|validValues CapacityRequestPolicyRange.min|max|step
    CapacityRequirements.requests DeviceRequestAllocationResult.consumedCapacity
    """
)

_NEWER = {
    "1.37": _fields(
        """
        CSINode.status ClusterTrustBundleProjection.user ConfigMapVolumeSource.defaultUser
        DownwardAPIVolumeFile.user DownwardAPIVolumeSource.defaultUser EmptyDirVolumeSource.mode GRPCAction.mode
        HTTPGetAction.protocol JobSpec.scheduling KeyToPath.user NodeSpec.podPreemptionPolicy
        PodCertificateProjection.user PodSpec.evictionResponders ProjectedVolumeSource.defaultUser
        SecretVolumeSource.defaultUser ServiceAccountTokenProjection.user VolumeMount.bindMountOptions
        """
    )
}


#: Go's string types that have a name, and the fields of them (k8s.io/api core/v1, apps/v1 and batch/v1 types.go).
_TEXTS = """
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
    types.UID ObjectMeta.uid OwnerReference.uid
"""

#: Go's structs that embed another one -> that one, and either the fields that it holds or those that it does not.
_EMBEDDING = {
    **dict.fromkeys(
        (
            *("ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource"),
            *("SecretEnvSource", "SecretKeySelector", "SecretProjection"),
        ),
        ("LocalObjectReference", {"name"}, set()),
    ),
    "Volume": ("VolumeSource", set(), {"name"}),
    "EphemeralContainer": ("EphemeralContainerCommon", set(), {"targetContainerName"}),
    "Probe": ("ProbeHandler", {"exec", "httpGet", "tcpSocket", "grpc"}, set()),
}


def build() -> dict[str, Any]:
    """Return the table: ``types`` (fields by type), ``kinds`` (type, plural, namespaced), ``newer``, Go's names."""
    from kubernetes.client import models

    kinds = _kinds()
    types: dict[str, dict[str, str]] = {}
    waiting = sorted({kind[0] for kind in kinds.values()})
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        model = getattr(models, name)
        types[name] = {}
        for attribute, kind in sorted(model.openapi_types.items()):
            field = model.attribute_map[attribute]
            code, below = _code(f"{_PREFIX.sub('', name)}.{field}", kind)
            types[name][field] = code
            waiting += [] if below is None or below in types else [below]
    embedded = {
        f"{go}.{field}": inner
        for name in types
        if (go := _PREFIX.sub("", name)) in _EMBEDDING
        for inner, held, others in [_EMBEDDING[go]]
        for field in types[name]
        if field in held or (others and field not in others)
    }
    texts = {
        field: name if "." in name else f"v1.{name}"
        for name, *fields in map(str.split, _TEXTS.strip().splitlines())
        for field in fields
    }
    newer = {field: release for release, fields in _NEWER.items() for field in fields}
    return {
        "embedded": dict(sorted(embedded.items())),
        "kinds": dict(sorted(kinds.items())),
        "newer": dict(sorted(newer.items())),
        "texts": dict(sorted(texts.items())),
        "types": dict(sorted(types.items())),
    }


def _code(field: str, kind: str) -> tuple[str, str | None]:
    """Return the type as a short code, and the struct in it, if there is one.

    ``s`` string, ``b`` bool, ``i`` int32, ``l`` int64, ``n`` number, ``q`` quantity, ``x`` number or string, ``t``
    time, ``y`` bytes, ``o`` anything, or a struct; ``[`` a list of, ``{`` a map of; ``*`` a pointer, ``!`` always
    written.
    """
    if (found := re.fullmatch(r"List\[(.*)\]", kind)) is not None:
        code, below = _code(field, found[1])
        return "[" + code, below
    if (found := re.fullmatch(r"Dict\[str, (.*)\]", kind)) is not None:
        code, below = _code(field, found[1])
        return "{" + code, below
    mark = "*" if field in _POINTERS else "!" if field in _ALWAYS else ""
    if field in _QUANTITIES or kind == "int":
        return "q" if field in _QUANTITIES else ("l" if field in _INT64 else "i") + mark, None
    if kind == "object":
        return "x" if field.endswith(
            (".port", ".maxSurge", ".maxUnavailable", ".minAvailable", ".targetPort")
        ) else "o", None
    if kind in _SCALARS:
        return _SCALARS[kind] + mark, None
    return kind + mark, kind


_SCALARS = {"str": "s", "bool": "b", "float": "n", "datetime": "t", "bytes": "y"}


def _kinds() -> dict[str, list[Any]]:
    """Return type, plural and whether it lives in a namespace, for every kind that can be created."""
    from kubernetes.client import api

    found: dict[str, list[Any]] = {}
    for file in sorted(Path(inspect.getfile(api)).parent.glob("*_api.py")):
        source = file.read_text("utf-8")
        bodies = dict(re.findall(r"\n    def create_(\w+)\(\s+self,.*?\n        body: (\w+),", source, re.DOTALL))
        paths = re.findall(
            r"\n    def _create_(\w+)_serialize\(.*?resource_path='/(?:api|apis)/([^']+)'", source, re.DOTALL
        )
        for name, path in paths:
            parts = path.split("/")
            if parts[-2] == "{name}" or parts[-1] == "{plural}" or name not in bodies:
                continue
            is_namespaced = "{namespace}" in parts
            group = "/".join(parts[:-3] if is_namespaced else parts[:-1])
            found[f"{group}/{_PREFIX.sub('', bodies[name])}"] = [bodies[name], parts[-1], is_namespaced]
    return found


def _with_alpha_groups(table: dict[str, Any]) -> dict[str, Any]:
    """Add the PodGroup of 1.36, scheduling.k8s.io/v1alpha2, which this package has only in the versions of 1.37."""
    types = table["types"]
    newer = types["V1alpha3PodGroupSpec"]
    same = ("priority", "priorityClassName", "resourceClaims", "schedulingConstraints", "schedulingPolicy")
    types["V1alpha2PodGroup"] = types["V1alpha3PodGroup"] | {"spec": "V1alpha2PodGroupSpec"}
    types["V1alpha2PodGroupSpec"] = {
        "disruptionMode": "s",
        "podGroupTemplateRef": "o",
        **{name: newer[name] for name in same},
    }
    table["kinds"]["scheduling.k8s.io/v1alpha2/PodGroup"] = ["V1alpha2PodGroup", "podgroups", True]
    return table


def text() -> str:
    """Return the file's contents."""
    return json.dumps(_with_alpha_groups(build()), separators=(",", ":")).replace('},"', '},\n"') + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
    sys.stderr.write(f"{TARGET}: {TARGET.stat().st_size} bytes\n")
