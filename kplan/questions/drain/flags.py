"""The options of a node upgrade with a clock: how many nodes at a time, and how long a drain is waited for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from kplan.cli.help import MORE
from kplan.cli.options import flag, options
from kplan.cli.timeline import seconds_of
from kplan.questions.drain.profiles import MOST_SURGE

Profile = StrEnum("Profile", {"GKE": "gke", "EKS": "eks", "AKS": "aks"})
"""How the node pools of a cloud are upgraded by default."""


@options
class UpgradeFlags:
    """Options about upgrades of nodes, with --timeline."""

    panel: ClassVar[str] = "Time"

    surge: int | None = flag(
        "--surge N",
        "With --replace: N more nodes like the first join before, and so many are drained at a time.",
        default=None,
        panel=MORE,
        min=0,
        max=MOST_SURGE,
    )
    max_unavailable: int | None = flag(
        "--max-unavailable N",
        "With --rolling or --replace: N (more) nodes are drained at a time.",
        default=None,
        panel=MORE,
        min=0,
    )
    timeout: str = flag("--timeout DURATION", "Give a drain up after so long, as kubectl does.", panel=MORE)
    profile: Profile | None = flag(
        "--profile", "Upgrade a node pool as this cloud does by default; implies --replace.", default=None, panel=MORE
    )

    def fields(self) -> dict[str, Any]:
        """Return the fields of a drain that the options set."""
        return {
            "surge": self.surge,
            "max_unavailable": self.max_unavailable,
            "timeout": seconds_of(self.timeout, "--timeout") if self.timeout else None,
            "profile": None if self.profile is None else self.profile.value,
        }
