"""The options of a node upgrade with a clock: how many nodes at a time, and how long a drain is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import typer

from kplan.cli.help import MORE
from kplan.cli.timeline import seconds_of
from kplan.questions.drain.upgrades import MOST_SURGE


class Profile(StrEnum):
    """How the node pools of a cloud are upgraded by default."""

    GKE = "gke"
    EKS = "eks"
    AKS = "aks"


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
            max=MOST_SURGE,
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
    profile: Annotated[
        Profile | None,
        typer.Option(
            "--profile",
            help="Upgrade a node pool as this cloud does by default; implies --replace.",
            rich_help_panel=MORE,
        ),
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of a drain that the options set."""
        return {
            "surge": self.surge,
            "max_unavailable": self.max_unavailable,
            "timeout": seconds_of(self.timeout, "--timeout") if self.timeout else None,
            "profile": None if self.profile is None else self.profile.value,
        }
