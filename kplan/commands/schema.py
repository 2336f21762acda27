"""`kplan schema`: the JSON Schema of a document."""

from __future__ import annotations

from typing import Annotated

from kplan.cli.options import argument

EXAMPLES = """
kplan schema  # list the kinds
kplan schema PlanReport  # the schema of one kind
"""


def schema(kind: Annotated[str, argument("KIND", "Kind of document (default: list the kinds).")] = "") -> None:
    """Print the JSON Schema of a kind of document or question, or list the kinds."""
    from kplan.cli.answer import write_out
    from kplan.documents.kinds import SCHEMA_KINDS
    from kplan.documents.kinds import schema_text as document_schema
    from kplan.questions.reading import QUESTION_KINDS
    from kplan.questions.reading import schema_text as question_schema

    if not kind:
        write_out("".join(f"{name}\n" for name in (*SCHEMA_KINDS, *QUESTION_KINDS)))
    else:
        write_out(question_schema(kind) if kind in QUESTION_KINDS else document_schema(kind))
