"""The questions of `kplan capacity`, and the options that go with each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, TypedDict

import msgspec
import typer
from msgspec.structs import replace

from kplan.api.references import WorkloadRef
from kplan.cli.flags import VerbosityFlags
from kplan.cli.help import MORE, OPTIONS
from kplan.cli.no_effect import tell_no_effect
from kplan.cli.phases import busy
from kplan.cli.sweeping import SweepFlags
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.answers.placement import NodesShown
    from kplan.capacity.counting import Template
    from kplan.cluster.base import Base
    from kplan.documents.base import Condition, Report
    from kplan.workloads.manifests import Manifests


@dataclass(frozen=True)
class OtherQuestions:
    """Options that ask another question about room instead of the plain count."""

    panel: ClassVar[str] = OPTIONS

    headroom: Annotated[
        bool,
        typer.Option(
            "--headroom",
            help="How many more replicas of each workload fit, each on its own; without FILE: all workloads.",
        ),
    ] = False
    all_namespaces: Annotated[
        bool,
        typer.Option(
            "--all-namespaces",
            "-A",
            help="With --headroom: workloads of all namespaces (default without --namespace).",
            rich_help_panel=MORE,
        ),
    ] = False
    lose: Annotated[
        int | None,
        typer.Option(
            "--lose",
            metavar="N",
            min=1,
            help="How many replicas fit so that all of them still find a place when any N nodes are lost.",
            show_default=False,
        ),
    ] = None
    zones: Annotated[bool, typer.Option("--zones", help="Lose zones instead of nodes: N with --lose N, else one.")] = (
        False
    )
    shapes: Annotated[
        str,
        typer.Option(
            "--shapes",
            metavar="FILE",
            help="List of node shapes with prices: find the cheapest nodes to add if fewer than --replicas fit.",
        ),
    ] = ""

    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink",
            help="Find as many nodes as possible that can be drained, with every pod placed and every budget kept.",
        ),
    ] = False
    force: Annotated[
        bool, typer.Option("--force", help="With --shrink: also evict pods without a controller.", rich_help_panel=MORE)
    ] = False
    delete_emptydir_data: Annotated[
        bool,
        typer.Option(
            "--delete-emptydir-data", help="With --shrink: also evict pods with emptyDir volumes.", rich_help_panel=MORE
        ),
    ] = False

    @property
    def option(self) -> str:
        """The option of the question; empty for the plain count."""
        chosen = [option for option, is_on in self._questions().items() if is_on]
        if len(chosen) > 1:
            raise UsageError(f"{chosen[0]} and {chosen[1]} are two questions", hint="ask them one at a time")
        return chosen[0] if chosen else ""

    def _questions(self) -> Mapping[str, bool]:
        return {
            "--headroom": self.headroom,
            "--lose" if self.lose else "--zones": bool(self.lose) or self.zones,
            "--shapes": bool(self.shapes),
            "--shrink": self.shrink,
        }

    @property
    def may_ask_without_manifests(self) -> bool:
        """Whether the question can be about workloads of the cluster."""
        return self.headroom or self.shrink

    def refuse(self, arguments: Mapping[str, bool]) -> None:
        """Raise UsageError for options that the question does not use."""
        option = self.option
        if self.all_namespaces and not self.headroom:
            raise UsageError("--all-namespaces is for --headroom", hint="add --headroom, or leave it out")
        for name, is_on in {"--force": self.force, "--delete-emptydir-data": self.delete_emptydir_data}.items():
            if is_on and not self.shrink:
                raise UsageError(f"{name} is for --shrink", hint="add --shrink, or leave it out")
        for name, is_set in arguments.items():
            if is_set and name in _INCOMPATIBLE.get(option, ()):
                raise UsageError(f"{name} does not go with {option}", hint="leave one of them out")


_INCOMPATIBLE: Mapping[str, frozenset[str]] = {
    "--headroom": frozenset({"--mix", "--preempt"}),
    "--lose": frozenset({"--preempt"}),
    "--zones": frozenset({"--preempt"}),
    "--shapes": frozenset({"--preempt", "--max"}),
    "--shrink": frozenset({"FILE", "--replicas", "--mix", "--preempt", "--max"}),
}
"""Options that a question does not use."""


class Limits(TypedDict):
    """Where a count stops: the wanted number, and the limit."""

    wanted: int | None
    limit: int | None


class CapacityQuestions(msgspec.Struct, frozen=True):
    """The questions about room, with what they have in common."""

    planner: Base
    manifests: Manifests | None  #: one replica of each workload; None without manifests
    workloads: Sequence[str]  #: workloads of the cluster, as KIND/NAMESPACE/NAME
    limits: Limits
    fail_on: Sequence[Condition] | None  #: None for the question's default
    shown: NodesShown  #: nodes to show
    with_map: bool  #: show every node without and with the replicas
    verbosity: VerbosityFlags

    def count(self, shares: Sequence[int], other: OtherQuestions, *, preempt: bool) -> Report:
        """Count the replicas that fit, of all workloads in turn; with --lose and --zones those that survive a loss.

        Those of manifests come first.
        """
        from kplan.capacity.fitting import capacity_of
        from kplan.capacity.templates import templates_of

        planner = self.planner
        templates: list[Template] = []
        if self.manifests is not None:
            n_of_manifests = len(self.manifests.pods) if self.workloads else len(shares)
            counted = templates_of(
                self.manifests,
                planner.snapshot,
                shares=shares[:n_of_manifests],
                minor=planner.release.number,
                **self.limits,
            )
            planner = planner.with_world(planner.snapshot, counted.objects, counted.warnings)
            templates += counted.templates
        if self.workloads:
            planner, own = self._own_templates(planner, shares[len(templates) :])
            templates += own
        words = "trying {:,}" if other.lose or other.zones else "{:,} fit so far"
        with busy("counting replicas", quiet=self.verbosity.quiet) as tell:
            answer = capacity_of(
                planner,
                templates,
                preempt=preempt,
                lose=other.lose,
                zones=other.zones,
                shapes=other.shapes or None,
                progress=lambda n: tell(words.format(n)),
                **self.limits,
            )
        has_map = self.with_map and not (other.lose or other.zones)
        before = planner.session.cluster if has_map else None
        document = answer.report(fail_on=self.fail_on, nodes=self.shown, before=before)
        if other.shapes and document.stop and not document.offers and not self.verbosity.quiet:
            tell_no_effect("--shapes", "more nodes would not help with what stops the next replica")
        return document

    def _own_templates(self, planner: Base, shares: Sequence[int]) -> tuple[Base, list[Template]]:
        """Return the templates of workloads of the cluster, and a planner with the claims of their replicas."""
        from kplan.capacity.own_workloads import next_replicas
        from kplan.capacity.templates import most_replicas

        if shares and len(shares) != len(self.workloads):
            hint = "give one number for each workload, in the order of the arguments"
            raise UsageError("--mix needs as many numbers as there are workloads", hint=hint)
        most = most_replicas(planner.snapshot, **self.limits)
        templates = []
        for key, share in zip(self.workloads, shares or [1] * len(self.workloads), strict=True):
            template, claims = next_replicas(planner, key, most)
            name = WorkloadRef.parse(key).path
            is_unique = [other.endswith(f"/{name}") for other in self.workloads].count(True) == 1
            templates.append(replace(template, name=name if is_unique else key, share=share))
            planner = planner.with_additions(claims) if claims else planner
        return planner, templates

    def headroom(self, sweeping: SweepFlags, namespace: str) -> Report:
        """Count how many more replicas of each workload fit; without workloads of all in a namespace, empty for any."""
        from kplan.capacity.headroom import base_of_manifests, headroom_report

        planner, templates = self.planner, None
        if self.manifests is not None:
            planner, templates = base_of_manifests(planner, self.manifests, **self.limits)
        with busy("counting replicas of each workload", quiet=self.verbosity.quiet):
            return headroom_report(
                planner,
                templates,
                among=self.workloads,
                namespace=namespace,
                fail_on=self.fail_on,
                nodes=self.shown,
                ask_all=sweeping.ask_all,
                **self.limits,
            )

    def shrink(self, other: OtherQuestions) -> Report:
        """Search for nodes that are not needed."""
        from kplan.capacity.shrink import shrink_report
        from kplan.simulation.draining import DrainOptions

        options = DrainOptions(force=other.force, delete_emptydir_data=other.delete_emptydir_data)
        with busy("draining nodes, one after another", quiet=self.verbosity.quiet) as tell:
            return shrink_report(
                self.planner,
                options=options,
                fail_on=self.fail_on,
                progress=lambda freed, n_tried: tell(f"{freed:,} can go, {n_tried:,} looked at"),
            )
