"""Nodes that join a cluster: their rows come last, and everything else keeps its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from kplan.api.core import Node
from kplan.api.decode import convert
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.load import decode_pod


def node(name: str, zone: str = "a") -> Node:
    content: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    return convert(content, Node)


def pod(name: str, on: str = "") -> PodInfo:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "nodeName": on}
    return PodInfo(decode_pod({"metadata": {"name": name, "namespace": "d"}, "spec": spec}))


def test_new_nodes_come_last_whatever_their_names() -> None:
    table = NodeTable([node("m"), node("b")])
    grown = table.grown([node("a"), node("c", "z")])
    assert grown.names == ["b", "m", "a", "c"]
    assert grown.row_of == {"b": 0, "m": 1, "a": 2, "c": 3}
    assert table.names == ["b", "m"]


def test_a_new_node_is_the_last_of_its_zone_in_the_tree() -> None:
    table = NodeTable([node("m", "a"), node("n", "b")]).grown([node("a", "a")])
    assert [table.names[row] for row in table.zone_order.tolist()] == ["m", "n", "a"]


def test_absent_nodes_stay_absent_and_new_ones_are_there() -> None:
    table = NodeTable([node("a"), node("b")]).with_absent(np.array([True, False]))
    assert table.grown([node("c")]).absent.tolist() == [True, False, False]


def test_sums_and_pods_are_kept_and_new_nodes_are_empty() -> None:
    table = NodeTable([node("a"), node("b")])
    cluster = Cluster.build(table, [pod("p", "a"), pod("q", "b"), pod("r")])
    grown = cluster.grown(table.grown([node("c")]))
    assert grown.pod_count.tolist() == [1, 1, 0]
    assert grown.requested("cpu").tolist() == [1000, 1000, 0]
    grown.bind(2, 2)
    assert grown.pod_count.tolist() == [1, 1, 1]
    assert grown.pods_on == [[0], [1], [2]]
    built = Cluster.build(grown.nodes, [pod("p", "a"), pod("q", "b"), pod("r", "c")])
    assert built.requested("cpu").tolist() == grown.requested("cpu").tolist()


def test_a_copy_of_a_grown_cluster_is_independent() -> None:
    table = NodeTable([node("a")])
    cluster = Cluster.build(table, [pod("p", "a"), pod("q")])
    cluster.copy()
    grown = cluster.grown(table.grown([node("b")]))
    copied = grown.copy()
    copied.bind(1, 1)
    assert grown.pod_count.tolist() == [1, 0]
    assert grown.pods_on == [[0], []]
