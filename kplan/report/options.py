"""How much a report tells, and for what it is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TOP = 5
DEFAULT_WIDTH = 100


class OutputFormat(StrEnum):
    """The formats of a report; each is written in `kplan.report.registry`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    NAME = "name"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What the flags of the command line ask of a report.

    Attributes
    ----------
    top : how many nodes of each kind are shown; None for all
    explain : tell per node every plugin that fails or scores
    is_wide : every plugin's score in a column, and where the answer comes from
    width : of text, in characters
    has_colour : text may hold a terminal's control sequences
    ties : which of equal best nodes was taken, as the document says; empty where it does not
    """

    top: int | None = DEFAULT_TOP
    explain: bool = False
    is_wide: bool = False
    width: int = DEFAULT_WIDTH
    has_colour: bool = False
    ties: str = ""
