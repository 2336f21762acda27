"""Which name was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 5
_FACTS = frozenset({"kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os"})


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant; nothing where several come equally close."""
    found = difflib.get_close_matches(name, sorted(set(known)), n=_MOST)
    ranks = [_rank(name, each) for each in found]
    best = max(ranks, default=None)
    return "" if best is None or ranks.count(best) > 1 else found[ranks.index(best)]


def _rank(name: str, other: str) -> tuple[float, int]:
    together = next((i for i, (one, two) in enumerate(zip(name, other, strict=False)) if one != two), len(name))
    return difflib.SequenceMatcher(None, other, name).ratio(), together


def is_fact(label: str) -> bool:
    """Tell whether a label of nodes says what they are made of, so that another value is another program."""
    return label in _FACTS
