"""Plugins of other people: whatever goes wrong in one is an error that names it, and what it returns is checked.

Plugins of kplan are trusted, and run without these checks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from kplan.config.wire import EXTENSION_POINTS
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.errors import KplanError
from kplan.framework.interface import CycleState

PluginLike = TypeVar("PluginLike")
_SCORES = ("normalize_score", "final_score", "constant_score", "score_details")
_METHODS = (*EXTENSION_POINTS, "__init__", "sort_key", "unreserve", "reads", *_SCORES)


def guarded(plugin: PluginLike) -> PluginLike:
    """Return a subclass of a plugin whose methods raise KplanError instead of anything else.

    A factory that is no class is returned as it is.
    """
    if not isinstance(plugin, type):
        return plugin
    name = getattr(plugin, "name", plugin.__name__)
    methods = {method: _guard(name, method, getattr(plugin, method)) for method in _METHODS if hasattr(plugin, method)}
    if _depth(plugin, "final_score") > min(_depth(plugin, "score"), _depth(plugin, "normalize_score")) >= 0:
        methods["final_score"] = _score_in_two_steps  # the inherited one knows nothing of the plugin's own scores
    return cast("PluginLike", type(plugin.__name__, (plugin,), {**methods, "is_out_of_tree": True}))


def _depth(plugin: type, method: str) -> int:
    """Return how far above a class the one is that defines a method; -1 where none does."""
    return next((depth for depth, base in enumerate(plugin.__mro__) if method in vars(base)), -1)


def _score_in_two_steps(plugin: Any, cycle: CycleState, nodes: NodeView) -> Any:
    return plugin.normalize_score(cycle, plugin.score(cycle, nodes))


def _guard(plugin: str, method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            result = function(*args, **options)
        except KplanError:
            raise
        except Exception as error:
            cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise KplanError(
                f"plugin {plugin} failed in {method}: {cause}",
                hint="this is the plugin's own error; in Python, its traceback appears above this one",
            ) from error
        if problem := _problem(method, result, args):
            raise KplanError(f"plugin {plugin}: {method} returned {problem}", hint="docs/plugins.md has the rules")
        return result

    return call


def _problem(method: str, result: Any, args: tuple[Any, ...]) -> str:
    """Return what is wrong with what a method returned; empty if it is of the right kind."""
    if method == "filter" and not isinstance(result, Verdicts):
        return f"{type(result).__name__}, expected Verdicts"
    if method == "filter" and not result.reasons and result.bits.any():
        return "rejections without a reason"
    if method not in ("score", "normalize_score", "final_score"):
        return ""
    n_wanted = len(args[2])  # the view, or the raw scores
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "iu":
        kind = f"an array of {result.dtype}" if isinstance(result, np.ndarray) else type(result).__name__
        return f"{kind}, expected an array of integers"
    return "" if result.shape == (n_wanted,) else f"{result.shape} scores, expected {n_wanted}: one for each node"
