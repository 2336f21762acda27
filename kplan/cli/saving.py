"""The option that also saves the report."""

from __future__ import annotations

import dataclasses
from typing import Annotated, TypeVar

from kplan.cli.flags import OutputFlags
from kplan.cli.options import option

Flags = TypeVar("Flags", bound=OutputFlags)

SaveOption = Annotated[str, option("--save FILE", "Also save the report as JSON, for kplan show.", panel="Output")]


def saving(output: Flags, path: str) -> Flags:
    """Return output flags that also save the report as JSON."""
    return output if not path else dataclasses.replace(output, report=[*(output.report or ()), f"json={path}"])
