"""One topology constraint, shared by all pods that say the same, and how many pods it counts in each domain.

Upstream: provisioning/scheduling/topologygroup.go, topologynodefilter.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from kplan.api.affinity import Taint, Toleration
from kplan.api.labels import HOSTNAME, valid_selector
from kplan.api.meta import LabelSelector
from kplan.autoscaling.karpenter.pods import tolerates_all
from kplan.autoscaling.karpenter.pools import DomainGroup
from kplan.autoscaling.karpenter.requirements import Requirement, Requirements, Vocabulary
from kplan.autoscaling.karpenter.wishes import Wishes

HONOR = "Honor"
IGNORE = "Ignore"
UNBOUNDED = 2**31 - 1


class Type(Enum):
    """What a group demands; the values are Karpenter's words."""

    SPREAD = "topology spread"
    AFFINITY = "pod affinity"
    ANTI_AFFINITY = "pod anti-affinity"


class NodeFilter(NamedTuple):
    """The nodes whose pods a spread counts: those that meet one of `alternatives`, and whose taints are tolerated."""

    alternatives: tuple[Requirements, ...] = ()
    taint_policy: str = ""
    affinity_policy: str = ""
    tolerations: tuple[Toleration, ...] = ()

    def matches(self, taints: Iterable[Taint], node: Requirements, hostname: str | None, known: Vocabulary) -> bool:
        """Tell whether a node counts; every label that is asked for must be known of it.

        A `hostname` is given where it is not among the requirements of the node.
        """
        counts_some = self.affinity_policy == HONOR and self.alternatives
        if counts_some and not any(_meets(node, hostname, wanted, known) for wanted in self.alternatives):
            return False
        return self.taint_policy != HONOR or tolerates_all(self.tolerations, taints)

    @property
    def identity(self) -> Hashable:
        """What makes filters the same: upstream's hash sees of requirements no more than the labels.

        It combines the elements of lists by exclusive or, so that what occurs twice does not occur.
        """
        labels = [frozenset((*wanted.items, *((HOSTNAME,) if wanted.hostname else ()))) for wanted in self.alternatives]
        return _odd(labels), self.taint_policy, self.affinity_policy, _odd(self.tolerations)


def _meets(node: Requirements, hostname: str | None, wanted: Requirements, known: Vocabulary) -> bool:
    if hostname is None:
        return not known.misfits(node, wanted, allows_well_known=False)
    return not (
        known.misfits(node, known.hostless(wanted), allows_well_known=False) or known.host_misfits(hostname, wanted)
    )


def node_filter(wishes: Wishes, taint_policy: str | None, affinity_policy: str | None, known: Vocabulary) -> NodeFilter:
    """Return the filter of a spread constraint of a pod."""
    alternatives = [known.of_labels(wishes.node_selector)]
    if wishes.required is not None:
        alternatives = [
            known.join(alternatives[0], known.of_expressions(term.match_expressions)) for term in wishes.required
        ]
    return NodeFilter(tuple(alternatives), taint_policy or IGNORE, affinity_policy or HONOR, wishes.tolerations)


def _odd(elements: Iterable[Hashable]) -> frozenset[Hashable]:
    return frozenset(element for element, count in Counter(elements).items() if count % 2)


def selector_identity(selector: LabelSelector | None) -> Hashable:
    if selector is None:
        return None
    expressions = frozenset((wanted.key, wanted.operator, _odd(wanted.values)) for wanted in selector.match_expressions)
    return expressions, frozenset(selector.match_labels.items())


