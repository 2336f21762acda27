"""The cluster as a picture: a card for each node, or the cells of a heat map.

Colours tell the group of a node (pool or zone); texts and shapes tell the same, so that nothing depends on colour: what
arrives is striped, what leaves is outlined, and every bar and cell has its numbers in words. The pods of a PodGroup
have one letter, wherever they run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from html import escape
from string import ascii_uppercase

from kplan.api.quantity import count
from kplan.documents.nodes import ClusterMap, GroupOnMap, NodeLoad
from kplan.report.blocks import Span
from kplan.report.view import Moment

_COLOURS = 8  #: how many colours there are; further groups use them again, in the same order
_SEVERAL = "+"  #: stands in the cell of a node on which pods of several groups run


class Badges:
    """Marks the groups of a map; where there are more than letters, the largest ones."""

    def __init__(self, cluster: ClusterMap) -> None:
        groups = list(cluster.pod_groups or ())
        sizes = {group.group: max(sum(group.before.values()), sum(group.after.values())) for group in groups}
        largest = sorted(groups, key=lambda group: (-sizes[group.group], group.group))
        marked = {group.group for group in largest[: len(ascii_uppercase)]}
        self._groups = [group for group in groups if group.group in marked]
        self._n_unmarked = len(groups) - len(self._groups)

    def _on(self, node: str, moment: Moment) -> Iterator[tuple[int, str, Mapping[str, int]]]:
        """Yield the marked groups with pods on a node: place among them, name, and how many run on each node."""
        for index, group in enumerate(self._groups):
            pods = group.before if moment == "before" else group.after
            if pods.get(node):
                yield index, group.group, pods

    def on_card(self, node: str, moment: Moment) -> str:
        badges = ""
        for index, group, pods in self._on(node, moment):
            title = escape(f"PodGroup {group}: {pods[node]} of {count(sum(pods.values()), 'pod')}")
            letter = f"{ascii_uppercase[index]}\u00d7{pods[node]}"
            badges += f'<span class="mark gang c{index % _COLOURS}" title="{title}">{letter}</span>'
        return badges

    def in_cell(self, node: str, moment: Moment) -> str:
        """Return the letter of the group of which pods run on a node; empty for none."""
        letters = [ascii_uppercase[index] for index, *_ in self._on(node, moment)]
        return _SEVERAL if len(letters) > 1 else "".join(letters)

    def in_words(self, node: str, moment: Moment) -> list[str]:
        return [f"{count(pods[node], 'pod')} of {group}" for _, group, pods in self._on(node, moment)]

    def legend(self) -> str:
        """Return which letter is which group, and where its pods run; empty where no group is marked."""
        if not self._groups:
            return ""
        items = "".join(
            f'<li><span class="mark gang c{index % _COLOURS}">{ascii_uppercase[index]}</span> '
            f"{escape(group.group)}: {_places(group)}</li>"
            for index, group in enumerate(self._groups)
        )
        more = f"<li>and {count(self._n_unmarked, 'smaller group')} without a letter</li>" if self._n_unmarked else ""
        return f'<p class="legend">Letters are pod groups, which run together:</p><ul class="groups">{items}{more}</ul>'


def _places(group: GroupOnMap) -> str:
    """Return on how many nodes the pods of a group run, before and after where that differs."""
    then, now = (
        f"{count(sum(on.values()), 'pod')} on {count(len(on), 'node')}" if on else "no pod"
        for on in (group.before, group.after)
    )
    return now if group.before == group.after else f"{then} \u2192 {now}"


def node_anchor(index: int) -> str:
    return f"n{index}"


def pod_anchor(key: str) -> str:
    return "p" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:10]


def pod_link(key: str) -> str:
    return f'<a href="#{pod_anchor(key)}">{escape(key)}</a>'


MAX_CARDS = 150  #: up to so many nodes are drawn as cards, more as a heat map

_CELL = 12
_MOST_COLUMNS = 90
_FEWEST_COLUMNS = 10
_WIDE = 3  #: how many times as wide as high a group of the heat map is, about
_LARGEST = 2.0  #: cells are drawn up to so many times as large where there are few
_LISTED_PODS = 12  #: a card lists at most so many pods: no more than the table of nodes names, where links to pods lead


def picture(cluster: ClusterMap, moments: Mapping[Moment, str], marks: Mapping[str, Span]) -> str:
    """Return the picture; two moments are side by side.

    `moments`: what is drawn -> its caption.
    `marks`: node -> what the report says about it; nodes without one have none.
    """
    draw = _cards if len(cluster.nodes) <= MAX_CARDS else _heat_map
    groups, badges = sorted({node.group for node in cluster.nodes}), Badges(cluster)
    colours = {group: index % _COLOURS for index, group in enumerate(groups)}
    figures = "".join(
        f'<figure class="cluster"><figcaption>{escape(caption)}</figcaption>'
        f"{draw(cluster, moment, colours, marks, badges)}</figure>"
        for moment, caption in moments.items()
    )
    legend = _legend(cluster, colours, has_marks=bool(marks)) + badges.legend()
    return f'<div class="moments">{figures}</div>{legend}'


def _cards(
    cluster: ClusterMap, moment: Moment, colours: Mapping[str, int], marks: Mapping[str, Span], badges: Badges
) -> str:
    cards = []
    for index, node in enumerate(cluster.nodes):
        if moment == "before" and node.new:
            continue
        labels = _labels(node, moment, marks.get(node.name)) + badges.on_card(node.name, moment)
        bars = "".join(
            _bar(resource, node, position, moment)
            for position, resource in enumerate(cluster.resources)
            if node.allocatable[position] or node.before[position] or node.after[position]
        )
        name = escape(node.name)
        cards.append(
            f'<li class="card g{colours[node.group]}{" off" if node.cordoned else ""}">'
            f'<a class="name" href="#{node_anchor(index)}" title="{name}">{name}</a>'
            f"{labels}{bars}{_pods(node, moment)}</li>"
        )
    return f'<ul class="cards">{"".join(cards)}</ul>'


def _labels(node: NodeLoad, moment: Moment, mark: Span | None) -> str:
    labels = f'<span class="mark {mark.style}">{escape(mark.text)}</span>' if mark is not None else ""
    labels += '<span class="mark">cordoned</span>' if node.cordoned else ""
    labels += '<span class="mark good">new node</span>' if node.new else ""
    if moment == "after" and node.arriving:
        labels += f'<span class="mark" title="{len(node.arriving)} new">+{len(node.arriving)}</span>'
    if moment == "before" and node.leaving:
        labels += f'<span class="mark" title="{len(node.leaving)} leaving">\u2212{len(node.leaving)}</span>'
    return labels


def _bar(resource: str, node: NodeLoad, position: int, moment: Moment) -> str:
    """Return the bar of a resource: requests that stay, then those that arrive (striped) or leave (outlined)."""
    then, now = share(node, position, "before"), share(node, position, "after")
    shown, kind = (then, "leaving") if moment == "before" else (now, "arriving")
    staying = min(then, now)
    rects = f'<rect class="kept" width="{_width(staying)}" height="8"/>'
    if shown > staying:
        rects += f'<rect class="{kind}" x="{_width(staying)}" width="{_width(abs(now - then))}" height="8"/>'
    name = f'<span title="{escape(resource)}">{escape(resource.rpartition("/")[2])}</span>'
    return (
        f'<div class="bar">{name}<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="room" width="100" height="8"/>{rects}</svg><span>{shown:.0%}</span></div>'
    )


def _pods(node: NodeLoad, moment: Moment) -> str:
    pods, word = (node.leaving, "leaving") if moment == "before" else (node.arriving, "new")
    if not pods:
        return ""
    items = "".join(f"<li>{pod_link(pod)}</li>" for pod in pods[:_LISTED_PODS])
    more = f"<li>and {len(pods) - _LISTED_PODS} more</li>" if len(pods) > _LISTED_PODS else ""
    return f'<details class="{word}"><summary>{len(pods)} {word}</summary><ul>{items}{more}</ul></details>'


def _heat_map(
    cluster: ClusterMap, moment: Moment, colours: Mapping[str, int], marks: Mapping[str, Span], badges: Badges
) -> str:
    """Return each group as rows of cells; the fuller the scarcest resource of a node, the darker its cell."""
    parts = []
    for group in colours:
        indices = [index for index, node in enumerate(cluster.nodes) if node.group == group]
        columns = min(max(math.isqrt(_WIDE * len(indices)), _FEWEST_COLUMNS), _MOST_COLUMNS)
        cells = "".join(
            _cell(cluster.nodes[index], index, divmod(place, columns), moment, marks, badges)
            for place, index in enumerate(indices)
        )
        width, height = min(len(indices), columns) * _CELL, -(-len(indices) // columns) * _CELL
        shown = width * min(max(_MOST_COLUMNS / (2 * columns), 1.0), _LARGEST)
        label = f"{group or 'no group'}: {count(len(indices), 'node')}"
        shares = [fullest(cluster.nodes[index], moment) for index in indices]
        full = f"on average {sum(shares) / len(shares):.0%} full, the fullest {max(shares):.0%}"
        parts.append(
            f'<div class="heat g{colours[group]}"><h3>{escape(label)}</h3><svg viewBox="0 0 {width} {height}" '
            f'style="max-width:{shown:.0f}px" role="img" aria-label="{escape(f"{label}, {full}")}">'
            f"{cells}</svg></div>"
        )
    return f'<div class="heats">{"".join(parts)}</div>'


def _cell(  # noqa: PLR0917 - all that a cell shows
    node: NodeLoad, index: int, place: tuple[int, int], moment: Moment, marks: Mapping[str, Span], badges: Badges
) -> str:
    y, x = place[0] * _CELL, place[1] * _CELL
    level = min(int(fullest(node, moment) * 10), 10)
    verdict = marks.get(node.name)
    is_bad = verdict is not None and verdict.style == "bad"
    marked = is_bad or (node.arriving if moment == "after" else node.leaving)
    shape = "n" if moment == "after" and not is_bad else "o"
    mark = f'<circle class="{shape}" cx="{x + 5}" cy="{y + 5}" r="3.5"/>' if marked else ""
    letter = badges.in_cell(node.name, moment)
    if letter and not is_bad:
        mark = f'<text class="gang" x="{x + 5}" y="{y + 8}">{letter}</text>'
    off = " off" if node.cordoned or (node.new and moment == "before") else ""
    rect = f'<rect class="h{level}{off}" x="{x}" y="{y}" width="10" height="10"/>'
    words = [*([verdict.text] if verdict is not None else []), *badges.in_words(node.name, moment)]
    title = escape(f"{node.name}: {', '.join(words)}" if words else node.name)
    # Only cells where something happens are links; the table below leads to all others.
    return f'<a href="#{node_anchor(index)}">{rect}{mark}<title>{title}</title></a>' if marked or letter else rect


def share(node: NodeLoad, position: int, moment: Moment) -> float:
    """Return which part of a resource is requested, 0 to 1, and more than 1 on an overcommitted node."""
    there = node.allocatable[position]
    used = node.before[position] if moment == "before" else node.after[position]
    return used / there if there > 0 else float(used > 0)


def fullest(node: NodeLoad, moment: Moment) -> float:
    return max((share(node, position, moment) for position in range(len(node.allocatable))), default=0.0)


def _width(part: float) -> str:
    return f"{min(100 * part, 100):.4g}"


def _legend(cluster: ClusterMap, colours: Mapping[str, int], *, has_marks: bool) -> str:
    groups = "".join(
        f'<li class="g{colour}"><svg viewBox="0 0 10 10" aria-hidden="true">'
        f'<rect class="kept" width="10" height="10"/></svg>{escape(group or "none")}</li>'
        for group, colour in list(colours.items())[:40]
    )
    what = f"Groups by {escape(cluster.group_label)}: " if cluster.group_label else ""
    if len(cluster.nodes) <= MAX_CARDS:
        shapes = "Bars are requests against what a node offers"
        shapes += "." if has_marks else "; striped: new pods, outlined: leaving ones."
    else:
        of_marks, of_pods = "a ring: a node that leaves or cannot be drained", "a dot: new pods, a ring: leaving ones"
        shapes = "A cell is a node, the stronger its colour the fuller it is; "
        shapes += f"{of_marks if has_marks else of_pods}."
    shown = f'<ul class="groups">{groups}</ul>' if len(colours) > 1 else ""
    return f'<p class="legend">{shapes}{" " + what if shown else ""}</p>{shown}'
