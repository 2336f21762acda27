"""A view that changes step by step answers as one that adds everything up each time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.labels import selector_from_map
from kplan.engine.cluster import Cluster
from kplan.engine.matching import PodMatch
from kplan.engine.node_table import NodeTable
from kplan.engine.view import ChangingView, NodeView, PodDelta
from kplan.rules.pod_info import PodInfo
from tests.recorded import examples

WEB = PodMatch(((None, selector_from_map({"app": "web"})),))


def make_cluster(apps_on_nodes):
    """Make nodes with pods of the apps named, whose requests all differ."""
    nodes = [
        convert({"metadata": {"name": f"n{row}"}, "status": {"allocatable": {"cpu": "9"}}}, Node)
        for row in range(len(apps_on_nodes))
    ]
    infos = []
    for row, apps in enumerate(apps_on_nodes):
        for app in apps:
            requests = {"cpu": f"{len(infos) + 1}m", "memory": str(3 * len(infos))}
            pod = {
                "metadata": {"name": f"p{len(infos)}", "namespace": "default", "labels": {"app": app}},
                "spec": {"nodeName": f"n{row}", "containers": [{"name": "c", "resources": {"requests": requests}}]},
            }
            infos.append(PodInfo(convert(pod, Pod)))
    return Cluster.build(NodeTable(nodes), infos)


def answers(view):
    """Read everything that plugins read."""
    return [
        view.requested("cpu").tolist(),
        view.requested("memory").tolist(),
        view.pod_count.tolist(),
        view.nonzero_cpu.tolist(),
        view.nonzero_memory.tolist(),
        view.delta_matches(WEB).tolist(),
    ]


def net(delta):
    """Add a delta up per position and pod."""
    total = {}
    for position, pod, sign in zip(delta.positions, delta.pods, delta.signs, strict=True) if delta is not None else ():
        total[int(position), int(pod)] = total.get((int(position), int(pod)), 0) + int(sign)
    return {key: sign for key, sign in total.items() if sign}


@examples(60)
@given(st.data())
def test_steps_add_up_to_what_a_plain_delta_says(data):
    apps = data.draw(st.lists(st.lists(st.sampled_from(["web", "db"]), max_size=5), min_size=1, max_size=4))
    cluster = make_cluster(apps)
    rows = np.asarray(data.draw(st.permutations(range(len(apps)))), np.intp)
    away = [(i, pod) for i, row in enumerate(rows) for pod in cluster.pods_on[row] if data.draw(st.booleans())]
    pairs = [(i, pod) for i in range(len(rows)) for pod in range(len(cluster.pods))]
    extra = [(i, pod, 1) for i, pod in pairs if data.draw(st.integers(0, 9)) == 0]
    view = ChangingView(
        cluster,
        rows,
        np.asarray([i for i, _ in away], np.intp),
        np.asarray([pod for _, pod in away], np.intp),
        PodDelta.of(extra) if extra else None,
    )
    missing = set(range(len(away)))
    if data.draw(st.booleans()):
        answers(view)  # so that sums exist before the steps
    for index in range(len(away)):
        view.restore(np.asarray([index], np.intp))
        missing.discard(index)
        if data.draw(st.booleans()):
            view.remove_again(np.asarray([index], np.intp))
            missing.add(index)
        if data.draw(st.integers(0, 3)) == 0:
            answers(view)
    plain = NodeView(cluster, rows, PodDelta.of([(*away[index], -1) for index in sorted(missing)] + extra))

    assert answers(view) == answers(plain)
    assert net(view.delta) == net(plain.delta)


@examples(60)
@given(st.data())
def test_a_narrowed_view_answers_as_the_whole_one_does_there(data):
    apps = data.draw(st.lists(st.lists(st.sampled_from(["web", "db"]), max_size=4), min_size=1, max_size=4))
    cluster = make_cluster(apps)
    n_nodes = len(apps)
    positions = np.repeat(np.arange(n_nodes), [len(each) for each in apps])
    extra = PodDelta.of([(0, 0, 1)]) if apps[0] else None
    view = ChangingView(cluster, np.arange(n_nodes), positions, np.arange(len(positions)), extra)
    for index in range(len(positions)):
        if data.draw(st.booleans()):
            view.restore(np.asarray([index], np.intp))
    if data.draw(st.booleans()):
        answers(view)
    keep = np.asarray(data.draw(st.lists(st.booleans(), min_size=n_nodes, max_size=n_nodes)), np.bool_)

    narrowed = view.narrowed(keep)

    assert answers(narrowed) == [np.asarray(each)[keep].tolist() for each in answers(view)]
    kept = np.flatnonzero(keep).tolist()
    assert net(narrowed.delta) == {
        (kept.index(position), pod): sign for (position, pod), sign in net(view.delta).items() if position in kept
    }


def test_a_node_that_changes_is_not_taken_for_one_as_it_stands():
    cluster = make_cluster([["web"], ["web"]])
    row, away, none = (np.asarray(each, np.intp) for each in ([1], [1], []))
    gone = PodDelta(np.asarray([0], np.intp), away, np.asarray([-1], np.int64))

    assert NodeView(cluster, row).only_row == 1
    assert NodeView(cluster, np.asarray([0, 1], np.intp)).only_row is None
    assert NodeView(cluster, row, gone).only_row is None
    assert ChangingView(cluster, row, np.asarray([0], np.intp), away).only_row is None
    assert ChangingView(cluster, row, none, none).only_row is None
