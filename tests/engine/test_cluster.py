"""What a cluster adds up equals counting again, whatever came and went."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.engine import cluster as cluster_module
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.rules.pod_info import PodInfo
from tests.engine.crowds import MATCHES, POD_POOL, PODS, STEPS, built, change, is_meant, node_table, read, recounted
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
    cluster.match_counts(match)
    before, counts = read(cluster), cluster.match_counts(match).tolist()
    n_pods, log = len(cluster.pods), list(cluster.log)
    ports = {row: set(taken) for row, taken in cluster.used_ports.items()}

    twin = cluster.copy()
    assert read(twin) == before
    assert (twin.pods_on, twin.used_ports, twin.log) == (cluster.pods_on, cluster.used_ports, [])
    for step in more:
        change(twin, step)
    twin.add_replicas(POD_POOL[0], np.arange(3))

    assert read(cluster) == before
    assert (len(cluster.pods), cluster.log, cluster.match_counts(match).tolist()) == (n_pods, log, counts)
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
        patch.setattr(cluster_module, "MAX_FOLLOWED", most_followed)
        assert cluster.match_counts(match).tolist() == counted(cluster, match)
        for number, step in enumerate(more):
            change(cluster, step)
            if number % 3 == 0:
                assert cluster.match_counts(match).tolist() == counted(cluster, match)
        assert cluster.match_counts(match).tolist() == counted(cluster, match)


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


def test_the_log_tells_who_came_and_who_left():
    cluster = Cluster(node_table(2))
    one, other = (cluster.add_pod(PodInfo(convert({"metadata": {"name": name}}, Pod))) for name in ("a", "b"))
    cluster.bind(one, 1)
    cluster.bind(other, 0)
    cluster.unbind(one)

    assert [(change.pod, change.row, change.sign) for change in cluster.log] == [
        (one, 1, 1),
        (other, 0, 1),
        (one, 1, -1),
    ]


def test_when_a_pod_leaves_the_last_one_takes_its_place():
    cluster = Cluster(node_table(1))
    rows = [cluster.add_pod(PodInfo(convert({"metadata": {"name": name}}, Pod))) for name in "abcd"]
    for pod in rows:
        cluster.bind(pod, 0)

    cluster.unbind(rows[1])
    assert cluster.pods_on[0] == [0, 3, 2]
    cluster.unbind(rows[2])
    assert cluster.pods_on[0] == [0, 3]


@examples(80)
@given(STEPS, STEPS, st.sampled_from([0, 2, 3]))
def test_pods_leave_a_crowded_node_as_they_leave_any_other(steps, more, crowded):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_module, "CROWDED", crowded)
        busy = built(2, steps)
        copied = busy.copy()
        for step in more:
            change(busy, step)
    plain = built(2, steps)
    assert copied.pods_on == plain.pods_on
    for step in more:
        change(plain, step)
    assert busy.pods_on == plain.pods_on


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


def test_a_cluster_is_built_with_its_pods_on_their_nodes_and_an_empty_log():
    made = [
        PodInfo(convert({"metadata": {"name": name}, "spec": {"nodeName": node}}, Pod))
        for name, node in (("a", "n1"), ("b", "gone"), ("c", ""), ("d", "n1"))
    ]

    cluster = Cluster.build(node_table(2), made)

    assert cluster.node_of == [1, NOWHERE, NOWHERE, 1]
    assert cluster.pods_on == [[], [0, 3]]
    assert cluster.log == []
    assert cluster.pod_count.dtype == np.int64


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
    assert cluster.pods.matching(match).tolist() == plain.pods.matching(match).tolist()
    for column in ("priorities", "start_micros", "nonzero_cpu", "nonzero_memory", "n_host_ports"):
        assert getattr(cluster.pods, column).tolist() == getattr(plain.pods, column).tolist()
    assert cluster.pods.requests("cpu").tolist() == plain.pods.requests("cpu").tolist()
    cluster.add_pod(infos[0] if infos else PodInfo(Pod()))
    assert len(cluster.pods.requests("cpu")) == len(cluster.pods.nonzero_cpu) == len(infos) + 1


@examples(60)
@given(STEPS, PODS, st.sets(st.integers(0, 2), min_size=1), MATCHES)
def test_replicas_added_together_are_as_if_added_one_by_one(steps, info, rows, match):
    together, apart = built(3, steps), built(3, steps)
    for cluster in (together, apart):
        cluster.match_counts(match)

    together.add_replicas(info, np.asarray(sorted(rows), np.intp))
    for row in sorted(rows):
        apart.bind(apart.add_pod(info), row)

    assert read(together) == read(apart) == recounted(together)
    assert (together.pods_on, together.node_of, together.log) == (apart.pods_on, apart.node_of, apart.log)
    assert (together.used_ports, together.node_rows.tolist()) == (apart.used_ports, apart.node_rows.tolist())
    assert together.match_counts(match).tolist() == counted(together, match)
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
    assert narrowed.match_counts(match).tolist() == [cluster.match_counts(match).tolist()[row] for row in kept]
    assert narrowed.node_of == [kept.index(row) if row in kept else NOWHERE for row in cluster.node_of]
    assert read(cluster) == before
