"""Ways out by nodes: wait for one, or for pods that end there, uncordon, repair or add some."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from shlex import quote
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.affinity import COMPARISON_GATE
from kplan.api.core import Pod
from kplan.api.labels import HOSTNAME, NOT_READY, UNREACHABLE
from kplan.api.quantity import grouped, listing, value
from kplan.changes import remedy as r
from kplan.diagnosis.gather import known_resources, runtime_class_labels, wanted_labels
from kplan.diagnosis.intended import LEAVING_TAINTS, is_fact, nearest, states_condition, untolerated
from kplan.engine.details import OtherVolumeZone, OwnAntiAffinity, TooMuchSkew, UnboundClaim, UnreachableVolume
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code
from kplan.framework.session import Session
from kplan.health.nodes import NodeHealth, moment, nodes_health
from kplan.remedies.node_shapes import NodeShape, differing, node_shapes
from kplan.remedies.trials import (
    CORDON,
    FIT,
    HOST_PORTS,
    MOST_TRIED,
    NO_CHANGE,
    NOBODY,
    NODE_AFFINITY,
    POD_AFFINITY,
    TAINTS,
    Case,
    End,
    NearMisses,
    Offers,
    Rows,
    Trial,
    first_that_helps,
    least,
    without_needless,
)
from kplan.rules.nodes import UNSCHEDULABLE_TAINT, ends_soon
from kplan.rules.pod_info import daemon_set_of
from kplan.rules.resources import quantity_text

_OF_ONE_NODE = {FIT, TAINTS, CORDON, HOST_PORTS, NODE_AFFINITY}  #: whether these reject a node depends on no other node
_MOST_LOOKED_AT = 200  #: so many nodes with taints are looked at one by one
_MOST_REPAIRED = 10
_MOST_LEAVING = 100
_MOST_NEW_NODES = 256


def waits(case: Case, misses: NearMisses) -> Offers:
    """Wait for a node that is rejected only for what it has while it is set up, or for pods that end."""
    yield from first_that_helps(_await_nodes(case, misses))
    yield from _await_pods(case, misses)


def _await_nodes(case: Case, misses: NearMisses) -> Iterator[Offers]:
    for row, keys, health in _ill(case, misses, TAINTS):
        if _go_by_themselves(keys, health):
            name = case.live.cluster.nodes.names[row]
            awaited = r.Awaited(what="node", name=name, because=tuple(sorted(keys)))
            remedy = r.Await(change=awaited, command=f"kubectl get node {quote(name)} -w", then=None)
            yield case.tried(remedy, Trial(nodes=opened(case.live, [row], keys)))


def _await_pods(case: Case, misses: NearMisses) -> Offers:
    """Wait for pods that are being deleted, where nodes have room without them; not for those that hang."""
    cluster, infos = case.live.cluster, case.live.cluster.pods.infos
    leaving = [other for _, other in _terminating(case, misses, hanging=False)]
    end = case.trials.end(Trial(ended=tuple(leaving))) if leaving else End()
    mine = [other for other in leaving if end.node in ("", cluster.nodes.names[cluster.node_of[other]])]
    if mine:
        names = [infos[other].key for other in mine]
        namespace, _, name = names[0].partition("/")
        command = f"kubectl wait --for=delete pod/{quote(name)} -n {quote(namespace)}"
        on = cluster.nodes.names[cluster.node_of[mine[0]]]
        awaited = r.Awaited(what="pod", name=listing(names, most=MOST_TRIED), because=(on,))
        yield from case.ended(r.Await(change=awaited, command=command, then=None), end)


def _terminating(case: Case, misses: NearMisses, *, hanging: bool) -> list[tuple[int, int]]:
    """Return the pods that are being deleted on nodes without room for the pod, each after the row of its node.

    `hanging`: those that their kubelets have not ended though their time is over; else the others.
    """
    cluster, infos, now = case.live.cluster, case.live.cluster.pods.infos, moment(case.live.listers.snapshot)
    rows = misses.rows[misses.only(FIT, HOST_PORTS, POD_AFFINITY)].tolist()
    some_leave = {cluster.node_of[pod] for pod in cluster.pods.terminating.tolist()}
    crowded = (row for row in rows if row in some_leave)
    leaving = ((row, pod) for row in crowded for pod in cluster.pods_on[row] if infos[pod].is_terminating)
    chosen = ((row, pod) for row, pod in leaving if ends_soon(infos[pod].pod, now) != hanging)
    return list(islice(chosen, _MOST_LEAVING))


def _ill(case: Case, misses: NearMisses, *plugins: str) -> Iterator[tuple[int, set[str], NodeHealth]]:
    """Yield the nodes that are rejected for taints, and by no plugin but these, with the keys of those taints."""
    table, compares = case.live.cluster.nodes, case.live.config.release.is_on(COMPARISON_GATE)
    if TAINTS not in misses.verdicts:
        return
    positions = misses.only(*plugins)
    rows = misses.rows[positions[misses.verdicts[TAINTS].bits[positions] != 0]].tolist()[:_MOST_LOOKED_AT]
    health = nodes_health(case.live.listers.snapshot) if rows else {}
    for row in rows:
        if keys := {taint.key for taint in untolerated(case.pod, table.nodes[row], compares=compares)}:
            name = table.names[row]
            yield row, keys, health.get(name) or NodeHealth(node=name)  # a new node is not in the snapshot


def _go_by_themselves(keys: Collection[str], health: NodeHealth) -> bool:
    """Tell whether taints with these keys go once their node is set up."""
    return health.is_coming and set(keys) <= set(health.startup_taints)


def opened(session: Session, rows: Iterable[int], keys: Collection[str]) -> NodeTable:
    """Return the nodes of a session, some without the taints with these keys; without that of a cordon, open."""
    nodes = [*session.cluster.nodes.nodes]
    for row in rows:
        spec = nodes[row].spec
        taints = tuple(taint for taint in spec.taints if taint.key not in keys)
        is_cordoned = spec.unschedulable and UNSCHEDULABLE_TAINT.key not in keys
        nodes[row] = replace(nodes[row], spec=replace(spec, unschedulable=is_cordoned, taints=taints))
    return NodeTable(nodes)


def uncordon(case: Case, misses: NearMisses | None) -> Offers:
    """Uncordon as few nodes as let all run; where no number does, the first that lets one."""
    rows, live = cordoned_rows(case.live), case.live
    if misses is not None and case.trials.key is None:
        possible = set(misses.rows[misses.only(CORDON, TAINTS)].tolist())
        rows = tuple(row for row in rows if row in possible)

    def trial(some: Rows) -> Trial:
        return Trial(nodes=opened(live, some, {UNSCHEDULABLE_TAINT.key}))

    number = least(len(rows), lambda n: case.trials.all_run(trial(rows[:n])))
    needed = without_needless(rows[:number], lambda some: case.trials.all_run(trial(some)))

    def uncordoned(some: Rows) -> Offers:
        first, *others = (r.NodeChange(node=live.cluster.nodes.names[row]) for row in some)
        return case.tried(r.Uncordon(change=first, also=tuple(others) or UNSET, then=None), trial(some))

    single = [(row,) for row in rows[:MOST_TRIED] if case.trials.of > 1]
    yield from first_that_helps(map(uncordoned, [needed] if needed else single))


def cordoned_rows(session: Session) -> Rows:
    """Return the nodes that may be uncordoned; those that the question cordons stay so: that is what it asks."""
    table, snapshot = session.cluster.nodes, session.listers.snapshot
    on_purpose = {change.what for change in snapshot.changes if change.change == "cordon"} | session.cordoned
    return tuple(
        row
        for row, node in enumerate(table.nodes)
        if table.unschedulable[row] and table.names[row] not in on_purpose and not node.metadata.deletion_timestamp
    )


def repair(case: Case, misses: NearMisses) -> Offers:
    """Repair a node that is rejected only for taints that state what is wrong, pods that hang, or its device plugin."""
    yield from first_that_helps(_repair_ill(case, misses))
    yield from first_that_helps(_repair_hanging(case, misses))
    for resource, amount in case.info.requests.items():
        if amount > 0 and "/" in resource:
            yield from first_that_helps(_repair_devices(case, misses, resource, amount))


def _repair_ill(case: Case, misses: NearMisses) -> Iterator[Offers]:
    table, infos = case.live.cluster.nodes, case.live.cluster.pods.infos
    has_room = set(misses.rows[misses.only(TAINTS)].tolist())
    for row, keys, health in _ill(case, misses, TAINTS, FIT):
        is_leaving = table.nodes[row].metadata.deletion_timestamp or keys.intersection(LEAVING_TAINTS)
        is_ill = UNSCHEDULABLE_TAINT.key not in keys and all(map(states_condition, keys))
        # A kubelet that is well again ends the pods that are being deleted.
        ended = tuple(pod for pod in case.live.cluster.pods_on[row] if infos[pod].is_terminating)
        if is_ill and not is_leaving and not _go_by_themselves(keys, health) and (ended or row in has_room):
            taints = tuple(sorted(keys | _of_kubelet(keys, health)))
            repaired = r.NodeRepair(node=table.names[row], taints=taints, message=health.message)
            trial = Trial(nodes=opened(case.live, [row], keys), ended=ended)
            yield case.tried(r.RepairNode(change=repaired, then=None), trial)


def _repair_hanging(case: Case, misses: NearMisses) -> Iterator[Offers]:
    """Repair a node whose kubelet does not end its pods; one that somebody's finalizer holds stays where it does."""
    infos = case.live.cluster.pods.infos
    hanging = _terminating(case, misses, hanging=True)
    for row, pods in grouped(one for one in hanging if not infos[one[1]].pod.metadata.held_by).items():
        names = tuple(infos[pod].key for pod in pods)
        repaired = r.NodeRepair(node=case.live.cluster.nodes.names[row], taints=(), hanging=names)
        yield case.tried(r.RepairNode(change=repaired, then=None), Trial(ended=tuple(pods)))


