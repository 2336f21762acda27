"""Conversion of option values without Pydantic, which takes longer to load than a small question takes to answer.

Nearly all are texts, lists of texts, choices and defaults, which are converted here. Typer converts all others and
reports errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from typing import Any

import typer

_TEXTS = list[str]
_MOST_SHOWN = 60


class QuickConversion:
    """Converts values of a type as Typer does: itself where that needs no Pydantic, else by what `typers` returns."""

    def __init__(self, annotation: Any, typers: Callable[[], Any]) -> None:
        self._annotation = annotation
        self._typers = typers

    def __call__(self) -> QuickConversion:
        """Return itself, in place of the function that returns Typer's conversion."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value; raises Typer's BadParameter for an invalid one."""
        annotation = self._annotation
        if param.multiple or param.nargs == -1:
            if value is None:
                return ()
            if annotation == _TEXTS and isinstance(value, list | tuple) and all(type(item) is str for item in value):
                return list(value)
        elif value is None or (annotation in (str, int) and type(value) is annotation):
            return value  # values of a command line are texts: a value of another type is a default
        elif isinstance(annotation, type) and issubclass(annotation, Enum):
            for member in annotation:
                if value is member or (type(value) is str and value == member.value):
                    return member
            with suppress(ValueError):
                return annotation(value)
        try:
            return self._typers().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            if annotation is int:
                least, most = param.min, param.max
                bounds = "" if least is None else f" from {least:,}" + (" up" if most is None else f" to {most:,}")
                error.message = f"expected a whole number{bounds}, got {str(value)[:_MOST_SHOWN]!r}"
            raise


def convert_quickly(parameters: Iterable[Any]) -> None:
    """Make parameters of a command load Pydantic only for values that need it."""
    for parameter in parameters:
        typers = getattr(parameter, "get_runtime_param", None)
        descriptor = getattr(parameter, "type_descriptor", None)
        if typers is not None and descriptor is not None and not isinstance(typers, QuickConversion):
            parameter.get_runtime_param = QuickConversion(descriptor.annotation, typers)
