"""The types of the planner's parameters, by name: each name means the same for every method.

What is not here has a reader of its own: pods, manifests and templates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec

from kplan.changes.values import DrainOptions
from kplan.course.clock import Seconds, SecondsOf
from kplan.documents.base import Condition
from kplan.questions.base import RolloutMode
from kplan.reading.arguments import Number, Positive, Runs, Seed, checked_by


class Parameters(msgspec.Struct, omit_defaults=True):
    """The types of parameters; None stands for their default where it is no value of its own."""

    add_nodes: tuple[str, ...] = ()
    ask_all: Callable[..., Any] | None = None
    by: str = ""
    changes: tuple[dict[str, Any], ...] = ()
    cordon: tuple[str, ...] = ()
    fail_on: tuple[Condition, ...] = ()
    full: bool = False
    limit: Positive = 1
    loops: tuple[Seconds, ...] | None = None
    lost: bool = False
    max_rounds: Positive = 1
    mix: tuple[Positive, ...] = ()
    names: tuple[str, ...] = ()
    namespace: str = ""
    nodes: tuple[str, ...] = ()
    one_by_one: bool = False
    only: tuple[str, ...] = ()
    options: DrainOptions = DrainOptions()
    preempt: bool = False
    progress: Callable[..., Any] | None = None
    recommendations: tuple[str, ...] = ()
    recreate: bool = False
    replace: bool = False
    rolling: bool = False
    rollout: RolloutMode = "auto"
    run: SecondsOf = {}
    run_cron_jobs: bool = False
    runs: Runs = 1
    scale: tuple[str, ...] = ()
    seed: Seed = 0
    settle: bool = False
    settle_preemption: bool = False
    shapes: str = ""
    start: SecondsOf = {}
    stop: SecondsOf = {}
    uncordon: tuple[str, ...] = ()
    until: Seconds = 0.0
    validate: Literal["strict", "warn", "ignore"] = "strict"
    wanted: Number = 0
    waves: tuple[tuple[str, ...], ...] = ()
    with_: tuple[str | dict[str, Any], ...] = ()
    with_pending: bool = False
    without: tuple[str, ...] = ()


P = ParamSpec("P")
R = TypeVar("R")


def checked(method: Callable[P, R]) -> Callable[P, R]:
    """Return a method that reads its arguments by their types, and raises UsageError with all problems."""
    return checked_by(Parameters)(method)