class TopologyGroup:
    """A topology constraint, and the number of pods in each domain.

    Parameters
    ----------
    domains : domain -> taints of the pools that have it
    tolerations : of the pod for which the group is made; they decide which domains it knows
    """

    def __init__(
        self,
        kind: Type,
        key: str,
        namespaces: frozenset[str],
        raw_selector: LabelSelector | None,
        *,
        max_skew: int = UNBOUNDED,
        min_domains: int | None = None,
        counted: NodeFilter = NodeFilter(),  # noqa: B008 - it is a constant
        domains: DomainGroup | None = None,
        tolerations: tuple[Toleration, ...] = (),
    ) -> None:
        self.kind = kind
        self.key = key
        self.namespaces = namespaces
        self.raw_selector = raw_selector
        self.selector = valid_selector(raw_selector)
        self.max_skew = max_skew
        self.min_domains = min_domains
        self.filter = counted
        self.counts = {
            domain: 0
            for domain, taint_sets in (domains or {}).items()
            if counted.taint_policy == IGNORE or any(tolerates_all(tolerations, taints) for taints in taint_sets)
        }

    @property
    def identity(self) -> Hashable:
        """What makes groups the same; the smallest number of domains is not part of it."""
        selector = selector_identity(self.raw_selector)
        return self.key, self.kind, self.namespaces, self.max_skew, self.filter.identity, selector

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod is one of those that are counted."""
        return namespace in self.namespaces and self.selector.matches(labels)

    def record(self, domains: Iterable[str]) -> None:
        for domain in domains:
            self.counts[domain] = self.counts.get(domain, 0) + 1

    def register(self, domain: str) -> None:
        """Know a domain, with no pod yet."""
        self.counts.setdefault(domain, 0)

    def on_host(self, hostname: str, pod: Requirement | None, known: Vocabulary, *, selects_itself: bool) -> bool:
        """Tell whether a constraint on host names lets the pod on a node."""
        count = self.counts.get(hostname, 0)
        if self.kind is Type.SPREAD:
            return count + selects_itself <= self.max_skew
        if self.kind is Type.ANTI_AFFINITY:
            return count == 0
        if pod is not None and not known.has(pod, hostname):
            return False
        return count > 0 or (selects_itself and self._may_begin(pod, known))

    def next_domains(
        self, pod: Requirement | None, node: Requirement | None, known: Vocabulary, *, selects_itself: bool
    ) -> list[str]:
        """Return the domains that a node may be in for the pod; of equally good ones the first by name.

        Parameters
        ----------
        pod, node : the domains that pod and node can have; None for any
        """
        candidates = self._candidates(node, known)
        if self.kind is Type.SPREAD:
            return self._next_of_spread(candidates, pod, known, selects_itself=selects_itself)
        if self.kind is Type.ANTI_AFFINITY:
            return [domain for domain in candidates if not self.counts[domain] and _allows(pod, domain, known)]
        allowed = [domain for domain in candidates if self.counts[domain] and _allows(pod, domain, known)]
        if allowed or not selects_itself or not self._may_begin(pod, known):
            return allowed
        # The first pod of its group: one domain that both allow, and one that the pod allows.
        first = [domain for domain in candidates if _allows(pod, domain, known)][:1]
        own = next((domain for domain in sorted(self.counts) if _allows(pod, domain, known)), None)
        return first if own is None or own in first else [*first, own]

    def _candidates(self, node: Requirement | None, known: Vocabulary) -> list[str]:
        if node is not None and node.operator == "In":
            return [domain for domain in known.texts(node.key, node.values) if domain in self.counts]
        return [domain for domain in sorted(self.counts) if _allows(node, domain, known)]

    def _next_of_spread(
        self, candidates: list[str], pod: Requirement | None, known: Vocabulary, *, selects_itself: bool
    ) -> list[str]:
        least = self._least(pod, known)
        best, best_count = "", UNBOUNDED
        for domain in candidates:
            count = self.counts[domain] + selects_itself
            if count - least <= self.max_skew and count < best_count:
                best, best_count = domain, count
        return [best] if best else []

    def _least(self, pod: Requirement | None, known: Vocabulary) -> int:
        if self.key == HOSTNAME:
            return 0
        counts = [count for domain, count in self.counts.items() if _allows(pod, domain, known)]
        if self.min_domains is not None and len(counts) < self.min_domains:
            return 0
        return min(counts, default=UNBOUNDED)

    def _may_begin(self, pod: Requirement | None, known: Vocabulary) -> bool:
        return not any(self.counts.values()) or not any(
            count and _allows(pod, domain, known) for domain, count in self.counts.items()
        )


def _allows(requirement: Requirement | None, domain: str, known: Vocabulary) -> bool:
    return requirement is None or known.has(requirement, domain)
