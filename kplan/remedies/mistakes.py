"""Ways out that change what a pod says: names that are misspelt or missing, and rules that are too strict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from shlex import quote

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import COMPARISON_GATE, DO_NOT_SCHEDULE, Affinity, PodAffinity, Taint
from kplan.api.core import Pod
from kplan.api.labels import CONTROL_PLANE, HOSTNAME
from kplan.changes import remedy as r
from kplan.diagnosis import causes as c
from kplan.diagnosis import intended
from kplan.diagnosis.gather import known_resources, runtime_class_labels
from kplan.diagnosis.intended import is_fact, meant_labels, states_condition, untolerated
from kplan.engine.details import TooMuchSkew
from kplan.engine.matching import first_untolerated_hard_taints
from kplan.remedies import variants
from kplan.remedies.nodes import relax_and_add
from kplan.remedies.trials import (
    MOST_TRIED,
    NODE_AFFINITY,
    POD_AFFINITY,
    SPREAD,
    TAINTS,
    Case,
    NearMisses,
    Offer,
    Offers,
    Trial,
    first_that_helps,
)
from kplan.remedies.variants import Label
from kplan.rules.volumes import claim_name
from kplan.snapshot.defaults import default_class


class GateKeeper(msgspec.Struct, frozen=True):
    """A controller that sets a gate and removes it again."""

    name: str
    look: str = ""  #: the command that shows what it waits for, but for the namespace


_KEEPERS = {
    "kueue.x-k8s.io": GateKeeper("Kueue", "kubectl get workloads.kueue.x-k8s.io"),
    "scheduling.volcano.sh": GateKeeper("Volcano", "kubectl get podgroups.scheduling.volcano.sh"),
    "volcano.sh": GateKeeper("Volcano", "kubectl get podgroups.scheduling.volcano.sh"),
    "yunikorn.apache.org": GateKeeper("YuniKorn"),
    "run.ai": GateKeeper("Run:ai"),
    "kai.scheduler": GateKeeper("the KAI scheduler", "kubectl get podgroups.scheduling.run.ai"),
    "codeflare.dev": GateKeeper("AppWrapper", "kubectl get appwrappers"),
    "grove.io": GateKeeper("Grove", "kubectl get podcliques"),
    "karmada.io": GateKeeper("Karmada"),
    "koordinator.sh": GateKeeper("Koordinator"),
}


def keeper_of_gate(gate: str) -> GateKeeper | None:
    """Return who removes a gate, by the domain before its slash; None for a gate of somebody unknown."""
    labels = gate.partition("/")[0].split(".")
    domains = (".".join(labels[start:]) for start in range(len(labels)))
    return next((_KEEPERS[domain] for domain in domains if domain in _KEEPERS), None)


def by_cause(case: Case, causes: c.Causes) -> Offers:  # noqa: C901 - one case a cause, in one place
    """Offer what ends the causes each of which alone keeps the pod from running."""
    for cause in causes.whole:
        match cause:
            case c.MissingClaim():
                yield from _claim(case, cause)
            case c.LeavingClaim(claim=claim):  # to free it, or a volume, is not tried: it loses data
                freed = r.Awaited(what="claim", name=claim, because=(case.info.key,))
                command = f"kubectl delete pod {quote(case.pod.metadata.name)} -n {quote(case.info.namespace)}"
                yield Offer(r.Await(change=freed, command=command, then=None, checked=False))
            case c.UnboundClaim(released=c.Released(volume=volume, former_claim=former)):
                freed = r.Awaited(what="volume", name=volume, because=(former,))
                command = f"""kubectl patch pv {quote(volume)} --type merge -p '{{"spec":{{"claimRef":null}}}}'"""
                yield Offer(r.Await(change=freed, command=command, then=None, checked=False))
            case c.UnboundClaim(storage_class=name, class_exists=False) if name or cause.classes:
                yield from _class(case, cause)
            case c.MissingOfDevices():
                of = f"ResourceClaim {cause.claim}" if cause.claim else ""
                yield from missing_object(cause.kind, cause.name, cause.nearest, of)
            case c.Gated():
                yield from gates(case, cause.gates)
            case c.OtherScheduler(nearest=name) if name:
                renamed = variants.with_spec(case.pod, scheduler_name=name)
                yield from _renamed(case, renamed, what="scheduler", old=cause.name, to=name)
            case c.TooLarge(nearest=name) if name:
                renamed = variants.with_resource_named(case.pod, cause.resource, name)
                yield from _renamed(case, renamed, what=r.RESOURCE, old=cause.resource, to=name)
            case c.Refused(lacks=lacks) if lacks is not None:
                yield from missing_object(lacks.kind, lacks.name, lacks.nearest)
            case c.MissingNamespace(name=name):
                yield from missing_object("namespace", name, cause.nearest)
            case _:
                pass


def _renamed(case: Case, pod: Pod, *, what: str, old: str, to: str, of: str = "") -> Offers:
    change = r.NameChange(what=what, of=of, old=old, to=to)
    yield from case.changed(r.CorrectName(change=change, then=None), pod)


def gates(case: Case, names: tuple[str, ...], rows: frozenset[int] | None = None) -> Offers:
    """Wait for who admits pods by removing the gate: without it, a pod would go around a quota."""
    keeper = next((held for gate in names if (held := keeper_of_gate(gate)) is not None), None)
    if keeper is not None:
        command = f"{keeper.look} -n {quote(case.info.namespace)}" if keeper.look else ""
        awaited = r.Awaited(what="gates", name=keeper.name, because=names)
        yield Offer(r.Await(change=awaited, command=command, then=None, checked=False))
        return
    trial = Trial(edit=lambda pod: variants.with_spec(pod, scheduling_gates=()), edited=rows)
    yield from case.tried(
        r.RemoveGates(change=r.GateChange(gates=names), then=None, members=case.members_of(rows)), trial
    )


def missing_object(what: str, name: str, nearest: str, of: str = "") -> Offers:
    """Name an object that exists, or create the one that is missing; neither is tried. `of`: what names it."""
    if nearest:
        change = r.NameChange(what=what, of=of, old=name.rpartition("/")[2], to=nearest)
        yield Offer(r.CorrectName(change=change, then=None, checked=False))
    yield Offer(r.CreateObject(change=r.MissingObject(what=what, name=name), then=None, checked=False))


def _claim(case: Case, cause: c.MissingClaim) -> Offers:
    name, pod = cause.claim.partition("/")[2], case.pod
    if cause.nearest:
        volumes = tuple(
            replace(volume, persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=cause.nearest))
            if volume.persistent_volume_claim is not None and claim_name(pod, volume) == name
            else volume
            for volume in pod.spec.volumes
        )
        yield from _renamed(
            case, variants.with_spec(pod, volumes=volumes), what="PersistentVolumeClaim", old=name, to=cause.nearest
        )
    yield from missing_object("PersistentVolumeClaim", cause.claim, "")


def _class(case: Case, cause: c.UnboundClaim) -> Offers:
    namespace, _, name = cause.claim.partition("/")
    claim = case.live.listers.persistent_volume_claims[namespace, name]
    classes = case.live.listers.storage_classes
    only = next(iter(classes)) if len(classes) == 1 else ""
    likely = cause.nearest or default_class(classes.values()) or only
    for instead in [likely] if likely else cause.classes[:MOST_TRIED]:
        what = f"PersistentVolumeClaim {cause.claim}"
        change = r.NameChange(what="storage class", of=what, old=cause.storage_class, to=instead)
        corrected = replace(claim, spec=replace(claim.spec, storage_class_name=instead))
        yield from case.tried(r.CorrectName(change=change, then=None), Trial(objects=(corrected,)))
    if cause.storage_class:
        yield from missing_object("StorageClass", cause.storage_class, "")


def selectors(case: Case, misses: NearMisses) -> Offers:
    """Correct a condition on node labels, or leave it out where nothing else rejects some node."""
    if NODE_AFFINITY not in misses.rejecting:
        return
    may_remove = len(misses.only(NODE_AFFINITY)) > 0
    of_class = runtime_class_labels(case.pod, case.live.listers.snapshot)  # which admission would add again
    for removal, key, values, with_label in _conditions(case.pod):
        if key in of_class and removal.where == "nodeSelector":
            continue
        known = case.live.cluster.nodes.label(key).code_of
        sign = "=" if removal.where == "nodeSelector" else " In "
        is_met = any(value in known for value in values)
        ways: list[Offers] = []
        for label in _likely_labels(case, key, values[0]) if values else [None]:
            change = replace(removal, to=None if label is None else sign.join(label), is_met=is_met)
            if label is not None or may_remove:
                ways.append(case.changed(r.CorrectSelector(change=change, then=None), with_label(label)))
        yield from first_that_helps(ways)


def _conditions(pod: Pod) -> Iterator[tuple[r.SelectorChange, str, tuple[str, ...], Callable[[Label | None], Pod]]]:
    """Yield the removal of each condition, its label and values, and what puts one on another label in its place."""
    for key, wanted in pod.spec.node_selector.items():
        removal = r.SelectorChange(where="nodeSelector", old=f"{key}={wanted}", to=None)
        yield removal, key, (wanted,), partial(variants.with_selector, pod, key)
    for index, condition in enumerate(variants.conditions(pod)):
        values = condition.values if condition.operator == "In" else ()
        old = f"{condition.key} {condition.operator} {','.join(condition.values)}".strip()
        removal = r.SelectorChange(where="nodeAffinity", old=old, to=None)
        yield removal, condition.key, values, partial(variants.with_condition, pod, index)


def _likely_labels(case: Case, key: str, wanted: str) -> Iterator[Label | None]:
    """Yield labels of nodes that were probably meant, the nearest first; at last None for no label.

    A value that nodes have is meant as it is, and a pod that names its node stays with it.
    """
    is_host = key == HOSTNAME
    if is_fact(key) or (is_host and wanted in case.live.cluster.nodes.label(key).code_of):
        return
    yield from () if is_host else meant_labels(key, wanted, case.live.cluster.nodes)[:MOST_TRIED]
    yield None


def tolerations(case: Case, misses: NearMisses) -> Offers:
    """Correct a toleration that was meant for the taints of nodes, or tolerate them."""
    positions = misses.only(TAINTS)
    if not len(positions) and TAINTS in misses.rejecting:  # the nodes for which it is meant, but for their taints
        positions = misses.rejected(TAINTS, but_not=NODE_AFFINITY)
    rows = misses.rows[positions]
    table, own = case.live.cluster.nodes, case.pod.spec.tolerations
    compares = case.live.config.release.is_on(COMPARISON_GATE)
    codes = first_untolerated_hard_taints(table, own, compares=compares)[0][rows]
    distinct, first, counts = np.unique(codes, return_index=True, return_counts=True)
    is_corrected = False
    for position in np.lexsort((distinct, -counts))[:MOST_TRIED]:
        node = table.nodes[int(rows[first[position]])]
        taints = untolerated(case.pod, node, compares=compares)
        if any(states_condition(taint.key) for taint in taints):
            continue
        corrections = list(_corrected_toleration(case, taints))
        is_corrected |= bool(corrections)
        yield from corrections
        if not is_corrected:
            yield from tolerating(case, taints)


def tolerating(case: Case, taints: list[Taint]) -> Offers:
    """Tolerate some taints."""
    texts = tuple(taint.text for taint in taints)
    known = known_resources(case.live.cluster.nodes)
    is_for_others = any(
        text.startswith(CONTROL_PLANE) or (taint.key in known and taint.key not in case.info.requests)
        for taint, text in zip(taints, texts, strict=True)
    )
    remedy = r.TolerateTaint(change=r.TolerationChange(taints=texts, for_others=is_for_others), then=None)
    yield from case.changed(remedy, variants.tolerating(case.pod, taints))


def _corrected_toleration(case: Case, taints: list[Taint]) -> Offers:
    if len(taints) == 1:
        guess = intended.suggested_toleration(case.pod, taints[0], case.live.cluster.nodes)
        if guess is not None:
            old, to = map(intended.toleration_text, (guess.old, guess.to))
            pod = variants.with_toleration(case.pod, guess.index, guess.to)
            yield from _renamed(case, pod, what=r.TOLERATION, old=old, to=to)


def topology_keys(case: Case, misses: NearMisses) -> Offers:
    """Correct the topology keys of required rules that no node has as a label."""
    pod, nodes = case.pod, case.live.cluster.nodes
    keys: dict[str, str] = {}
    if SPREAD in misses.rejecting:
        for constraint in pod.spec.topology_spread_constraints:
            if constraint.when_unsatisfiable == DO_NOT_SCHEDULE:
                keys.setdefault(constraint.topology_key, "topologySpreadConstraints")
    if POD_AFFINITY in misses.rejecting:
        keys |= {term.topology_key: "podAffinity" for term in intended.required_together(pod)}
    for key, rule in keys.items():
        if to := intended.suggested_topology_key(key, nodes):
            changed = variants.with_topology_key(pod, key, to)
            yield from _renamed(case, changed, what=r.TOPOLOGY_KEY, of=rule, old=key, to=to)


def together(case: Case, misses: NearMisses) -> Offers:
    """Correct the label, or the namespaces, of a required pod affinity that matches no running pod."""
    if POD_AFFINITY not in misses.rejecting:
        return
    rules = (case.pod.spec.affinity or Affinity()).pod_affinity or PodAffinity()
    for guess in intended.suggested_pods(case.live, case.info):
        term = rules.required_during_scheduling_ignored_during_execution[guess.index]
        with_term = partial(variants.with_term, case.pod, rules, guess.index)
        if isinstance(guess, intended.MeantLabel):
            corrected = with_term(variants.with_label(term, guess.old, guess.to))
            old, to = "=".join(guess.old), "=".join(guess.to)
            yield from _renamed(case, corrected, what="label", of="podAffinity", old=old, to=to)
            continue
        wider, key = replace(term, namespaces=(*term.namespaces, guess.namespace)), guess.topology_key
        addition = r.NamespaceAddition(namespace=guess.namespace, selector=guess.selector, topology_key=key)
        remedy = r.SearchNamespace(change=addition, then=None)
        offers: list[Offer] = list(case.changed(remedy, with_term(wider)))
        yield from offers
        if offers:
            return


def rules(case: Case, misses: NearMisses) -> Offers:
    """Let a spread constraint leave out the nodes on which the pod may not run, and prefer where the pod requires."""
    pod = case.pod
    ways: list[tuple[r.Rule, str, Pod]] = []
    if SPREAD in misses.rejecting:
        for policy, key, honoring in variants.honoring(pod):
            honored = r.PolicyChange(policy=policy, topology_key=key)
            yield from case.changed(r.HonorPolicy(change=honored, then=None), honoring)
        yield from _fewer_domains(case, misses)
        ways += [("topologySpreadConstraints", *way) for way in variants.relaxed_spreads(pod)]
    if POD_AFFINITY in misses.rejecting:
        affinity = pod.spec.affinity or Affinity()
        ways += [("podAntiAffinity", *way) for way in variants.relaxed_terms(pod, affinity.pod_anti_affinity)]
        ways += [("podAffinity", *way) for way in variants.relaxed_terms(pod, affinity.pod_affinity)]
    for rule, key, relaxed in ways:
        change = r.RuleChange(rule=rule, topology_key=key)
        offers = list(case.changed(r.RelaxRule(change=change, then=None), relaxed))
        yield from offers or relax_and_add(case, relaxed, change)


def _fewer_domains(case: Case, misses: NearMisses) -> Offers:
    """Let a spread constraint want only as many domains as there are."""
    skews = (detail for detail in misses.details() if isinstance(detail, TooMuchSkew) and detail.min_domains)
    for key, domains in {skew.topology_key: skew.domains for skew in skews}.items():
        change = r.RuleChange(rule="topologySpreadConstraints", topology_key=key, min_domains=domains)
        fewer = variants.with_min_domains(case.pod, key, domains)
        yield from case.changed(r.RelaxRule(change=change, then=None), fewer)
