"""The structs of questions, by kind; the lines are in :mod:`kplan.catalogue`."""

from __future__ import annotations

from importlib import import_module

from kplan.catalogue import QUESTIONS
from kplan.questions.base import Question

__all__ = ["QUESTIONS", "question_type"]


def question_type(kind: str) -> type[Question]:
    """Return the struct of a kind of question; raises KeyError where there is none."""
    module, _, name = QUESTIONS[kind].partition(":")
    struct: type[Question] = getattr(import_module(module), name)
    return struct
