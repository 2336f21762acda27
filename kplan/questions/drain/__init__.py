"""The questions about nodes that are drained or lost: what happens to their pods, in turn, and in which order."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import msgspec

from kplan.api.labels import ZONE
from kplan.api.names import choice_hint
from kplan.api.quantity import enumerated
from kplan.changes.values import DrainOptions
from kplan.course.asking import PLAIN, Showing
from kplan.course.clock import Clock, Seconds
from kplan.errors import ParameterError, UsageError
from kplan.questions.base import Question, change_of, drawn_change
from kplan.reading.arguments import Number, Option, seconds_of

if TYPE_CHECKING:
    from kplan.changes.values import Upgrade
    from kplan.cluster.base import Base
    from kplan.course.odds.runs import Drawn
    from kplan.course.subject import Subject
    from kplan.course.task import Task
    from kplan.documents.drains import DrainsReport, RunbookReport
    from kplan.documents.plan import PlanReport
How = Literal["together", "one-by-one", "rolling", "replace", "lost"]
"""How nodes are emptied: as ``kubectl drain`` does it, one pod at a time, one node after another and back or replaced,
or not at all, as they fail."""

Cloud = Literal["gke", "eks", "aks"]  #: the cloud whose node pools are upgraded

MOST_SURGE = 1000


class UpgradeDefaults(msgspec.Struct, frozen=True):
    """How a cloud upgrades the nodes of a pool unless it is told otherwise."""

    surge: int = 0
    surge_percent: int = 0  #: of the nodes, rounded up; the larger of both counts
    surge_per_zone: int = 0  #: in place of both
    max_unavailable: int = 0
    timeout: float = math.inf
    more: Mapping[str, Any] = {}  #: further fields of the upgrade


UPGRADE_DEFAULTS: Mapping[Cloud | None, UpgradeDefaults] = {
    None: UpgradeDefaults(),
    # Surge upgrades: maxSurge 1, maxUnavailable 0. Budgets and grace periods are respected for up to an hour, then pods
    # are deleted. A surge node takes the place of the node that was drained.
    # https://cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies
    "gke": UpgradeDefaults(surge=1, timeout=3600.0, more={"is_forced": True, "keeps_surge": True}),
    # Managed node groups, by default: up to two new nodes in each zone come first, and all old ones are tainted. Then
    # maxUnavailable nodes at a time are drained, 1 by default; after 15 minutes PodEvictionFailure ends the update. An
    # empty node is terminated after 60 seconds, and the next one follows.
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
    "eks": UpgradeDefaults(
        surge_per_zone=2,
        max_unavailable=1,
        timeout=900.0,
        more={"cordons_all": True, "pause": 60.0, "waits_for_nodes": False},
    ),
    # maxSurge 10 %, rounded up, maxUnavailable 0, no soak time. A node that is not drained within 30 minutes takes pods
    # again (undrainableNodeBehavior Schedule), and the upgrade fails. The surge nodes are removed in the end.
    # https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling
    "aks": UpgradeDefaults(surge=1, surge_percent=10, timeout=1800.0, more={"uncordons_failed": True}),
}

_CLOCK, _REPLACE, _NODE_BY_NODE = "{timeline}", "{replace}", "{rolling} or {replace}"
_NEEDS = {
    "timeout": (_CLOCK,),
    "surge": (_CLOCK, _REPLACE),
    "max_unavailable": (_CLOCK, _NODE_BY_NODE),
    "profile": (_CLOCK, _REPLACE),
}
"""Parameter -> what it needs."""

_CLOCK_CLASHES = ("one_by_one",)
_CLASHES = dict.fromkeys(("surge", "max_unavailable", "profile"), ("one_by_one", "lost"))
"""Parameter -> the ways to empty nodes that it does not go with; others go with the clock that they need."""


def refuse_none(nodes: Collection[str], hint: str = "name one") -> None:
    """Raise UsageError where no node is named that is to be drained."""
    if not nodes:
        raise UsageError("no node to drain", hint=hint)


def _named(parameters: Sequence[str]) -> str:
    return enumerated([f"{{{name}}}" for name in parameters])


def _timeout(text: str) -> float:
    return seconds_of(text, "--timeout")


class Drain(Question, frozen=True):
    """Asks what happens to the pods of these nodes, and which disruption budgets block it.

    Attributes
    ----------
    nodes : names of nodes
    how : ``together``, as ``kubectl drain`` does it; ``one-by-one``: one pod at a time; ``rolling``: one node after
        another, each uncordoned when it is empty; ``replace``: one node after another, each replaced by an empty one
        like it; ``lost``: the nodes fail at once
    options : the flags of ``kubectl drain``
    timeline : a clock, so that the answer says when everything happens
    timeout : give a drain up after so long, as kubectl does; 0 for never
    surge : with --replace: N more nodes like the first join, and so many are drained at a time
    max_unavailable : with --rolling or --replace: N (more) nodes are drained at a time
    profile : upgrade a node pool as this cloud does by default; implies --replace
    """

    command: ClassVar[Literal["drain"]] = "drain"

    nodes: tuple[str, ...]
    how: How = "together"
    options: DrainOptions = DrainOptions()
    timeline: Clock | None = None
    timeout: Annotated[Seconds | None, Option("DURATION", read=_timeout, more=True)] = None
    surge: Annotated[Annotated[int, msgspec.Meta(ge=0, le=MOST_SURGE)] | None, Option("N", more=True)] = None
    max_unavailable: Annotated[Number | None, Option("N", more=True)] = None
    profile: Annotated[Cloud | None, Option(more=True)] = None

    def check(self, also: Sequence[str] = ()) -> None:
        """Raise UsageError for an unknown way to empty nodes, ParameterError for parameters that do not go together.

        `also` are further parameters that need a clock.
        """
        if self.how not in (ways := get_args(How)):
            raise UsageError(f"how: {self.how!r} is not a way to empty nodes", hint=choice_hint(str(self.how), ways))
        if self.timeline is not None and self.how == "one-by-one":
            hint = "with a clock, kubectl drain's own order decides; leave one of them out"
            raise ParameterError("{timeline} and {one_by_one} do not go together", hint=hint)
        names = [*(name for name in _NEEDS if getattr(self, name) is not None), *also]
        way = self.how.replace("-", "_")
        clashing = [name for name in names if way in _CLASHES.get(name, _CLOCK_CLASHES)]
        missing = {name: self._missing(name) for name in names if name not in clashing}
        does = "do" if len(clashing) > 1 else "does"
        problems = [f"{_named(clashing)} {does} not go with {{{way}}}"] if clashing else []
        for needs in dict.fromkeys(filter(None, missing.values())):
            needing = [name for name, others in missing.items() if others == needs]
            problems.append(f"{_named(needing)} {'need' if len(needing) > 1 else 'needs'} {enumerated(needs)}")
        if problems:
            short = [name for name, needs in missing.items() if needs]
            adds = {_REPLACE if need == _NODE_BY_NODE else need: None for name in short for need in missing[name]}
            hints = [f"add {enumerated([*adds])}, or leave {_named(short)} out"] if adds else []
            hints += [f"leave {_named(clashing)} out, or {{{way}}}"] if clashing else []
            raise ParameterError("; ".join(problems), hint="; ".join(hints))

    def _missing(self, name: str) -> tuple[str, ...]:
        has = {_CLOCK: self.timeline is not None, _REPLACE: self.how == "replace"}
        has[_NODE_BY_NODE] = self.how in ("rolling", "replace")
        return tuple(need for need in _NEEDS.get(name, (_CLOCK,)) if not has[need])

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PlanReport:
        self.check()
        refuse_none(self.nodes)
        if self.how == "lost":  # nothing is evicted
            unset, own = DrainOptions(), self.options
            moot = [name for name in unset.__struct_fields__ if getattr(own, name) is not getattr(unset, name)]
            for name in (*moot, *(["timeout"] if self.timeout is not None else [])):
                showing.tell_no_effect(name, "a node that is lost is not drained")
        if self.timeline is None and self.options.grace_period and self.how != "lost":
            showing.tell_no_effect("grace_period", "without a clock, pods are gone at once")
        return change_of(*self.task(subject.base), showing, brings_nodes=self.how in ("rolling", "replace"))

    def task(self, base: Base) -> tuple[Base, Task]:
        """Return what is carried out, and the cluster with the further nodes of an upgrade."""
        from kplan.changes import values as c
        from kplan.changes.timed import Timed
        from kplan.course.task import Task

        change: c.Change = c.Fail(self.nodes, machine_gone=True)
        if self.how != "lost":
            timeout = UPGRADE_DEFAULTS[self.profile].timeout if self.timeout is None else self.timeout or math.inf
            upgrade = None
            if self.how in ("rolling", "replace"):
                base, surge = self._with_surge(base)
                upgrade = self._upgrade(surge, timeout)
            change = c.Drain(self.nodes, self.options, timeout, upgrade)
        one_by_one, clock = self.how == "one-by-one", self.timeline
        steps = (Timed(0.0, change),)
        return base, Task(steps, clock, one_by_one=one_by_one, command="drain", tells_luck=clock is None)

    def _upgrade(self, surge: Sequence[str], timeout: float) -> Upgrade:
        from kplan.changes.values import Upgrade
        from kplan.course.simulation.durations import ASSUMED_NODE_START, EACH

        defaults = UPGRADE_DEFAULTS[self.profile]
        starts = {} if self.timeline is None else self.timeline.node_start
        unavailable = defaults.max_unavailable if self.max_unavailable is None else self.max_unavailable
        return Upgrade(
            is_replaced=self.how == "replace",
            surge=tuple(surge),
            parallel=max(unavailable if defaults.surge_per_zone else len(surge) + unavailable, 1),
            node_start=starts.get(EACH, ASSUMED_NODE_START.seconds),
            timeout=timeout,
            **defaults.more,
        )

    def _with_surge(self, base: Base) -> tuple[Base, list[str]]:
        """Return the cluster with the further nodes, and their names."""
        like = self._surge_like(base)
        if not like:
            return base, []
        from kplan.changes.values import AddNodes
        from kplan.course.what_if import changed

        before = set(base.objects.node_by_name)
        larger = changed(base, [AddNodes(n, name) for name, n in like.items()])
        larger.on_progress = base.on_progress
        return larger, [name for name in larger.objects.node_by_name if name not in before]

    def _surge_like(self, base: Base) -> dict[str, int]:
        """Return how many further nodes come that are like which one."""
        defaults = UPGRADE_DEFAULTS[self.profile]
        first = next(iter(self.nodes), "")
        if self.surge is not None:
            return {first: self.surge} if self.surge else {}
        if defaults.surge_per_zone:
            by_zone: dict[str, str] = {}
            for name in self.nodes:
                by_zone.setdefault(base.objects.node_by_name[name].metadata.labels.get(ZONE, ""), name)
            fewest = -(-(self.max_unavailable or 0) // len(by_zone))
            return dict.fromkeys(by_zone.values(), max(defaults.surge_per_zone, fewest))
        more = max(defaults.surge, -(-len(self.nodes) * defaults.surge_percent // 100))
        return {first: more} if more else {}

    def drawn(self, subject: Subject) -> tuple[Base, Drawn]:
        self.check()
        return drawn_change(*self.task(subject.base))


def how_of(*, lost: bool = False, one_by_one: bool = False, rolling: bool = False, replace: bool = False) -> How:
    """Return how nodes are emptied; raises ParameterError for two ways."""
    ways: dict[str, How] = {}
    ways |= {"lost": "lost"} if lost else {}
    ways |= {"one_by_one": "one-by-one"} if one_by_one else {}
    ways |= {"rolling": "replace" if replace else "rolling"} if rolling or replace else {}
    if len(ways) > 1:
        number = ("two", "three")[len(ways) - 2]
        raise ParameterError(f"{_named([*ways])} are {number} ways to empty nodes", hint="choose one of them")
    return next(iter(ways.values()), "together")


class InTurn(Question, frozen=True):
    """Asks whether each node can be drained alone; with a clock, how long each drain takes, too.

    Attributes
    ----------
    question : a drain; without nodes it is about all
    by : ``node``; or a label, ``zone`` or ``pool``, whose nodes of one value are drained together
    """

    question: Drain = Drain(nodes=())
    by: str = "node"

    def check(self, also: Sequence[str] = ()) -> None:
        """Raise ParameterError for a drain that is not asked in turn; parameters as for `Drain.check`."""
        if self.question.how in ("rolling", "replace"):
            other = "{rolling} or {replace}" if self.question.profile is None else "{profile}"
            raise ParameterError(f"{{each}} does not go with {other}", hint="leave one of them out")
        self.question.check(also)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> DrainsReport:
        from kplan.course.carry_out import check_nodes
        from kplan.questions.drain.in_turn import drains_report, label_of, together

        self.check()
        base = subject.base
        nodes = self.question.nodes or tuple(sorted(base.objects.node_by_name))
        refuse_none(nodes)
        check_nodes(base, nodes)
        label = None if self.by == "node" else label_of(base, self.by)
        return drains_report(base, together(base, nodes, label), self.question, showing, label)


class Runbook(Question, frozen=True):
    """Asks in which order nodes drain safely, and what has to be changed before.

    Attributes
    ----------
    nodes : names of nodes
    rolling : uncordon each node when it is empty; else all are cordoned first and stay so
    options : the flags of ``kubectl drain``
    timeline : a clock, so that the answer says how long each drain takes
    timeout : give a drain up after so long, as kubectl does; 0 for never
    """

    nodes: tuple[str, ...]
    rolling: bool = False
    options: DrainOptions = DrainOptions()
    timeline: Clock | None = None
    timeout: Seconds | None = None

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> RunbookReport:
        from kplan.questions.drain.runbook import runbook_report

        refuse_none(self.nodes)
        return runbook_report(subject.base, self, showing)
