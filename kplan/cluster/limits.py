"""The numbers of questions.

Their bounds and types, the same in documents, on the command line and in Python, and their defaults.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

DEFAULT_MAX_ROUNDS: Final = 10
"""Rounds over the pods that the scheduling queue leaves pending."""

DEFAULT_RUNS: Final = 500
"""Runs with random draws from which odds are computed."""

DEFAULT_SEED: Final = 7
"""Seed of these draws."""

DEFAULT_HEADROOM: Final = 1_000
"""The number of further replicas of a workload at which headroom stops counting."""

MOST_EXPLAINED: Final = 4_000
"""Pods that are explained at once."""

MOST_VERDICTS: Final = 1_000_000
"""Pods times nodes that are explained at once: every explanation holds the verdicts on all nodes."""

MOST_RUNS: Final = 1_000_000
"""Runs with random draws at most: more make the shares no more precise, and take days."""

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
