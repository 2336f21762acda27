"""Autoscalers: of replicas (autoscaling/v2 and v1), and what those of requests recommend (autoscaling.k8s.io/v1)."""

from kplan.api.base import Int32, KubeStruct, ResourceList
from kplan.api.meta import ApiObject


class CrossVersionObjectReference(KubeStruct, frozen=True):
    """The object that is scaled; it is in the autoscaler's namespace."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(KubeStruct, frozen=True):
    """What is scaled, and between which bounds; an absent minimum is 1."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0


class HorizontalPodAutoscaler(ApiObject, frozen=True):
    """An autoscaler of replicas."""

    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()


class ContainerResourcePolicy(KubeStruct, frozen=True):
    """Whether a container is scaled, and which resources of it; ``*`` is any other container."""

    container_name: str = ""
    mode: str | None = None
    controlled_resources: tuple[str, ...] | None = None


class PodResourcePolicy(KubeStruct, frozen=True):
    """How the containers are scaled."""

    container_policies: tuple[ContainerResourcePolicy, ...] = ()


class VerticalPodAutoscalerSpec(KubeStruct, frozen=True):
    """Whose requests are scaled."""

    target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    resource_policy: PodResourcePolicy = PodResourcePolicy()


class RecommendedContainerResources(KubeStruct, frozen=True):
    """The requests that are recommended for a container."""

    container_name: str = ""
    target: ResourceList = {}


class RecommendedPodResources(KubeStruct, frozen=True):
    """The requests that are recommended for the containers of a pod."""

    container_recommendations: tuple[RecommendedContainerResources, ...] = ()


class VerticalPodAutoscalerStatus(KubeStruct, frozen=True):
    """What is recommended."""

    recommendation: RecommendedPodResources = RecommendedPodResources()


class VerticalPodAutoscaler(ApiObject, frozen=True):
    """An autoscaler of requests."""

    spec: VerticalPodAutoscalerSpec = VerticalPodAutoscalerSpec()
    status: VerticalPodAutoscalerStatus = VerticalPodAutoscalerStatus()
