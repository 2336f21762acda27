"""The marks of pod groups in the picture: a letter for each group, the same wherever its pods run."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from string import ascii_uppercase

from kplan.documents.cluster_map import ClusterMap, GroupOnMap
from kplan.report.view import Moment
from kplan.report.words import count

_COLOURS = 8
_SEVERAL = "+"
"""Stands in the cell of a node on which pods of several groups run."""


class Badges:
    """Marks the groups of a map; where there are more than letters, the largest ones."""

    def __init__(self, cluster: ClusterMap) -> None:
        groups = list(cluster.pod_groups or ())
        largest = sorted(groups, key=lambda group: (-max(_pods(group, "before"), _pods(group, "after")), group.group))
        marked = {group.group for group in largest[: len(ascii_uppercase)]}
        self._groups = [group for group in groups if group.group in marked]
        self._n_unmarked = len(groups) - len(self._groups)

    def on_card(self, node: str, moment: Moment) -> str:
        """Return the badges of a node, each with the number of pods there."""
        badges = []
        for index, group in enumerate(self._groups):
            there = _of(group, moment).get(node)
            if there:
                title = escape(f"PodGroup {group.group}: {there} of {count(_pods(group, moment), 'pod')}")
                letter = ascii_uppercase[index]
                badges.append(
                    f'<span class="mark gang c{index % _COLOURS}" title="{title}">{letter}\u00d7{there}</span>'
                )
        return "".join(badges)

    def in_cell(self, node: str, moment: Moment) -> str:
        """Return the letter of the group of which pods run on a node; empty for none."""
        letters = [ascii_uppercase[index] for index, group in enumerate(self._groups) if node in _of(group, moment)]
        return _SEVERAL if len(letters) > 1 else "".join(letters)

    def in_words(self, node: str, moment: Moment) -> list[str]:
        """Return the groups of which pods run on a node, in words."""
        return [
            f"{count(there, 'pod')} of {group.group}"
            for group in self._groups
            if (there := _of(group, moment).get(node))
        ]

    def legend(self) -> str:
        """Return which letter is which group, and where its pods run; empty where no group is marked."""
        if not self._groups:
            return ""
        items = "".join(
            f'<li><span class="mark gang c{index % _COLOURS}">{ascii_uppercase[index]}</span> '
            f"{escape(group.group)}: {_course(group)}</li>"
            for index, group in enumerate(self._groups)
        )
        more = f"<li>and {count(self._n_unmarked, 'smaller group')} without a letter</li>" if self._n_unmarked else ""
        return f'<p class="legend">Letters are pod groups, which run together:</p><ul class="groups">{items}{more}</ul>'


def _course(group: GroupOnMap) -> str:
    """Return on how many nodes the pods of a group run, before and after where that differs."""
    then, now = (_places(group, moment) for moment in ("before", "after"))
    return now if group.before == group.after else f"{then} \u2192 {now}"


def _places(group: GroupOnMap, moment: Moment) -> str:
    on = _of(group, moment)
    return f"{count(_pods(group, moment), 'pod')} on {count(len(on), 'node')}" if on else "no pod"


def _of(group: GroupOnMap, moment: Moment) -> Mapping[str, int]:
    return group.before if moment == "before" else group.after


def _pods(group: GroupOnMap, moment: Moment) -> int:
    return sum(_of(group, moment).values())
