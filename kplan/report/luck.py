"""What an answer leaves to chance, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UnsetType

from kplan.api.readable import listing
from kplan.documents.luck import Luck
from kplan.report.blocks import Block, Span, line
from kplan.report.words import count

_MOST_NAMED = 3


def luck_blocks(luck: Luck | UnsetType, more: str = " (--runs shows more)") -> Iterator[Block]:
    """Yield what depends on draws among equals, with the share of draws in which it happens.

    Parameters
    ----------
    more : what shows more
    """
    if not luck:
        return
    ends = [
        f"pods that {words}: {_shares(pods, luck.runs)}"
        for words, pods in (("stay pending", luck.pending), ("make room for others", luck.evicted))
        if pods
    ]
    ends += [f"the answer fails in {luck.fails}"] if 0 < luck.fails < luck.runs else []
    draws = f"in {count(luck.runs, 'draw')} among equal nodes and pods"
    yield line(Span("Depends on luck", "warn"), f": {draws}, {'; '.join(ends)}{more}")


def _shares(pods: Mapping[str, int], runs: int) -> str:
    return listing([_share(pod, n, runs) for pod, n in pods.items()], most=_MOST_NAMED)


def _share(pod: str, n: int, runs: int) -> str:
    if n == 0:
        return f"{pod} in none, though here"
    return f"{pod} in all, though not here" if n == runs else f"{pod} in {n}"
