"""Pod disruption budgets (policy/v1)."""

from kplan.api.base import Int32, KubeStruct
from kplan.api.meta import ApiObject, IntOrString, LabelSelector


class PodDisruptionBudgetSpec(KubeStruct, frozen=True):
    """The pods of a budget, and how many must stay available."""

    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetCondition(KubeStruct, frozen=True):
    """One of a budget's conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""


class PodDisruptionBudgetStatus(KubeStruct, frozen=True):
    """How many disruptions are allowed at present; `disrupted_pods` are being evicted and already counted.

    `expected_pods` is the number of pods from which the disruption controller computes a percentage.
    """

    disruptions_allowed: Int32 = 0
    expected_pods: Int32 = 0
    conditions: tuple[BudgetCondition, ...] = ()
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(ApiObject, frozen=True):
    """A pod disruption budget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
