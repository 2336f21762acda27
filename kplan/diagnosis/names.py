"""Guess which existing name was probably meant by one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from kplan.api.alike import nearest_texts, similarity

_MOST = 5
_FACTS = frozenset({"kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os"})


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant; nothing where several come equally close."""
    matches = nearest_texts(name, sorted(set(known)), _MOST)
    ranks = [_rank(name, match) for match in matches]
    best = max(ranks, default=None)
    return "" if best is None or ranks.count(best) > 1 else matches[ranks.index(best)]


def nearest_key(key: str, known: Iterable[str]) -> str:
    """Return the label key that was probably meant: one with the same name behind its prefix, else a similar one.

    Names are compared without their prefix, or ``kubernetes.io/host`` would resemble ``kubernetes.io/os`` more than
    ``kubernetes.io/hostname``.
    """
    keys = sorted(set(known))
    prefix, _, name = key.rpartition("/")
    alike = [other for other in keys if other.rpartition("/")[2] == name]
    stable = [other for other in alike if ".beta." not in other]
    if len(stable) == 1 or len(alike) == 1:
        return (stable or alike)[0]
    by_name = {other.rpartition("/")[2]: other for other in keys}
    siblings = {other.rpartition("/")[2]: other for other in keys if other.rpartition("/")[0] == prefix}
    suggested = nearest(name, siblings)
    return siblings[suggested] if suggested else by_name.get(nearest(name, by_name), "")


def _rank(name: str, other: str) -> tuple[float, int]:
    """Return how similar two names are, then the length of their common prefix."""
    prefix = next((i for i, (left, right) in enumerate(zip(name, other, strict=False)) if left != right), len(name))
    return similarity(other, name), prefix


def is_fact(label: str) -> bool:
    """Return whether a node label states a property of the machine, so that another value needs another image."""
    return label in _FACTS
