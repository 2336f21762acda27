"""What Karpenter makes for pending pods.

Upstream: provisioning/provisioner.go Schedule.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kplan.api.core import Pod
from kplan.autoscaling.karpenter.amounts import texts_of
from kplan.autoscaling.karpenter.blocking import Budgets
from kplan.autoscaling.karpenter.planned import Planned
from kplan.autoscaling.karpenter.prepared import Prepared, Simulated
from kplan.autoscaling.karpenter.scheduler import Refused


class Provisioned(msgspec.Struct, frozen=True):
    """The new nodes, the places on present ones, and the pods without either.

    Attributes
    ----------
    waiting : pods for which there is no pool at all
    """

    nodes: list[Planned]
    existing: Mapping[str, tuple[Pod, ...]]
    errors: Mapping[str, Refused]
    waiting: tuple[str, ...] = ()


def provision(prepared: Prepared) -> Provisioned:
    """Find places for all pending pods, and for those of nodes that are going away."""
    budgets = Budgets(prepared.snapshot.pod_disruption_budgets, prepared.now)
    pods = [*prepared.pending, *leaving_pods(prepared, budgets)]
    if not pods:
        return Provisioned([], {}, {})
    simulated: Simulated | None = prepared.simulate(pods, prepared.state.active, is_strict=True)
    if simulated is None:
        return Provisioned([], {}, {}, waiting=tuple(pod.metadata.key for pod in pods))
    return Provisioned(simulated.nodes, simulated.existing, simulated.errors)


def leaving_pods(prepared: Prepared, budgets: Budgets) -> list[Pod]:
    """Return the pods of nodes that are going away, as far as they can be moved at present."""
    return [pod for state in prepared.state.deleting for pod in state.pods if budgets.lets_move(pod)]


def exceeded_limit(prepared: Prepared, pool: str) -> str | None:
    """Return why Karpenter would not make a node of a pool: its nodes are above its limits already."""
    used = prepared.state.used_by(pool)
    limits = {template.name: template.limits for template in prepared.templates}.get(pool, {})
    for name in sorted(limits):
        if used.get(name, 0) > limits[name]:
            shown = texts_of({name: used[name]}), texts_of({name: limits[name]})
            usage, limit = (next(iter(text.values()), "0") for text in shown)
            return f"resource usage exceeds limit (limit={limit}, resource-name={name}, usage={usage})"
    return None
