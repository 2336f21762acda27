"""A view shows each node as it would be if its own pods were others, and all other nodes as they are."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Node
from kplan.api.decode import convert
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import NONZERO, NONZERO_CPU, NONZERO_MEMORY, POD_COUNT
from kplan.engine.view import ChangingView, NodeView, PodDelta
from tests.engine.crowds import MATCHES, POD_POOL, PODS, RESOURCES, STEPS, built, is_meant
from tests.recorded import examples


def changed_worlds(draw):
    """Draw a cluster, rows of a view, and for each of its positions the pods that leave and come."""
    cluster = built(draw(st.integers(1, 4)), draw(STEPS))
    rows = draw(st.permutations(range(len(cluster))))[: draw(st.integers(1, len(cluster)))]
    changes = []
    for row in rows:
        there = cluster.pods_on[row]
        leaving = draw(st.lists(st.sampled_from(there), unique=True)) if there else []
        coming = [cluster.add_pod(info) for info in draw(st.lists(PODS, max_size=2))]
        changes.append((leaving, coming))
    return cluster, rows, changes


def answers(view, matches):
    """Read every sum, position by position."""
    per_resource = [view.requested(name).tolist() for name in RESOURCES]
    counts = [view.delta_matches(match).tolist() for match in matches]
    sums = [view.requested(key).tolist() for key in (POD_COUNT, *NONZERO.values())]
    return [list(position) for position in zip(*per_resource, *sums, *counts, strict=True)]


def really(cluster, rows, changes, matches):
    """Read the same from clusters that were really changed, one for each position."""
    found = []
    for row, (leaving, coming) in zip(rows, changes, strict=True):
        twin = cluster.copy()
        for pod in leaving:
            twin.unbind(pod)
        for pod in coming:
            twin.bind(pod, row)
        infos = twin.pods.infos

        def number(match, pods, infos=infos):
            return sum(is_meant(match, infos[pod]) for pod in pods)

        found.append(
            [
                *(int(twin.requested(name)[row]) for name in RESOURCES),
                int(twin.pod_count[row]),
                int(twin.requested(NONZERO_CPU)[row]),
                int(twin.requested(NONZERO_MEMORY)[row]),
                *(number(match, twin.pods_on[row]) - number(match, cluster.pods_on[row]) for match in matches),
            ]
        )
    return found


def triples(changes):
    leaving = [(i, pod, -1) for i, (pods, _) in enumerate(changes) for pod in pods]
    coming = [(i, pod, 1) for i, (_, pods) in enumerate(changes) for pod in pods]
    return leaving, coming


@examples(100)
@given(st.data(), st.lists(MATCHES, min_size=1, max_size=2))
def test_sums_of_a_view_equal_those_of_really_changed_clusters(data, matches):
    cluster, rows, changes = changed_worlds(data.draw)
    leaving, coming = triples(changes)
    view = NodeView(cluster, np.asarray(rows, np.intp), PodDelta.of(data.draw(st.permutations(leaving + coming))))
    assert answers(view, matches) == really(cluster, rows, changes, matches)
    assert view.is_changed == bool(leaving or coming)
    for position, (row, (gone, come)) in enumerate(zip(rows, changes, strict=True)):
        assert sorted(view.pods_at(position)) == sorted({*cluster.pods_on[row]} - {*gone} | {*come})


@examples(100)
@given(st.data(), st.lists(MATCHES, min_size=1, max_size=2))
def test_sums_of_a_changing_view_equal_those_of_really_changed_clusters(data, matches):
    cluster, rows, changes = changed_worlds(data.draw)
    leaving, coming = triples(changes)
    view = ChangingView(
        cluster,
        np.asarray(rows, np.intp),
        np.asarray([position for position, _, _ in leaving], np.intp),
        np.asarray([pod for _, pod, _ in leaving], np.intp),
        PodDelta.of(coming),
    )
    away = [(set(gone), come) for gone, come in changes]
    if data.draw(st.booleans()):
        answers(view, matches)
    for index in data.draw(st.lists(st.sampled_from(range(len(leaving))), max_size=6)) if leaving else []:
        position, pod, _ = leaving[index]
        if view.is_removed[index]:
            view.change(np.asarray([index]), 1)
            away[position][0].discard(pod)
        else:
            view.change(np.asarray([index]), -1)
            away[position][0].add(pod)

    assert answers(view, matches) == really(cluster, rows, away, matches)


@examples(60)
@given(st.data(), MATCHES)
def test_one_position_alone_looks_as_it_does_in_the_whole_view(data, match):
    cluster, rows, changes = changed_worlds(data.draw)
    leaving, coming = triples(changes)
    view = NodeView(cluster, np.asarray(rows, np.intp), PodDelta.of(leaving + coming))
    position = data.draw(st.integers(0, len(rows) - 1))
    assert answers(view.at(position), [match]) == [answers(view, [match])[position]]
    assert view.at(position).pods_at(0) == view.pods_at(position)


def test_one_position_alone_keeps_the_order_of_its_changes():
    cluster = built(2, [])
    delta = PodDelta(np.asarray([1, 0, 1]), np.asarray([5, 6, 7]), np.asarray([-1, 1, 1]), in_order=True)
    alone = NodeView(cluster, None, delta).at(1)
    assert (alone.delta.pods.tolist(), alone.delta.signs.tolist()) == ([5, 7], [-1, 1])
    assert alone.delta.positions.tolist() == [0, 0]
    assert alone.delta.in_order
    assert not NodeView(cluster, None, PodDelta.of([(1, 5, -1)])).at(1).delta.in_order


def test_a_view_of_all_nodes_without_changes_shows_the_columns_themselves():
    cluster = built(3, [])
    view = NodeView(cluster)
    assert (len(view), view.row(2), view.delta, view.is_changed) == (3, 2, None, False)
    assert view.pod_count is cluster.pod_count
    assert view.requested("cpu") is cluster.requested("cpu")
    assert view.take(np.asarray([7, 8, 9])).tolist() == [7, 8, 9]
    assert NodeView(cluster, np.asarray([2, 0])).take(np.asarray([7, 8, 9])).tolist() == [9, 7]


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=5), st.data())
def test_each_node_is_shown_what_its_domain_has(values, data):
    nodes = [
        {"metadata": {"name": f"n{row}", "labels": {"rack": value} if value else {}}}
        for row, value in enumerate(values)
    ]
    cluster = Cluster(NodeTable([convert(node, Node) for node in nodes]))
    column = cluster.nodes.label("rack")
    per_slot = np.arange(len(column.values) + 1) * 7
    of_value = dict(zip([*column.values, None], per_slot.tolist(), strict=True))
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), unique=True, min_size=1))

    assert NodeView(cluster).of_domains(column, per_slot).tolist() == [of_value[value] for value in values]
    few = NodeView(cluster, np.asarray(rows))
    assert few.of_domains(column, per_slot).tolist() == [of_value[values[row]] for row in rows]


def net(delta):
    """Add a delta up per position and pod."""
    total = Counter()
    for position, pod, sign in zip(delta.positions, delta.pods, delta.signs, strict=True) if delta is not None else ():
        total[int(position), int(pod)] += int(sign)
    return {key: sign for key, sign in total.items() if sign}


@examples(60)
@given(st.data(), MATCHES)
def test_a_narrowed_view_answers_as_the_whole_one_does_there(data, match):
    cluster, rows, changes = changed_worlds(data.draw)
    leaving, coming = triples(changes)
    positions, away = ([each[i] for each in leaving] for i in (0, 1))
    view = ChangingView(
        cluster,
        np.asarray(rows, np.intp),
        np.asarray(positions, np.intp),
        np.asarray(away, np.intp),
        PodDelta.of(coming),
    )
    for index in range(len(leaving)):
        if data.draw(st.booleans()):
            view.change(np.asarray([index], np.intp), 1)
    if data.draw(st.booleans()):
        answers(view, [match])
    keep = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_)

    narrowed = view.narrowed(keep)

    kept = np.flatnonzero(keep).tolist()
    assert answers(narrowed, [match]) == [answers(view, [match])[position] for position in kept]
    assert net(narrowed.delta) == {
        (kept.index(position), pod): sign for (position, pod), sign in net(view.delta).items() if position in kept
    }


def test_a_node_that_changes_is_not_taken_for_one_as_it_stands():
    cluster = built(2, [])
    for row in range(2):
        cluster.bind(cluster.add_pod(POD_POOL[row]), row)
    row, away, none = (np.asarray(each, np.intp) for each in ([1], [1], []))
    gone = PodDelta(np.asarray([0], np.intp), away, np.asarray([-1], np.int64))

    assert NodeView(cluster, row).only_row == 1
    assert NodeView(cluster, np.asarray([0, 1], np.intp)).only_row is None
    assert NodeView(cluster, row, gone).only_row is None
    assert ChangingView(cluster, row, np.asarray([0], np.intp), away).only_row is None
    assert ChangingView(cluster, row, none, none).only_row is None
