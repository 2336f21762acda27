"""The options of a node upgrade with a clock: how many nodes at a time, and how long a drain is waited for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec
import typer

from kplan.cli.answer import showing_of
from kplan.cli.flags import OutputFlags, VerbosityFlags
from kplan.cli.help import MORE
from kplan.cli.phases import counted
from kplan.cli.timeline import TimelineFlags, seconds_of, timed_report
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.base import Condition
    from kplan.documents.plan import PlanReport
    from kplan.effects.subject import Subject
    from kplan.simulation.draining import DrainOptions
    from kplan.simulation.node_upgrade import Upgrade

Way = Literal["together", "rolling", "replace"]
"""How nodes are emptied."""

ASSUMED_NODE_START = 90.0
"""Seconds until a new node takes pods, where nobody says."""

_MOST_SURGE = 1000


class Profile(StrEnum):
    """How the node pools of a cloud are upgraded by default."""

    GKE = "gke"
    EKS = "eks"
    AKS = "aks"


class _Defaults(msgspec.Struct, frozen=True):
    surge: int
    max_unavailable: int
    timeout: float
    is_forced: bool


_DEFAULTS: Mapping[Profile, _Defaults] = {
    # Surge upgrades: maxSurge 1, maxUnavailable 0; budgets and grace periods are respected for up to an hour.
    Profile.GKE: _Defaults(1, 0, 3600.0, is_forced=True),
    # Managed node groups: maxUnavailable 1, new nodes first; after 15 minutes PodEvictionFailure ends the update.
    Profile.EKS: _Defaults(1, 0, 900.0, is_forced=False),
    # maxSurge 10 % of a pool, at least one node; the drain timeout of 30 minutes ends the upgrade.
    Profile.AKS: _Defaults(1, 0, 1800.0, is_forced=False),
}
_AKS_SURGE_PERCENT = 10


@dataclass(frozen=True)
class UpgradeFlags:
    """Options about upgrades of nodes, with --timeline."""

    panel: ClassVar[str] = "Time"

    surge: Annotated[
        int | None,
        typer.Option(
            "--surge",
            metavar="N",
            min=0,
            max=_MOST_SURGE,
            help="With --replace: N more nodes like the first join before, and so many are drained at a time.",
            rich_help_panel=MORE,
        ),
    ] = None
    max_unavailable: Annotated[
        int | None,
        typer.Option(
            "--max-unavailable",
            metavar="N",
            min=0,
            help="With --rolling or --replace: N (more) nodes are drained at a time.",
            rich_help_panel=MORE,
        ),
    ] = None
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="Give a drain up after so long, as kubectl does.",
            rich_help_panel=MORE,
        ),
    ] = ""
    node_start: Annotated[
        str,
        typer.Option(
            "--node-start",
            metavar="DURATION",
            help=f"How long a new node takes until it takes pods (default: {ASSUMED_NODE_START:g}s).",
            rich_help_panel=MORE,
        ),
    ] = ""
    profile: Annotated[
        Profile | None,
        typer.Option(
            "--profile",
            help="Upgrade a node pool as this cloud does by default; implies --replace.",
            rich_help_panel=MORE,
        ),
    ] = None

    def check(self, *, has_clock: bool, rolling: bool, replace: bool) -> None:
        """Raise UsageError for an option that means nothing without another."""
        numbers = {"--surge": self.surge, "--max-unavailable": self.max_unavailable}
        options = {**numbers, "--timeout": self.timeout, "--node-start": self.node_start, "--profile": self.profile}
        for name, value in options.items():
            if value not in (None, "") and not has_clock:
                raise UsageError(f"{name} needs --timeline", hint=f"add --timeline, or leave {name} out")
        upgrades = rolling or replace
        for name in ("--surge", "--max-unavailable", "--node-start"):
            if options[name] not in (None, "") and not upgrades:
                raise UsageError(f"{name} needs --rolling or --replace", hint=f"add --replace, or leave {name} out")
        if self.surge and not replace:
            raise UsageError("--surge needs --replace", hint="nodes that are not replaced have no others beside them")

    @property
    def seconds(self) -> float:
        """How long a drain is waited for."""
        if self.timeout:
            return seconds_of(self.timeout, "--timeout") or math.inf
        return math.inf if self.profile is None else _DEFAULTS[self.profile].timeout

    def n_surge(self, n_nodes: int) -> int:
        """Return how many further nodes join."""
        if self.surge is not None:
            return self.surge
        if self.profile is Profile.AKS:
            return max(-(-n_nodes * _AKS_SURGE_PERCENT // 100), 1)
        return 0 if self.profile is None else _DEFAULTS[self.profile].surge

    def upgrade(self, surge: Sequence[str], *, replace: bool) -> Upgrade:
        """Return how the nodes are upgraded; `surge` names the further nodes."""
        from kplan.simulation.node_upgrade import Upgrade

        defaults = None if self.profile is None else _DEFAULTS[self.profile]
        unavailable = self.max_unavailable
        if unavailable is None:
            unavailable = 0 if defaults is None else defaults.max_unavailable
        return Upgrade(
            is_replaced=replace,
            surge=surge,
            max_unavailable=unavailable,
            node_start=seconds_of(self.node_start, "--node-start") if self.node_start else ASSUMED_NODE_START,
            timeout=self.seconds,
            is_forced=defaults is not None and defaults.is_forced,
        )

    def with_surge(self, planner: Base, nodes: Sequence[str]) -> tuple[Base, list[str]]:
        """Return a planner with the further nodes, and their names."""
        n = self.n_surge(len(nodes))
        if not n or not nodes:
            return planner, []
        from kplan.effects.what_if import changed_as

        before = set(planner.world.node_by_name)
        larger = changed_as(planner, add_nodes=[f"{n}={nodes[0]}"])
        return larger, [name for name in larger.world.node_by_name if name not in before]


def timed_drain(
    question: Subject,
    nodes: Sequence[str],
    options: DrainOptions,
    way: Way,
    *,
    time: TimelineFlags,
    flags: UpgradeFlags,
    output: OutputFlags,
    fail_on: Sequence[Condition],
    verbosity: VerbosityFlags,
) -> PlanReport:
    """Return the report about a drain, or an upgrade, with a clock."""
    from kplan.effects.decisions import Decisions
    from kplan.effects.timeline import Drained, carry_out_in_time

    planner, surge = question.base, list[str]()
    if way == "replace":
        on_progress = planner.on_progress
        planner, surge = flags.with_surge(planner, nodes)
        planner.on_progress = on_progress
    upgrade = None if way == "together" else flags.upgrade(surge, replace=way == "replace")
    decisions = Decisions.of(showing_of(output, fail_on), {})
    with counted("draining nodes", planner, quiet=verbosity.quiet):
        plan = carry_out_in_time(
            planner,
            [Drained(0.0, nodes, options, flags.seconds, upgrade)],
            time.durations(planner),
            until=time.look,
            runs_for=time.schedule_seconds,
            decisions=decisions,
        )
    return timed_report(
        planner, plan, "drain", time, output=output, fail_on=fail_on, decisions=decisions, quiet=verbosity.quiet
    )
