"""Replicas to be placed, and what came of it."""

from __future__ import annotations

from collections import Counter

import msgspec

from kplan.api.scheduling import PodGroup
from kplan.documents.placement import Origin
from kplan.framework.cycle import CycleResult
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.rules.pod_info import PodInfo


class Template(msgspec.Struct, frozen=True):
    """A pod to place again and again, or a list of pods to place in turn."""

    name: str  #: for reports
    replicas: tuple[PodInfo, ...]  #: the pods; one that stands for all replicas unless `are_distinct`
    share: int = 1  #: how many are placed in a row before it is the next template's turn
    refused: str = ""  #: why the API server refuses such a pod; empty when it accepts it
    are_distinct: bool = False  #: the replicas differ from each other, and there are no more than `replicas` holds
    origin: Origin | None = None  #: the manifest that they come from
    group: PodGroup | None = None  #: the group whose pods `replicas` are, several times where they are distinct
    group_size: int = 0  #: how many pods such a group has
    first: int = 0  #: so many groups of it were placed before
    n_more: int = 0  #: pods of the group that are not created, because no cluster has room for so many

    @property
    def most(self) -> int:
        """How many replicas, or groups, there are at most where they are distinct."""
        return len(self.replicas) // (self.group_size or 1)

    def replica(self, index: int) -> PodInfo | None:
        """Return the pod of the replica with this index, or None when there are no more."""
        if not self.are_distinct:
            return self.replicas[0]
        return self.replicas[index] if index < len(self.replicas) else None


class StoppedGroup(msgspec.Struct, frozen=True):
    """The first group that is not whole, whose pods are pending."""

    key: Key
    pods: tuple[int, ...]
    tried: GroupTry | None  #: how its cycle has ended; None where its pods are kept out of the queue


class Fit(msgspec.Struct):
    """The replicas that fit, and what stops the next one."""

    #: (template, node row) -> number of replicas
    placed: Counter[tuple[int, int]] = msgspec.field(default_factory=Counter)
    counts: list[int] = []  #: number of placed replicas of each template
    evicted: list[int] = []  #: pods that the replicas evict, where that is allowed
    #: the decision about the first replica that does not fit; live, see `kplan.subjects.sequence`; None when all fit
    stop: CycleResult | None = None
    stopped_template: int | None = None  #: the template of that replica
    exhausted_template: int | None = None  #: the template whose last distinct replica fits, which ends the count
    n_before: int = 0  #: how many pods there were before the replicas
    stopped_group: StoppedGroup | None = None  #: the group of the replica that does not fit
    domains: list[tuple[int, str]] = []  #: template and value of the topology key of placed groups, in order

    @property
    def total(self) -> int:
        """Number of placed replicas of all templates."""
        return sum(self.counts)
