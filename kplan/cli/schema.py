"""`kplan schema`: the JSON Schema of a document."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Kind of document (default: list the kinds).")] = "",
) -> None:
    """Print the JSON Schema of a kind of document, or list the kinds."""
    from kplan.cli.answer import write_out
    from kplan.documents.schemas import SCHEMA_KINDS, schema_text

    write_out(schema_text(kind) if kind else "".join(f"{name}\n" for name in SCHEMA_KINDS))
