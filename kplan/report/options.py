"""How much a report shows, and for which medium it is written."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

DEFAULT_TOP = 5
DEFAULT_WIDTH = 100


JSONPATH = "jsonpath="  #: the prefix of a template in the name of a format


class JsonFormat(StrEnum):
    """Formats that include JSON, and with it ``jsonpath=TEMPLATE``."""

    @classmethod
    def _missing_(cls, value: object) -> JsonFormat | None:
        if not isinstance(value, str) or not value.startswith(JSONPATH):
            return None
        member = str.__new__(cls, value)
        member._name_, member._value_ = "JSONPATH", value
        return member

    @property
    def template(self) -> str | None:
        """The template of JSONPath; None for any other format."""
        return self.value.removeprefix(JSONPATH) if self.value.startswith(JSONPATH) else None


class DataFormat(JsonFormat):
    """The formats of documents that are no answers to a question: a configuration, a snapshot."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class CheckFormat(JsonFormat):
    """The formats of what is wrong with a configuration or a snapshot."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"
    CODEQUALITY = "codequality"


class OutputFormat(JsonFormat):
    """The formats of a report; each is written in `kplan.report.registry`."""

    TABLE = "table"
    WIDE = "wide"
    SHORT = "short"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    NAME = "name"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"
    CODEQUALITY = "codequality"
    OPENMETRICS = "openmetrics"
    HTML = "html"


STREAM = r"-|standard input"
BUILT = r"(?P<directory>.+) \((?:kustomize|kubectl)\)"


class Repository(msgspec.Struct, frozen=True):
    """The directories that file names are relative to."""

    here: str = ""  #: the directory that relative names start from
    root: str = ""  #: of the repository; empty where it is not known, which leaves names as they are

    def file(self, name: str) -> str:
        """Return a file's path as the repository has it; empty for what is no file, such as standard input."""
        if not name or re.fullmatch(STREAM, name) or re.fullmatch(BUILT, name):
            return ""
        if not self.root:
            return name
        path = os.path.normpath(Path(self.here, name))  # a text: a saved report's files need not be here
        below = os.path.relpath(path, self.root)
        return path if below.startswith("..") else below


class ReportOptions(msgspec.Struct, frozen=True):
    """What the flags of the command line say about a report."""

    top: int | None = DEFAULT_TOP  #: how many nodes of each kind are shown; None for all
    explain: bool = False  #: show for each node every plugin that rejects or scores it
    is_wide: bool = False  #: show every plugin's score in a column, and which cluster and scheduler the answer is about
    width: int = DEFAULT_WIDTH  #: of text, in characters
    has_colour: bool = False  #: text may hold a terminal's control sequences for colour
    is_comment: bool = False  #: it is for a comment on a pull request, whose tables are read before what is folded
    is_page: bool = False  #: it is for an HTML page, which has room for what tables leave out
    ties: str = ""  #: the --ties of the document; empty where it holds none
    has_details: bool = True  #: the format shows everything that is known about each case
    command: str = ""  #: the command that makes the report, as it was typed; empty where it is not known
    repository: Repository = Repository()
    pages: str = ""  #: the address under which a pipeline shows its files; empty where it is not known

    @property
    def in_full(self) -> bool:
        """Whether the report gives reasons for every workload, and not only for those that need attention."""
        return self.explain or self.is_page

    @property
    def tells_all(self) -> bool:
        """Whether the report says what only those read who ask for more than the answer."""
        return self.in_full or self.is_wide

    @property
    def shows_all(self) -> bool:
        return self.top is None or self.is_wide

    def first(self, rows: Sequence[T], most: int) -> Sequence[T]:
        """Return the rows that are told one by one: so many, or all where every reason or all nodes are asked for."""
        return rows if self.explain or self.top is None else rows[:most]
