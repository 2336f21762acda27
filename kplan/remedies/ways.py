"""Find the smallest changes that let a pod run; each is offered only if the pod, tried with it, gets a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import COMPARISON_GATE, Affinity, Taint
from kplan.api.core import Pod
from kplan.api.labels import CONTROL_PLANE, HOSTNAME
from kplan.changes import remedy as r
from kplan.diagnosis import causes as c
from kplan.diagnosis import intended
from kplan.diagnosis.gather import gather, resources_of
from kplan.diagnosis.intended import SYSTEM_TAINTS, is_fact, near_names, nearest, nearest_key, untolerated
from kplan.engine.matching import first_untolerated_hard_taints
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.remedies import variants
from kplan.remedies.replicas import ALONE, Replicas
from kplan.remedies.sizing import fewer, low_enough, lower
from kplan.remedies.surroundings import (
    add,
    await_nodes,
    await_pods,
    move,
    raise_priority,
    relax_and_add,
    repair,
    repair_devices,
    uncordon,
)
from kplan.remedies.trials import NearMisses, Trials
from kplan.rules.gates import keeper_of_gate
from kplan.rules.volumes import claim_name

MOST = 5
"""At most this many remedies are offered."""

_TAINTS, _AFFINITY, _SPREAD, _PODS = "TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"
_MOST_TRIED = 3
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
SIZES: dict[type[r.RemedyBase], float] = {
    r.Await: 0,
    r.CorrectName: 1,
    r.SearchNamespace: 1,
    r.AddMembers: 1,
    r.CreateObject: 1.5,
    r.HonorPolicy: 1.5,
    r.RemoveGates: 1.5,
    r.Uncordon: 2,
    r.RepairNode: 2.5,
    r.AddNodes: 4,
    r.MovePod: 3,
    r.LowerReplicas: 5.5,
    r.TolerateTaint: 6,
    r.RelaxRule: 6,
    r.CorrectSelector: 6,
    r.DropTopology: 6,
    r.RaisePriority: 7,
    r.LowerRequest: 8,
    r.LowerMinCount: 8.5,
}
"""The order in which an expert tries them; only the order of these numbers matters.

