"""Ways out past other pods: move them to where they fit as well, or evict them with more priority."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.kinds import DAEMON_SET
from kplan.api.meta import ObjectMeta, controller_of
from kplan.api.names import WorkloadRef
from kplan.api.scheduling import PriorityClass
from kplan.api.workloads import RECREATE, ROLLING_UPDATE
from kplan.changes import remedy as r
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import NOWHERE
from kplan.engine.details import AntiAffinity, ClaimInUse, TakenHostPort
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.remedies import variants
from kplan.remedies.replicas import workload_of
from kplan.remedies.trials import (
    FIT,
    HOST_PORTS,
    MOST_TRIED,
    POD_AFFINITY,
    Case,
    End,
    NearMisses,
    Offers,
    Rows,
    Trial,
    without_needless,
)
from kplan.rules.pod_info import daemon_set_of
from kplan.rules.resources import PODS
from kplan.snapshot.defaults import SYSTEM_PRIORITIES

_MOST_MOVED = 6
_SYSTEM_CLASSES, _NODE_CRITICAL = "system-", "system-node-critical"


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
    for group in making_room(case.live, waiting, partial(movable, case.live))[: 2 * MOST_TRIED]:
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


def recreate(case: Case, misses: NearMisses) -> Offers:
    """Let a rollout delete the old pod first, where that has a claim that only one pod may have (ReadWriteOncePod)."""
    claims = {one.claim.partition("/")[2] for one in misses.details() if isinstance(one, ClaimInUse)}
    workload = WorkloadRef.parse(workload_of(case.live, case.info))
    if not claims or workload.kind != "Deployment":
        return
    cluster, deployments = case.live.cluster, case.live.listers.snapshot.deployments
    spec = next((obj.spec for obj in deployments if obj.metadata.key == workload.path), None)
    if spec is None or spec.replicas not in (None, 1) or spec.strategy.type == RECREATE:
        return  # more than one replica never have the claim together
    users = [
        row
        for row, other in enumerate(cluster.pods.infos)
        if cluster.node_of[row] != NOWHERE
        and other.namespace == case.info.namespace
        and not claims.isdisjoint(other.pod.named_claims)
    ]
    others = [cluster.pods.infos[row] for row in users]
    if all(
        workload_of(case.live, other) == workload.key
        and other.controller != case.info.controller
        and not other.is_terminating
        for other in others
    ):
        old, new = f"strategy type {ROLLING_UPDATE}", f"strategy type {RECREATE}"
        change = r.RolloutChange(workload=workload.title, replicas=1, old=old, to=new)
        yield from case.tried(r.AllowUnavailable(change=change, then=None), Trial(ended=tuple(users)))


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
    for priority_class in higher_classes(case.live, above, of_daemon_set=of_daemon_set)[:MOST_TRIED]:
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
        closest = _closest(session, row, misses.rows[misses.only(FIT)])
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
    for plugin in (HOST_PORTS, POD_AFFINITY):
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
