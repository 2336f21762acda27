"""A cluster taken over from another one is the cluster built from nothing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.labels import selector_from_map
from kplan.cluster.base import cluster_of
from kplan.engine.cluster import Cluster
from kplan.engine.matching import PodMatch
from kplan.engine.pod_table import HOST_PORTS, NONZERO_CPU, START, STORAGE
from kplan.snapshot.model import Snapshot
from tests.engine.crowds import APPS, POD_POOL, RESOURCES, match_counts, matching, read
from tests.recorded import examples

NAMES = [f"n{number}" for number in range(5)]
PHASES = ("Running", "Pending", "Succeeded")


def node(name: str, number: int) -> Node:
    """Return a node of one of a few kinds."""
    taints = [{"key": "a", "effect": "NoSchedule"}] if number % 3 == 1 else []
    labels = {"zone": f"z{number % 2}", "kubernetes.io/hostname": name}
    allocatable = {"cpu": str(2 + number % 4), "pods": "110"}
    spec = {"unschedulable": number >= 4, "taints": taints}
    return convert(
        {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}}, Node
    )


def pod(name: str, said: int, on: str, phase: str) -> Pod:
    """Return one of the pool's pods under another name, on a node."""
    like = POD_POOL[said % len(POD_POOL)].pod
    return replace(
        like,
        metadata=replace(like.metadata, name=name),
        spec=replace(like.spec, node_name=on),
        status=replace(like.status, phase=phase),
    )


NODES = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 7)).map(
    lambda drawn: {name: node(name, number) for name, number in drawn.items()}
)
PODS = st.dictionaries(
    st.integers(0, 14),
    st.tuples(st.integers(0, 99), st.sampled_from([*NAMES, "gone", ""]), st.sampled_from(PHASES)),
    max_size=12,
).map(lambda drawn: {name: pod(f"pod-{name}", *said) for name, said in drawn.items()})


def seen(cluster: Cluster) -> dict[str, Any]:
    """Read all that a cluster, its nodes and its pods say."""
    pods, nodes = cluster.pods, cluster.nodes
    selectors = [selector_from_map({"app": app}) for app in APPS]
    named = frozenset({"default", "red"})
    return read(cluster) | {
        "order": cluster.pods_on,
        "ports": cluster.used_ports,
        "log": cluster.log,
        "pods": [(info.key, info.pod) for info in pods.infos],
        "priorities": pods.priorities.tolist(),
        "per pod": [pods.derived(key).tolist() for key in (START, HOST_PORTS, STORAGE, NONZERO_CPU, *RESOURCES)],
        "held terms": [pods.term_sets[code] for code in pods.term_codes.tolist()],
        "matching": [matching(pods, PodMatch(((named, selector),))) for selector in selectors],
        "counts": [
            match_counts(cluster, PodMatch(((None, selector),), skip_terminating=True)).tolist()
            for selector in selectors
        ],
        "nodes": [nodes.nodes, nodes.names, nodes.row_of, nodes.unschedulable.tolist(), nodes.zone_order.tolist()],
        "taints": [nodes.taint_sets[code] for code in nodes.taint_codes.tolist()],
        "labels": [[nodes.label(key).codes.tolist(), nodes.label(key).values] for key in ("zone", "app")],
        "offers": [nodes.allocatable("cpu").tolist(), nodes.allowed_pods.tolist()],
    }


@examples(120)
@given(NODES, NODES, st.sets(st.sampled_from(NAMES)), PODS, PODS, st.sets(st.integers(0, 14)), st.booleans())
def test_what_is_taken_over_is_what_would_be_built(
    nodes: dict[str, Node],
    others: dict[str, Node],
    cordoned: set[str],
    pods: dict[int, Pod],
    more: dict[int, Pod],
    gone: set[int],
    is_read_before: bool,
) -> None:
    origin = cluster_of(Snapshot(nodes=tuple(nodes.values()), pods=tuple(pods.values())))
    if is_read_before:
        seen(origin)
    left = {**{name: held for name, held in pods.items() if name not in gone}, **more}
    nodes_after = {**nodes, **others} if len(gone) % 2 else nodes
    nodes_after = {
        name: _turned(held_node) if name in cordoned else held_node for name, held_node in nodes_after.items()
    }
    world = Snapshot(nodes=tuple(nodes_after.values()), pods=tuple(left.values()))

    changed = cluster_of(world, origin)

    assert seen(changed) == seen(cluster_of(world))
    added = POD_POOL[len(gone)]
    for cluster in (changed, plain := cluster_of(world)):
        row = cluster.add_pod(added)
        if nodes_after:
            cluster.bind(row, 0)
    assert seen(changed) == seen(plain)


def _turned(held_node: Node) -> Node:
    return replace(held_node, spec=replace(held_node.spec, unschedulable=not held_node.spec.unschedulable))
