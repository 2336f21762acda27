"""What is cached for other pods changes nothing: pods in a row are decided as by a scheduler that starts anew."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kplan import load_snapshot
from kplan.cluster.base import Base
from kplan.framework.cycle import schedule_pod
from kplan.framework.results import Outcome
from tests.plugins.neighbours import neighbourhoods, pods

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
    placed = [(pod, {}, name) for name, running in world.running.items() for pod in running]
    for number, (pod, wanted, name) in enumerate([*placed, *((*pair, None) for pair in incoming)]):
        spec = {**pod["spec"], "containers": [{"name": "main", "resources": {"requests": wanted}}]}
        if name is not None:
            spec["nodeName"] = name
        metadata = {**pod["metadata"], "name": f"pod-{number}", "uid": f"uid-{number}"}
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


@settings(deadline=None, max_examples=80)
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
