"""Checks as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kplan.errors import Problem
from kplan.questions.check.question import Check, Checks
from kplan.questions.reading import API_VERSION, converted, refuse
from kplan.reading.documents import read_contents

_EXPECTED = "checks, with apiVersion: kplan/v1 and kind: Checks"
_SHORT = ("drain", "lose", "headroom", "capacity", "surge", "autoscalersAtMax", "budgets", "poolRoom")
_PLAIN = {"surge": "SurgeQuestion", "budgets": "BudgetsQuestion", "poolRoom": "PoolRoomQuestion"}
MAX_CHECKS = 500


def read_checks(source: str) -> list[Check]:
    """Read the checks of a file; raises InputError with all problems of the file, each with line and path.

    Parameters
    ----------
    source : a file, or ``-`` for standard input
    """
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
    entries = content["checks"]
    complete = []
    for index, entry in enumerate(entries):
        path = f"$.checks[{index}]"
        if not isinstance(entry, dict):
            problems.append(Problem("is not a check", json_path=path, hint="write a name, a question and expect"))
            continue
        problems += _problems_of_entry(entry, path)
        complete.append(_complete(entry, index))
    question, wrong = converted({"apiVersion": API_VERSION, "kind": "ChecksQuestion", "checks": complete}, Checks)
    problems += wrong
    if problems or not isinstance(question, Checks):
        return [], problems
    return list(question.checks), []


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
    """Return a check with its question as a document."""
    name = next((short for short in _SHORT if short in entry), None)
    check: dict[str, Any] = {"name": entry.get("name", f"check {index + 1}"), "question": entry.get("question")}
    if "expect" in entry:
        check["expect"] = entry["expect"]
    if name is not None:
        value = entry[name]
        check["question"] = _question(name, value if isinstance(value, dict) else {}, value)
    return check


def _question(name: str, fields: dict[str, Any], value: Any) -> dict[str, Any]:
    """Return the question that a field stands for."""
    match name:
        case "drain":
            rest = {key: item for key, item in fields.items() if key != "each"}
            drain = {"kind": "DrainQuestion", "nodes": [], **rest}
            return {"kind": "InTurnQuestion", "by": fields.get("each", "node"), "question": drain}
        case "lose":
            drain = {"kind": "DrainQuestion", "nodes": [], "how": "lost"}
            return {"kind": "InTurnQuestion", "by": "zone" if "zones" in fields else "node", "question": drain}
        case "headroom" | "capacity":
            return {"kind": f"{name.title()}Question", **fields}
        case "autoscalersAtMax":
            return {"kind": "AtMaximumQuestion", **({} if value is True else {"how": value})}
        case _:
            return {"kind": _PLAIN[name]}
