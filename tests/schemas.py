"""Documents held against the JSON Schemas that kplan ships."""

from functools import cache
from typing import Any

import jsonschema

from kplan.documents.kinds import load_schema


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(load_schema(kind))


def assert_keeps_to_its_schema(document: dict[str, Any]) -> None:
    """Raise a ValidationError unless a document is as the schema of its kind says."""
    _validator(document["kind"]).validate(document)
