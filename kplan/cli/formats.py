"""Output of documents that are not reports of a question: JSON, YAML, or a JSONPath template."""

from __future__ import annotations

from typing import Any

from kplan.report.options import JsonFormat


def check_template(output_format: JsonFormat) -> None:
    """Raise UsageError for an invalid JSONPath template."""
    if output_format.template is not None:
        from kplan.report.jsonpath import parse_jsonpath

        parse_jsonpath(output_format.template)


def as_data(document: dict[str, Any] | list[dict[str, Any]], output_format: JsonFormat) -> str:
    """Return a document as text, with a newline at its end, except for a template.

    Raises UsageError for a template that does not match the document.
    """
    from kplan.visible import as_json, as_yaml, shown

    if output_format.template is not None:
        from kplan.report.jsonpath import render_jsonpath

        return render_jsonpath(output_format.template, shown(document))
    return as_yaml(document) if output_format == "yaml" else f"{as_json(document)}\n"
