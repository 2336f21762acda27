"""A pod group of which some pods are placed in order: all its pods without a node are tried together."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from kplan.documents.placement import Outcome
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.group_cycle import (
    GroupResult,
    GroupTry,
    end_of,
    error_of_several_schedulers,
    live_decisions,
    reserve_again,
    schedule_group,
)
from kplan.framework.listers import Key
from kplan.framework.session import Session
from kplan.framework.status import Status


class GroupRun:
    """A group in a run of `run_in_order`.

    Parameters
    ----------
    members : the members that the question is about; the others are placed without a word
    settle_preemption : evict the victims at once, and try the group again right after
    """

    def __init__(self, session: Session, key: Key, members: Sequence[int], *, settle_preemption: bool) -> None:
        self._session, self._key, self._members = session, key, members
        self._settles = settle_preemption

    def run(self, tries: dict[Key, GroupTry]) -> Iterator[CycleResult]:
        """Yield the decisions about the members in question; `tries` gets how the group's cycle has ended."""
        session, infos, groups = self._session, self._session.cluster.pods.infos, self._session.pod_groups
        # Pods that have left their nodes, or were refused, are still in the table of pods.
        groups.remove([pod for pod in groups.members(self._key) if session.pod_ids.get(infos[pod].key) != pod])
        groups.remove(session.refused)
        tries[self._key] = GroupTry(Status.unschedulable(), frozenset(), waits=False)
        pods: list[int] = []
        for pod in dict.fromkeys([*self._members, *groups.unscheduled(self._key)]):
            framework = session.framework_for(infos[pod])
            is_apart = framework is None or pod in session.refused or infos[pod].is_terminating
            if framework is not None and not is_apart and framework.run_pre_enqueue(infos[pod]).is_success:
                pods.append(pod)
            elif pod in self._members:
                yield schedule_pod(session, pod)
        pods.sort(key=lambda pod: -infos[pod].priority)
        group = yield from self._try(pods, tries)
        if group is not None and self._settles and group.victims:
            for victim in dict.fromkeys(group.victims):
                session.evict(victim)
            groups.remove(group.victims)
            waiting = [pod for pod in pods if pod in groups.unscheduled(self._key)]
            yield from self._try(waiting, tries, tries[self._key])

    def _try(
        self, pods: Sequence[int], tries: dict[Key, GroupTry], before: GroupTry | None = None
    ) -> Generator[CycleResult, None, GroupResult | None]:
        """Try the group, and bind the members that fit; `before` is the try for which pods have left."""
        session, infos = self._session, self._session.cluster.pods.infos
        if not pods:
            return None
        text = error_of_several_schedulers([infos[pod].pod.spec.scheduler_name for pod in pods])
        group = (
            GroupResult(self._key, [], Status.error(text)) if text else schedule_group(session, self._key, list(pods))
        )
        last = GroupTry.of(group)
        tries[self._key] = last if before is None else last.after(before)
        for result in live_decisions(session, group, pods):
            if result.pod in self._members:
                yield result
        for member in group.members:
            end = end_of(group, member.pod)
            if end.outcome is Outcome.SCHEDULED and member.row is not None:
                if reserve_again(member).is_success:
                    session.bind(member.pod, member.row)
            elif end.nominated is not None and self._settles:
                session.nominator.nominate(member.pod, end.nominated)
        return group
