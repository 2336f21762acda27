"""Node pools: which are the running provider's own, and what their new nodes are like.

Only Karpenter itself knows its provider, and ignores pools and claims of another one. Here it is taken from the node
classes that are in the cluster, else from what most pools and claims refer to.

Upstream: provisioning/scheduling/nodeclaimtemplate.go, provisioner.go NewScheduler; utils/nodepool/nodepool.go and
utils/nodeclaim/nodeclaim.go IsManaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec

from kplan.api.affinity import PREFER_NO_SCHEDULE, Taint
from kplan.api.core import NodeCondition
from kplan.api.kinds import KINDS
from kplan.api.provisioning import AKSNodeClass, EC2NodeClass, KWOKNodeClass, NodeClassReference, NodePool
from kplan.autoscaling.karpenter.amounts import INITIALIZED, NODEPOOL, REGISTERED, Amounts, amounts_of
from kplan.autoscaling.karpenter.columns import Columns
from kplan.autoscaling.karpenter.instance_types import InstanceType
from kplan.autoscaling.karpenter.options import Options
from kplan.autoscaling.karpenter.requirements import Requirement, Requirements, Vocabulary, bits_of
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


class Template(msgspec.Struct, frozen=True):
    """What new nodes of a pool have in common."""

    pool: NodePool
    name: str
    requirements: Requirements  #: those of the pool, its labels, and the labels of pool and node class
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    columns: Columns  #: all instance types that the pool may have
    machines: Columns  #: the same as their provider knows them, without overlays
    types: int  #: those that it can use, as a set
    limits: Amounts
    lacks_min_values: bool = False  #: why it can use none: too few values of a label


def is_true(conditions: Iterable[NodeCondition], name: str) -> bool:
    return any(condition.type == name and condition.status == "True" for condition in conditions)


_PARTS = ("ValidationSucceeded", "NodeClassReady")
_READY = "Ready"


def is_ready(pool: NodePool) -> bool:
    return not why_not_ready(pool)


def why_not_ready(pool: NodePool) -> str:
    """Return why a pool is not ready, empty if it is: its condition Ready decides, once its parts are there at all.

    Upstream: github.com/awslabs/operatorpkg status/condition_set.go For.
    """
    known = {condition.type: condition for condition in pool.status.conditions}
    for name in _PARTS:
        if name not in known:
            return f"it is not ready: it has no condition {name} yet"
    if is_true(pool.status.conditions, _READY):
        return ""
    for name in (*_PARTS, _READY):
        condition = known.get(name)
        if condition is not None and condition.status != "True":
            reason = f" ({condition.reason})" if condition.reason else ""
            return f"it is not ready: {name} is {condition.status}{reason}"
    return f"it is not ready: it has no condition {_READY} yet"


def why_unusable(pool: NodePool) -> str:
    """Return why a pool gets no nodes for pods; empty if it may."""
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if pool.spec.replicas is not None:
        return "it has as many nodes as its replicas say, whatever the pods"
    return why_not_ready(pool)


def by_weight(pools: Iterable[NodePool]) -> list[NodePool]:
    """Return pools, the heaviest first; equally heavy ones by name, backwards (upstream OrderByWeight)."""
    return sorted(pools, key=lambda pool: (pool.spec.weight or 0, pool.metadata.name), reverse=True)


def node_class_label(pool: NodePool) -> tuple[str, str]:
    reference = pool.spec.template.spec.node_class_ref
    return f"{reference.group}/{reference.kind.lower()}", reference.name


def pool_requirements(pool: NodePool, vocabulary: Vocabulary) -> Requirements:
    """Return what the template of a pool requires."""
    wanted = pool.spec.template.spec.requirements
    return vocabulary.of(
        vocabulary.requirement(entry.key, entry.operator, entry.values, entry.min_values) for entry in wanted
    )


SIMULATED = (REGISTERED, INITIALIZED)
"""Labels that new nodes have while their daemons are looked for; no claim asks for them."""


def template_of(
    pool: NodePool, columns: Columns, machines: Columns, *, relaxes_min_values: bool, finds_ready: bool
) -> Template:
    """Return the template of a pool, with the instance types that its requirements leave.

    With `finds_ready` its nodes have the labels of nodes that are ready for daemons.
    """
    vocabulary = columns.vocabulary
    labels = {**pool.spec.template.metadata.labels, NODEPOOL: pool.metadata.name}
    key, name = node_class_label(pool)
    labels[key] = name
    requirements = vocabulary.join(pool_requirements(pool, vocabulary), vocabulary.of_labels(labels))
    if finds_ready:
        requirements = vocabulary.join(requirements, vocabulary.of_labels(dict.fromkeys(SIMULATED, "true")))
    types = columns.matching(requirements) & columns.fitting({}, requirements)
    lacking: dict[str, int] = {}
    if requirements.has_min_values:
        _, lacking = columns.needed_for_min_values(list(bits_of(types)), requirements)
    return Template(
        pool=pool,
        name=pool.metadata.name,
        requirements=requirements,
        labels=labels,
        taints=pool.spec.template.spec.taints,
        columns=columns,
        machines=machines,
        types=0 if lacking and not relaxes_min_values else types,
        limits=amounts_of(pool.spec.limits),
        lacks_min_values=bool(lacking) and not relaxes_min_values,
    )


def prefers_no_schedule(pools: Iterable[NodePool]) -> bool:
    """Tell whether a pool has a taint that pods need not, but may be made to tolerate."""
    return any(taint.effect == PREFER_NO_SCHEDULE for pool in pools for taint in pool.spec.template.spec.taints)


DomainGroup = dict[str, list[tuple[Taint, ...]]]
"""Domain -> the taints of the pools that have it; an empty tuple alone where a pool without taints has it."""


def domain_groups(
    pools: Sequence[NodePool], types: Mapping[str, Sequence[InstanceType]], vocabulary: Vocabulary
) -> dict[str, DomainGroup]:
    """Return the domains of every label that new nodes can have (upstream buildDomainGroups)."""
    groups: dict[str, DomainGroup] = {}
    for pool in pools:
        own = types.get(pool.metadata.name)
        if not own:
            continue
        taints = pool.spec.template.spec.taints
        labels = vocabulary.of_labels(pool.spec.template.metadata.labels)
        base = vocabulary.join(pool_requirements(pool, vocabulary), labels)
        domains: dict[str, int] = {}
        for entry in own:
            _collect(domains, vocabulary.join(base, vocabulary.of_expressions(entry.requirements)).items.values())
        _collect(domains, (wanted for wanted in base.items.values() if wanted.operator == "In"))
        for key, values in domains.items():
            group = groups.setdefault(key, {})
            for domain in vocabulary.texts(key, values):
                _insert(group, domain, taints)
    return groups


def _collect(domains: dict[str, int], requirements: Iterable[Requirement]) -> None:
    """Add the values that requirements name; of NotIn those that are excluded, as upstream does."""
    for wanted in requirements:
        domains[wanted.key] = domains.get(wanted.key, 0) | wanted.values


def _insert(group: DomainGroup, domain: str, taints: tuple[Taint, ...]) -> None:
    if domain not in group or not taints:
        group[domain] = [taints]
    elif group[domain][0]:
        group[domain].append(taints)
