"""Which provider of nodes runs, and the pools and claims that are its own: Karpenter ignores those of another one.

Only Karpenter itself knows its provider. Here it is taken from the node classes that are in the cluster, else from
what most pools and claims refer to.

Upstream: utils/nodepool/nodepool.go IsManaged, utils/nodeclaim/nodeclaim.go IsManaged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeAlias

from kplan.api.kinds import KINDS
from kplan.api.provisioning import AKSNodeClass, EC2NodeClass, KWOKNodeClass, NodeClassReference
from kplan.autoscaling.karpenter.options import Options
from kplan.snapshot.model import Snapshot

NodeClassKind: TypeAlias = str
"""``GROUP/KIND`` of a node class."""

_CLASSES = tuple(kind for kind in KINDS if kind.type in {AKSNodeClass, EC2NodeClass, KWOKNodeClass})


def kind_of(reference: NodeClassReference) -> NodeClassKind:
    """Return the kind of node class to which a reference leads; empty where it names none."""
    return f"{reference.group}/{reference.kind}" if reference.kind else ""


def supported_kinds(snapshot: Snapshot, options: Options) -> frozenset[NodeClassKind]:
    """Return the kinds of node classes that the running provider supports; none where nothing tells."""
    if options.supported_node_classes:
        return frozenset(options.supported_node_classes)
    references = [pool.spec.template.spec.node_class_ref for pool in snapshot.node_pools]
    references += [claim.spec.node_class_ref for claim in snapshot.node_claims]
    counts = Counter(kind for reference in references if (kind := kind_of(reference)))
    present = [f"{kind.group}/{kind.name}" for kind in _CLASSES if snapshot.objects(kind.attribute)]
    ranked = sorted(present or counts, key=lambda kind: (-counts[kind], kind))
    return frozenset(ranked[:1])


def is_supported(reference: NodeClassReference, kinds: frozenset[NodeClassKind]) -> bool:
    """Tell whether the running provider makes nodes of a class; it does where nothing tells."""
    kind = kind_of(reference)
    return not kinds or not kind or kind in kinds


def managed_part(snapshot: Snapshot, kinds: frozenset[NodeClassKind]) -> Snapshot:
    """Return a cluster without the pools and claims of other providers."""
    pools = tuple(pool for pool in snapshot.node_pools if is_supported(pool.spec.template.spec.node_class_ref, kinds))
    claims = tuple(claim for claim in snapshot.node_claims if is_supported(claim.spec.node_class_ref, kinds))
    if len(pools) == len(snapshot.node_pools) and len(claims) == len(snapshot.node_claims):
        return snapshot
    return replace(snapshot, node_pools=pools, node_claims=claims)


def foreign_pools(snapshot: Snapshot, kinds: frozenset[NodeClassKind]) -> dict[str, str]:
    """Return why Karpenter ignores a pool, for the pools of other providers."""
    references = {pool.metadata.name: pool.spec.template.spec.node_class_ref for pool in snapshot.node_pools}
    return {
        name: f"its node class is {kind_of(references[name])}, and the running provider's {', '.join(sorted(kinds))}"
        for name in sorted(references)
        if not is_supported(references[name], kinds)
    }
