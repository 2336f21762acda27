"""The terms of running pods, as far as they mean the pod that is to be placed.

Upstream: plugins/interpodaffinity/{filtering,scoring}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.cluster import MAX_FOLLOWED, Cluster
from kplan.engine.node_table import LabelColumn
from kplan.engine.pod_table import PodTable
from kplan.engine.terms import TermKind, pod_terms
from kplan.plugins.inter_pod_affinity.incoming import Contribution
from kplan.rules.affinity import AffinityTerm, PodAffinityTerms
from kplan.rules.pod_info import PodInfo


class KeyCounts:
    """Terms, or their weights, per domain of a topology key."""

    def __init__(self, topology_key: str, column: LabelColumn) -> None:
        self.topology_key = topology_key
        self.column = column
        #: int64 array of shape (n_domains + 1,); the last element, for no domain, is 0
        self.counts: Int64Array = np.zeros(len(column.values) + 1, np.int64)


class _Effect(NamedTuple):
    """What a pod that holds some terms adds to its domain."""

    where: KeyCounts
    amount: int
    is_rejecting: bool


class TermsHeld:
    """How many required anti-affinity terms of one topology key, that mean the incoming pod, each pod holds."""

    def __init__(self, pods: PodTable, count: Callable[[PodAffinityTerms], int]) -> None:
        self._pods = pods
        self._count = count
        self._per_set: NDArray[np.int16] = np.zeros(0, np.int16)
        self._column: NDArray[np.int16] = np.zeros(0, np.int16)

    @property
    def column(self) -> NDArray[np.int16]:
        """One element a pod, int16 of shape (n_pods,)."""
        n_pods = len(self._pods)
        if len(self._column) < n_pods:
            codes = self._pods.term_codes
            unknown = self._pods.term_sets[len(self._per_set) :]
            added = np.fromiter((self._count(terms) for terms in unknown), np.int16, len(unknown))
            self._per_set = np.concatenate((self._per_set, added))
            self._column = self._per_set[codes]
        return self._column


class RunningTerms:
    """All terms of running pods that mean pods with some labels in some namespace, kept up to date pod by pod.

    Attributes
    ----------
    rejecting : topology key -> how many required anti-affinity terms mean the pod, per domain
    held : topology key -> how many of them each pod holds; the keys are those of `rejecting`
    n_rejecting : all of them together, on nodes with the topology label
    n_scoring : terms that score, on nodes with the topology label
    """

    def __init__(
        self, cluster: Cluster, pod: PodInfo, namespace_labels: dict[str, str], hard_affinity_weight: int
    ) -> None:
        """Look at all terms.

        Parameters
        ----------
        pod : any pod of the namespace with the labels
        namespace_labels : those of its namespace
        hard_affinity_weight : what a required affinity term of a running pod scores; 0 for nothing
        """
        self._cluster = cluster
        self._pod = pod
        self._namespace_labels = namespace_labels
        self._hard_affinity_weight = hard_affinity_weight
        self._count()

    def _count(self) -> None:
        """Count all holders of all groups."""
        self.rejecting: dict[str, KeyCounts] = {}
        self.held: dict[str, TermsHeld] = {}
        self._n_sets_seen = 0
        self._scoring: dict[str, KeyCounts] = {}
        self._effects: dict[int, tuple[_Effect, ...]] = {0: ()}
        self.n_rejecting = self.n_scoring = 0
        self._rejected: BoolArray | None = None
        self._position = len(self._cluster.log)
        for group in self._cluster.terms.groups_for(self._pod.labels):
            effect = self._effect(group.kind, group.term, group.weight) if group.holders else None
            if effect is None:
                continue
            rows, holders = group.arrays()
            labelled = effect.where.column.present[rows]
            rows, holders = rows[labelled], holders[labelled]
            np.add.at(effect.where.counts, effect.where.column.slots[rows], holders * effect.amount)
            self._note(effect, int(holders.sum()))

    def _note(self, effect: _Effect, n_terms: int) -> None:
        if effect.is_rejecting:
            self.n_rejecting += n_terms
            self._rejected = None
        else:
            self.n_scoring += n_terms

    def _effect(self, kind: TermKind, term: AffinityTerm, weight: int) -> _Effect | None:
        """Return what one pod with this term adds, or None where the term does not mean the pod or does not count."""
        is_rejecting = kind is TermKind.REQUIRED_ANTI_AFFINITY
        amount = {
            TermKind.REQUIRED_AFFINITY: self._hard_affinity_weight,
            TermKind.REQUIRED_ANTI_AFFINITY: 1,
            TermKind.PREFERRED_AFFINITY: weight,
            TermKind.PREFERRED_ANTI_AFFINITY: -weight,
        }[kind]
        if kind is TermKind.REQUIRED_AFFINITY and amount <= 0:
            return None
        if not self.means(term):
            return None
        return _Effect(self._key_counts(term.topology_key, is_rejecting=is_rejecting), amount, is_rejecting)

    def means(self, term: AffinityTerm) -> bool:
        """Tell whether a running pod's term means the incoming pod."""
        return term.matches(self._pod.namespace, self._pod.labels, self._namespace_labels)

    def _key_counts(self, topology_key: str, *, is_rejecting: bool) -> KeyCounts:
        by_key = self.rejecting if is_rejecting else self._scoring
        counts = by_key.get(topology_key)
        if counts is None:
            counts = by_key[topology_key] = KeyCounts(topology_key, self._cluster.nodes.label(topology_key))
            if is_rejecting:
                self.held[topology_key] = TermsHeld(
                    self._cluster.pods,
                    lambda terms: sum(
                        term.topology_key == topology_key and self.means(term) for term in terms.required_anti_affinity
                    ),
                )
        return counts

    def _effects_of(self, code: int) -> tuple[_Effect, ...]:
        """Return what a pod with some set of terms adds; each set is looked at once."""
        effects = self._effects.get(code)
        if effects is None:
            listed = (self._effect(*pod_term) for pod_term in pod_terms(self._cluster.pods.term_sets[code]))
            effects = self._effects[code] = tuple(effect for effect in listed if effect is not None)
        return effects

    def refresh(self) -> None:
        """Take in all that happened since."""
        log = self._cluster.log
        if self._position == len(log):
            return
        if not self._cluster.terms.groups:
            self._position = len(log)
            return
        if len(log) - self._position > MAX_FOLLOWED:
            self._count()
            return
        codes = self._cluster.pods.term_codes
        for change in log[self._position :]:
            for effect in self._effects_of(int(codes[change.pod])):
                column = effect.where.column
                slot = column.slots[change.row]
                if slot < len(column.values):
                    effect.where.counts[slot] += change.sign * effect.amount
                    self._note(effect, change.sign)
        self._position = len(log)

    def rejected(self) -> BoolArray:
        """Return the nodes in whose domains some running pod does not want the pod, bool of shape (n_nodes,).

        Kept as long as no pod with such terms comes or leaves; not to be written to.
        """
        if self._rejected is None:
            rejected = np.zeros(len(self._cluster), np.bool_)
            for terms in self.rejecting.values():
                rejected |= (terms.counts > 0)[terms.column.slots]
            self._rejected = rejected
        return self._rejected

    def look_at_all_pods(self) -> None:
        """Learn the topology keys that pods bring along which have not run yet (nominated ones)."""
        pods = self._cluster.pods
        if len(pods.term_codes) and self._n_sets_seen < len(pods.term_sets):
            for code in range(self._n_sets_seen, len(pods.term_sets)):
                self._effects_of(code)
            self._n_sets_seen = len(pods.term_sets)

    def contributions(self) -> Iterable[Contribution]:
        """Return what running pods add to scores for their own sake."""
        if self.n_scoring:
            for topology_key, weights in self._scoring.items():
                yield Contribution(topology_key, weights.counts)
