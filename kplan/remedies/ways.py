"""What would help pods that wait: what is wrong gives ways out, each of which is tried, in the order of an expert."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import nearest_texts
from kplan.api.scheduling import PodGroup
from kplan.changes import remedy as r
from kplan.diagnosis import causes as c
from kplan.framework.cycle import CycleResult
from kplan.framework.listers import Key
from kplan.framework.session import Session
from kplan.remedies import mistakes, nodes, requests, room
from kplan.remedies.replicas import ALONE, Replicas
from kplan.remedies.trials import NO_CHANGE, Case, End, NearMisses, Offer, Offers, Trial, Trials

MOST = 5  #: at most this many remedies are offered

_MOST_TOGETHER = 3

LEAST_TRIALS = 8  #: so often even the largest group may be tried


def offers_for_pod(
    session: Session, result: CycleResult, causes: c.Causes, replicas: Replicas = ALONE, *, only_pod: bool = False
) -> list[Offer]:
    """Return what lets the pod of a decision run, the best first.

    `session`, `result`: the decision while it is live; trials change only forks of the session. `causes`: why the pod
    has no node. `replicas`: the pod's workload. `only_pod`: leave out what surrounds the pod.
    """
    case = Case(Trials(session, [result.pod], of=replicas.pending), session, result.pod, result)

    def ways(case: Case) -> Offers:
        if case.misses is not None:
            yield from _of_pod(case, case.misses) if only_pod else _ways(case, case.misses, replicas)

    offers = [*mistakes.by_cause(case, causes), *ways(case)]
    return _in_order(offers or _together(case, ways))


def offers_for_group(session: Session, key: Key, pending: Sequence[int], most: int) -> list[Offer]:
    """Return what lets the pending members of a group run, the best first.

    Those that let all of them run come first. A gang that starts with some of them only is told as such by `helps`.

    `session`: the session after which the group waits; trials change only forks of it. `pending`: rows of its members
    without a node. `most`: how many decisions about members may be made.
    """
    if session.extenders:
        return []
    trials = Trials(session, pending, key, most=max(most, LEAST_TRIALS * len(pending)))
    end = trials.end(NO_CHANGE)
    trials.rests, trials.fits = end.runs, end.fit
    return _in_order(_ways_of_group(trials, key)) if trials.of and end.runs < trials.of else []


def _together(case: Case, ways: Callable[[Case], Offers]) -> Offers:
    """Correct what is wrong one after the other, where none of it helps alone, until there is something that helps."""
    done: list[r.Single] = []
    for _ in range(_MOST_TOGETHER):
        likely = (offer for offer in case.not_enough if _is_likely(offer.remedy))
        first = min(likely, key=lambda offer: r.weight_of(offer.remedy), default=None)
        if first is None or first.pod is None:
            return
        done += r.parts_of(first.remedy)
        for session, result in case.trials.misfits(case.edit(first.pod)):
            trials = Trials(session, [result.pod], of=case.trials.of)
            case = Case(trials, session, result.pod, result)
        offers = list(ways(case))
        for offer in offers:
            last = offer.remedy
            changes = (*done, *(replace(part, helps=UNSET, then=None) for part in r.parts_of(last)))
            yield Offer(r.Together(changes=changes, then=last.then, helps=last.helps), offer.pod or first.pod)
        if offers:
            return


def _is_likely(remedy: r.Remedy) -> bool:
    """Tell whether a change of a pod is probably right also where it is not enough: it corrects what fits nothing."""
    match remedy:
        case r.CorrectSelector(change=selector):
            return selector.to is not None
        case r.TolerateTaint(change=toleration):
            return not toleration.for_others
        case _:
            return isinstance(remedy, r.CorrectName | r.SearchNamespace)


def remedies_of(offers: Iterable[Offer]) -> tuple[r.Remedy, ...]:
    return tuple(offer.remedy for offer in offers)[:MOST]


def _in_order(offers: Iterable[Offer]) -> list[Offer]:
    """Return what helps all first, then what an expert would try first, once and without more than is enough."""
    by_remedy: dict[r.Remedy, Offer] = {}
    for offer in sorted(offers, key=lambda offer: r.rank_of(offer.remedy)):
        by_remedy.setdefault(offer.remedy, offer)
    return [offer for remedy, offer in by_remedy.items() if not _has_more_than_enough(remedy, by_remedy)]


def _has_more_than_enough(remedy: r.Remedy, others: Iterable[r.Remedy]) -> bool:
    """Return whether a part of a remedy is a remedy by itself that helps as many pods."""
    if not isinstance(remedy, r.Together):
        return False
    number = _number_helped(remedy)
    added = max((part.change.nodes for part in remedy.changes if isinstance(part, r.AddNodes)), default=0)
    relaxed = [part.change for part in remedy.changes if isinstance(part, r.RelaxRule)]
    return any(
        (isinstance(other, r.AddNodes) and other.change.nodes <= added and _number_helped(other) >= number)
        or (isinstance(other, r.RelaxRule) and other.change in relaxed)
        for other in others
    )


def _number_helped(remedy: r.Remedy) -> int:
    return remedy.helps.pods if remedy.helps else 1


def _ways(case: Case, misses: NearMisses, replicas: Replicas) -> Offers:
    """Offer what a decision about a pod that fits on no node suggests."""
    yield from nodes.waits(case, misses)
    yield from room.recreate(case, misses)
    yield from _of_pod(case, misses)
    yield from nodes.uncordon(case, misses)
    yield from nodes.repair(case, misses)
    yield from room.move(case)
    if case.result is not None and case.result.filter is not None and case.result.filter.rows is None:
        yield from nodes.add(case)
    yield from requests.fewer(case, replicas)
    yield from room.priority(case)


def _of_pod(case: Case, misses: NearMisses) -> Offers:
    """Offer changes of what the pod says."""
    yield from mistakes.selectors(case, misses)
    yield from mistakes.topology_keys(case, misses)
    yield from mistakes.together(case, misses)
    yield from mistakes.tolerations(case, misses)
    yield from requests.lower(case, misses)
    yield from requests.without_host_ports(case, misses)
    yield from mistakes.rules(case, misses)


def _ways_of_group(trials: Trials, key: Key) -> Offers:
    group = trials.group
    if group is None:
        known = [name for namespace, name in trials.live.pod_groups.groups if namespace == key[0]]
        missing = r.MissingObject(what="PodGroup", name="/".join(key))
        for offer in mistakes.missing_object("podGroupName", key[1], next(iter(nearest_texts(key[1], known, 1)), "")):
            created = r.CreateObject(change=missing, then=None, checked=False)
            yield replace(offer, remedy=created) if isinstance(offer.remedy, r.CreateObject) else offer
        return
    case = Case(trials, trials.live, trials.pending[0])
    infos = trials.live.cluster.pods.infos
    if gated := {row: gates for row in trials.pending if (gates := infos[row].pod.spec.scheduling_gates)}:
        names = tuple(dict.fromkeys(gate.name for gates in gated.values() for gate in gates))
        yield from mistakes.gates(case, names, frozenset(gated))
    yield from _fewer_members(case, group)
    yield from _further_members(case, group)
    yield from nodes.uncordon(case, None)
    yield from nodes.add(case)
    yield from _without_topology(case, group)
    for session, result in trials.misfits():
        misfit = Case(trials, session, result.pod, result)
        if misfit.misses is not None:
            yield from nodes.waits(misfit, misfit.misses)
            yield from nodes.repair(misfit, misfit.misses)
            yield from _of_pod(misfit, misfit.misses)
    yield from room.move(case)
    yield from room.priority(case)


def _fewer_members(case: Case, group: PodGroup) -> Offers:
    """Lower minCount to the largest number with which the gang starts."""
    gang, trials, key = group.spec.scheduling_policy.gang, case.trials, case.trials.key
    if gang is None or key is None or trials.rests:
        return

    def with_count(count: int) -> Trial:
        policy = replace(group.spec.scheduling_policy, gang=replace(gang, min_count=count))
        return Trial(group=replace(group, spec=replace(group.spec, scheduling_policy=policy)))

    low, high, end = 0, gang.min_count, End()
    if group.spec.scheduling_constraints is None:
        # All that can start at the same time are those that fit now; in several domains others may be more.
        fit = trials.fits or trials.end(with_count(1)).runs  # where members are missing, none was tried before
        there = len(trials.live.pod_groups.scheduled(key)) + fit
        low, end = there, trials.end(with_count(there)) if 0 < there < high else End()
        high = low + 1
    while low + 1 < high:
        middle = (low + high) // 2
        tried = trials.end(with_count(middle))
        low, high, end = (middle, high, tried) if tried.runs else (low, middle, end)
    if low and end.runs:
        change = r.MinCountChange(group=group.metadata.key, old=gang.min_count, to=low)
        yield from case.ended(r.LowerMinCount(change=change, then=None), end)


def _further_members(case: Case, group: PodGroup) -> Offers:
    """Create the pods that a gang lacks."""
    gang, trials, key = group.spec.scheduling_policy.gang, case.trials, case.trials.key
    if gang is None or key is None:
        return
    missing = gang.min_count - len(trials.live.pod_groups.members(key))
    if missing > 0:
        change = r.MemberAddition(group=group.metadata.key, pods=missing)
        for offer in case.tried(r.AddMembers(change=change, then=None), Trial(more=missing)):
            runs = offer.remedy.helps.pods if offer.remedy.helps else 1 + missing
            yield replace(offer, remedy=replace(offer.remedy, helps=r.Helped(runs, trials.of + missing)))


def _without_topology(case: Case, group: PodGroup) -> Offers:
    """Let the members run wherever they fit."""
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        free = replace(group, spec=replace(group.spec, scheduling_constraints=None))
        change = r.TopologyRelease(group=group.metadata.key, key=constraints.topology[0].key)
        yield from case.tried(r.DropTopology(change=change, then=None), Trial(group=free))
