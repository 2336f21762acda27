"""Which claim of Karpenter a node is there for."""

from __future__ import annotations

from collections.abc import Iterable

from kplan.api.core import Node
from kplan.api.karpenter import NodeClaim


def claims_left(claims: Iterable[NodeClaim], gone: Iterable[Node]) -> tuple[NodeClaim, ...]:
    """Return the claims that stay when nodes are gone for good: Karpenter deletes a claim with its node.

    A node waits for Karpenter to finish its deletion, which begins with the claim's.

    Upstream: karpenter pkg/controllers/node/termination/controller.go finalize.
    """
    nodes = list(gone)
    names = {node.metadata.name for node in nodes}
    machines = {node.spec.provider_id for node in nodes if node.spec.provider_id}
    return tuple(
        claim for claim in claims if claim.status.node_name not in names and claim.status.provider_id not in machines
    )
