"""Ways out that change what surrounds a pod: wait, open, repair or add nodes, move other pods, more priority."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice
from shlex import quote
from typing import Literal

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.affinity import COMPARISON_GATE
from kplan.api.core import Pod
from kplan.api.kinds import DAEMON_SET
from kplan.api.labels import HOSTNAME
from kplan.api.meta import ObjectMeta, controller_of
from kplan.api.names import WorkloadRef
from kplan.api.quantity import listing, value
from kplan.api.scheduling import PriorityClass
from kplan.changes import remedy as r
from kplan.diagnosis.gather import resources_of, runtime_class_labels, wanted_labels
from kplan.diagnosis.intended import LEAVING_TAINTS, is_fact, nearest, states_condition, untolerated
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import NOWHERE
from kplan.engine.details import (
    AntiAffinity,
    OtherVolumeZone,
    OwnAntiAffinity,
    TakenHostPort,
    TooMuchSkew,
    UnboundClaim,
    UnreachableVolume,
)
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.health.nodes import coming_nodes, moment
from kplan.remedies import variants
from kplan.remedies.node_shapes import NodeShape, differing, node_shapes
from kplan.remedies.replicas import workload_of
from kplan.remedies.trials import (
    NO_CHANGE,
    NOBODY,
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
from kplan.rules.resources import PODS, quantity_text
from kplan.snapshot.defaults import SYSTEM_PRIORITIES

_FIT, _TAINTS, _CORDON, _PODS, _PORTS, _AFFINITY = (
    "NodeResourcesFit",
    "TaintToleration",
    "NodeUnschedulable",
    "InterPodAffinity",
    "NodePorts",
    "NodeAffinity",
)
_OF_ONE_NODE = {_FIT, _TAINTS, _CORDON, _PORTS, _AFFINITY}  #: whether these reject a node depends on no other node
_MOST_TRIED = 3
_MOST_LOOKED_AT = 200  #: so many nodes with taints are looked at one by one
_MOST_REPAIRED = 10
_MOST_LEAVING = 100
_MOST_MOVED = 6
_MOST_NEW_NODES = 256
_SYSTEM_CLASSES, _NODE_CRITICAL = "system-", "system-node-critical"


def waits(case: Case, misses: NearMisses) -> Offers:
    """Wait for a node that is rejected only for what it has while it is set up, or for pods that end."""
    yield from first_that_helps(_await_nodes(case, misses))
    yield from _await_pods(case, misses)


def _await_nodes(case: Case, misses: NearMisses) -> Iterator[Offers]:
    for row, keys, starting in _ill(case, misses):
        if keys <= starting:
            name = case.live.cluster.nodes.names[row]
            awaited = r.Awaited(what="node", name=name, because=tuple(sorted(keys)))
            remedy = r.Await(change=awaited, command=f"kubectl get node {quote(name)} -w", then=None)
            yield case.tried(remedy, Trial(nodes=opened(case.live, [row], starting)))


def _await_pods(case: Case, misses: NearMisses) -> Offers:
    """Wait for pods that are being deleted, where nodes have room without them; not for those that hang."""
    cluster, infos = case.live.cluster, case.live.cluster.pods.infos
    rows = misses.rows[misses.only(_FIT, _PORTS, _PODS)]
    leaving = [other for row in rows.tolist() for other in cluster.pods_on[row] if infos[other].is_terminating]
    now = moment(case.live.listers.snapshot)
    leaving = [other for other in leaving if ends_soon(infos[other].pod, now)][:_MOST_LEAVING]
    end = case.trials.end(Trial(ended=tuple(leaving))) if leaving else End()
    mine = [other for other in leaving if end.node in ("", cluster.nodes.names[cluster.node_of[other]])]
    if mine:
        names = [infos[other].key for other in mine]
        namespace, _, name = names[0].partition("/")
        command = f"kubectl wait --for=delete pod/{quote(name)} -n {quote(namespace)}"
        on = cluster.nodes.names[cluster.node_of[mine[0]]]
        awaited = r.Awaited(what="pod", name=listing(names, most=_MOST_TRIED), because=(on,))
        yield from case.ended(r.Await(change=awaited, command=command, then=None), end)


def _ill(case: Case, misses: NearMisses) -> Iterator[tuple[int, set[str], frozenset[str]]]:
    """Yield the nodes that are rejected only for their taints, each with the keys of those, and while it is set up."""
    table, compares = case.live.cluster.nodes, case.live.config.release.is_on(COMPARISON_GATE)
    rows = misses.rows[misses.only(_TAINTS)].tolist()[:_MOST_LOOKED_AT]
    coming = coming_nodes(case.live.listers.snapshot) if rows else {}
    for row in rows:
        if keys := {taint.key for taint in untolerated(case.pod, table.nodes[row], compares=compares)}:
            yield row, keys, coming.get(table.names[row], frozenset())


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
        possible = set(misses.rows[misses.only(_CORDON, _TAINTS)].tolist())
        rows = tuple(row for row in rows if row in possible)

    def trial(some: Rows) -> Trial:
        return Trial(nodes=opened(live, some, {UNSCHEDULABLE_TAINT.key}))

    number = least(len(rows), lambda n: case.trials.all_run(trial(rows[:n])))
    needed = without_needless(rows[:number], lambda some: case.trials.all_run(trial(some)))

    def uncordoned(some: Rows) -> Offers:
        first, *others = (r.NodeChange(node=live.cluster.nodes.names[row]) for row in some)
        return case.tried(r.Uncordon(change=first, also=tuple(others) or UNSET, then=None), trial(some))

    single = [(row,) for row in rows[:_MOST_TRIED] if case.trials.of > 1]
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
    """Repair a node that is rejected only for taints that state what is wrong with it, or its device plugin."""
    yield from first_that_helps(_repair_ill(case, misses))
    for resource, amount in case.info.requests.items():
        if amount > 0 and "/" in resource:
            yield from first_that_helps(_repair_devices(case, misses, resource, amount))


def _repair_ill(case: Case, misses: NearMisses) -> Iterator[Offers]:
    table = case.live.cluster.nodes
    for row, keys, starting in _ill(case, misses):
        is_leaving = table.nodes[row].metadata.deletion_timestamp or keys.intersection(LEAVING_TAINTS)
        is_ill = UNSCHEDULABLE_TAINT.key not in keys and all(map(states_condition, keys))
        if is_ill and not is_leaving and not keys <= starting:
            remedy = r.RepairNode(change=r.NodeRepair(node=table.names[row], taints=tuple(sorted(keys))), then=None)
            yield case.tried(remedy, Trial(nodes=opened(case.live, [row], keys)))


def _repair_devices(case: Case, misses: NearMisses, resource: str, amount: int) -> Iterator[Offers]:
    table = case.live.cluster.nodes
    rows = misses.rows[misses.only(_FIT)]
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
    return node_shapes(case.live.listers.snapshot)[:_MOST_TRIED]


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
        is_misspelt = not columns[resource].any() and nearest(resource, resources_of(cluster.nodes))
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
    hard = (misses.verdicts[plugin].codes()[here] for plugin in misses.rejecting & {_TAINTS, _FIT})
    if any((codes == Code.UNSCHEDULABLE_AND_UNRESOLVABLE).any() for codes in hard):
        return True
    if _AFFINITY not in misses.rejecting or not misses.verdicts[_AFFINITY].bits[here].any():
        return False
    # Another node has the same labels but for its own name.
    return any(labels.get(key) not in (text, like.metadata.name) for key, text in case.pod.spec.node_selector.items())


def move(case: Case) -> Offers:
    """Move running pods out of the way that fit elsewhere once the others run, as few as possible."""
    cluster = case.live.cluster
    leaving, end = _leaving(case) if case.trials.key is not None else _leaving_at_once(case)
    moved = []
    for row, node in zip(leaving, end.goes_to, strict=True):
        info, on = cluster.pods.infos[row], cluster.nodes.names[cluster.node_of[row]]
        owner = "" if info.namespace == case.info.namespace else WorkloadRef.parse(workload_of(case.live, info)).path
        budgets = tuple(case.trials.budgets.covering(cluster.pods, row))
        moved.append(r.MovedPod(pod=info.key, node=on, goes_to=node, budgets=budgets, of_others=owner))
    if moved:
        yield from case.ended(r.MovePod(change=moved[0], also=tuple(moved[1:]) or UNSET, then=None), end)


def _leaving_at_once(case: Case) -> tuple[Rows, End]:
    """Return pods of one node without which most of the pods run; none where no such pods are known."""
    best: tuple[Rows, End] = (), End()
    cluster = case.live.cluster
    waiting = [] if case.result is None else [(case.row, case.result)]
    for group in making_room(case.live, waiting, partial(movable, case.live))[: 2 * _MOST_TRIED]:
        if not any(case.trials.budgets.violating_units(cluster.pods, [[row] for row in group])):
            end = case.trials.end(Trial(leaving=group))
            if end.runs > best[1].runs:
                best = group, end
            if end.runs == case.trials.of:
                break
    return best


def _leaving(case: Case) -> tuple[Rows, End]:
    """Return the pods that are in the way of a group, one after the other, as few as possible."""
    leaving: Rows = ()
    while len(leaving) < _MOST_MOVED:
        others = _next_in_the_way(case, leaving)
        if not others:
            return (), End()
        leaving += others
        if case.trials.all_run(Trial(leaving=leaving)):
            break
    else:
        return (), End()
    leaving = without_needless(leaving, lambda some: case.trials.all_run(Trial(leaving=some)))
    return leaving, case.trials.end(Trial(leaving=leaving))


def _next_in_the_way(case: Case, leaving: Rows) -> Rows:
    """Return the next running pods without which a node has room for a member that fits nowhere."""
    budgets, pods = case.trials.budgets, case.live.cluster.pods
    fixed = {*leaving, *case.trials.pending}  # in its cycle, members are on nodes already
    for session, result in case.trials.misfits(Trial(leaving=leaving)):

        def may_go(rows: Iterable[int], session: Session = session) -> list[int]:
            return [row for row in movable(session, rows) if row not in fixed]

        for group in making_room(session, [(result.pod, result)], may_go):
            if not any(budgets.violating_units(pods, [[row] for row in (*leaving, *group)])):
                return group
    return ()


def priority(case: Case) -> Offers:
    """Give pods that evict no other pod the lowest priority class with which they do, within the budgets.

    Not where that only moves the trouble: to a sibling, whose class rises too, to pods of another namespace that find
    no other place, or to a workload that waits already. A daemon is to run on every node, so whoever makes room for it
    runs elsewhere, or not at all.
    """
    trials, spec = case.trials, case.pod.spec
    post_filter = None if case.result is None else case.result.post_filter
    is_nominated = post_filter is not None and post_filter.nominated_row is not None
    if trials.key is None and (spec.preemption_policy == "Never" or is_nominated):
        return
    group, infos = trials.group, trials.live.cluster.pods.infos
    of_daemon_set = bool(daemon_set_of(case.pod))
    old = max((infos[row].priority for row in trials.pending), default=0)
    above = old if group is None else max(old, group.spec.priority or 0)
    for priority_class in higher_classes(case.live, above, of_daemon_set=of_daemon_set)[:_MOST_TRIED]:
        name, to = priority_class.metadata.name, priority_class.value
        raised, changed = _raised(name, to, is_group=group is not None), group
        if group is not None:
            changed = replace(group, spec=replace(group.spec, priority=to, priority_class_name=name))
        trial = Trial(edit=raised, group=changed, preempts=True)
        end = trials.end(trial)
        budgets, pods = trials.budgets, trials.live.cluster.pods
        if not end.victims or any(budgets.violating_units(pods, [[victim] for victim in end.victims])):
            continue
        if not _is_gain(case, replace(trial, preempts=False, leaving=end.victims)):
            return
        covering = dict.fromkeys(budget for victim in end.victims for budget in budgets.covering(pods, victim))
        change = r.PriorityChange(
            old=old,
            to=to,
            priority_class=name,
            evicts=tuple(infos[victim].key for victim in end.victims),
            budgets=tuple(covering),
            group=UNSET if group is None else group.metadata.key,
        )
        for offer in case.ended(r.RaisePriority(change=change, then=None), end):
            yield replace(offer, pod=raised(case.pod))
        return


def _raised(name: str, to: int, *, is_group: bool) -> Callable[[Pod], Pod]:
    def raised(pod: Pod) -> Pod:
        policy = None if is_group else pod.spec.preemption_policy
        return variants.with_spec(pod, priority=to, priority_class_name=name, preemption_policy=policy)

    return raised


def _is_gain(case: Case, elsewhere: Trial) -> bool:
    """Tell whether more is won than lost; `elsewhere` tries whether those that are evicted find another place."""
    live, victims = case.trials.live, elsewhere.leaving
    infos, node_of = live.cluster.pods.infos, live.cluster.node_of
    mine = workload_of(live, case.info)
    theirs = {workload_of(live, infos[victim]) for victim in victims}
    if mine in theirs:
        return False
    is_at_home = all(infos[victim].namespace == case.info.namespace for victim in victims)
    in_trouble = any(
        node_of[row] == NOWHERE and info.namespace == case.info.namespace and workload_of(live, info) in theirs
        for row, info in enumerate(infos)
    )
    if daemon_set_of(case.pod) or (is_at_home and not in_trouble):
        return True
    return bool(case.trials.end(elsewhere).runs)


def higher_classes(session: Session, priority: int, *, of_daemon_set: bool = False) -> list[PriorityClass]:
    """Return the priority classes above a priority with which a pod may evict others, the lowest first."""
    listed = session.listers.snapshot.priority_classes
    names = {known.metadata.name for known in listed}
    # Every API server has those of the system, whether or not the snapshot has them.
    own = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in SYSTEM_PRIORITIES.items()]

    def rank(known: PriorityClass) -> tuple[bool, bool, int, str]:
        # Daemons that every node needs have the class that exists for them.
        is_for_others = of_daemon_set and known.metadata.name != _NODE_CRITICAL
        return known in own, is_for_others, known.value, known.metadata.name

    higher = (
        known
        for known in (*listed, *(one for one in own if one.metadata.name not in names))
        if known.value > priority
        and known.preemption_policy != "Never"
        and (of_daemon_set or not known.metadata.name.startswith(_SYSTEM_CLASSES))
    )
    return sorted(higher, key=rank)


_MOST_CLOSEST, _MOST_NODES, _MOST_PODS, _MOST_TOGETHER, _MOST_GROUPS = 400, 40, 10, 4, 24


def movable(session: Session, pods: Iterable[int]) -> list[int]:
    """Return the running pods that a controller creates again, and that may run on other nodes."""
    infos, node_of = session.cluster.pods.infos, session.cluster.node_of
    rows = []
    for row in pods:
        pod = infos[row].pod
        owner = controller_of(pod.metadata)
        is_fixed = owner is None or owner.kind in (DAEMON_SET, "Node") or pod.metadata.annotations.mirror is not None
        if not is_fixed and node_of[row] != NOWHERE and not infos[row].is_terminating:
            rows.append(row)
    return rows


def making_room(
    session: Session, waiting: Iterable[tuple[int, CycleResult]], may_go: Callable[[Iterable[int]], Iterable[int]]
) -> list[Rows]:
    """Return groups of pods without which a waiting pod has a node, those of the fewest pods and the least room first.

    `waiting`: rows of pods that wait, each with the scheduler's decision, while it is live. `may_go`: returns those of
    some pods that may go.
    """
    cluster = session.cluster
    ranked: list[tuple[int, float, Rows]] = []
    for row, result in waiting:
        if result.filter is None or result.filter.pre_filter_status is not None:
            continue
        misses = NearMisses(result.filter)
        closest = _closest(session, row, misses.rows[misses.only(_FIT)])
        emptied = ((missing, list(may_go(cluster.pods_on[node]))) for node, missing in closest)
        for missing, pods in islice((entry for entry in emptied if entry[1]), _MOST_NODES):
            ranked += _enough(session, missing, pods)
        by_rules = (group for group in _by_rules(session, misses, row) if len(group) == len([*may_go(group)]))
        ranked += ((len(group), 0.0, group) for group in by_rules)
    infos = cluster.pods.infos
    ranked.sort(key=lambda entry: (entry[0], entry[1], [infos[pod].key for pod in entry[2]]))
    return list(dict.fromkeys(group for _, _, group in ranked if group))[:_MOST_GROUPS]


def _by_rules(session: Session, misses: NearMisses, row: int) -> Iterator[Rows]:
    """Yield the pods that alone make a node reject a pod by a port or a rule; its siblings take each other's place."""
    infos = session.cluster.pods.infos
    for plugin in (_PORTS, _PODS):
        for position in misses.only(plugin)[:_MOST_NODES].tolist():
            for detail in misses.details_at(plugin, position):
                if isinstance(detail, TakenHostPort | AntiAffinity) and not detail.and_more:
                    named = map(session.find, detail.pods[:_MOST_TOGETHER])
                    rows = tuple(other for other in named if other is not None)
                    if all(infos[other].controller != infos[row].controller for other in rows):
                        yield rows


