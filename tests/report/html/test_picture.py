"""The picture of a cluster: bars and cells say what the map says."""

import re
from collections.abc import Callable
from difflib import unified_diff
from typing import Any

from kplan.documents.nodes import ClusterMap, GroupOnMap, NodeLoad
from kplan.report.blocks import Span
from kplan.report.html.picture import MAX_CARDS, Moment, picture

AFTER: dict[Moment, str] = {"after": "The cluster with the new pods"}
BOTH: dict[Moment, str] = {"before": "Before", "after": "After"}


def load(name: str, before: int, after: int, **more: object) -> NodeLoad:
    return NodeLoad(name=name, allocatable=(1000,), before=(before,), after=(after,), **more)


def cluster(*nodes: NodeLoad) -> ClusterMap:
    return ClusterMap(resources=("cpu",), group_label="pool", nodes=nodes)


def test_many_nodes_are_cells_of_which_only_those_with_changes_are_links() -> None:
    nodes = [load(f"n{index}", index, index, group=f"g{index % 3}") for index in range(MAX_CARDS + 1)]
    nodes[7] = load("n7", 0, 900, group="g1", arriving=("a/b",))
    drawn = picture(cluster(*nodes), AFTER, {})
    assert len(re.findall(r'<rect class="h\d+', drawn)) == MAX_CARDS + 1
    assert re.findall(r'<a href="#(\w+)">', drawn) == ["n7"]
    assert "g0: " in drawn


def test_a_cell_of_a_node_that_may_not_go_is_ringed_and_says_so() -> None:
    nodes = [load(f"n{index}", index, index) for index in range(MAX_CARDS + 1)]
    marks = {"n7": Span("may not go", "bad"), "n8": Span("may go", "good")}
    drawn = picture(cluster(*nodes), {"before": "The cluster as it is"}, marks)
    assert re.findall(r"<title>(.+?)</title>", drawn) == ["n7: may not go"]
    assert "a ring: a node that leaves or cannot be drained" in drawn


def test_names_cannot_leave_their_place() -> None:
    evil = '"><script>alert(1)</script>'
    drawn = picture(cluster(load(evil, 1, 2, group=evil, arriving=(evil,))), BOTH, {})
    assert "<script>" not in drawn


def test_pictures_of_few_and_of_many_nodes_stay_as_they_were_looked_at(golden: Callable[[str, str], None]) -> None:
    pods, two = tuple(f"a/p{number}" for number in range(14)), ("cpu", "nvidia.com/gpu")
    rows: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((8, 4), (2, 0), (8, 1), {"group": "x", "arriving": pods[:1], "cordoned": True}),
        ((8, 0), (6, 0), (3, 0), {"group": "x", "leaving": pods}),
        ((8, 4), (0, 0), (4, 6), {"new": True, "arriving": pods}),
        ((8, 4), (0, 0), (0, 0), {"group": "y", "leaving": pods[:12]}),
    ]
    nodes = tuple(
        NodeLoad(name=f"n{index}", allocatable=has, before=then, after=now, **more)
        for index, (has, then, now, more) in enumerate(rows)
    )
    filled = (
        NodeLoad(name=f"m{number}", allocatable=(100,), before=(number % 100,), after=(50,), group="y")
        for number in range(MAX_CARDS)
    )
    gangs = tuple(
        GroupOnMap(group=f"ml/g{number:02}", before={"n1": 1}, after={"n0": number // 9 + 1, "n1": 2})
        for number in range(28)
    )
    few = ClusterMap(resources=two, group_label="pool", nodes=nodes, pod_groups=gangs[:3])
    many = ClusterMap(resources=two, group_label=None, nodes=(*nodes, *filled), pod_groups=gangs)
    marks = {"n0": Span("fits", "good"), "n1": Span("may not go", "bad"), "n3": Span("full", "bad")}
    lines: list[str] = []
    for nodes_on_map in (few, many):
        drawn = (picture(nodes_on_map, *how) for how in ((BOTH, marks), (AFTER, {})))
        both, after = (text.replace("><", ">\n<").splitlines() for text in drawn)
        there = both[both.index("<figcaption>After</figcaption>") - 1 :]
        lines += [*both, *unified_diff(there, after, "the same after", "drawn alone", lineterm="", n=0)]
    golden("report/pictures.html", "\n".join(lines) + "\n")