def _of_kubelet(keys: set[str], health: NodeHealth) -> set[str]:
    """Return what says that a kubelet does not work, where no taint does that keeps the pod away."""
    if keys & {NOT_READY, UNREACHABLE}:
        return set()
    if health.is_silent:
        return {UNREACHABLE}
    # "out-of-service" is said of a node that is not ready, also while it starts.
    return {NOT_READY} if {"not-ready", "out-of-service"}.intersection(health.states) else set()


def _repair_devices(case: Case, misses: NearMisses, resource: str, amount: int) -> Iterator[Offers]:
    table = case.live.cluster.nodes
    rows = misses.rows[misses.only(FIT)]
    for row in rows[table.allocatable(resource)[rows] < amount].tolist()[:_MOST_REPAIRED]:
        node = table.nodes[row]
        capacity = node.status.capacity.get(resource)
        if capacity is None or value(capacity) < amount:
            continue
        whole = replace(node.status, allocatable={**node.status.allocatable, resource: capacity})
        repaired = NodeTable([*table.nodes[:row], replace(node, status=whole), *table.nodes[row + 1 :]])
        usable = str(node.status.allocatable.get(resource, "0"))
        broken = r.NodeRepair(
            node=table.names[row], taints=(), resource=resource, capacity=str(capacity), allocatable=usable
        )
        yield case.tried(r.RepairNode(change=broken, then=None), Trial(nodes=repaired))


