"""The types of numbers in questions, with their bounds: the same in documents, in Python and for methods."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kplan.cluster.limits import MOST_RUNS

_MOST = 2**63 - 1

Number = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
"""How many there are."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
"""How many there are, where there has to be one."""

Runs = Annotated[int, msgspec.Meta(ge=1, le=MOST_RUNS)]
"""How many times a question is asked with other draws."""

Seed = Annotated[int, msgspec.Meta(ge=-_MOST - 1, le=_MOST)]
"""Of draws: the same seed gives the same answer."""


class PlannerSettings(msgspec.Struct):
    """The types of the settings of a planner; None stands for their default."""

    feature_gates: dict[str, bool] = {}
    kubernetes: str = ""
    now: str = ""
    sampling: Literal["all", "as-configured"] = "all"
    seed: Seed = 0
    start_index: Number = 0
    ties: Literal["scheduler", "name", "even"] = "scheduler"
