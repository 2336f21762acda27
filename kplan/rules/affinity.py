"""Inter-pod affinity terms, compiled.

Upstream: kube-scheduler/framework/types.go AffinityTerm, GetAffinityTerms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from kplan.api.affinity import PodAffinityTerm, WeightedPodAffinityTerm
from kplan.api.core import Pod
from kplan.api.labels import InvalidSelector, Selector, selector_from


class AffinityTerm(msgspec.Struct, frozen=True):
    """An affinity or anti-affinity term, resolved so that equal terms mean the same in whichever pod they are."""

    selector: Selector
    namespaces: frozenset[str]  #: names that match in any case; the owner's own where the term names none
    namespace_selector: Selector  #: further namespaces, by their labels
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term matches a pod with these labels in this namespace."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False


class WeightedAffinityTerm(msgspec.Struct, frozen=True):
    """A preferred term with its weight (1 to 100)."""

    term: AffinityTerm
    weight: int


class PodAffinityTerms(msgspec.Struct, frozen=True):
    """All inter-pod terms of one pod; empty tuples where it has none."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(
            self.required_affinity
            or self.required_anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )


NO_TERMS = PodAffinityTerms()


def affinity_terms(pod: Pod) -> tuple[PodAffinityTerms, str]:
    """Return a pod's inter-pod terms, compiled; a list with an invalid selector is left out.

    Returns
    -------
    terms : the lists of valid terms
    error : kube-scheduler's message about the invalid ones; empty when all are valid

    Notes
    -----
    Upstream: pkg/scheduler/framework/types.go PodInfo.Update, whose error does not affect running pods.
    """
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS, ""
    sides = {"Affinity": affinity.pod_affinity, "AntiAffinity": affinity.pod_anti_affinity}
    errors: list[str] = []

    def required(term: PodAffinityTerm) -> AffinityTerm:
        return _term(pod.metadata.namespace, term)

    def preferred(term: WeightedPodAffinityTerm) -> WeightedAffinityTerm:
        return WeightedAffinityTerm(required(term.pod_affinity_term), term.weight)

    def compiled(words: str, compile_term: Callable[[Any], Any]) -> Iterator[tuple[Any, ...]]:
        for name, side in sides.items():
            terms = () if side is None else getattr(side, f"{words}_during_scheduling_ignored_during_execution")
            try:
                yield tuple(map(compile_term, terms))
            except InvalidSelector as error:
                errors.append(f"{words}{name}Terms: {error}")
                yield ()

    lists = PodAffinityTerms(*compiled("required", required), *compiled("preferred", preferred))
    return lists, "".join(errors) if len(errors) < 2 else f"[{', '.join(errors)}]"


def _term(namespace: str, term: PodAffinityTerm) -> AffinityTerm:
    own_namespace_only = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        selector_from(term.label_selector),
        frozenset((namespace,)) if own_namespace_only else frozenset(term.namespaces),
        selector_from(term.namespace_selector),
        term.topology_key,
    )
