"""Looks for the least changes that would let a pod run, and offers those that hold when it is decided again."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.quantity import milli_value, value
from kplan.api.tolerations import tolerations_tolerate
from kplan.documents import remedy as r
from kplan.engine.node_matching import first_untolerated_hard_taints, is_hard
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.planner.diagnosis import changes
from kplan.planner.diagnosis.alike import ALONE, Replicas
from kplan.planner.diagnosis.causes import (
    Causes,
    Gated,
    MissingClaim,
    MissingNamespace,
    OtherScheduler,
    Refused,
    TooLarge,
    UnboundClaim,
)
from kplan.planner.diagnosis.fields import SYSTEM_TAINTS
from kplan.planner.diagnosis.gather import resources_of
from kplan.planner.diagnosis.names import is_fact
from kplan.planner.diagnosis.near import Near
from kplan.planner.diagnosis.replicas import fewer, smaller
from kplan.planner.diagnosis.requests import lower
from kplan.planner.diagnosis.surroundings import add, move, raise_priority, relax_and_add, uncordon
from kplan.planner.diagnosis.trials import Trials
from kplan.rules.resources import CPU
from kplan.rules.volume_claims import claim_name

MOST = 5
"""So many remedies are offered."""

_TAINTS, _AFFINITY, _SPREAD, _PODS = "TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_MOST_TRIED = 3
_FOR_SOME = 4.5
"""So much further behind ranks what lets in only some of the pods that wait."""

_ALIKE = 0.6
"""Names that are so alike may be one misspelt."""

_SMALL = 0.5
"""A request that keeps this share of itself is a small change."""


def remedies(session: Session, result: CycleResult, causes: Causes, replicas: Replicas = ALONE) -> tuple[r.Remedy, ...]:
    """Return what would let the pod of a decision run, the smallest change first.

    Parameters
    ----------
    session, result : the decision while it is live; only forks of it change
    causes : why the pod has no node
    replicas : those that wait with it and are alike
    """
    trials = Trials(session, result.pod)
    found = [(_size(trials, each), each) for each in _by_cause(trials, causes)]
    found += [(0, each) for group in causes.out if group.meant for each in _beside(trials, group.meant)]
    if result.filter is not None and result.filter.pre_filter_status is None:
        near = Near(result.filter)
        found += _selector(trials, near)
        found += [(_size(trials, each), each) for each in _by_filter(trials, near, result, replicas)]
    if replicas.pending > 1:
        found = [_helping(trials, size, each, replicas.pending) for size, each in found]
    found.sort(key=lambda each: each[0])
    return tuple(dict.fromkeys(each for _, each in found))[:MOST]


def _helping(trials: Trials, size: float, remedy: r.Remedy, pending: int) -> tuple[float, r.Remedy]:
    """Say how many of so many pods a remedy lets in; one that lets in few of them ranks behind."""
    if remedy in trials.tried and not remedy.helps:
        pod, session = trials.tried[remedy]()
        if helped := trials.placed(pod, pending, session):
            remedy = replace(remedy, helps=r.Helped(helped, pending))
    is_for_one = isinstance(remedy, r.MovePod | r.RaisePriority)
    is_for_all = remedy.helps.pods == remedy.helps.of if remedy.helps else not is_for_one
    return size if is_for_all else size + _FOR_SOME, remedy


def _size(trials: Trials, remedy: r.Remedy) -> float:  # noqa: C901, PLR0911 - one case a kind, in one place
    """Say how much a remedy changes."""
    match remedy:
        case r.CorrectName() | r.RemoveGates():
            return 0
        case r.Uncordon():
            return 1
        case r.LowerRequest():
            return 2 if min(map(_kept, (remedy.change, *(remedy.also or ())))) >= _SMALL else 6
        case r.TolerateTaint(change=change) if any(_is_for_others(trials, taint) for taint in change.taints):
            return 6
        case r.RelaxRule(with_nodes=r.NodeAddition()):
            return 8
        case r.TolerateTaint() | r.RelaxRule():
            return 3
        case r.MovePod():
            return 4.5
        case r.AddNodes():
            return 5
        case r.SplitReplicas():
            return 5.5
        case r.LowerReplicas():
            return 6
        case _:
            return 7 if remedy.checked else 8


def _is_for_others(trials: Trials, taint: str) -> bool:
    """Tell whether a taint keeps a node free for the control plane, or for pods that ask for its devices."""
    key = taint.partition(":")[0].partition("=")[0]
    return taint.startswith(_CONTROL_PLANE) or (
        key in resources_of(trials.live.cluster.nodes) and key not in trials.info.requests
    )


def _kept(change: r.RequestChange) -> float:
    read = milli_value if change.resource == CPU else value
    return read(change.to) / max(read(change.old), 1)


def _by_cause(trials: Trials, causes: Causes) -> Iterator[r.Remedy]:  # noqa: C901 - one case a cause, in one place
    for cause in causes.whole:
        match cause:
            case MissingClaim():
                yield from _claim(trials, cause)
            case UnboundClaim(storage_class=name, class_exists=False) if name:
                yield from _class(trials, cause)
            case Gated():
                pod = replace(trials.pod, spec=replace(trials.pod.spec, scheduling_gates=()))
                node = trials.node_for(pod)
                if node is not None:
                    yield r.RemoveGates(change=r.GateChange(gates=cause.gates), then=node)
            case OtherScheduler():
                yield from _scheduler(trials, cause)
            case TooLarge(nearest=name) if name:
                renamed = changes.with_resource_named(trials.pod, cause.resource, name)
                node = trials.node_for(renamed)
                if node is not None:
                    change = r.NameChange(what=r.RESOURCE, old=cause.resource, to=name)
                    yield trials.by_change(r.CorrectName(change=change, then=node), renamed)
            case Refused(missing_class=name) if name:
                yield from _named("PriorityClass", name, cause.nearest)
            case MissingNamespace(name=name):
                yield from _named("namespace", name, cause.nearest)
            case _:
                pass


def _named(what: str, name: str, nearest: str) -> Iterator[r.Remedy]:
    """Name an object that there is, or create the one that is missing; what is then decided was not tried."""
    if nearest:
        change = r.NameChange(what=what, old=name, to=nearest)
        yield r.CorrectName(change=change, then=None, checked=False)
    yield r.CreateObject(change=r.MissingObject(what=what, name=name), then=None, checked=False)


def _claim(trials: Trials, cause: MissingClaim) -> Iterator[r.Remedy]:
    name = cause.claim.partition("/")[2]
    pod = trials.pod
    if cause.nearest:
        volumes = tuple(
            replace(volume, persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=cause.nearest))
            if volume.persistent_volume_claim is not None and claim_name(pod, volume) == name
            else volume
            for volume in pod.spec.volumes
        )
        node = trials.node_for(replace(pod, spec=replace(pod.spec, volumes=volumes)))
        if node is not None:
            change = r.NameChange(what="PersistentVolumeClaim", old=name, to=cause.nearest)
            yield r.CorrectName(change=change, then=node)
    missing = r.MissingObject(what="PersistentVolumeClaim", name=cause.claim)
    yield r.CreateObject(change=missing, then=None, checked=False)


def _class(trials: Trials, cause: UnboundClaim) -> Iterator[r.Remedy]:
    namespace, _, name = cause.claim.partition("/")
    claim = trials.live.listers.persistent_volume_claims[namespace, name]
    if cause.nearest:
        node = trials.with_object(replace(claim, spec=replace(claim.spec, storage_class_name=cause.nearest)))
        if node is not None:
            what = f"PersistentVolumeClaim {cause.claim}"
            change = r.NameChange(what="storage class", of=what, old=cause.storage_class, to=cause.nearest)
            yield r.CorrectName(change=change, then=node)
    missing = r.MissingObject(what="StorageClass", name=cause.storage_class)
    yield r.CreateObject(change=missing, then=None, checked=False)


def _beside(trials: Trials, meant: str) -> Iterator[r.Remedy]:
    """Run beside the pods that were probably meant."""
    key, _, value = meant.partition("=")
    for old, pod in changes.with_affinity_to(trials.pod, key, value):
        node = trials.node_for(pod)
        if node is not None:
            change = r.NameChange(what="label", of="podAffinity", old=f"{key}={old}", to=meant)
            yield r.CorrectName(change=change, then=node)


def _scheduler(trials: Trials, cause: OtherScheduler) -> Iterator[r.Remedy]:
    near = difflib.get_close_matches(cause.name, cause.known, n=1, cutoff=0.0)
    for name in near:
        node = trials.node_for(replace(trials.pod, spec=replace(trials.pod.spec, scheduler_name=name)))
        if node is not None:
            yield r.CorrectName(change=r.NameChange(what="scheduler", old=cause.name, to=name), then=node)


def _by_filter(trials: Trials, near: Near, result: CycleResult, replicas: Replicas) -> Iterator[r.Remedy]:
    yield from uncordon(trials, near)
    yield from _tolerate(trials, near)
    yield from lower(trials, near)
    yield from _relax(trials, near)
    if result.filter is not None and result.filter.rows is None:
        yield from add(trials, near, replicas.pending)
    yield from move(trials, near)
    yield from raise_priority(trials, result)
    yield from smaller(trials, near, replicas)
    yield from fewer(replicas)


def _selector(trials: Trials, near: Near) -> Iterator[tuple[float, r.Remedy]]:
    """Correct a condition on labels, or leave it out, each with how much that changes.

    Where some node meets the condition, it says what its author wants, and another node is another wish.
    """
    rows = near.rows[near.only(_AFFINITY)]
    if not len(rows):
        return
    pod = trials.pod
    for key, wanted in pod.spec.node_selector.items():
        old = f"{key}={wanted}"
        for label in _meant_labels(trials, key, wanted):
            changed = changes.with_selector(pod, key, label)
            node = trials.node_for(changed)
            if node is not None:
                to = None if label is None else f"{label[0]}={label[1]}"
                change = r.SelectorChange(where="nodeSelector", old=old, to=to)
                remedy = trials.by_change(r.CorrectSelector(change=change, then=node), changed)
                yield _size_of_label(trials, key, (wanted,), label), remedy
                break
    for index, condition in enumerate(changes.conditions(pod)):
        wanted = condition.values[0] if condition.operator == "In" and condition.values else ""
        old = f"{condition.key} {condition.operator} {','.join(condition.values)}".strip()
        for label in _meant_labels(trials, condition.key, wanted) if wanted else [None]:
            instead = None if label is None else replace(condition, key=label[0], values=(label[1],))
            changed = changes.with_condition(pod, index, instead)
            node = trials.node_for(changed)
            if node is not None:
                to = None if label is None else f"{label[0]} In {label[1]}"
                change = r.SelectorChange(where="nodeAffinity", old=old, to=to)
                values = condition.values if condition.operator == "In" else ()
                remedy = trials.by_change(r.CorrectSelector(change=change, then=node), changed)
                yield _size_of_label(trials, condition.key, values, label), remedy
                break


def _size_of_label(trials: Trials, key: str, wanted: Sequence[str], instead: tuple[str, str] | None) -> float:
    column = trials.live.cluster.nodes.label(key)
    if any(value in column.code_of for value in wanted):
        return 6.5
    if instead is None:
        return 4
    is_typo = instead[0] != key or _likeness(instead[1], wanted[0]) >= _ALIKE
    return 0 if is_typo else 3.5


def _meant_labels(trials: Trials, key: str, wanted: str) -> Iterator[tuple[str, str] | None]:
    """Yield labels of nodes that come near to one asked for, the nearest first, and None for none."""
    if is_fact(key):
        return
    table = trials.live.cluster.nodes
    values = table.label(key).values
    if values:
        ordered = sorted(values, key=lambda each: (-_likeness(each, wanted), each))
        yield from ((key, each) for each in ordered[:_MOST_TRIED] if each != wanted)
    else:
        keys = sorted({name for node in table.nodes for name in node.metadata.labels})
        for name in difflib.get_close_matches(key, keys, n=1):
            if wanted in table.label(name).code_of:
                yield name, wanted
    yield None


def _likeness(text: str, other: str) -> float:
    return difflib.SequenceMatcher(None, text, other).ratio()


def _tolerate(trials: Trials, near: Near) -> Iterator[r.Remedy]:
    rows = near.rows[near.only(_TAINTS)]
    table, tolerations = trials.live.cluster.nodes, trials.pod.spec.tolerations
    codes = first_untolerated_hard_taints(table, tolerations)[0][rows]
    distinct, first, counts = np.unique(codes, return_index=True, return_counts=True)
    for position in np.lexsort((distinct, -counts))[:_MOST_TRIED]:
        node = table.nodes[int(rows[first[position]])]
        taints = [
            taint for taint in node.spec.taints if is_hard(taint) and not tolerations_tolerate(tolerations, taint)
        ]
        if any(taint.key.startswith(SYSTEM_TAINTS) for taint in taints):
            continue
        tolerating = changes.tolerating(trials.pod, taints)
        goes_to = trials.node_for(tolerating)
        if goes_to is not None:
            texts = tuple(f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}" for taint in taints)
            yield trials.by_change(r.TolerateTaint(change=r.TolerationChange(taints=texts), then=goes_to), tolerating)


def _relax(trials: Trials, near: Near) -> Iterator[r.Remedy]:
    pod = trials.pod
    ways: list[tuple[r.RuleChange, Pod]] = []
    if not near.is_never_rejected_by(_SPREAD):
        ways += [(_rule("topologySpreadConstraints", key), each) for key, each in changes.relaxed_spreads(pod)]
    if not near.is_never_rejected_by(_PODS):
        ways += [(_rule("podAntiAffinity", key), each) for key, each in changes.relaxed_apart(pod)]
        ways += [(_rule("podAffinity", key), each) for key, each in changes.relaxed_together(pod)]
    for change, relaxed in ways:
        node = trials.node_for(relaxed)
        if node is not None:
            yield trials.by_change(r.RelaxRule(change=change, then=node), relaxed)
        else:
            yield from relax_and_add(trials, relaxed, change)


def _rule(rule: r.Rule, topology_key: str) -> r.RuleChange:
    return r.RuleChange(rule=rule, topology_key=topology_key)
