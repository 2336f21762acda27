"""Entries of a list of settings, each read with all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from kplan.api.alike import choice_hint
from kplan.api.decode import DecodeError, convert
from kplan.errors import Problem

S = TypeVar("S", bound=msgspec.Struct)


class EntryReader:
    """Reads one entry, and collects its problems.

    Parameters
    ----------
    path : JSON path of the entry
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def wrong(self, field: str, message: str, hint: str) -> None:
        """Note a problem of a field."""
        self.problems.append(Problem(message, json_path=f"{self.path}.{field}", hint=hint))

    def refuse_unknown(self, content: Mapping[str, Any], known: Iterable[str], words: str = "unknown field {}") -> None:
        """Note the fields that an entry does not have; the words may show the name of each."""
        names = tuple(known)
        for key in content:
            if key not in names:
                self.wrong(str(key)[:80], words.format(repr(str(key))), choice_hint(str(key), names))

    def converted(self, content: Any, target: type[S], field: str = "") -> S | None:
        """Return the entry, or what is in one of its fields, as a struct; None, with problems, where it is none."""
        try:
            return convert(content, target)
        except DecodeError as error:
            self.problems += [problem.below(f"{self.path}{field}") for problem in error.problems]
            return None