What is under way comes first, then mistakes, nodes that are there, new nodes, the place of others, what the pod asks
for, and last with how much less it could do.
"""


def remedies(
    session: Session, result: CycleResult, causes: c.Causes, replicas: Replicas = ALONE
) -> tuple[r.Remedy, ...]:
    """Return changes that let the pod of a decision run, the smallest first.

    Parameters
    ----------
    session, result : the decision while it is live; trials change only forks of the session
    causes : why the pod has no node
    replicas : the pod's workload
    """
    trials = Trials(session, result.pod)
    ranked = [(_size(trials, remedy), remedy) for remedy in _by_cause(trials, causes)]
    if result.filter is not None and result.filter.pre_filter_status is None:
        misses = NearMisses(result.filter)
        ranked += _selector(trials, misses)
        ranked += [(_size(trials, remedy), remedy) for remedy in _by_filter(trials, misses, result, replicas)]
    offers = [(_for_all(trials, remedy, replicas.pending), size) for size, remedy in ranked]
    helpful = [(not _helps_all(remedy), size, remedy) for remedy, size in offers]
    helpful.sort(key=lambda item: item[:2])
    ordered = tuple(dict.fromkeys(remedy for _, _, remedy in helpful))
    return tuple(remedy for remedy in ordered if not _has_more_than_enough(remedy, ordered))[:MOST]


def changed_pods(session: Session, result: CycleResult) -> list[tuple[r.RemedyBase, Pod]]:
    """Return changes of the pod of a live decision with which it gets a node, each with the changed pod."""
    trials = Trials(session, result.pod)
    by_cause = list(_by_cause(trials, gather(session, result)))
    if result.filter is None or result.filter.pre_filter_status is not None:
        return [(remedy, trials.tried[remedy]()[0]) for remedy in by_cause if remedy in trials.tried]
    misses = NearMisses(result.filter)
    ways = (
        by_cause,
        (remedy for _, remedy in _selector(trials, misses)),
        _correct_topology_keys(trials, misses),
        _correct_together(trials, misses),
        _tolerate(trials, misses),
        lower(trials, misses),
        _correct_policies(trials, misses),
        _relax(trials, misses, 1),
    )
    return [(remedy, trials.tried[remedy]()[0]) for way in ways for remedy in way if remedy in trials.tried]


def corrected_claims(session: Session, result: CycleResult) -> Iterator[tuple[str, r.CorrectName]]:
    """Yield claims whose storage class does not exist, as NAMESPACE/NAME, each with one that exists."""
    for cause in gather(session, result).whole:
        if isinstance(cause, c.UnboundClaim) and not cause.class_exists:
            for remedy in _class(Trials(session, result.pod), cause):
                if isinstance(remedy, r.CorrectName):
                    yield cause.claim, remedy


def _for_all(trials: Trials, remedy: r.Remedy, pending: int) -> r.Remedy:
    """Return a remedy with the number of the pending replicas that it lets run; a request low enough for all of them.

    Without such a number, as for one pod, or for what is not tried, the remedy stays as it is.
    """
    if pending <= 1 or remedy.helps or not remedy.checked or isinstance(remedy, r.LowerReplicas):
        return remedy
    if remedy not in trials.tried:
        return replace(remedy, helps=r.Helped(1, pending))
    pod, session = trials.tried[remedy]()
    helped = trials.placed(pod, pending, session)
    if not helped:
        return remedy
    if helped < pending and isinstance(remedy, r.LowerRequest):
        remedy, helped = low_enough(trials, remedy, pending) or (remedy, helped)
    return replace(remedy, helps=r.Helped(helped, pending))


def _helps_all(remedy: r.Remedy) -> bool:
    """Return whether a remedy lets all pending replicas run, as far as is known."""
    if isinstance(remedy, r.LowerReplicas):
        return False
    return not remedy.helps or remedy.helps.pods == remedy.helps.of


def _has_more_than_enough(remedy: r.Remedy, others: Sequence[r.Remedy]) -> bool:
    """Return whether a part of a remedy is a remedy by itself that helps as many pods."""
    if not isinstance(remedy, r.RelaxRule) or not remedy.with_nodes:
        return False
    nodes, number = remedy.with_nodes, _number_helped(remedy)
    return any(
        (isinstance(other, r.AddNodes) and other.change.nodes <= nodes.nodes and _number_helped(other) >= number)
        or (isinstance(other, r.RelaxRule) and not other.with_nodes and other.change == remedy.change)
        for other in others
    )


def _number_helped(remedy: r.Remedy) -> int:
    return remedy.helps.pods if remedy.helps else 1


def _size(trials: Trials, remedy: r.Remedy) -> float:
    """Return how large a change a remedy is; only the order of these numbers matters."""
    match remedy:
        case r.TolerateTaint(change=change) if any(_is_for_others(trials, taint) for taint in change.taints):
            return 9
        case r.RelaxRule(with_nodes=r.NodeAddition()):
            return 7.5
        case _:
            return SIZES[type(remedy)]


def _is_for_others(trials: Trials, taint: str) -> bool:
    """Return whether a taint reserves a node for the control plane, or for pods that request its devices."""
    key = taint.partition(":")[0].partition("=")[0]
    return taint.startswith(CONTROL_PLANE) or (
        key in resources_of(trials.live.cluster.nodes) and key not in trials.info.requests
    )


def _by_cause(trials: Trials, causes: c.Causes) -> Iterator[r.Remedy]:
    for cause in causes.whole:
        match cause:
            case c.MissingClaim():
                yield from _claim(trials, cause)
            case c.UnboundClaim(storage_class=name, class_exists=False) if name:
                yield from _class(trials, cause)
            case c.Gated():
                yield from _gates(trials, cause)
            case c.OtherScheduler():
                yield from _scheduler(trials, cause)
            case c.TooLarge(nearest=name) if name:
                renamed = variants.with_resource_named(trials.pod, cause.resource, name)
                change = r.NameChange(what=r.RESOURCE, old=cause.resource, to=name)
                if remedy := trials.offered(r.CorrectName, renamed, change=change):
                    yield remedy
            case c.Refused(missing_class=name) if name:
                yield from _missing_object("PriorityClass", name, cause.nearest)
            case c.MissingNamespace(name=name):
                yield from _missing_object("namespace", name, cause.nearest)
            case _:
                pass


def _gates(trials: Trials, cause: c.Gated) -> Iterator[r.Remedy]:
    """Wait for who admits pods by removing the gate: without it, a pod would go around a quota."""
    keeper = next((held for gate in cause.gates if (held := keeper_of_gate(gate)) is not None), None)
    if keeper is not None:
        command = f"{keeper.look} -n {quote(trials.info.namespace)}" if keeper.look else ""
        yield r.Await(
            change=r.Awaited(what="gates", name=keeper.name, because=cause.gates),
            command=command,
            then=None,
            checked=False,
        )
        return
    node = trials.node_for(replace(trials.pod, spec=replace(trials.pod.spec, scheduling_gates=())))
    if node is not None:
        yield r.RemoveGates(change=r.GateChange(gates=cause.gates), then=node)


def _missing_object(what: str, name: str, nearest: str) -> Iterator[r.Remedy]:
    """Name an object that exists, or create the one that is missing; neither is tried."""
    if nearest:
        change = r.NameChange(what=what, old=name, to=nearest)
        yield r.CorrectName(change=change, then=None, checked=False)
    yield r.CreateObject(change=r.MissingObject(what=what, name=name), then=None, checked=False)


def _claim(trials: Trials, cause: c.MissingClaim) -> Iterator[r.Remedy]:
    name = cause.claim.partition("/")[2]
    pod = trials.pod
    if cause.nearest:
        volumes = tuple(
            replace(volume, persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=cause.nearest))
            if volume.persistent_volume_claim is not None and claim_name(pod, volume) == name
            else volume
            for volume in pod.spec.volumes
        )
        change = r.NameChange(what="PersistentVolumeClaim", old=name, to=cause.nearest)
        renamed = replace(pod, spec=replace(pod.spec, volumes=volumes))
        if remedy := trials.offered(r.CorrectName, renamed, change=change):
            yield remedy
    missing = r.MissingObject(what="PersistentVolumeClaim", name=cause.claim)
    yield r.CreateObject(change=missing, then=None, checked=False)


def _class(trials: Trials, cause: c.UnboundClaim) -> Iterator[r.Remedy]:
    namespace, _, name = cause.claim.partition("/")
    claim = trials.live.listers.persistent_volume_claims[namespace, name]
    instead = cause.nearest or _usual_class(trials.live)
    if instead:
        node = trials.with_object(replace(claim, spec=replace(claim.spec, storage_class_name=instead)))
        if node is not None:
            what = f"PersistentVolumeClaim {cause.claim}"
            change = r.NameChange(what="storage class", of=what, old=cause.storage_class, to=instead)
            yield r.CorrectName(change=change, then=node)
    missing = r.MissingObject(what="StorageClass", name=cause.storage_class)
    yield r.CreateObject(change=missing, then=None, checked=False)


def _usual_class(session: Session) -> str:
    """Return the storage class that claims without one get, or the only one there is; empty for none."""
    classes = session.listers.storage_classes
    marked = [name for name, held in classes.items() if held.metadata.annotations.get(_DEFAULT_CLASS) == "true"]
    return marked[0] if marked else next(iter(classes)) if len(classes) == 1 else ""


def _scheduler(trials: Trials, cause: c.OtherScheduler) -> Iterator[r.Remedy]:
    if cause.nearest:
        renamed = replace(trials.pod, spec=replace(trials.pod.spec, scheduler_name=cause.nearest))
        change = r.NameChange(what="scheduler", old=cause.name, to=cause.nearest)
        if remedy := trials.offered(r.CorrectName, renamed, change=change):
            yield remedy


def _by_filter(trials: Trials, misses: NearMisses, result: CycleResult, replicas: Replicas) -> Iterator[r.Remedy]:
    awaited = list(await_nodes(trials, misses))
    yield from awaited
    yield from await_pods(trials, misses)
    yield from uncordon(trials, misses)
    if not awaited:
        yield from repair(trials, misses)
    yield from repair_devices(trials, misses)
    yield from _correct_topology_keys(trials, misses)
    yield from _correct_together(trials, misses)
    yield from _tolerate(trials, misses)
    yield from lower(trials, misses)
    yield from _correct_policies(trials, misses)
    yield from _relax(trials, misses, replicas.pending)
    if result.filter is not None and result.filter.rows is None:
        yield from add(trials, misses, replicas.pending)
    yield from move(trials, misses)
    yield from raise_priority(trials, result)
    yield from fewer(replicas)


def _selector(trials: Trials, misses: NearMisses) -> Iterator[tuple[float, r.Remedy]]:
    """Correct a condition on node labels, or leave it out; yield each with the size of the change.

    A condition that some node meets is probably meant as it is, so changing it is a large change.
    """
    rows = misses.rows[misses.only(_AFFINITY)]
    if not len(rows):
        return
    pod = trials.pod
    for key, wanted in pod.spec.node_selector.items():
        old = f"{key}={wanted}"
        for label in _likely_labels(trials, key, wanted):
            to = None if label is None else f"{label[0]}={label[1]}"
            change = r.SelectorChange(where="nodeSelector", old=old, to=to)
            if remedy := trials.offered(r.CorrectSelector, variants.with_selector(pod, key, label), change=change):
                yield _size_of_label(trials, key, (wanted,), label), remedy
                break
    for index, condition in enumerate(variants.conditions(pod)):
        wanted = condition.values[0] if condition.operator == "In" and condition.values else ""
        old = f"{condition.key} {condition.operator} {','.join(condition.values)}".strip()
        for label in _likely_labels(trials, condition.key, wanted) if wanted else [None]:
            instead = None if label is None else replace(condition, key=label[0], values=(label[1],))
            changed = variants.with_condition(pod, index, instead)
            to = None if label is None else f"{label[0]} In {label[1]}"
            change = r.SelectorChange(where="nodeAffinity", old=old, to=to)
            if remedy := trials.offered(r.CorrectSelector, changed, change=change):
                values = condition.values if condition.operator == "In" else ()
                yield _size_of_label(trials, condition.key, values, label), remedy
                break


def _size_of_label(trials: Trials, key: str, wanted: Sequence[str], instead: tuple[str, str] | None) -> float:
    column = trials.live.cluster.nodes.label(key)
    if any(value in column.code_of for value in wanted):
        return 6.5
    return SIZES[r.CorrectSelector] if instead is None else SIZES[r.CorrectName]


def _likely_labels(trials: Trials, key: str, wanted: str) -> Iterator[tuple[str, str] | None]:
    """Yield labels of nodes that were probably meant, the nearest first; at last None for no label.

    A value that nodes have is meant as it is, and a pod that names its node stays with it.
    """
    if is_fact(key) or key == HOSTNAME:
        return
    table = trials.live.cluster.nodes
    column = table.label(key)
    if wanted in column.code_of:
        pass
    elif column.values:
        near = nearest(wanted, column.values)
        alike = [near] if near else near_names(wanted, column.values)
        yield from ((key, value) for value in alike[:_MOST_TRIED])
    else:
        name = nearest_key(key, {name for node in table.nodes for name in node.metadata.labels})
        if name and wanted in table.label(name).code_of:
            yield name, wanted
    yield None


def _tolerate(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    rows = misses.rows[misses.only(_TAINTS)]
    table, tolerations = trials.live.cluster.nodes, trials.pod.spec.tolerations
    compares = trials.live.config.release.is_on(COMPARISON_GATE)
    codes = first_untolerated_hard_taints(table, tolerations, compares=compares)[0][rows]
    distinct, first, counts = np.unique(codes, return_index=True, return_counts=True)
    is_corrected = False
    for position in np.lexsort((distinct, -counts))[:_MOST_TRIED]:
        node = table.nodes[int(rows[first[position]])]
        taints = untolerated(trials.pod, node, compares=compares)
        if any(taint.key.startswith(SYSTEM_TAINTS) for taint in taints):
            continue
        correction = _correct_toleration(trials, taints)
        if correction is not None:
            is_corrected = True
            yield correction
            continue
        if is_corrected:
            continue
        texts = tuple(f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}" for taint in taints)
        change = r.TolerationChange(taints=texts)
        if remedy := trials.offered(r.TolerateTaint, variants.tolerating(trials.pod, taints), change=change):
            yield remedy


def _relax(trials: Trials, misses: NearMisses, pending: int) -> Iterator[r.Remedy]:
    pod = trials.pod
    ways: list[tuple[r.RuleChange, Pod]] = []
    if _SPREAD in misses.rejecting:
        ways += [(_rule("topologySpreadConstraints", key), relaxed) for key, relaxed in variants.relaxed_spreads(pod)]
    if _PODS in misses.rejecting:
        affinity = pod.spec.affinity or Affinity()
        apart, together = affinity.pod_anti_affinity, affinity.pod_affinity
        ways += [(_rule("podAntiAffinity", key), relaxed) for key, relaxed in variants.relaxed_terms(pod, apart)]
        ways += [(_rule("podAffinity", key), relaxed) for key, relaxed in variants.relaxed_terms(pod, together)]
    for change, relaxed in ways:
        if remedy := trials.offered(r.RelaxRule, relaxed, change=change):
            yield remedy
        else:
            yield from relax_and_add(trials, relaxed, change, pending)


def _rule(rule: r.Rule, topology_key: str) -> r.RuleChange:
    return r.RuleChange(rule=rule, topology_key=topology_key)


def _correct_toleration(trials: Trials, taints: list[Taint]) -> r.CorrectName | None:
    """Correct the toleration that was probably meant for the taints of a node."""
    if len(taints) != 1:
        return None
    guess = intended.suggested_toleration(trials.pod, taints[0], trials.live.cluster.nodes)
    if guess is None:
        return None
    old, to = map(intended.toleration_text, (guess.old, guess.to))
    change = r.NameChange(what=r.TOLERATION, old=old, to=to)
    return trials.offered(r.CorrectName, variants.with_toleration(trials.pod, guess.index, guess.to), change=change)


def _correct_topology_keys(trials: Trials, misses: NearMisses) -> Iterator[r.CorrectName]:
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


def _correct_together(trials: Trials, misses: NearMisses) -> Iterator[r.CorrectName | r.SearchNamespace]:
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


def _correct_policies(trials: Trials, misses: NearMisses) -> Iterator[r.HonorPolicy]:
    """Let a spread constraint leave out the domains of nodes on which the pod may not run."""
    if _SPREAD not in misses.rejecting:
        return
    for policy, key, honoring in variants.honoring(trials.pod):
        change = r.PolicyChange(policy=policy, topology_key=key)
        if remedy := trials.offered(r.HonorPolicy, honoring, change=change):
            yield remedy
