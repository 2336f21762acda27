"""Whether pods compete for nodes at all."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.framework.pod_groups import group_of
from kplan.rules.pod_info import PodInfo


def is_roomy(fewest_nodes: int, infos: Sequence[PodInfo]) -> bool:
    """Return whether every pod gets a node, whichever of equal nodes the scheduler draws for them.

    Each of the other pods can take one node away from a pod, so it gets one if at least as many nodes fit it as there
    are pods. That does not hold for pods of which one decides about many nodes, such as a zone.

    Parameters
    ----------
    fewest_nodes : the least number of nodes that fitted one of the pods when it was tried
    infos : the pods
    """
    return len(infos) < 2 or (fewest_nodes >= len(infos) and not any(map(_looks_beyond_a_node, infos)))


def _looks_beyond_a_node(info: PodInfo) -> bool:
    spec = info.pod.spec
    return bool(
        info.affinity.required_affinity
        or info.affinity.required_anti_affinity
        or spec.resource_claims
        or any(spread.when_unsatisfiable == "DoNotSchedule" for spread in spec.topology_spread_constraints)
        or any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes)
        or group_of(info) is not None
    )
