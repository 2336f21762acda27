"""The types of the planner's parameters, by name: each name means the same for every method.

What is not here has a reader of its own: pods, manifests and templates.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec

from kplan.changes.values import DrainOptions
from kplan.course.answers.plan import PickledAsQuestion
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
    """Return a method that reads its arguments by their types, and raises UsageError with all problems.

    An answer that cannot travel itself travels as its question.
    """
    return noting_question(checked_by(Parameters)(method))


def noting_question(method: Callable[P, R]) -> Callable[P, R]:
    """Return a method whose answers know by which call they came about."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        arguments = signature.bind(*args, **kwargs).arguments
        # What can be read once only is needed again.
        arguments |= {name: list(value) for name, value in arguments.items() if isinstance(value, Iterator)}
        planner = arguments.pop("self")
        answer = method(planner, **arguments)
        if isinstance(answer, PickledAsQuestion):
            needed = {name: _copied(value) for name, value in arguments.items() if not callable(value)}
            answer.note_question(planner, method.__name__, needed)
        return answer

    return call


def _copied(value: Any) -> Any:
    """Return a value that stays as it is when its owner goes on to change lists and objects."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value
