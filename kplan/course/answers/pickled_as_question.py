"""Answers that hold a cluster in motion, which no pickle can hold: their copies ask the question again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex


class PickledAsQuestion:
    """An answer whose pickle is its question: the planner, the method and the arguments.

    No answer depends on what was asked before, so that the copy's is the same; it takes as long as the first.
    """

    _call: tuple[object, str, Mapping[str, Any]] | None = None

    def note_question(self, planner: object, method: str, arguments: Mapping[str, Any]) -> None:
        """Note by which call the answer came about."""
        self.__dict__["_call"] = planner, method, arguments  # answers are frozen

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return super().__reduce_ex__(protocol) if self._call is None else (_ask, self._call)


def _ask(planner: object, method: str, arguments: Mapping[str, Any]) -> Any:
    return getattr(planner, method)(**arguments)
