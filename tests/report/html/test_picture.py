"""The picture of a cluster: bars and cells say what the map says."""

import re

from kplan.documents.nodes import ClusterMap, GroupOnMap, NodeLoad
from kplan.report.blocks import Span
from kplan.report.html.picture import MAX_CARDS, Moment, picture

AFTER: dict[Moment, str] = {"after": "The cluster with the new pods"}
BOTH: dict[Moment, str] = {"before": "Before", "after": "After"}


def load(name: str, before: int, after: int, **more: object) -> NodeLoad:
    return NodeLoad(name=name, allocatable=(1000,), before=(before,), after=(after,), **more)


def cluster(*nodes: NodeLoad) -> ClusterMap:
    return ClusterMap(resources=("cpu",), group_label="pool", nodes=nodes)


def test_what_leaves_is_outlined_before_and_gone_after() -> None:
    drawn = picture(cluster(load("n", 750, 250, leaving=("a/b",))), BOTH, {})
    before, after = drawn.split("<figcaption>After")
    assert '<rect class="leaving" x="25" width="50" height="8"/>' in before
    assert 'class="leaving"' not in after
    assert "<span>25%</span>" in after


def test_an_overcommitted_node_has_a_full_bar_and_its_true_share() -> None:
    drawn = picture(cluster(load("n", 1500, 1500)), AFTER, {})
    assert 'class="kept" width="100"' in drawn
    assert "<span>150%</span>" in drawn


def test_a_node_that_offers_nothing_of_a_resource_has_no_bar_for_it() -> None:
    node = NodeLoad(name="n", allocatable=(1000, 0), before=(0, 0), after=(0, 0))
    drawn = picture(ClusterMap(resources=("cpu", "nvidia.com/gpu"), group_label=None, nodes=(node,)), AFTER, {})
    assert drawn.count('class="bar"') == 1


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


def grouped(*nodes: NodeLoad, **groups: tuple[dict[str, int], dict[str, int]]) -> ClusterMap:
    on = (GroupOnMap(group=f"ml/{name}", before=then, after=now) for name, (then, now) in groups.items())
    return ClusterMap(resources=("cpu",), group_label=None, nodes=nodes, pod_groups=tuple(on))


def test_the_pods_of_a_group_have_one_letter_on_every_card_and_in_the_legend() -> None:
    nodes = [load(name, 0, 500) for name in ("a", "b")]
    drawn = picture(grouped(*nodes, eval=({"a": 1}, {"a": 1}), train=({}, {"a": 1, "b": 2})), BOTH, {})
    before, after = drawn.split("<figcaption>After")
    assert ">A\u00d71</span>" in before
    assert ">B\u00d7" not in before
    assert 'title="PodGroup ml/train: 2 of 3 pods">B\u00d72</span>' in after
    assert "ml/train: no pod \u2192 3 pods on 2 nodes</li>" in drawn
    assert "ml/eval: 1 pod on 1 node</li>" in drawn


def test_cells_have_the_letter_of_their_group_and_say_its_name() -> None:
    nodes = [load(f"n{index}", 0, 0) for index in range(MAX_CARDS + 1)]
    drawn = picture(grouped(*nodes, train=({}, {"n3": 2, "n4": 1}), eval=({}, {"n4": 1})), AFTER, {})
    assert re.findall(r'<text class="gang"[^>]*>(.)</text>', drawn) == ["A", "+"]
    assert "<title>n4: 1 pod of ml/train, 1 pod of ml/eval</title>" in drawn
