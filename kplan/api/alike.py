"""Which of many names resembles another: for names that others wrote, and which may be of any length and number."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import accumulate

LONGEST = 320
"""Longer texts resemble nothing: keys of labels have 317 characters at most, and comparing takes time by the square."""

_MOST_CHARACTERS = 1_000_000
"""Names of so many characters together are compared at most: the first ones."""


def similarity(text: str, other: str) -> float:
    """Return how much two texts have in common, from 0 to 1."""
    if text == other:
        return 1.0
    if max(len(text), len(other)) > LONGEST:
        return 0.0
    return difflib.SequenceMatcher(None, text, other).ratio()


def choice_hint(text: str, known: Iterable[str], at_least: float = 0.6) -> str:
    """Return the hint to use the known text that resembles a text, or else to choose from all."""
    names = list(known)
    near = nearest_texts(text, names, 1, at_least)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}"


def nearest_texts(text: str, known: Iterable[str], most: int = 3, at_least: float = 0.6) -> list[str]:
    """Return the known texts that resemble a text, the most similar first.

    Parameters
    ----------
    most : so many at most
    at_least : their similarity, from 0 to 1
    """
    if len(text) > LONGEST:
        return []
    comparable = [other for other in known if len(other) <= LONGEST]
    lengths = accumulate(map(len, comparable))
    first = [other for other, total in zip(comparable, lengths, strict=True) if total <= _MOST_CHARACTERS]
    return difflib.get_close_matches(text, first, most, at_least)