def add(case: Case) -> Offers:
    """Add nodes like one of the cluster, as few as let all run; else such that have what no node has."""
    offers = [
        offer
        for addition, end in _additions(case, NO_CHANGE, _shapes(case))
        for offer in case.ended(r.AddNodes(change=addition, then=None), end)
    ]
    yield from offers or _add_others(case)


def relax_and_add(case: Case, relaxed: Pod, change: r.RuleChange) -> Offers:
    """Relax a rule of the pod and also add nodes like one of the cluster."""
    for addition, end in _additions(case, case.edit(relaxed), _shapes(case)):
        changes = r.RelaxRule(change=change, then=None), r.AddNodes(change=addition, then=None)
        for offer in case.ended(r.Together(changes=changes, then=None), end):
            yield replace(offer, pod=relaxed)


def _shapes(case: Case) -> list[NodeShape]:
    return node_shapes(case.live.listers.snapshot)[:MOST_TRIED]


def _add_others(case: Case) -> Offers:
    """Add nodes that have what the pod requires and no node has: labels, a further domain, or more of a resource."""
    labels = tuple(_lacking_labels(case))
    for shape in _shapes(case):
        room = tuple(_lacking_room(case, shape.like.metadata.name))
        if labels or room:
            other = NodeShape(differing(shape.like, labels, room), 0)
            for addition, end in _additions(case, Trial(), [other]):
                changed = replace(addition, labels=labels, room=room)
                yield from case.ended(r.AddNodes(change=changed, then=None), end)
                return


def _lacking_labels(case: Case) -> Iterator[str]:
    """Yield the labels that the pod or a volume of it requires and no node has; those that are misspelt are none."""
    table, pod = case.live.cluster.nodes, case.pod
    certain = set(runtime_class_labels(pod, case.live.listers.snapshot))  # nobody has misspelt those
    of_volumes: list[tuple[str, tuple[str, ...]]] = []
    for detail in () if case.misses is None else case.misses.details():
        match detail:
            case OtherVolumeZone(label=label, allowed=allowed):
                of_volumes.append((label, allowed))
            case UnreachableVolume(requires=(only,)) if re.fullmatch("[^=,]+=[^=,]+", only):
                key, _, text = only.partition("=")
                of_volumes.append((key, (text,)))
            case UnboundClaim(allowed_topologies=(only,)) if match := re.fullmatch(r"(\S+) in \(([^,()]+)\)", only):
                of_volumes.append((match[1], (match[2],)))
            case TooMuchSkew(topology_key=key, min_domains=int()) | OwnAntiAffinity(topology_key=key):
                if key != HOSTNAME:
                    yield key
            case _:
                pass
    certain |= {key for key, _ in of_volumes}
    for key, values in (*wanted_labels(pod), *of_volumes):
        known = table.label(key)
        if key != HOSTNAME and values and not any(text in known.code_of for text in values):
            is_named = is_fact(key) or key in certain or (known.values and not nearest(values[0], known.values))
            if is_named:
                yield f"{key}={values[0]}"


