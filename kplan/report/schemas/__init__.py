"""JSON Schemas of the documents, one file a kind; what several kinds share stands in ``definitions.json``."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from kplan.errors import UsageError

__all__ = ["SCHEMA_KINDS", "load_schema", "schema_text"]

_HERE = Path(__file__).parent
_SHARED = "definitions"
SCHEMA_KINDS = tuple(sorted(path.stem for path in _HERE.glob("*.json") if path.stem != _SHARED))


def load_schema(kind: str) -> dict[str, Any]:
    """Return the schema of a kind, complete with the definitions that it refers to.

    Raises
    ------
    UsageError
        When there is no such kind.
    """
    if kind not in SCHEMA_KINDS:
        near = difflib.get_close_matches(kind, SCHEMA_KINDS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(SCHEMA_KINDS)}"
        raise UsageError(f"no document is of kind {kind!r}", hint=hint)
    schema: dict[str, Any] = json.loads((_HERE / f"{kind}.json").read_text(encoding="utf-8"))
    shared: dict[str, Any] = json.loads((_HERE / f"{_SHARED}.json").read_text(encoding="utf-8"))["$defs"]
    needed: dict[str, Any] = {}
    _collect(schema, {**shared, **schema.get("$defs", {})}, needed)
    return {**schema, "$defs": dict(sorted(needed.items()))}


def _collect(value: Any, known: dict[str, Any], needed: dict[str, Any]) -> None:
    """Gather the definitions that a schema refers to, and those that they refer to."""
    if isinstance(value, dict):
        name = str(value.get("$ref", "")).removeprefix("#/$defs/")
        if name in known and name not in needed:
            needed[name] = known[name]
            _collect(known[name], known, needed)
        for item in value.values():
            _collect(item, known, needed)
    elif isinstance(value, list):
        for item in value:
            _collect(item, known, needed)


def schema_text(kind: str) -> str:
    """Return the schema of a kind as JSON text; raises UsageError when there is none."""
    return json.dumps(load_schema(kind), indent=2, ensure_ascii=False) + "\n"
