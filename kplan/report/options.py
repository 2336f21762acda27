"""How much a report tells, and for what it is written."""

from __future__ import annotations

from enum import StrEnum

import msgspec

DEFAULT_TOP = 5
DEFAULT_WIDTH = 100


JSONPATH = "jsonpath="
"""What stands before a template in the name of a format."""


class JsonFormat(StrEnum):
    """Formats of which one is JSON, so that ``jsonpath=TEMPLATE`` is one, too."""

    @classmethod
    def _missing_(cls, value: object) -> JsonFormat | None:
        """Take a template; and a format after the ``=`` with which kubectl has it: ``-o=json``."""
        if not isinstance(value, str):
            return None
        if value.startswith("="):
            return cls(value[1:])
        if not value.startswith(JSONPATH):
            return None
        member = str.__new__(cls, value)
        member._name_, member._value_ = "JSONPATH", value
        return member

    @property
    def template(self) -> str | None:
        """The template of JSONPath; None for any other format."""
        return self.value.removeprefix(JSONPATH) if self.value.startswith(JSONPATH) else None


class OutputFormat(JsonFormat):
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


class ReportOptions(msgspec.Struct, frozen=True):
    """What the flags of the command line ask of a report."""

    top: int | None = DEFAULT_TOP  #: how many nodes of each kind are shown; None for all
    explain: bool = False  #: tell per node every plugin that fails or scores
    is_wide: bool = False  #: every plugin's score in a column, and where the answer comes from
    width: int = DEFAULT_WIDTH  #: of text, in characters
    has_colour: bool = False  #: text may hold a terminal's control sequences
    is_page: bool = False  #: it is for a page, which has room for what tables leave out
    ties: str = ""  #: which of equal best nodes was taken, as the document says; empty where it does not
    here: str = ""  #: the directory that relative names of manifests start from
    repository: str = ""  #: the root of what annotations are about; empty leaves names as they were given

    @property
    def in_full(self) -> bool:
        """Tell of every workload why, and not only of those that need attention."""
        return self.explain or self.is_page
