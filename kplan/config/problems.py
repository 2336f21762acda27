"""The problems of a configuration, in kube-scheduler's words and under its field paths.

A path is a Kubernetes field path: `profiles[0].pluginConfig[1].args.scoringStrategy.type`.

Upstream: apimachinery util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from kplan.config.releases import Release, reference
from kplan.errors import ConfigError, Problem
from kplan.reading.positions import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def child(path: str, *names: str) -> str:
    """Return the path of a field inside the object at `path`."""
    return ".".join(part for part in (path, *names) if part)


def index(path: str, position: int) -> str:
    """Return the path of an entry of the list at `path`."""
    return f"{path}[{position}]"


def go_value(value: object) -> str:
    """Return a value as Kubernetes prints it in a field error, as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


class Problems:
    """The problems of one document, and the paths of values that do not decode.

    Problems of a value that does not decode are recorded once: later checks of it are dropped.
    """

    def __init__(
        self, file: str, document: int | None = None, lines: Lines | None = None, release: Release | None = None
    ) -> None:
        self.release = release or reference()  #: the release whose rules apply
        self.file = file
        self.document = document
        self._lines = lines
        self.recorded: list[Problem] = []
        self._unreadable: list[str] = []
        self._only_once: set[str] = set()

    def add(self, path: str, message: str, hint: str = "") -> None:
        """Record a problem, unless its path is that of a value that does not decode."""
        if any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in self._unreadable):
            return
        self.recorded.append(
            Problem(message=message, path=self.file, document=self.document, json_path=path, hint=hint)
        )

    def add_once(self, path: str, message: str, hint: str) -> None:
        """Record a problem, unless this has recorded one at the path."""
        if path not in self._only_once:
            self._only_once.add(path)
            self.add(path, message, hint)

    def unreadable(self, path: str, message: str, hint: str = "") -> None:
        """Record a value that does not decode; later problems at its path are dropped."""
        self.add(path, message, hint)
        self._unreadable.append(path)

    def invalid(self, path: str, value: object, detail: str, hint: str) -> None:
        """Record a value that the field does not allow."""
        self.add(path, f"Invalid value: {go_value(value)}: {detail}", hint)

    def required(self, path: str, detail: str, hint: str) -> None:
        """Record a field that is missing or empty."""
        self.add(path, f"Required value: {detail}" if detail else "Required value", hint)

    def forbidden(self, path: str, detail: str, hint: str) -> None:
        """Record a field that must not be set here."""
        self.add(path, f"Forbidden: {detail}", hint)

    def duplicate(self, path: str, value: object, hint: str) -> None:
        """Record an entry that repeats an earlier one."""
        self.add(path, f"Duplicate value: {go_value(value)}", hint)

    def unsupported(self, path: str, value: object, supported: Iterable[str], hint: str = "") -> None:
        """Record a value that is not supported."""
        words = ", ".join(go_value(word) for word in supported)
        self.add(path, f"Unsupported value: {go_value(value)}: supported values: {words}", hint)

    def raise_if_any(self, document: object = None) -> None:
        """Raise all recorded problems, in the order of the document's fields if it is given.

        Raises ConfigError when a problem was recorded.
        """
        if self.recorded:
            order = {path: position for position, path in enumerate(_paths(document, ""))}
            problems = sorted(self.recorded, key=lambda problem: _place(problem.json_path, order))
            raise ConfigError(map(self._with_line, problems))

    def _with_line(self, problem: Problem) -> Problem:
        return replace(problem, line=self._lines.of(problem.json_path)) if self._lines else problem


def _paths(value: object, path: str) -> Iterator[str]:
    """Yield the paths of a document in reading order."""
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, child(path, name))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _paths(item, index(path, position))


def _place(path: str, order: Mapping[str, int]) -> int:
    """Return the position of a path, or of its nearest parent in the document."""
    while path and path not in order:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return order.get(path, 0)
