"""Remedies that correct what a rule of the pod says: a toleration, a topology key, another pod's label or namespace."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kplan.api.affinity import Taint
from kplan.changes import remedy as r
from kplan.diagnosis import intended, variants
from kplan.diagnosis.near_misses import NearMisses
from kplan.diagnosis.trials import Trials

_SPREAD, _PODS = "PodTopologySpread", "InterPodAffinity"


def toleration(trials: Trials, taints: list[Taint]) -> r.CorrectName | None:
    """Correct the toleration that was probably meant for the taints of a node."""
    if len(taints) != 1:
        return None
    guess = intended.suggested_toleration(trials.pod, taints[0], trials.live.cluster.nodes)
    if guess is None:
        return None
    old, to = map(intended.toleration_text, (guess.old, guess.to))
    change = r.NameChange(what=r.TOLERATION, old=old, to=to)
    return trials.offered(r.CorrectName, variants.with_toleration(trials.pod, guess.index, guess.to), change=change)


def topology_keys(trials: Trials, misses: NearMisses) -> Iterator[r.CorrectName]:
    """Correct the topology keys of required rules that no node has as a label."""
    pod, nodes = trials.pod, trials.live.cluster.nodes
    keys: dict[str, str] = {}
    if _SPREAD in misses.rejecting:
        for constraint in pod.spec.topology_spread_constraints:
            if constraint.when_unsatisfiable == variants.DO_NOT_SCHEDULE:
                keys.setdefault(constraint.topology_key, "topologySpreadConstraints")
    if _PODS in misses.rejecting:
        keys |= {term.topology_key: "podAffinity" for term in intended.required_together(pod)}
    for key, rule in keys.items():
        to = intended.suggested_topology_key(key, nodes)
        if not to:
            continue
        change = r.NameChange(what=r.TOPOLOGY_KEY, of=rule, old=key, to=to)
        if remedy := trials.offered(r.CorrectName, variants.with_topology_key(pod, key, to), change=change):
            yield remedy


def together(trials: Trials, misses: NearMisses) -> Iterator[r.CorrectName | r.SearchNamespace]:
    """Correct the label, or the namespaces, of a required pod affinity that matches no running pod."""
    if _PODS not in misses.rejecting:
        return
    pod, terms = trials.pod, intended.required_together(trials.pod)
    for guess in intended.suggested_pods(trials.live, trials.info):
        term = terms[guess.index]
        if isinstance(guess, intended.MeantNamespace):
            wider = replace(term, namespaces=(*term.namespaces, guess.namespace))
            corrected = variants.with_term(pod, guess.index, wider)
            addition = r.NamespaceAddition(
                namespace=guess.namespace, selector=guess.selector, topology_key=guess.topology_key
            )
            if wider_search := trials.offered(r.SearchNamespace, corrected, change=addition):
                yield wider_search
                return
        else:
            corrected = variants.with_term(pod, guess.index, variants.with_label(term, guess.old, guess.to))
            change = r.NameChange(what="label", of="podAffinity", old="=".join(guess.old), to="=".join(guess.to))
            if remedy := trials.offered(r.CorrectName, corrected, change=change):
                yield remedy


def policies(trials: Trials, misses: NearMisses) -> Iterator[r.HonorPolicy]:
    """Let a spread constraint leave out the domains of nodes on which the pod may not run."""
    if _SPREAD not in misses.rejecting:
        return
    for policy, key, honoring in variants.honoring(trials.pod):
        change = r.PolicyChange(policy=policy, topology_key=key)
        if remedy := trials.offered(r.HonorPolicy, honoring, change=change):
            yield remedy