def _lacking_room(case: Case, model: str) -> Iterator[str]:
    """Yield what a node like one has too little of for the pod even when only its daemons run there.

    That is what no node has enough of; or else cpu and the like, of which only nodes have enough that lack something.
    """
    cluster, row = case.live.cluster, case.live.cluster.nodes.row_of[model]
    requests = case.info.requests.items()
    columns = {resource: cluster.nodes.allocatable(resource) for resource, _ in requests}
    wanted = [(name, amount) for name, amount in requests if amount > columns[name].max(initial=0)]
    own = [(name, amount) for name, amount in requests if "/" not in name and amount > columns[name][row]]
    for resource, amount in wanted or own:
        capacities = (node.status.capacity.get(resource) for node in cluster.nodes.nodes)
        is_broken = "/" in resource and any(value(held) >= amount for held in capacities if held is not None)
        is_misspelt = not columns[resource].any() and nearest(resource, known_resources(cluster.nodes))
        if not is_broken and not is_misspelt:
            infos = (cluster.pods.infos[pod] for pod in cluster.pods_on[row])
            daemons = sum(info.requests.get(resource, 0) for info in infos if daemon_set_of(info.pod))
            yield f"{resource}={quantity_text(resource, amount + daemons)}"


def _additions(case: Case, trial: Trial, shapes: Iterable[NodeShape]) -> Iterator[tuple[r.NodeAddition, End]]:
    """Yield the fewest nodes to add with which most run, at most once, with how the trial of it ends."""
    ends: list[tuple[int, str, End]] = []
    for shape in shapes:
        number, end = _enough_nodes(case, trial, shape)
        ends += [(number, shape.like.metadata.name, end)] if end.runs > case.trials.rests else []
        if ends and case.trials.of == 1:
            break
    if ends:
        number, like, end = min(ends, key=lambda one: (-one[2].runs, one[0]))
        devices: Literal[True] | UnsetType = True if case.pod.spec.resource_claims else UNSET
        yield r.NodeAddition(nodes=number, like=like, devices=devices), end


def _enough_nodes(case: Case, trial: Trial, shape: NodeShape) -> tuple[int, End]:
    """Return the least number of nodes of a shape with which all run, or with which most do."""
    trials = case.trials
    if trial is NO_CHANGE and _is_rejected_in_any_case(case, shape):
        trials.left -= 1
        return 1, NOBODY
    most = min(trials.of, _MOST_NEW_NODES)
    ends: dict[int, End] = {}

    def end(number: int) -> End:
        if number not in ends:
            ends[number] = trials.end(replace(trial, like=shape, number=number))
        return ends[number]

    def is_enough(number: int) -> bool:
        return end(number).runs == trials.of

    one = end(1)
    # Most often each further node takes as many pods as the first.
    takes = one.fit - trials.fits
    guess = -(-(trials.of - trials.fits) // takes) if takes > 0 else 0
    if is_enough(1) or most < 2 or (not guess and trials.key is None) or trials.of > trials.left:
        return 1, one
    if trials.key is None:
        if guess > most or trials.of > trials.left_to_place:
            return 1, one
        return (guess, end(guess)) if end(guess).runs > one.runs else (1, one)
    number = 0
    if 1 < guess <= most and is_enough(guess):
        number = guess if not is_enough(guess - 1) else 1 + least(guess - 1, lambda n: is_enough(n + 1))
    number = number or least(most, is_enough)
    return (number, end(number)) if number else (1, one)


def _is_rejected_in_any_case(case: Case, shape: NodeShape) -> bool:
    """Tell whether even empty nodes of a shape reject the pod, and all nodes that are there reject it as before."""
    misses, nodes, like = case.misses, case.live.cluster.nodes, shape.like
    row, labels = nodes.row_of.get(like.metadata.name), like.metadata.labels
    if row is None or nodes.nodes[row] is not like or case.trials.key is not None:
        return False
    if misses is None or not misses.rejecting <= _OF_ONE_NODE:
        return False
    here = misses.rows == row
    hard = (misses.verdicts[plugin].codes()[here] for plugin in misses.rejecting & {TAINTS, FIT})
    if any((codes == Code.UNSCHEDULABLE_AND_UNRESOLVABLE).any() for codes in hard):
        return True
    if NODE_AFFINITY not in misses.rejecting or not misses.verdicts[NODE_AFFINITY].bits[here].any():
        return False
    # Another node has the same labels but for its own name.
    return any(labels.get(key) not in (text, like.metadata.name) for key, text in case.pod.spec.node_selector.items())
