"""What the answers to all questions share; those that hold a cluster in motion travel as their question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsIndex

from kplan.documents.base import Condition, Context, Report


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


@dataclass(frozen=True, kw_only=True)
class Answer(ABC):
    """An answer of the planner, from which a report is made."""

    make_context: Callable[[], Context] = field(repr=False, compare=False)  #: called once, for the first report

    @cached_property
    def context(self) -> Context:
        """The cluster, the scheduler and the warnings that reports state besides the answer."""
        return self.make_context()

    @abstractmethod
    def report(self, *, fail_on: Sequence[Condition] | None = None) -> Report:
        """Return the report, complete for all nodes.

        Parameters
        ----------
        fail_on : what makes the verdict a failure; None for the defaults of the command
        """

    def rows(self, of: str = "") -> list[dict[str, Any]]:
        """Return the rows of `report`: see `kplan.documents.base.Report.rows`."""
        return self.report().rows(of)

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def to_dict(self, *, fail_on: Sequence[Condition] | None = None) -> dict[str, Any]:
        """Return the JSON form of `report`."""
        return self.report(fail_on=fail_on).to_dict()
