"""Documents, and questions, held against the JSON Schemas that kplan ships."""

import json
from functools import cache
from typing import Any

import jsonschema

from kplan.documents.kinds import load_schema
from kplan.questions.reading import QUESTION_KINDS, schema_text


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text(kind)) if kind in QUESTION_KINDS else load_schema(kind)
    return jsonschema.Draft202012Validator(schema)


def assert_keeps_to_its_schema(document: dict[str, Any]) -> None:
    """Raise a ValidationError unless a document is as the schema of its kind says."""
    _validator(document["kind"]).validate(document)
