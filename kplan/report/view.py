"""What a kind of document tells, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kplan.report.blocks import Block
from kplan.report.cases import Case
from kplan.report.options import ReportOptions

__all__ = ["View"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """How a kind of document is told.

    Attributes
    ----------
    title : the document in one line
    blocks : for people
    cases : for programs that show what went wrong
    names : a line for each thing decided, for scripts
    """

    title: Callable[[Document], str]
    blocks: Callable[[Document, ReportOptions], Iterable[Block]]
    cases: Callable[[Document, ReportOptions], Iterable[Case]]
    names: Callable[[Document], Iterable[str]]
