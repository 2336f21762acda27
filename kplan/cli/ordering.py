"""In which order options stood on the command line, across different ones: changes of a cluster follow each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from typer.core import TyperCommand

_ORDER: ContextVar[tuple[str, ...]] = ContextVar("order of options", default=())


class OrderedCommand(TyperCommand):
    """A command that keeps the order of its options; Typer itself collects the values of each."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line once more, for the order alone."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        _ORDER.set(tuple(parameter.name or "" for parameter in order))
        return super().parse_args(ctx, args)


def in_order(options: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the values of options as they stood, each with the name of its option."""
    left = {name: iter(values) for name, values in options.items()}
    for name in _ORDER.get():
        if name in left:
            yield from ((name, value) for value in (next(left[name], None),) if value is not None)
    for name, values in left.items():
        yield from ((name, value) for value in values)
