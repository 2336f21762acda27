"""What an answer leaves to chance, told without being asked."""

from __future__ import annotations

from kplan.documents.base import Count, Document, Positive


class Luck(Document, frozen=True, kw_only=True):
    """What depends on draws among equal nodes and equal pods; the report itself is about one way to draw.

    Attributes
    ----------
    runs : the number of draws
    seed : of the draws
    fails : draws in which something happens that --fail-on lists
    pending : pods that stay pending in some draws only -> in how many; in none or all of them where the report itself
        says otherwise
    evicted : pods that make room for others in some draws only -> in how many; in none or all as above
    """

    runs: Positive
    seed: int
    fails: Count
    pending: dict[str, Count]
    evicted: dict[str, Count]
