"""The option that also saves the report."""

from __future__ import annotations

import dataclasses
from typing import Annotated, TypeVar

import typer

from kplan.cli.flags import OutputFlags

Flags = TypeVar("Flags", bound=OutputFlags)

SaveOption = Annotated[
    str,
    typer.Option(
        "--save", metavar="FILE", help="Also save the report as JSON, for kplan show.", rich_help_panel="Output"
    ),
]


def saving(output: Flags, path: str) -> Flags:
    """Return output flags that also save the report as JSON."""
    return output if not path else dataclasses.replace(output, report=[*(output.report or ()), f"json={path}"])
