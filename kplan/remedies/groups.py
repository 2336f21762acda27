"""Ways out that change a pod group: fewer pods that must start together, further members, no common domain."""

from __future__ import annotations

from msgspec.structs import replace

from kplan.api.scheduling import PodGroup
from kplan.changes import remedy as r
from kplan.remedies.case import Case, Offers
from kplan.remedies.trials import End, Trial


def fewer(case: Case, group: PodGroup) -> Offers:
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


def members(case: Case, group: PodGroup) -> Offers:
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


def topology(case: Case, group: PodGroup) -> Offers:
    """Let the members run wherever they fit."""
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        free = replace(group, spec=replace(group.spec, scheduling_constraints=None))
        change = r.TopologyRelease(group=group.metadata.key, key=constraints.topology[0].key)
        yield from case.tried(r.DropTopology(change=change, then=None), Trial(group=free))
