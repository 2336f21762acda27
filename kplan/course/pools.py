"""What would let an autoscaler add nodes for pods that it leaves without one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.quantity import grouped
from kplan.changes.remedy import AddNodes, Helped, PoolChange, Remedy, WidenPool, parts_of, rank_of
from kplan.cluster.base import Base
from kplan.course.growth import Growth
from kplan.documents.placement import PodPlacement
from kplan.framework.results import Outcome

_MOST_TRIED = 4  #: so many changes of an autoscaler's pools are tried for the pods of a question
_MOST_DECISIONS = 600  #: so many decisions are made anew for that, but for the first change: each takes all of them


class Pools(NamedTuple):
    """What an autoscaler may add, for pods that were placed in their order while it made nodes for them."""

    base: Base
    placed: Callable[[Base], frozenset[str]]  #: returns NAMESPACE/NAME of those that get a node in another cluster
    growth: Growth  #: at the end, when it helps no more
    n_decisions: int  #: that this took

    def widening(self, waiting: Collection[str]) -> Iterator[tuple[PoolChange, frozenset[str]]]:
        """Yield what lets it help more, each tried, and NAMESPACE/NAME of those among these pods that get a node."""
        growth = self.growth
        if growth.last_sight is None or not growth.advice.unhelped():
            return
        n_tried = max(min(_MOST_TRIED, _MOST_DECISIONS // max(self.n_decisions, 1)), 1)
        for changes in islice(growth.autoscaler.widening(growth.last_sight), n_tried):
            if helped := self.placed(reduce(Base.with_pool, changes, self.base)).intersection(waiting):
                names = tuple(dict.fromkeys(change.name for change in changes))
                text = " and ".join(dict.fromkeys(change.words for change in changes))
                yield PoolChange(pools=names, text=text), helped

    def in_remedies(self, placements: Sequence[PodPlacement]) -> Iterator[PodPlacement]:
        """Yield placements whose remedies name what lets it help pods of their workloads."""
        waiting = grouped(
            (one.pod.owner_key, one.pod.key) for one in placements if one.outcome is Outcome.UNSCHEDULABLE
        )
        pools: dict[str, list[WidenPool]] = {owner: [] for owner in waiting}
        for change, helped in self.widening([key for keys in waiting.values() for key in keys]):
            for owner, keys in waiting.items():
                if n := len(helped.intersection(keys)):
                    helps = Helped(n, len(keys)) if len(keys) > 1 else UNSET
                    pools[owner].append(WidenPool(change=change, then=None, helps=helps))
        for one in placements:
            yield with_pools(self.base, one, pools.get(one.pod.owner_key, ()))


def with_pools(base: Base, placement: PodPlacement, pools: Iterable[WidenPool]) -> PodPlacement:
    """Return a placement whose remedies name those of an autoscaler, which alone adds nodes like those it manages.

    Not those of a pod that gets in by preemption: the autoscaler adds nothing for it.
    """
    if placement.remedies is UNSET or placement.eviction or base.followed is None:
        return placement
    followed, nodes = base.followed, base.objects.node_by_name

    def is_managed(part: Remedy) -> bool:
        return isinstance(part, AddNodes) and followed.manages(nodes[part.change.like])

    others = (remedy for remedy in placement.remedies if not any(map(is_managed, parts_of(remedy))))
    return replace(placement, remedies=tuple(sorted(dict.fromkeys((*others, *pools)), key=rank_of)))
