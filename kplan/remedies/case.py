"""A pod that fits nowhere, for itself and its replicas or for the members of its group: what ways out are tried on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.changes import remedy as r
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.remedies.trials import End, NearMisses, Trial, Trials, kind_of

R = TypeVar("R", bound=r.RemedyBase)


class Offer(msgspec.Struct, frozen=True, eq=False):
    """A remedy that was tried, and helps."""

    remedy: r.Remedy
    pod: Pod | None = None  #: the changed pod, where the pod changes


Offers = Iterator[Offer]


class Case:
    """A pod that fits nowhere, or a member of a group that waits.

    `trials`: of the pod with its replicas, or of its group. `session`: the state of the cluster in which the decision
    was made; it is only forked. `result`: the decision, while it is live; None for the group as a whole.
    """

    def __init__(self, trials: Trials, session: Session, row: int, result: CycleResult | None = None) -> None:
        self.trials, self.live, self.row, self.result = trials, session, row, result
        self.info = session.cluster.pods.infos[row]
        outcome = None if result is None else result.filter
        self.misses = None if outcome is None or outcome.pre_filter_status is not None else NearMisses(outcome)
        self.rows: frozenset[int] | None = None  #: of the members of its group that are like it; None for a pod
        self.not_enough: list[Offer] = []  #: what was tried of the pod, and does not help by itself
        if trials.key is not None:
            infos, kind = trials.live.cluster.pods.infos, kind_of(self.pod)
            self.rows = frozenset(row for row in trials.pending if kind_of(infos[row].pod) == kind)

    @property
    def pod(self) -> Pod:
        """The pod without any change."""
        return self.info.pod

    def edit(self, changed: Pod) -> Trial:
        """Return the trial in which the pod, and those like it, have become a changed pod."""
        return Trial(edit=(lambda _: changed) if self.rows is None else as_one_like(changed), edited=self.rows)

    def changed(self, remedy: R, pod: Pod) -> Offers:
        """Offer a remedy with which the pod becomes a changed pod."""
        offers = list(self.tried(replace(remedy, members=self.members_of(self.rows)), self.edit(pod)))
        yield from (replace(offer, pod=pod) for offer in offers)
        if not offers:
            self.not_enough.append(Offer(remedy, pod))  # type: ignore[arg-type] # every kind is one of Remedy

    def tried(self, remedy: R, trial: Trial) -> Offers:
        """Offer a remedy that is a trial."""
        yield from self.ended(remedy, self.trials.end(trial))

    def ended(self, remedy: R, end: End) -> Offers:
        """Offer a remedy whose trial has ended, where more pods run then."""
        trials = self.trials
        if end.runs > trials.rests:
            helps = r.Helped(end.runs, trials.of) if trials.of > 1 and end.is_known else UNSET
            fields: dict[str, Any] = {"then": end.node or None, "helps": helps}
            yield Offer(replace(remedy, **fields))  # type: ignore[arg-type] # every kind is one of Remedy

    def members_of(self, rows: Iterable[int] | None) -> tuple[str, ...] | UnsetType:
        """Return the names of members; absent where those are all that wait, or the pod is on its own."""
        if rows is None:
            return UNSET
        names = tuple(sorted(self.trials.live.cluster.pods.infos[row].key for row in rows))
        return UNSET if len(names) == self.trials.of else names


def as_one_like(changed: Pod) -> Callable[[Pod], Pod]:
    """Return what makes a pod what another one like it has become; what each has of its own stays."""

    def edit(pod: Pod) -> Pod:
        own = pod.spec
        spec = replace(changed.spec, volumes=own.volumes, resource_claims=own.resource_claims, node_name=own.node_name)
        return replace(pod, spec=spec)

    return edit


def untried(remedy: r.Remedy) -> Offer:
    """Return a remedy that is offered without a trial."""
    return Offer(remedy)


def least(most: int, is_enough: Callable[[int], bool]) -> int:
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
