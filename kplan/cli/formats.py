"""How documents are written that are no reports of a question: as JSON, as YAML, or as a template of JSONPath says."""

from __future__ import annotations

from typing import Any

from kplan.report.options import JsonFormat


def check_template(asked: JsonFormat) -> None:
    """Raise UsageError for a template of JSONPath that cannot be understood."""
    if asked.template is not None:
        from kplan.report.jsonpath import parse_jsonpath

        parse_jsonpath(asked.template)


def as_data(document: dict[str, Any], asked: JsonFormat) -> str:
    """Write a document; the text ends with a line feed, unless a template has none.

    Raises UsageError for a template that does not fit.
    """
    from kplan.visible import as_json, as_yaml, shown

    if asked.template is not None:
        from kplan.report.jsonpath import render_jsonpath

        return render_jsonpath(asked.template, shown(document))
    return as_yaml(document) if asked == "yaml" else f"{as_json(document)}\n"
