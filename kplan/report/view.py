"""What a kind of document tells, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kplan.documents.base import Report
from kplan.report.blocks import Block
from kplan.report.cases import Case
from kplan.report.options import ReportOptions

R = TypeVar("R", bound=Report)


@dataclass(frozen=True, slots=True)
class View(Generic[R]):
    """How a kind of document is told.

    Attributes
    ----------
    title : the document in one line
    blocks : for people
    cases : for programs that show what went wrong
    names : a line for each thing decided, for scripts
    """

    title: Callable[[R], str]
    blocks: Callable[[R, ReportOptions], Iterable[Block]]
    cases: Callable[[R, ReportOptions], Iterable[Case]]
    names: Callable[[R], Iterable[str]]
