"""The JSON Schema of each kind of question, generated from struct and docstring."""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.catalogue import QUESTIONS
from kplan.documents.schemas import describe, schema_of, summary
from kplan.questions.base import question_type

QUESTION_KINDS = tuple(sorted(QUESTIONS))


def question_schema(kind: str) -> dict[str, Any]:
    """Return the schema of a kind of question."""
    return schema_of(question_type(kind), _completed)


def schema_text(kind: str) -> str:
    """Return the schema of a kind of question as JSON text."""
    return msgspec.json.format(msgspec.json.encode(question_schema(kind)), indent=2).decode() + "\n"


def _completed(schema: dict[str, Any], struct: type[msgspec.Struct] | None) -> dict[str, Any]:
    """Return msgspec's schema as one of documents that people write: parameters may be left out, others not added."""
    if struct is None:
        return schema
    describe(schema, struct)
    return {**schema, "description": summary(struct), "additionalProperties": False}
