"""What a cluster adds up equals counting again, whatever came and went."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.labels import selector_from_map
from kplan.engine import cluster as cluster_module
from kplan.engine.cluster import NOWHERE, Cluster, DomainCounts, NodePods
from kplan.engine.matching import PodMatch
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import HOST_PORTS, START
from kplan.rules.pod_info import PodInfo
from tests import objects
from tests.engine.crowds import (
    MATCHES,
    POD_POOL,
    PODS,
    STEPS,
    built,
    change,
    is_meant,
    match_counts,
    matching,
    node_table,
    read,
    recounted,
)
from tests.recorded import examples


def counted(cluster, match):
    infos = cluster.pods.infos
    return [sum(is_meant(match, infos[pod]) for pod in here) for here in cluster.pods_on]


@examples(80)
@given(st.integers(1, 4), STEPS)
def test_sums_equal_recounting(n_nodes, steps):
    cluster = built(n_nodes, steps)
    assert read(cluster) == recounted(cluster)


@examples(60)
@given(st.integers(1, 4), STEPS, STEPS)
def test_no_node_has_less_free_than_is_said(n_nodes, steps, more):
    cluster = built(n_nodes, steps)
    assert cluster.least_free("cpu") == (cluster.nodes.allocatable("cpu") - cluster.requested("cpu")).min()
    assert cluster.least_free("pods") == (cluster.nodes.allowed_pods - cluster.pod_count).min()
    for step in more:
        change(cluster, step)
        assert cluster.least_free("cpu") <= (cluster.nodes.allocatable("cpu") - cluster.requested("cpu")).min()
        assert cluster.least_free("pods") <= (cluster.nodes.allowed_pods - cluster.pod_count).min()


@examples(80)
@given(STEPS, PODS, st.integers(0, 2))
def test_to_bind_and_to_unbind_is_to_do_nothing(steps, info, row):
    cluster = built(3, steps)
    pod = cluster.add_pod(info)
    before, ports = read(cluster), {at: set(taken) for at, taken in cluster.used_ports.items() if at != row}
    cluster.bind(pod, row)
    assert cluster.node_of[pod] == row
    assert cluster.pods_on[row][-1] == pod
    cluster.unbind(pod)
    assert read(cluster) == before
    assert {at: taken for at, taken in cluster.used_ports.items() if at != row} == ports


@examples(60)
@given(STEPS, STEPS, MATCHES)
def test_a_copy_and_its_original_do_not_notice_each_other(steps, more, match):
    cluster = built(3, steps)
    match_counts(cluster, match)
    before, counts = read(cluster), match_counts(cluster, match).tolist()
    n_pods, log = len(cluster.pods), list(cluster.log)
    ports = {row: set(taken) for row, taken in cluster.used_ports.items()}

    twin = cluster.copy()
    assert read(twin) == before
    assert (twin.pods_on, twin.used_ports, twin.log) == (cluster.pods_on, cluster.used_ports, [])
    for step in more:
        change(twin, step)
    twin.add_replicas(POD_POOL[0], np.arange(3))

    assert read(cluster) == before
    assert (len(cluster.pods), cluster.log, match_counts(cluster, match).tolist()) == (n_pods, log, counts)
    assert cluster.used_ports == ports
    assert read(twin) == recounted(twin)
    again = cluster.copy()
    for step in more:
        change(cluster, step)
    cluster.add_replicas(POD_POOL[0], np.arange(3))
    assert read(again) == before
    assert read(cluster) == read(twin)


@examples(80)
@given(STEPS, STEPS, MATCHES, st.sampled_from([0, 2, 1000]))
def test_match_counts_equal_counting_whether_followed_or_counted_anew(steps, more, match, most_followed):
    cluster = built(3, steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_module, "MAX_FOLLOWED_BY_DOMAIN", most_followed)
        assert match_counts(cluster, match).tolist() == counted(cluster, match)
        for number, step in enumerate(more):
            change(cluster, step)
            if number % 3 == 0:
                assert match_counts(cluster, match).tolist() == counted(cluster, match)
        assert match_counts(cluster, match).tolist() == counted(cluster, match)


@examples(60)
@given(STEPS, STEPS)
def test_changed_rows_are_those_of_the_log_since_then(steps, more):
    cluster = built(4, steps)
    position = len(cluster.log)
    touched = set()
    for step in more:
        before = list(cluster.node_of)
        change(cluster, step)
        now = cluster.node_of
        touched |= {at for pod, at in enumerate(now) if at != NOWHERE and [at] != before[pod : pod + 1]}
        touched |= {at for pod, at in enumerate(before) if at not in {NOWHERE, now[pod]}}

    assert cluster.changed_rows(position).tolist() == sorted(touched)
    assert cluster.changed_rows(len(cluster.log)).tolist() == []


def test_a_port_of_two_pods_is_free_when_either_leaves():
    ports = [{"containerPort": 1, "hostPort": 80}]
    spec = {"containers": [{"name": "main", "ports": ports}]}
    cluster = Cluster(node_table(2))
    one, other = (
        cluster.add_pod(PodInfo(convert({"metadata": {"name": name}, "spec": spec}, Pod))) for name in ("a", "b")
    )
    cluster.bind(one, 1)
    cluster.bind(other, 1)
    assert cluster.used_ports == {1: {("0.0.0.0", "TCP", 80)}}

    cluster.unbind(one)
    assert cluster.used_ports == {1: set()}


@examples(60)
@given(st.lists(st.tuples(PODS, st.sampled_from(["n0", "n1", "n2", "gone", ""])), max_size=12), MATCHES)
def test_building_at_once_is_binding_one_by_one(placed, match):
    infos = [PodInfo(replace(info.pod, spec=replace(info.pod.spec, node_name=name or None))) for info, name in placed]
    table = node_table(3)
    plain = Cluster(table)
    for info in infos:
        pod = plain.add_pod(PodInfo(info.pod))
        if info.pod.spec.node_name in table.row_of:
            plain.bind(pod, table.row_of[info.pod.spec.node_name])

    cluster = Cluster.build(table, infos)

    assert read(cluster) == read(plain) == recounted(cluster)
    assert cluster.pods_on == plain.pods_on
    assert cluster.used_ports == plain.used_ports
    assert cluster.log == []
    assert matching(cluster.pods, match) == matching(plain.pods, match)
    assert cluster.pods.priorities.tolist() == plain.pods.priorities.tolist()
    for key in (START, HOST_PORTS, "cpu"):
        assert cluster.pods.derived(key).tolist() == plain.pods.derived(key).tolist()
    cluster.add_pod(infos[0] if infos else PodInfo(Pod()))
    assert len(cluster.pods.derived("cpu")) == len(infos) + 1


@examples(60)
@given(STEPS, PODS, st.sets(st.integers(0, 2), min_size=1), MATCHES)
def test_replicas_added_together_are_as_if_added_one_by_one(steps, info, rows, match):
    together, apart = built(3, steps), built(3, steps)
    for cluster in (together, apart):
        match_counts(cluster, match)

    together.add_replicas(info, np.asarray(sorted(rows), np.intp))
    for row in sorted(rows):
        apart.bind(apart.add_pod(info), row)

    assert read(together) == read(apart) == recounted(together)
    assert (together.pods_on, together.node_of, together.log) == (apart.pods_on, apart.node_of, apart.log)
    assert (together.used_ports, together.node_rows.tolist()) == (apart.used_ports, apart.node_rows.tolist())
    assert match_counts(together, match).tolist() == counted(together, match)
    assert [together.pods.term_sets[code] for code in together.pods.term_codes] == [
        apart.pods.term_sets[code] for code in apart.pods.term_codes
    ]


@examples(60)
@given(STEPS, st.sets(st.integers(0, 3), max_size=3), MATCHES)
def test_a_narrowed_cluster_is_one_that_never_had_the_other_nodes(steps, gone, match):
    cluster = built(4, steps)
    before = read(cluster)
    nodes = NodeTable([node for row, node in enumerate(cluster.nodes.nodes) if row not in gone])

    narrowed = cluster.narrowed(nodes)

    assert read(narrowed) == recounted(narrowed)
    kept = [row for row in range(4) if row not in gone]
    assert narrowed.pods_on == [cluster.pods_on[row] for row in kept]
    assert match_counts(narrowed, match).tolist() == [match_counts(cluster, match).tolist()[row] for row in kept]
    assert narrowed.node_of == [kept.index(row) if row in kept else NOWHERE for row in cluster.node_of]
    assert read(cluster) == before


MATCH = PodMatch(((frozenset(("default",)), selector_from_map({"app": "x"})),))
ZONES = ("a", "b", None, "a", "b")


def make_cluster():
    nodes = [
        {"metadata": {"name": f"n{index}", "labels": {} if zone is None else {"zone": zone}}}
        for index, zone in enumerate(ZONES)
    ]
    return Cluster(NodeTable([convert(each, Node) for each in nodes]))


def make_pod(app, namespace="default"):
    spec = {"containers": [{"name": "c"}]}
    metadata = {"name": "p", "namespace": namespace, "labels": {"app": app}}
    return PodInfo(convert({"metadata": metadata, "spec": spec}, Pod))


def counts_of(cluster, counted_nodes):
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
    shared = cluster.domain_counts(MATCH, slots, 5)
    cluster.bind(cluster.add_pod(make_pod("x")), 3)
    assert cluster.domain_counts(MATCH, slots, 5) is shared
    assert shared.counts.tolist() == [0, 0, 0, 1, 0]
    assert cluster.domain_counts(MATCH, slots, 5, np.ones(5, np.bool_)) is not shared
    assert cluster.domain_counts(MATCH, np.zeros(5, np.intp), 1).counts.tolist() == [1]


@pytest.mark.parametrize("most_followed", [0, 2, 1000])
@examples(25)
@given(data=st.data())
def test_counts_follow_the_cluster(most_followed, data):
    counted_nodes = np.asarray(data.draw(st.lists(st.booleans(), min_size=5, max_size=5)))
    steps = data.draw(st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 4), st.booleans()), max_size=12))
    cluster = make_cluster()
    counts = counts_of(cluster, counted_nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_module, "MAX_FOLLOWED_BY_DOMAIN", most_followed)
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
        per_node = match_counts(cluster, MATCH) * counted_nodes
        assert int(per_node.sum()) == sum(by_hand(cluster, counted_nodes))


def test_counts_that_are_forgotten_are_counted_again(monkeypatch):
    monkeypatch.setattr(cluster_module, "MAX_FOLLOWING", 1)
    cluster = make_cluster()
    other = PodMatch(((None, selector_from_map({"app": "y"})),))
    cluster.bind(cluster.add_pod(make_pod("x")), 0)
    assert match_counts(cluster, MATCH).tolist() == [1, 0, 0, 0, 0]
    assert match_counts(cluster, other).tolist() == [0] * 5
    cluster.bind(cluster.add_pod(make_pod("x")), 4)
    assert match_counts(cluster, MATCH).tolist() == [1, 0, 0, 0, 1]


@given(st.lists(st.tuples(st.sampled_from(["add", "leave", "turn", "copy", "grow"]), st.integers(0, 99)), max_size=40))
def test_the_last_pod_takes_the_place_of_one_that_leaves_and_copies_stay_as_they_are(moves):
    pods, plain, copies = NodePods([[], []]), [[], []], []
    for number, (move, choice) in enumerate(moves):
        row = choice % len(plain)
        there = plain[row]
        if move == "add":
            pods.changing(row).append(number)
            there.append(number)
        elif move == "leave" and there:
            leaving = choice % len(there)
            pods.take_out(row, there[leaving])
            there[leaving] = there[-1]
            there.pop()
        elif move == "turn":
            pods.changing(row).reverse()
            there.reverse()
        elif move == "copy":
            copies.append((pods, [on.copy() for on in plain]))
            pods = pods.copy()
        elif move == "grow":
            pods = pods.grown(1)
            plain.append([])
    assert pods.lists == plain
    assert all(copied.lists == before for copied, before in copies)


def joining(name, zone="a"):
    return convert(objects.node(name, **{"topology.kubernetes.io/zone": zone}), Node)


def placed(name, on=""):
    return PodInfo(convert(objects.pod(name, on), Pod))


def test_new_nodes_come_last_whatever_their_names():
    table = NodeTable([joining("m"), joining("b")])
    grown = table.grown([joining("a"), joining("c", "z")])
    assert grown.names == ["b", "m", "a", "c"]
    assert grown.row_of == {"b": 0, "m": 1, "a": 2, "c": 3}
    assert table.names == ["b", "m"]


def test_a_new_node_is_the_last_of_its_zone_in_the_tree():
    table = NodeTable([joining("m", "a"), joining("n", "b")]).grown([joining("a", "a")])
    assert [table.names[row] for row in table.zone_order.tolist()] == ["m", "n", "a"]


def test_absent_nodes_stay_absent_and_new_ones_are_there():
    table = NodeTable([joining("a"), joining("b")]).with_absent(np.array([True, False]))
    assert table.grown([joining("c")]).absent.tolist() == [True, False, False]


def test_sums_and_pods_are_kept_and_new_nodes_are_empty():
    table = NodeTable([joining("a"), joining("b")])
    cluster = Cluster.build(table, [placed("p", "a"), placed("q", "b"), placed("r")])
    grown = cluster.grown(table.grown([joining("c")]))
    assert grown.pod_count.tolist() == [1, 1, 0]
    assert grown.requested("cpu").tolist() == [1000, 1000, 0]
    grown.bind(2, 2)
    assert grown.pod_count.tolist() == [1, 1, 1]
    assert grown.pods_on == [[0], [1], [2]]
    built = Cluster.build(grown.nodes, [placed("p", "a"), placed("q", "b"), placed("r", "c")])
    assert built.requested("cpu").tolist() == grown.requested("cpu").tolist()


def test_a_copy_of_a_grown_cluster_is_independent():
    table = NodeTable([joining("a")])
    cluster = Cluster.build(table, [placed("p", "a"), placed("q")])
    cluster.copy()
    grown = cluster.grown(table.grown([joining("b")]))
    copied = grown.copy()
    copied.bind(1, 1)
    assert grown.pod_count.tolist() == [1, 0]
    assert grown.pods_on == [[0], []]
