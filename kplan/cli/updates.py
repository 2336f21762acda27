"""The option about workloads that run already."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kplan.cli.help import MORE
from kplan.cli.options import option


class RolloutMode(StrEnum):
    """When a workload that runs already rolls out."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


RolloutOption = Annotated[
    RolloutMode,
    option(
        "--rollout",
        "Replace the pods of a workload that runs already: if its template changes, always, or never.",
        panel=MORE,
    ),
]
