"""Checks in files: short forms of questions, and all problems of a file, each with line and path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kplan.api.quantity import capitalized
from kplan.errors import Problem, UsageError
from kplan.questions.check import Check, Checks
from kplan.questions.check.expectations import plain_question, share_of, untold
from kplan.questions.reading import API_VERSION, converted, refuse
from kplan.reading.arguments import seconds_of
from kplan.reading.documents import read_contents

_EXPECTED = "checks, with apiVersion: kplan/v1 and kind: Checks"
_SHORT = ("drain", "lose", "headroom", "capacity", "surge", "autoscalersAtMax", "budgets", "poolRoom")
MAX_CHECKS = 500


def read_checks(source: str) -> list[Check]:
    """Read the checks of a file, or ``-``; raises InputError with all problems of it, each with line and path."""
    problems: list[Problem] = []
    checks: list[Check] = []
    for document, content in read_contents(source, problems, expected=_EXPECTED):
        read, wrong = checks_of(content)
        checks += read
        problems += map(document.locate, wrong)
    refuse(source, problems, "" if checks else "no check", _EXPECTED)
    return checks


def checks_of(content: Any) -> tuple[list[Check], list[Problem]]:
    """Return the checks that a document holds, and what is wrong with it."""
    problems = list(_problems_of_head(content))
    if problems:
        return [], problems
    complete = []
    for index, entry in enumerate(content["checks"]):
        if isinstance(entry, dict):
            problems += _problems_of_entry(entry, f"$.checks[{index}]")
        complete.append(_complete(entry, index) if isinstance(entry, dict) else entry)
    question, wrong = converted({"apiVersion": API_VERSION, "kind": "ChecksQuestion", "checks": complete}, Checks)
    problems += wrong
    checks = question.checks if isinstance(question, Checks) and not problems else ()
    for index, check in enumerate(checks):
        problems += _problems_of_expectations(check, f"$.checks[{index}].expect")
    return ([], problems) if problems else ([*checks], [])


def _problems_of_expectations(check: Check, path: str) -> Iterator[Problem]:
    """Yield what no answer would tell: a check that expects it in vain must not pass."""
    kinds = type(plain_question(check.question)).answer_about.__annotations__["return"].split(" | ")
    for name, why in untold(check.question, check.expect, *kinds):
        yield Problem(why.message, json_path=f"{path}.{name}", hint=why.hint)
    values: tuple[tuple[str, Any, Callable[[Any], object]], ...] = (
        ("within", check.expect.within, partial(seconds_of, option="within")),
        ("ready.min", check.expect.ready and check.expect.ready.min, partial(share_of, total=0)),
    )
    for name, value, read in values:
        try:
            if value is not None:
                read(value)
        except UsageError as error:
            yield Problem(error.message.removeprefix(f"{name}: "), json_path=f"{path}.{name}", hint=error.hint)


def _problems_of_head(content: Any) -> Iterator[Problem]:
    if not isinstance(content, dict) or content.get("kind") != "Checks" or content.get("apiVersion") != API_VERSION:
        yield Problem("holds no checks", json_path="$", hint=f"expected {_EXPECTED}")
        return
    for name in content:
        if name not in ("apiVersion", "kind", "checks"):
            yield Problem("unknown field", json_path=f"$.{name}", hint="checks go below checks:")
    entries = content.get("checks")
    if not isinstance(entries, list) or not entries:
        yield Problem("is not a list of checks", json_path="$.checks", hint="each has a name, a question and expect")
    elif len(entries) > MAX_CHECKS:
        yield Problem(f"holds {len(entries)} checks, and at most {MAX_CHECKS}", json_path="$.checks", hint="split it")


def _problems_of_entry(entry: dict[str, Any], path: str) -> Iterator[Problem]:
    questions = [name for name in entry if name in _SHORT or name == "question"]
    if len(questions) != 1:
        words = "asks nothing" if not questions else f"asks several questions: {', '.join(questions)}"
        yield Problem(words, json_path=path, hint=f"write question, or one of {', '.join(_SHORT)}")
    for name in entry:
        if name not in (*_SHORT, "question", "name", "expect"):
            yield Problem("unknown field", json_path=f"{path}.{name}", hint=f"choose from {', '.join(_SHORT)}")
    lose = entry.get("lose")
    if lose is not None and lose not in ({"zones": 1}, {"nodes": 1}):
        hint = "write lose: {zones: 1} or lose: {nodes: 1}"
        yield Problem("is not the loss of one zone or node", json_path=f"{path}.lose", hint=hint)


def _complete(entry: dict[str, Any], index: int) -> dict[str, Any]:
    name = next((short for short in _SHORT if short in entry), None)
    question = entry.get("question") if name is None else _question(name, entry[name])
    expect = {"expect": entry["expect"]} if "expect" in entry else {}
    return {"name": entry.get("name", f"check {index + 1}"), "question": question, **expect}


def _question(name: str, value: Any) -> dict[str, Any]:
    fields = value if isinstance(value, dict) else {}
    drain = {"kind": "DrainQuestion", "nodes": []}
    match name:
        case "drain":
            drain |= {key: item for key, item in fields.items() if key != "each"}
            return {"kind": "InTurnQuestion", "by": fields.get("each", "node"), "question": drain}
        case "lose":
            drain |= {"how": "lost"}
            return {"kind": "InTurnQuestion", "by": "zone" if "zones" in fields else "node", "question": drain}
        case "headroom" | "capacity":
            return {"kind": f"{name.title()}Question", **fields}
        case "autoscalersAtMax":
            return {"kind": "AtMaximumQuestion", **({} if value is True else {"how": value})}
        case _:
            return {"kind": f"{capitalized(name)}Question"}
