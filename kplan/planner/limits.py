"""How far the planner goes unless it is told otherwise."""

from __future__ import annotations

from typing import Final

DEFAULT_MAX_ROUNDS: Final = 10
"""Over what the queue left, before it ends in any case."""

DEFAULT_RUNS: Final = 500
"""Draws from which odds are told."""

DEFAULT_SEED: Final = 7
"""Of these draws."""

DEFAULT_HEADROOM: Final = 1_000
"""More replicas of a workload, up to which headroom is counted."""
