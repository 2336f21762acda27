"""Schemas of formats that others define, and what a text says against them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

_HERE = Path(__file__).parent


@cache
def _sarif() -> jsonschema.Draft4Validator:
    schema = json.loads((_HERE / "sarif-2.1.0-rtm.5.json").read_text())
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())


@cache
def _junit() -> Any:
    import xmlschema  # takes a while, in each process that collects tests

    return xmlschema.XMLSchema(str(_HERE / "junit-10.xsd"))


def against_sarif(text: str) -> list[str]:
    """List what is wrong with a SARIF log."""
    problems = _sarif().iter_errors(json.loads(text))
    return [f"{'/'.join(map(str, problem.absolute_path))}: {problem.message}" for problem in problems]


def against_junit(text: str) -> list[str]:
    """List what Jenkins would refuse of a JUnit report."""
    return [f"{error.path}: {error.reason}" for error in _junit().iter_errors(text)]
