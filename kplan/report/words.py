"""Small things that every report for people needs: counts, names, lists, what a plugin is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_ABOUT: Mapping[str, str] = {
    "DynamicResources": "devices",
    "ImageLocality": "images that are there already",
    "InterPodAffinity": "pods it prefers near or apart",
    "NodeAffinity": "preferred node labels",
    "NodeResourcesBalancedAllocation": "even use of resources",
    "NodeResourcesFit": "unused resources",
    "PodTopologySpread": "even spreading",
    "TaintToleration": "soft taints",
    "VolumeBinding": "fitting volumes",
}
"""What a plugin's score is about, for people who do not know its name."""
_LEAST_RANGE = 3
_NUMBERED = re.compile(r"(.*?)(\d+)")


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number of things: ``1 node``, ``2 nodes``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def points(number: int) -> str:
    """Write a difference of scores with its sign."""
    return f"{number:+d}"


def scored_by(plugin: str) -> str:
    """Name a plugin with what its score is about."""
    about = _ABOUT.get(plugin)
    return f"{plugin} ({about})" if about else plugin


def name_ranges(names: Sequence[str], most: int | None = 4) -> str:
    """Join names in their order, runs of numbered ones as a range: ``web-0..web-9, web-12``."""
    runs: list[list[str]] = []
    previous: tuple[str, int] | None = None
    for name in names:
        found = _NUMBERED.fullmatch(name)
        numbered = (found[1], int(found[2])) if found and str(int(found[2])) == found[2] else None
        if numbered is not None and previous is not None and numbered == (previous[0], previous[1] + 1):
            runs[-1].append(name)
        else:
            runs.append([name])
        previous = numbered
    texts: list[str] = []
    for run in runs:
        texts += [f"{run[0]}..{run[-1]}"] if len(run) >= _LEAST_RANGE else run
    if most is None or len(texts) <= most:
        return ", ".join(texts)
    return f"{', '.join(texts[:most])}, ..."