def _closest(session: Session, row: int, rows: RowArray) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the nodes that lack least for a pod, each with what is missing there, by resource."""
    cluster = session.cluster
    nodes = cluster.nodes
    missing: dict[str, Int64Array] = {}
    lacks = np.zeros(len(rows))
    for resource, amount in {**cluster.pods.infos[row].requests, PODS: 1}.items():
        if amount:
            total = nodes.allowed_pods if resource == PODS else nodes.allocatable(resource)
            used = cluster.pod_count if resource == PODS else cluster.requested(resource)
            missing[resource] = np.maximum(amount + used[rows] - total[rows], 0)
            lacks = np.maximum(lacks, missing[resource] / amount)
    for position in np.argsort(lacks, kind="stable")[:_MOST_CLOSEST].tolist():
        lacking = {name: int(column[position]) for name, column in missing.items() if column[position]}
        if lacking:
            yield int(rows[position]), lacking


def _enough(session: Session, missing: Mapping[str, int], pods: Sequence[int]) -> Iterator[tuple[int, float, Rows]]:
    """Yield the smallest groups of pods of a node without which a pod has enough of every resource there."""
    infos = session.cluster.pods.infos
    requests = {pod: {**infos[pod].requests, PODS: 1} for pod in pods}
    frees = {pod: {name: own.get(name, 0) for name in missing} for pod, own in requests.items()}
    sizes = {pod: sum(freed[name] / missing[name] for name in missing) for pod, freed in frees.items()}
    useful = sorted((pod for pod in pods if sizes[pod]), key=lambda pod: (-min(sizes[pod], 1), sizes[pod]))
    for number in range(1, _MOST_TOGETHER + 1):
        enough = [
            (number, sum(sizes[pod] for pod in group), group)
            for group in combinations(useful[:_MOST_PODS], number)
            if all(sum(frees[pod][name] for pod in group) >= amount for name, amount in missing.items())
        ]
        if enough:
            yield from sorted(enough, key=lambda entry: entry[:2])[:_MOST_TOGETHER]
            return
