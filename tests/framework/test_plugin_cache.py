"""What is cached for other pods changes nothing: pods in a row are decided as by a scheduler that starts anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan import load_snapshot
from kplan.cluster.base import Base
from kplan.engine.cluster import NOWHERE
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework import plugin_cache
from kplan.framework.cycle import schedule_pod
from kplan.framework.interface import CycleState, KeyedPlugin, PreScoreResult, Scope, plugin_with
from kplan.framework.plugin_cache import ShapeEntry, changed_rows
from kplan.framework.results import Outcome
from tests.framework.fakes import SCHEDULER, plugin, pod, rows_of, session
from tests.plugins.neighbours import neighbourhoods, pods
from tests.recorded import examples, sample
from tests.scenarios import AREAS, scenarios

ROOMS = np.asarray([1, 2, 1, 3, 0, 2])
"""How many pods each node of the tests takes."""


def by_room(_, view):
    """Reject full nodes, beyond help those that have no room at all, and name a second reason for crowded ones."""
    room, count = ROOMS[rows_of(view)], view.pod_count
    reasons = (Reason("full", Code.UNSCHEDULABLE), Reason("crowded", Code.UNSCHEDULABLE))
    return Verdicts(((count >= room) + 2 * (count > 2)).astype(np.uint32), reasons, (room == 0) | (count > 3))


def by_name(_, view):
    """Reject every third node."""
    return Verdicts.where(rows_of(view) % 3 == 2, Reason("third", Code.UNSCHEDULABLE_AND_UNRESOLVABLE))


def by_neighbours(cycle, view):
    """Reject all nodes when the first has a pod."""
    rejected = np.full(len(view), bool(cycle.cluster.pod_count[0]))
    return Verdicts.where(rejected, Reason("neighbour", Code.UNSCHEDULABLE))


def top_is_100(_, scores):
    return 100 * scores // max(int(scores.max(initial=0)), 1)


def plugins():
    return [
        plugin("Room", Scope.NODE, filter=by_room, score=lambda _, view: 50 - view.pod_count),
        plugin("Third", Scope.NODE_OBJECT, filter=by_name, score=lambda _, view: rows_of(view)),
        plugin("Neighbour", Scope.CLUSTER, filter=by_neighbours, score=lambda _, view: view.pod_count * 7),
        plugin("Flat", Scope.NODE_OBJECT, score=lambda _, view: rows_of(view) * 0 + 4, normalize_score=top_is_100),
        plugin("Sloped", Scope.NODE_OBJECT, score=lambda _, view: rows_of(view) + 1, normalize_score=top_is_100),
        plugin("Following", Scope.NODE, score=lambda _, view: view.pod_count, normalize_score=top_is_100),
        plugin("Silent", Scope.NODE, pre_score=PreScoreResult.SKIP, score=lambda *_: pytest.fail("not to be asked")),
        plugin(
            "Moody",
            pre_score=lambda cycle, _: PreScoreResult.SKIP if cycle.cluster.pod_count[1] else None,
            score=lambda _, view: rows_of(view) % 2,
        ),
    ]


WEIGHTS = {"Room": 2, "Third": 3, "Flat": 5, "Sloped": 7, "Following": 11}


def asked(made, entry, rows):
    """Filter all nodes and score some, and read everything out."""
    framework = made.frameworks[SCHEDULER]
    cycle = CycleState(made.cluster.pods.infos[0], 0, made.cluster)
    verdicts, passes = framework.filter_all(cycle, entry, frozenset())
    scores = framework.run_scores(cycle, np.asarray(rows), entry)
    return (
        [(name, found.bits.tolist(), found.codes().tolist()) for name, found in verdicts],
        passes.tolist(),
        scores.total.tolist(),
        [scores.plugins_at(position) for position in range(len(rows))],
    )


STEPS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=8)


@examples(120)
@given(st.lists(STEPS, min_size=2, max_size=4), st.data(), st.sampled_from([0, 1, 4, 100]))
def test_what_is_kept_equals_what_is_asked_anew_whatever_came_and_went(rounds, data, share):
    pods = [pod(), *(pod(f"p{number}") for number in range(40))]
    made = session(plugins(), "abcdef", pods, weights=WEIGHTS)
    kept = ShapeEntry()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin_cache, "_REFRESH_SHARE", share)
        for steps in rounds:
            for row, leaves in steps:
                bound = [each for each, where in enumerate(made.cluster.node_of) if where != NOWHERE]
                if leaves and bound:
                    made.cluster.unbind(bound[row % len(bound)])
                else:
                    made.cluster.bind(made.cluster.node_of.index(NOWHERE, 1), row)
            rows = sorted(data.draw(st.sets(st.integers(0, 5), min_size=1)))

            assert asked(made, kept, rows) == asked(made, ShapeEntry(), rows)


@examples(60)
@given(st.lists(st.integers(0, 5), max_size=12), st.sets(st.integers(0, 5), min_size=1))
def test_a_shape_that_occurs_once_is_told_the_same_as_one_whose_answers_are_kept(binds, rows):
    everyone = plugins()
    for each in everyone:
        if each.scope is Scope.NODE_OBJECT:
            type(each).reads = lambda *_: "the same of all pods"
    made = session(
        everyone, "abcdef", [pod(f"p{number}", cpu=str(number)) for number in range(len(binds) + 2)], weights=WEIGHTS
    )
    framework = made.frameworks[SCHEDULER]
    once = 0
    for number, row in enumerate([*binds, 0]):
        info = made.cluster.pods.infos[number]
        entry = framework.shape(info)
        for known in (entry, ShapeEntry()):
            framework.run_pre_filter(CycleState(info, number, made.cluster), known)
        once += not entry.keeps_own
        assert asked(made, entry, sorted(rows)) == asked(made, ShapeEntry(), sorted(rows))
        made.cluster.bind(number, row)

    assert once == len(binds)
    again = framework.shape(made.cluster.pods.infos[len(binds)])
    assert again.keeps_own is True
    assert framework.shape(made.cluster.pods.infos[len(binds)]) is again


def test_only_nodes_whose_pods_changed_are_asked_again():
    seen = {name: [] for name in ("filter", "object", "score")}

    def note(name, answer):
        return lambda cycle, view: seen[name].append(rows_of(view).tolist()) or answer(cycle, view)

    made = session(
        [
            plugin(
                "A", Scope.NODE, filter=note("filter", by_room), score=note("score", lambda _, view: view.pod_count)
            ),
            plugin("B", Scope.NODE_OBJECT, filter=note("object", by_name)),
        ],
        "abcdef",
        [pod(), *(pod(f"p{number}") for number in range(9))],
    )
    entry = ShapeEntry()
    everywhere = list(range(6))
    for row in (4, 4, None):
        asked(made, entry, everywhere)
        if row is not None:
            made.cluster.bind(made.cluster.node_of.index(NOWHERE, 1), row)
    assert seen == {"filter": [everywhere, [4], [4]], "object": [everywhere], "score": [everywhere, [4], [4]]}

    for row in (0, 1, 2, 3):
        made.cluster.bind(made.cluster.node_of.index(NOWHERE, 1), row)
    asked(made, entry, everywhere)
    assert seen["filter"][3:] == seen["score"][3:] == [everywhere]
    assert len(seen["object"]) == 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([], [], id="nothing changed"),
        pytest.param([5, 1, 5], [1, 5], id="two of eight"),
        pytest.param([0, 1, 2], None, id="more than one in four means all"),
    ],
)
def test_many_changed_rows_mean_all(rows, expected):
    made = session([], "abcdefgh", [pod(f"p{number}") for number in range(3)])
    for number, row in enumerate(rows):
        made.cluster.bind(number, row)
    found = changed_rows(made.cluster, 0)
    assert (found if found is None else found.tolist()) == expected


def test_the_shapes_that_were_not_used_for_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(plugin_cache, "MAX_SHAPES", 2)
    made = session([], pods=[pod("x", cpu="1"), pod("y", cpu="2"), pod("z", cpu="3"), pod("again", cpu="1")])
    framework = made.frameworks[SCHEDULER]
    x, y, z, again = made.cluster.pods.infos
    kept = framework.shape(x)

    framework.shape(y)
    assert framework.shape(again) is kept
    other = framework.shape(z)
    assert framework.shape(x) is kept
    assert framework.shape(z) is other
    framework.shape(y)
    assert framework.shape(x) is not kept


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "x", "namespace": "default"},
    "spec": {"selector": {"app": "x"}},
}
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "6"}

requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(0, 2500).map("{}m".format),
        "memory": st.integers(0, 5000).map("{}Mi".format),
        "nvidia.com/gpu": st.just("1"),
    },
)


def objects(world, incoming, *, has_service):
    """The world as a list, with pods that are yet to be placed: `incoming` are pairs of a pod and its requests."""
    there = [
        {**node, "apiVersion": "v1", "kind": "Node", "status": {"allocatable": ALLOCATABLE}} for node in world.nodes
    ]
    placed = [(one, {}, name) for name, running in world.running.items() for one in running]
    for number, (running_pod, wanted, name) in enumerate([*placed, *((*pair, None) for pair in incoming)]):
        spec = {**running_pod["spec"], "containers": [{"name": "main", "resources": {"requests": wanted}}]}
        if name is not None:
            spec["nodeName"] = name
        metadata = {**running_pod["metadata"], "name": f"pod-{number}", "uid": f"uid-{number}"}
        there.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return [*there, *([SERVICE] if has_service else [])]


def told(result):
    """Everything that a decision tells."""
    nodes = range(0 if result.filter is None else result.filter.n_nodes)
    statuses = [result.filter.status(row) for row in nodes]
    scores = result.scores
    return (
        result.outcome,
        result.message,
        result.row,
        result.ties.tolist(),
        result.n_feasible,
        [status and (status.plugin, status.code, status.texts) for status in statuses],
        scores and scores.total.tolist(),
        scores and [scores.plugins_at(position) for position in range(len(scores.rows))],
    )


@examples(80)
@given(
    neighbourhoods(),
    st.lists(st.tuples(st.one_of(pods(), pods(is_spread=True)), requests), min_size=2, max_size=6),
    st.lists(st.integers(0, 5), max_size=3),
    st.booleans(),
)
def test_pods_in_a_row_are_decided_as_each_of_them_alone(world, incoming, again, has_service):
    incoming = [*incoming, *(incoming[index % len(incoming)] for index in again)]  # some say the same as earlier ones
    session = Base(load_snapshot(objects(world, incoming, has_service=has_service))).session.fork()
    for row in [row for row, info in enumerate(session.cluster.pods.infos) if not info.pod.spec.node_name]:
        result, alone = schedule_pod(session, row), schedule_pod(session.fork(), row)
        assert told(result) == told(alone)
        if result.outcome is Outcome.SCHEDULED:
            session.bind(row, result.row)


def answer_alone(plugin, cycle, nodes):
    """Ask a plugin at all its points, and read out what is kept of it for more pods than one."""
    result = plugin.pre_filter(cycle) if hasattr(plugin, "pre_filter") else None
    if plugin.scope is Scope.CLUSTER:
        return result if result is not None and result.for_shape else None
    is_filtered = hasattr(plugin, "filter") and (result is None or not (result.skip or result.status))
    verdicts = plugin.filter(cycle, nodes) if is_filtered else None
    skip = plugin.pre_score(cycle, nodes) if hasattr(plugin, "pre_score") else None
    scores = plugin.score(cycle, nodes).tolist() if hasattr(plugin, "score") and skip is None else None
    reasons = verdicts and [[(one.text, one.code) for one in verdicts.reasons_at(row)] for row in range(len(nodes))]
    return result, reasons, skip, scores


@pytest.mark.parametrize("area", AREAS)
def test_pods_of_which_a_plugin_reads_the_same_get_the_same_answers(area):
    for scenario in sample(scenarios(area), 16):
        made = Base(load_snapshot(scenario["objects"])).session
        (framework,) = made.frameworks.values()
        cycles = [CycleState(info, row, made.cluster) for row, info in enumerate(made.cluster.pods.infos)]
        for one in {one.name: one for one in (*framework.filter_plugins, *framework.score_plugins)}.values():
            if plugin_with(KeyedPlugin, one):
                answers = {}
                for cycle in cycles:
                    answer = answer_alone(one, cycle, NodeView(made.cluster))
                    assert answers.setdefault(one.reads(cycle.pod), answer) == answer, one.name
