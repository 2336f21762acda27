import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.labels import selector_from_map
from kplan.engine import cluster as cluster_module
from kplan.engine.cluster import NOWHERE, Cluster, DomainCounts, domain_counts
from kplan.engine.mappings import Recent
from kplan.engine.matching import PodMatch
from kplan.engine.node_table import NodeTable
from kplan.engine.view import NodeView, PodDelta
from kplan.rules.pod_info import PodInfo
from tests.recorded import examples

MATCH = PodMatch(((frozenset(("default",)), selector_from_map({"app": "x"})),))
ZONES = ("a", "b", None, "a", "b")


def make_cluster():
    nodes = [
        {"metadata": {"name": f"n{index}", "labels": {} if zone is None else {"zone": zone}}}
        for index, zone in enumerate(ZONES)
    ]
    return Cluster(NodeTable([convert(each, Node) for each in nodes]))


def make_pod(app, namespace="default", affinity=None):
    spec = {"containers": [{"name": "c"}]}
    if affinity is not None:
        spec["affinity"] = affinity
    metadata = {"name": "p", "namespace": namespace, "labels": {"app": app}}
    return PodInfo(convert({"metadata": metadata, "spec": spec}, Pod))


def counted(cluster, counted_nodes):
    column = cluster.nodes.label("zone")
    return DomainCounts(cluster, MATCH, column.slots, len(column.values) + 1, counted_nodes)


def by_hand(cluster, counted_nodes):
    counts = {"a": 0, "b": 0, None: 0}
    for pod, row in enumerate(cluster.node_of):
        info = cluster.pods.infos[pod]
        if row != NOWHERE and counted_nodes[row] and info.labels["app"] == "x" and info.namespace == "default":
            counts[ZONES[row]] += 1
    return [counts["a"], counts["b"], counts[None]]


def test_pods_that_want_the_same_share_its_counts_where_all_nodes_count():
    cluster = make_cluster()
    slots = np.arange(5)
    shared = domain_counts(cluster, MATCH, slots, 5)
    cluster.bind(cluster.add_pod(make_pod("x")), 3)

    assert domain_counts(cluster, MATCH, slots, 5) is shared
    assert shared.counts.tolist() == [0, 0, 0, 1, 0]
    assert domain_counts(cluster, MATCH, slots, 5, np.ones(5, np.bool_)) is not shared
    assert domain_counts(cluster, MATCH, np.zeros(5, np.intp), 1).counts.tolist() == [1]


@pytest.mark.parametrize("most_followed", [0, 2, 1000])
@examples(25)
@given(data=st.data())
def test_counts_follow_the_cluster(most_followed, data):
    counted_nodes = np.asarray(data.draw(st.lists(st.booleans(), min_size=5, max_size=5)))
    steps = data.draw(st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 4), st.booleans()), max_size=12))
    cluster = make_cluster()
    counts = counted(cluster, counted_nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_module, "MAX_FOLLOWED_BY_DOMAIN", most_followed)
        patch.setattr(cluster_module, "MAX_FOLLOWED", most_followed)
        for app, row, asks in steps:
            bound = [pod for pod, where in enumerate(cluster.node_of) if where != NOWHERE]
            if app == "y" and bound:
                cluster.unbind(bound[0])
            else:
                cluster.bind(cluster.add_pod(make_pod(app)), row)
            if asks:
                assert counts.counts.tolist() == by_hand(cluster, counted_nodes)
        assert counts.counts.tolist() == by_hand(cluster, counted_nodes)
        assert counts.n_pods == sum(by_hand(cluster, counted_nodes))
        per_node = cluster.match_counts(MATCH) * counted_nodes
        assert int(per_node.sum()) == sum(by_hand(cluster, counted_nodes))


def test_counts_that_are_forgotten_are_counted_again(monkeypatch):
    monkeypatch.setattr(cluster_module, "MAX_MATCH_COUNTS", 1)
    cluster = make_cluster()
    other = PodMatch(((None, selector_from_map({"app": "y"})),))
    cluster.bind(cluster.add_pod(make_pod("x")), 0)

    assert cluster.match_counts(MATCH).tolist() == [1, 0, 0, 0, 0]
    assert cluster.match_counts(other).tolist() == [0] * 5
    cluster.bind(cluster.add_pod(make_pod("x")), 4)
    assert cluster.match_counts(MATCH).tolist() == [1, 0, 0, 0, 1]


def test_mask_knows_pods_that_are_added():
    cluster = make_cluster()
    mask = cluster.pods.mask(MATCH)
    assert mask.column.tolist() == []

    cluster.add_pod(make_pod("x"))
    assert mask.column[:1].tolist() == [True]
    for app in ("y", "x", "x"):
        cluster.add_pod(make_pod(app))
    cluster.add_pod(make_pod("x", "elsewhere"))
    assert mask.column[:5].tolist() == [True, False, True, True, False]


def test_pods_with_the_same_terms_share_a_code():
    def spread_out(key):
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": key}
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    cluster = make_cluster()
    for affinity in (None, spread_out("zone"), {}, spread_out("host"), spread_out("zone")):
        cluster.add_pod(make_pod("x", affinity=affinity))

    assert cluster.pods.term_codes.tolist() == [0, 1, 0, 2, 1]
    assert [len(terms.required_anti_affinity) for terms in cluster.pods.term_sets] == [0, 1, 1]
    twin = cluster.copy()
    twin.add_pod(make_pod("x", affinity=spread_out("host")))
    assert twin.pods.term_codes.tolist() == [0, 1, 0, 2, 1, 2]
    assert cluster.pods.term_codes.tolist() == [0, 1, 0, 2, 1]


def test_view_at_one_position_keeps_its_changes():
    cluster = make_cluster()
    pods = [cluster.add_pod(make_pod("x")) for _ in range(3)]
    cluster.bind(pods[0], 1)
    view = NodeView(cluster, np.asarray([1, 3]), PodDelta.of([(0, pods[0], -1), (1, pods[1], 1), (1, pods[2], 1)]))

    assert view.delta_matches(MATCH).tolist() == [-1, 2]
    assert [view.at(position).delta_matches(MATCH).tolist() for position in (0, 1)] == [[-1], [2]]
    assert view.at(1).row(0) == 3
    assert not NodeView(cluster).at(2).is_changed


def test_recent_forgets_what_was_not_asked_for_longest():
    made = []
    recent = Recent(2)

    def ask(key):
        return recent.get(key, lambda: made.append(key) or key.upper())

    assert [ask(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]
    assert len(recent) == 2
