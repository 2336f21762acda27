"""What MkDocs does besides building pages: links out of ``docs/``, and the reference of flags and documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from typer.testing import CliRunner

from kplan.program.main import app

_OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)(#[^)]*)?\)")
_REPOSITORY = "https://github.com/OWNER/kplan/blob/main/"
_COMMAND = re.compile(r"^ {2}([a-z]+)  ", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with links that lead out of ``docs/`` made absolute, and its reference below."""
    made = {"flags.md": flags, "json.md": documents}.get(page.file.src_uri)
    markdown = _OUTSIDE.sub(lambda link: f"]({_REPOSITORY}{link[1]}{link[2] or ''})", markdown)
    return "\n".join([markdown, *made()]) if made else markdown


def flags() -> Iterator[str]:
    """Give the help of each command with all of its options."""
    for name in _COMMAND.findall(_printed("--help")):
        yield f"\n## kplan {name}\n\n```text\n{_printed(name, '--help-all').strip()}\n```"


def documents() -> Iterator[str]:
    """Give the fields of each kind of document: questions, answers, and what stands in them."""
    parts: dict[str, Any] = {}
    for kind in _printed("schema").split():
        schema = json.loads(_printed("schema", kind))
        parts |= schema.get("$defs", {})
        yield from _table(f"\n## {kind}", schema)
    yield "\n## Parts of documents"
    for name in sorted(parts):
        yield from _table(f"\n### {name}", parts[name])


def _table(heading: str, schema: dict[str, Any]) -> Iterator[str]:
    yield heading
    yield f"\n{schema.get('description', '')}\n"
    if fields := schema.get("properties"):
        yield "| field | type | meaning |\n|---|---|---|"
        for name, field in fields.items():
            meaning = field.get("description", "").replace("``", "`").replace("|", r"\|").replace("\n", " ")
            yield f"| `{name}` | {_type(field)} | {meaning} |"


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        part = field["$ref"].rpartition("/")[2]
        return f"[{part}](#{part.lower().replace('.', '')})"
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    if words := field.get("enum", [field["const"]] if "const" in field else None):
        return ", ".join(f"`{word}`" for word in words)
    if isinstance(field.get("items"), dict):
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"name to {_type(field['additionalProperties'])}"
    kinds = field.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _printed(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "100", "NO_COLOR": "1"}, catch_exceptions=False)
    if done.exit_code:
        raise RuntimeError(f"kplan {' '.join(arguments)}: {done.output}")
    return done.stdout
