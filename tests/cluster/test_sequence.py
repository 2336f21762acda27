"""Runs take place decision by decision, and can be brought back."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kplan.cluster.workload_pods import Replay, run_in_order
from tests.objects import node, pod
from tests.preemption.scenes import planner
from tests.recorded import examples

CROWDED = [
    node("a", cpu="4"),
    node("b", cpu="4"),
    pod("low-a", on="a", cpu="3"),
    pod("low-b", on="b", cpu="4"),
    pod("small", cpu="1"),
    pod("vip", cpu="4", priority=9),
    pod("late", cpu="2"),
    pod("waiting", cpu="2", nominated="b", priority=1),
]


def started(keys, *, settle):
    """Start a run over pods of the crowded cluster; return its session and the run."""
    session = planner(CROWDED).session.fork()
    pods = [session.find(f"default/{name}") for name in keys]
    return session, run_in_order(session, pods, settle_preemption=settle)


def facts(session, result):
    names = session.cluster.nodes.names
    row = result.row
    return (
        session.cluster.pods.infos[result.pod].name,
        result.outcome.value,
        None if row is None else names[row],
        result.message,
    )


def where(session):
    names = session.cluster.nodes.names
    return {
        info.name: names[row]
        for info, row in zip(session.cluster.pods.infos, session.cluster.node_of, strict=True)
        if row >= 0
    }


def test_a_pod_that_fits_nowhere_leaves_no_trace_unless_preemption_is_settled():
    session, run = started(["vip", "small"], settle=False)
    before = where(session)

    assert [facts(session, result)[:3] for result in run] == [
        ("vip", "Unschedulable", None),
        ("small", "Scheduled", "a"),
    ]
    assert where(session) == {**before, "small": "a"}
    assert session.nominator.row_of(session.find("default/vip")) is None


def test_a_pod_that_is_not_in_the_snapshot_brings_its_nomination_along():
    asking = planner([node("a"), node("b"), pod("other", cpu="1")])
    incoming = pod("new", cpu="1", nominated="b")
    assert asking.place(incoming).node == "b"
    assert asking.place(incoming).not_evaluated == ("a",)
    assert asking.place("default/other").not_evaluated == ()
    assert not asking.session.nominator


@examples(40)
@given(st.lists(st.integers(0, 4), max_size=8), st.booleans())
def test_any_decision_can_be_brought_back_in_any_order(indices, settle):
    keys = ["small", "vip", "late", "waiting"]
    session, run = started(keys, settle=settle)
    expected = [facts(session, result) for result in run]
    sessions = []

    def start():
        fresh, again = started(keys, settle=settle)
        sessions.append(fresh)
        return again

    replay = Replay(start)
    wanted = [index for index in indices if index < len(expected)]
    for index in wanted:
        result = replay.at(index)
        assert facts(sessions[-1], result) == expected[index]
    backwards = sum(later < earlier for earlier, later in pairwise(wanted))
    assert len(sessions) == bool(wanted) + backwards


def test_a_decision_is_live_while_its_run_goes_on():
    starts = []

    def start():
        starts.append(started(["small", "late"], settle=False)[1])
        return starts[-1]

    replay = Replay(start, start())
    assert [replay.at(index) is result for index, result in enumerate(replay)] == [True, True]
    assert len(starts) == 1
    assert replay.at(1).pod == replay.at(1).pod
    assert len(starts) == 2
