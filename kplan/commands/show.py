"""`kplan show`: a saved report in any format."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from kplan.cli.answer import emit
from kplan.cli.flags import OutputFlags, VerbosityFlags
from kplan.cli.options import argument, with_flags
from kplan.errors import UsageError

EXAMPLES = """
kplan show plan.json  # as a table
kplan show plan.json -o markdown  # as Markdown
"""


@with_flags
def show(
    file: Annotated[str, argument("FILE", "A report saved as JSON or YAML; - for standard input.")],
    *,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Print a saved report of any command in any format.

    Shows only what was saved: save with --explain to keep every node. Exits with 0 whatever the report says.
    """
    if output.fail_on:
        raise UsageError("the verdict of a saved report is final", hint="use --fail-on when you create the report")
    from kplan.documents.kinds import read_report

    with suppress(typer.Exit):
        emit(read_report(file), output, verbosity)
