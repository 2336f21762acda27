"""Default limits of questions."""

from __future__ import annotations

from typing import Final

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
