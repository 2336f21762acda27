"""The lines of a document in YAML, from the events of its parser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import yaml

from kplan.reading.positions import Step, steps_of

#: Longer documents are lists of a whole cluster; parsing them again would take too long.
_MAX_LINED = 16 << 20


class YamlLines:
    """The lines of a document in YAML, parsed as far as somebody asks.

    Parameters
    ----------
    text : the document's text
    line : where that text begins in its file
    content_line : where its content begins in its file
    repeats_keys : a mapping has a key twice: the line of the last one counts
    """

    def __init__(self, text: str | bytes, line: int, content_line: int, *, repeats_keys: bool = False) -> None:
        self._text = text if len(text) <= _MAX_LINED else ""
        self._line = line
        self._content_line = content_line
        self._repeats_keys = repeats_keys
        self._lines: dict[tuple[Step, ...], int] = {}
        self._texts: dict[tuple[Step, ...], str] = {}
        self._rest = self._read()

    def __reduce__(self) -> tuple[Any, ...]:
        """Have other processes read the text again: what is left of its events cannot be sent."""
        make = partial(YamlLines, repeats_keys=self._repeats_keys)
        return make, (self._text, self._line, self._content_line)

    def of(self, path: str) -> int:
        """Return the line of the key or list element that the path leads to."""
        steps = steps_of(path)
        if self._repeats_keys:
            self._read_all()
        if steps and steps not in self._lines:
            next((known for known in self._rest if known == steps), None)
        while steps and steps not in self._lines:
            steps = steps[:-1]
        return self._lines[steps] if steps else self._content_line

    def written(self, path: str) -> str:
        """Return how the scalar at a path is written, such as ``n`` for a false; "" where that is not known."""
        self._read_all()
        return self._texts.get(steps_of(path), "")

    def _read_all(self) -> None:
        for _ in self._rest:
            pass

    def _read(self) -> Iterator[tuple[Step, ...]]:
        """Note the lines of all paths, and the texts of scalars; yield each path whose line is known from now on."""
        walk, key = _Walk(), None
        # A JSON document need not be valid YAML; then only the lines up to the error are known.
        with suppress(yaml.YAMLError):
            for event in yaml.parse(self._text, Loader=yaml.CSafeLoader):
                steps = walk.take(event)
                scalar = event.value if isinstance(event, yaml.ScalarEvent) else None
                value_of = steps if steps is not None and isinstance(steps[-1], int) else key
                if scalar is not None and value_of is not None:
                    self._texts[value_of] = scalar
                key = steps if value_of is None else None
                if steps is not None:
                    mark: Any = event.start_mark  # every event of the parser has one
                    self._lines[steps] = self._line + mark.line
                    yield steps


class _Walk:
    """Follows the events of a document, and yields the path of each key and element."""

    def __init__(self) -> None:
        self._steps: list[Step | None] = []  # None: a mapping that waits for its next key

    def take(self, event: yaml.Event) -> tuple[Step, ...] | None:
        """Return the path that begins with this event, if one does."""
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._steps.pop()
            self._finish_value()
            return None
        if not isinstance(event, yaml.NodeEvent):
            return None
        path = None
        if self._steps and self._steps[-1] is None:
            self._steps[-1] = str(event.value) if isinstance(event, yaml.ScalarEvent) else ""
            return tuple(step for step in self._steps if step is not None)
        if self._steps and isinstance(self._steps[-1], int):
            path = tuple(step for step in self._steps if step is not None)
        if isinstance(event, yaml.MappingStartEvent):
            self._steps.append(None)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._steps.append(0)
        else:
            self._finish_value()
        return path

    def _finish_value(self) -> None:
        if self._steps:
            last = self._steps[-1]
            self._steps[-1] = last + 1 if isinstance(last, int) else None
