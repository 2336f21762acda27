"""Find the smallest changes that let a pod group run; each is offered only if the whole group, tried with it, runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.names import nearest_texts
from kplan.api.scheduling import PodGroup
from kplan.changes import remedy as r
from kplan.engine.details import InsufficientResource
from kplan.framework.cycle import CycleResult
from kplan.framework.listers import Key
from kplan.framework.session import Session
from kplan.remedies import variants
from kplan.remedies.group_trials import NO_CHANGE, GroupChange, GroupTrials, kind_of
from kplan.remedies.node_shapes import NodeShape, node_shapes
from kplan.remedies.sizing import in_units, is_within_limit_ranges, largest_requester, least_of, unit_of
from kplan.remedies.surroundings import cordoned_rows, higher_classes, obstructing
from kplan.remedies.trials import NearMisses, Trials, budgets_of
from kplan.remedies.ways import MOST, SIZES, changed_pods
from kplan.rules.resources import PODS, quantity_text

_FIT = "NodeResourcesFit"
_MOST_TRIED = 3
_MOST_MOVED = 6
LEAST_TRIALS = 8
"""So often even the largest group may be tried."""
_MOST_NEW_NODES = 256
_STEPS = 7
"""How often the amount that is low enough is narrowed down."""

R = TypeVar("R", bound=r.RemedyBase)


def group_remedies(session: Session, key: Key, pending: Sequence[int], most: int) -> tuple[r.Remedy, ...]:
    """Return changes that let the pending members of a group run, the smallest first.

    Those that let all of them run come first. A gang that starts with some of them only is told as such by `helps`.

    Parameters
    ----------
    session : the session after which the group waits; trials change only forks of it
    pending : rows of its members without a node
    most : how many decisions about members may be made
    """
    if session.extenders:
        return ()
    search = _Search(GroupTrials(session, key, pending, max(most, LEAST_TRIALS * len(pending))))
    offers = [remedy for way in search.ways() for remedy in way]
    offers.sort(
        key=lambda remedy: (
            remedy.helps is not UNSET and remedy.helps.pods < remedy.helps.of,
            SIZES[type(remedy)],
        )
    )
    return tuple(dict.fromkeys(offers))[:MOST]


class _Search:
    """Searches the remedies of one group."""

    def __init__(self, trials: GroupTrials) -> None:
        self._trials, self._live = trials, trials.live
        self._infos = trials.live.cluster.pods.infos
        self._name = "/".join(trials.key)
        self._of = len(trials.pending)
        end = trials.end(NO_CHANGE)
        self._before, self._fit = end.runs, end.fit

    def ways(self) -> Iterator[Iterator[r.Remedy]]:
        """Yield the remedies of each kind; none where the members run by now, or none of them counts."""
        if not self._of or self._before == self._of:
            return
        group = self._trials.group
        if group is None:
            yield self._missing()
            return
        yield self._gates()
        yield self._fewer(group)
        yield self._members(group)
        yield self._uncordon()
        yield self._nodes()
        yield self._topology(group)
        yield self._of_misfits()
        yield self._priority(group)

    def _offer(self, remedy: R, runs: int, of: int = 0) -> Iterator[R]:
        of = of or self._of
        if runs > self._before:
            yield replace(remedy, helps=r.Helped(runs, of) if of > 1 else UNSET)

    def _runs(self, change: GroupChange) -> int:
        return self._trials.runs(change)

    def _all_run(self, change: GroupChange) -> bool:
        return self._runs(change) == self._of

    def _missing(self) -> Iterator[r.Remedy]:
        """Name a group that exists, or create the one that is missing, of which nothing else is known."""
        namespace, name = self._trials.key
        known = [other for space, other in self._live.pod_groups.groups if space == namespace]
        for other in nearest_texts(name, known, 1):
            change = r.NameChange(what="podGroupName", old=name, to=other)
            yield r.CorrectName(change=change, then=None, checked=False)
        yield r.CreateObject(change=r.MissingObject(what="PodGroup", name=self._name), then=None, checked=False)

    def _gates(self) -> Iterator[r.Remedy]:
        gated = {row: self._infos[row].pod.spec.scheduling_gates for row in self._trials.pending}
        names = tuple(dict.fromkeys(gate.name for gates in gated.values() for gate in gates))
        if not names:
            return
        change = GroupChange(edit=lambda pod: replace(pod, spec=replace(pod.spec, scheduling_gates=())))
        remedy = r.RemoveGates(
            change=r.GateChange(gates=names),
            then=None,
            members=self._members_of(row for row, gates in gated.items() if gates),
        )
        yield from self._offer(remedy, self._runs(change))

    def _fewer(self, group: PodGroup) -> Iterator[r.Remedy]:
        """Lower minCount to the largest number with which the gang starts."""
        gang = group.spec.scheduling_policy.gang
        if gang is None or self._before:
            return

        def with_count(count: int) -> GroupChange:
            policy = replace(group.spec.scheduling_policy, gang=replace(gang, min_count=count))
            return GroupChange(group=replace(group, spec=replace(group.spec, scheduling_policy=policy)))

        low, high, runs = 0, gang.min_count, 0
        if group.spec.scheduling_constraints is None:
            # All that can start at the same time are those that fit now; in several domains others may be more.
            fit = self._fit or self._runs(with_count(1))  # where members are missing, none was tried before
            there = len(self._live.pod_groups.scheduled(self._trials.key)) + fit
            low, runs = there, self._runs(with_count(there)) if 0 < there < high else 0
            high = low + 1
        while low + 1 < high:
            middle = (low + high) // 2
            tried = self._runs(with_count(middle))
            low, high, runs = (middle, high, tried) if tried else (low, middle, runs)
        if low and runs:
            change = r.MinCountChange(group=self._name, old=gang.min_count, to=low)
            yield from self._offer(r.LowerMinCount(change=change, then=None), runs)

    def _members(self, group: PodGroup) -> Iterator[r.Remedy]:
        gang = group.spec.scheduling_policy.gang
        missing = 0 if gang is None else gang.min_count - len(self._live.pod_groups.members(self._trials.key))
        if missing <= 0:
            return
        runs = self._runs(GroupChange(more=missing))
        change = r.MemberAddition(group=self._name, pods=missing)
        yield from self._offer(r.AddMembers(change=change, then=None), runs, self._of + missing)

    def _uncordon(self) -> Iterator[r.Remedy]:
        rows = cordoned_rows(self._live)
        number = _least(len(rows), lambda n: self._all_run(GroupChange(uncordoned=rows[:n])))
        if not number:
            return
        needed = rows[:number]
        for row in needed if number > 1 else ():
            fewer = tuple(other for other in needed if other != row)
            if fewer and self._all_run(GroupChange(uncordoned=fewer)):
                needed = fewer
        first, *others = (r.NodeChange(node=self._live.cluster.nodes.names[row]) for row in needed)
        yield from self._offer(r.Uncordon(change=first, also=tuple(others) or UNSET, then=None), self._of)

    def _nodes(self) -> Iterator[r.Remedy]:
        """Add as few nodes like one of the cluster as let all members run."""
        most = min(self._of, _MOST_NEW_NODES)
        best: tuple[int, str] | None = None
        for shape in node_shapes(self._live.listers.snapshot)[:_MOST_TRIED]:
            number = self._enough_nodes(shape, most)
            if number and (best is None or number < best[0]):
                best = number, shape.like.metadata.name
        if best is not None:
            change = r.NodeAddition(nodes=best[0], like=best[1])
            yield from self._offer(r.AddNodes(change=change, then=None), self._of)

    def _enough_nodes(self, shape: NodeShape, most: int) -> int:
        """Return the least number of nodes of a shape with which all members run; 0 for none up to `most`."""

        def is_enough(number: int) -> bool:
            return self._all_run(GroupChange(like=shape, number=number))

        if is_enough(1):
            return 1
        # Most often each further node takes as many members as the first.
        takes = self._trials.end(GroupChange(like=shape, number=1)).fit - self._fit
        guess = -(-(self._of - self._fit) // takes) if takes > 0 else 0
        if 1 < guess <= most and is_enough(guess):
            return 1 + _least(guess - 1, lambda n: is_enough(n + 1)) if is_enough(guess - 1) else guess
        return _least(most, is_enough)

    def _topology(self, group: PodGroup) -> Iterator[r.Remedy]:
        """Let the members run wherever they fit."""
        constraints = group.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return
        free = replace(group, spec=replace(group.spec, scheduling_constraints=None))
        change = r.TopologyRelease(group=self._name, key=constraints.topology[0].key)
        yield from self._offer(r.DropTopology(change=change, then=None), self._runs(GroupChange(group=free)))

    def _priority(self, group: PodGroup) -> Iterator[r.Remedy]:
        """Give the group and its pods the lowest priority class with which it evicts others, within their budgets."""
        old = max((self._infos[row].priority for row in self._trials.pending), default=0)
        for priority_class in higher_classes(self._live, max(old, group.spec.priority or 0))[:_MOST_TRIED]:
            name, priority = priority_class.metadata.name, priority_class.value

            def raised(pod: Pod, name: str = name, priority: int = priority) -> Pod:
                spec = replace(pod.spec, priority=priority, priority_class_name=name, preemption_policy=None)
                return replace(pod, spec=spec)

            spec = replace(group.spec, priority=priority, priority_class_name=name)
            end = self._trials.end(GroupChange(edit=raised, group=replace(group, spec=spec), preempts=True))
            pods, budgets = self._live.cluster.pods, budgets_of(self._live)
            if not end.victims or any(budgets.violating_units(pods, [[victim] for victim in end.victims])):
                continue
            covering = {budget: None for victim in end.victims for budget in budgets.covering(pods, victim)}
            change = r.PriorityChange(
                old=old,
                to=priority,
                priority_class=name,
                evicts=tuple(self._infos[victim].key for victim in end.victims),
                budgets=tuple(covering),
                group=self._name,
            )
            yield from self._offer(r.RaisePriority(change=change, then=None), end.runs)
            return

    def _of_misfits(self) -> Iterator[r.Remedy]:
        """Change the members of one kind that fit nowhere, or move the pods that are in their way."""
        for session, result in self._trials.misfits():
            if result.filter is None or result.filter.pre_filter_status is not None:
                continue
            rows = self._alike(result.pod)
            yield from self._changed(session, result, rows)
            misses = NearMisses(result.filter)
            for resource in _short_resources(misses)[:_MOST_TRIED]:
                yield from self._lowered(result.pod, resource, rows)
        yield from self._moved()

    def _alike(self, pod: int) -> frozenset[int]:
        kind = kind_of(self._infos[pod].pod)
        return frozenset(row for row in self._trials.pending if kind_of(self._infos[row].pod) == kind)

    def _members_of(self, rows: Iterable[int]) -> tuple[str, ...] | UnsetType:
        names = tuple(sorted(self._infos[row].key for row in rows))
        return UNSET if len(names) == self._of else names

    def _changed(self, session: Session, result: CycleResult, rows: frozenset[int]) -> Iterator[r.Remedy]:
        """Change all members of a kind as lets the first one fit somewhere."""
        for remedy, changed in changed_pods(session, result):
            if isinstance(remedy, r.LowerRequest):
                continue
            runs = self._runs(GroupChange(edit=_as(changed), edited=rows))
            members = self._members_of(rows)
            changing: r.Remedy = replace(remedy, then=None, members=members)  # type: ignore[assignment] # of the same kind
            yield from self._offer(changing, runs)

    def _lowered(self, row: int, resource: str, rows: frozenset[int]) -> Iterator[r.Remedy]:
        """Lower a request of all members of a kind as little as lets the whole group run, to half of it at most."""
        pod = self._infos[row].pod
        requester = largest_requester(pod, resource)
        if requester is None:
            return
        unit, old = unit_of(resource), in_units(resource, requester.resources.requests[resource])

        def lower(amount: int) -> GroupChange:
            to = quantity_text(resource, amount)
            changed = variants.with_request(pod, requester, resource, to)
            return GroupChange(edit=_as(changed), edited=rows)

        low, high = -(-least_of(pod, requester, resource) // unit) * unit, old
        smallest = variants.with_request(pod, requester, resource, quantity_text(resource, low))
        if not 0 < low < old or not is_within_limit_ranges(self._live, pod, smallest) or not self._all_run(lower(low)):
            return
        for _ in range(_STEPS):
            middle = (low + high) // 2 // unit * unit
            if middle <= low:
                break
            low, high = (middle, high) if self._all_run(lower(middle)) else (low, middle)
        change = r.RequestChange(
            container=requester.name,
            resource=resource,
            old=str(requester.resources.requests[resource]),
            to=quantity_text(resource, low),
        )
        yield from self._offer(r.LowerRequest(change=change, then=None, members=self._members_of(rows)), self._of)

    def _moved(self) -> Iterator[r.Remedy]:
        """Move running pods out of the way that fit elsewhere once the group runs, as few as possible."""
        budgets, cluster = budgets_of(self._live), self._live.cluster
        leaving: list[int] = []
        while len(leaving) < _MOST_MOVED:
            other = self._in_the_way(tuple(leaving))
            if other is None:
                return
            leaving.append(other)
            end = self._trials.end(GroupChange(leaving=tuple(leaving)))
            if end.runs == self._of:
                break
        else:
            return
        for other in tuple(leaving):
            fewer = tuple(row for row in leaving if row != other)
            if fewer and self._all_run(GroupChange(leaving=fewer)):
                leaving = list(fewer)
        end = self._trials.end(GroupChange(leaving=tuple(leaving)))
        moved = [
            r.MovedPod(
                pod=cluster.pods.infos[row].key,
                node=cluster.nodes.names[cluster.node_of[row]],
                goes_to=node,
                budgets=tuple(budgets.covering(cluster.pods, row)),
            )
            for row, node in zip(leaving, end.goes_to, strict=True)
        ]
        yield from self._offer(r.MovePod(change=moved[0], also=tuple(moved[1:]) or UNSET, then=None), end.runs)

    def _in_the_way(self, leaving: tuple[int, ...]) -> int | None:
        """Return the next running pod without which a node has room for a member that fits nowhere."""
        budgets, pods = budgets_of(self._live), self._live.cluster.pods
        for session, result in self._trials.misfits(GroupChange(leaving=leaving)):
            if result.filter is None or result.filter.pre_filter_status is not None:
                continue
            trials = Trials(session, result.pod)
            for other in obstructing(trials, NearMisses(result.filter)):
                if other in leaving or other in self._trials.pending:
                    continue
                if not any(budgets.violating_units(pods, [[row] for row in (*leaving, other)])):
                    return other
        return None


def _short_resources(misses: NearMisses) -> list[str]:
    """Return the resources of which nodes have too little, and that are all they lack, the commonest first."""
    times: dict[str, int] = {}
    for position in misses.only(_FIT).tolist():
        for detail in misses.details_at(_FIT, position):
            if isinstance(detail, InsufficientResource) and detail.resource != PODS:
                times[detail.resource] = times.get(detail.resource, 0) + 1
    return sorted(times, key=lambda resource: (-times[resource], resource))


def _as(changed: Pod) -> Callable[[Pod], Pod]:
    """Return what makes a pod what another one like it has become; what each has of its own stays."""

    def edit(pod: Pod) -> Pod:
        own = pod.spec
        spec = replace(changed.spec, volumes=own.volumes, resource_claims=own.resource_claims, node_name=own.node_name)
        return replace(pod, spec=spec)

    return edit


def _least(most: int, is_enough: Callable[[int], bool]) -> int:
    """Return the least number up to `most` that is enough, where more of it never hurts; 0 where even that is not."""
    low, high = 0, 1
    while high < most and not is_enough(high):
        low, high = high, high * 2
    high = min(high, most)
    if most < 1 or (high == most and not is_enough(high)):
        return 0
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
