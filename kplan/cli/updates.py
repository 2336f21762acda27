"""The option about workloads that run already."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kplan.cli.help import MORE


class RolloutMode(StrEnum):
    """When a workload that runs already rolls out."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


RolloutOption = Annotated[
    RolloutMode,
    typer.Option(
        "--rollout",
        help="Replace the pods of a workload that runs already: if its template changes, always, or never.",
        rich_help_panel=MORE,
    ),
]
