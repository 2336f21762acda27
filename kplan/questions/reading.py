"""Questions as documents: what ``kplan ask`` reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, TypeVar, cast

import msgspec

from kplan.api import decode
from kplan.api.names import choice_hint
from kplan.catalogue import QUESTIONS
from kplan.documents.base import to_json
from kplan.documents.kinds import describe, schema_of, summary
from kplan.errors import InputError, Problem, UsageError
from kplan.questions.base import Question, question_type
from kplan.reading.arguments import plain
from kplan.reading.arguments import refuse as refuse_arguments
from kplan.reading.documents import read_contents

QUESTION_KINDS = tuple(sorted(QUESTIONS))


def schema_text(kind: str) -> str:
    return to_json(schema_of(question_type(kind), _completed)) + "\n"


def _completed(schema: dict[str, Any], struct: type[msgspec.Struct] | None) -> dict[str, Any]:
    """Return msgspec's schema as one of documents that people write: parameters may be left out, others not added."""
    if struct is None:
        return schema
    describe(schema, struct)
    return {**schema, "description": summary(struct), "additionalProperties": False}


Q = TypeVar("Q", bound=Question)

API_VERSION = "kplan/v1"
MAX_QUESTIONS = 1_000
_EXPECTED = "questions, such as kind: DrainQuestion with apiVersion: kplan/v1"
_HINT = f"expected one of {', '.join(QUESTIONS)}"
_UNKNOWN = "unknown field"


def read_questions(source: str) -> list[Question]:
    """Read a file of questions, or ``-``, one a document; raises InputError with all problems, with line and path."""
    problems: list[Problem] = []
    questions: list[Question] = []
    for document, content in read_contents(source, problems, expected=_EXPECTED):
        if len(questions) >= MAX_QUESTIONS:
            problems.append(document.locate(Problem(f"more than {MAX_QUESTIONS:,} questions", hint="split the file")))
            break
        question, wrong = question_of(content)
        problems += map(document.locate, wrong)
        if question is not None:
            questions.append(question)
    refuse(source, problems, "" if questions else "no question", _EXPECTED)
    return questions


def refuse(source: str, problems: list[Problem], missing: str, expected: str) -> None:
    """Raise InputError for a file with problems, or one that holds nothing to read: then `missing` says what."""
    if missing and not problems:
        problems.append(Problem(missing, path=source, hint=f"expected {expected}"))
    if problems:
        raise InputError(problems)


def question_of(content: Any) -> tuple[Question | None, list[Problem]]:
    problems = list(_problems_of_head(content))
    if problems:
        return None, problems
    return converted(content, question_type(content["kind"]))


def checked(question: Q) -> Q:
    """Return a question that was built in Python as its document would be read; raises UsageError with all problems."""
    if not isinstance(question, Question):
        hint = 'build one, such as kplan.questions.Drain(nodes=("node-1",))'
        raise UsageError(f"{decode.shortened(repr(question))} is not a question", hint=hint)
    kind = type(question)
    read, problems = converted(plain(question, kind.__name__), kind)
    refuse_arguments(kind.__name__, problems, f"see help(kplan.questions.{kind.__name__})")
    return cast("Q", read)


def converted(content: dict[str, Any], struct: type[Question]) -> tuple[Question | None, list[Problem]]:
    try:
        return decode.convert(content, struct, refuse=_refuse_unknown), []
    except decode.DecodeError as error:
        # A misspelt field first: it may be the one that is missing.
        return None, sorted(error.problems, key=lambda problem: problem.message != _UNKNOWN)


def _refuse_unknown(struct: type[msgspec.Struct], name: str, path: str) -> Problem | None:
    tag = struct.__struct_config__.tag_field
    known = {*struct.__struct_encode_fields__, *([tag] if tag else [])}
    if name in known:
        return None
    return Problem(_UNKNOWN, json_path=path, hint=choice_hint(str(name), sorted(known), 0.5))


def _problems_of_head(content: Any) -> Iterator[Problem]:
    if not isinstance(content, dict):
        yield Problem("not a question", json_path="$", hint=f"expected {_EXPECTED}")
        return
    version, kind = content.get("apiVersion"), content.get("kind")
    if version != API_VERSION:
        yield Problem(f"is not {API_VERSION}", json_path="$.apiVersion", hint=f"write apiVersion: {API_VERSION}")
    if not isinstance(kind, str) or kind not in QUESTIONS:
        near = difflib.get_close_matches(str(kind), QUESTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else _HINT
        yield Problem("is not a kind of question", json_path="$.kind", hint=hint)
