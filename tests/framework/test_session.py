"""A session, its forks, and the nominations that it starts with."""

import pytest

from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import schedule_pod
from kplan.framework.interface import SUCCESS, Scope, Status
from kplan.framework.listers import Listers
from kplan.snapshot.model import Snapshot
from tests.framework.fakes import SCHEDULER, FakeExtender, plugin, pod, rejecting, scoring, session

GATE = plugin("Gate", pre_enqueue=lambda info: Status.unresolvable("no") if info.labels.get("gated") else SUCCESS)


def read(made):
    """Read what a plan changes."""
    return (
        list(made.cluster.node_of),
        [list(pods) for pods in made.cluster.pods_on],
        made.cluster.requested("cpu").tolist(),
        made.nominator.rows(),
        [made.find(info.key) for info in made.cluster.pods.infos],
        dict(made.refused),
        made.sampling.start_index,
        len(made.cluster.pods),
    )


def test_a_fork_changes_without_its_origin_noticing_and_the_other_way_round():
    pods = [pod("x", on="a", cpu="1"), pod("y", nominated="b", cpu="2"), pod("z", cpu="4")]
    made = session([], pods=pods, extenders=(FakeExtender(),), seed=3, start_index=2)
    made.refused[2] = "quota"
    before = read(made)

    twin = made.fork()
    assert read(twin) == before
    assert (twin.options, twin.extenders, twin.config) == (made.options, made.extenders, made.config)
    twin.evict(0)
    twin.bind(1, 2)
    twin.add_pod(pod("new"))
    twin.refused.clear()
    twin.sampling.advance(1, 3)
    assert read(made) == before
    changed = read(twin)
    made.bind(2, 0)
    made.nominator.nominate(0, 1)
    assert read(twin) == changed


def test_plugins_of_a_fork_see_the_fork():
    full = plugin("Full", Scope.NODE, filter=lambda _, view: rejecting(*"abc"[: int(view.pod_count.sum())])(None, view))
    made = session([full, plugin("Score", score=scoring())], pods=[pod("x"), pod("y")])
    schedule_pod(made, 0)
    twin = made.fork()
    twin.bind(0, 1)

    framework = twin.frameworks[SCHEDULER]
    assert framework.cluster is twin.cluster
    assert (framework.handle.cluster, framework.handle.nominator) == (twin.cluster, twin.nominator)
    assert framework.handle.framework is framework
    assert made.frameworks[SCHEDULER].handle.nominator is made.nominator
    assert schedule_pod(made, 1).row == 0
    assert schedule_pod(twin, 1).row != 0


def test_a_fork_can_be_given_other_objects():
    made = session([])
    listers = Listers(Snapshot())
    assert made.fork().listers is made.listers
    assert made.fork(listers).listers is listers
    assert made.fork(listers).frameworks[SCHEDULER].handle.listers is listers


def test_forks_draw_alike():
    made = session([plugin("Score", score=scoring())], "abcdefgh", [pod(f"p{number}") for number in range(6)], seed=5)
    draws = [[schedule_pod(twin, row).row for row in range(6)] for twin in (made.fork(), made.fork())]
    assert draws[0] == draws[1]
    assert len(set(draws[0])) > 1


def test_without_a_seed_nobody_draws():
    assert session([]).frameworks[SCHEDULER].handle.random is None
    assert session([], seed=0).frameworks[SCHEDULER].handle.random is not None


@pytest.mark.parametrize(
    ("made", "row"),
    [
        pytest.param(pod(nominated="b"), 1, id="pending"),
        pytest.param(pod(), None, id="not nominated"),
        pytest.param(pod(nominated="gone"), None, id="the node is gone"),
        pytest.param(pod(on="a", nominated="b"), None, id="it runs"),
        pytest.param(pod(on="gone", nominated="b"), None, id="it runs on a node that is gone"),
        pytest.param(pod(nominated="b", scheduler="other"), None, id="another scheduler is responsible"),
        pytest.param(pod(nominated="b", labels={"gated": "yes"}), None, id="it never entered the queue"),
    ],
)
def test_nominations_taken_over_from_the_status(made, row):
    assert session([GATE], pods=[made]).nominator.row_of(0) == row


def test_a_pod_that_the_api_server_refuses_is_not_nominated():
    made = session([], pods=[pod()])
    refused = made.add_pod(pod("refused", nominated="b"))
    made.refused[refused] = "quota"
    made.nominate_from_status([refused])
    assert not made.nominator


def test_a_nomination_that_holds_keeps_its_place():
    made = session([], pods=[pod("x", nominated="b"), pod("y", nominated="b"), pod("z", nominated="a")])
    made.nominator.nominate(2, 1)
    made.nominate_from_status([0, 1, 2])
    assert made.nominator.pods_for(1) == (0, 1, 2)


def test_a_pod_that_is_bound_is_no_longer_nominated():
    made = session([], pods=[pod(nominated="b")])
    made.bind(0, 2)
    assert (made.cluster.node_of, made.nominator.row_of(0)) == ([2], None)
    made.evict(0)
    assert (made.cluster.node_of, made.nominator.row_of(0)) == ([NOWHERE], None)


def test_pods_are_found_by_name():
    made = session([], pods=[pod("x"), pod("y", namespace="blue")])
    added = made.add_pod(pod("z"))
    assert [made.find(key) for key in ("default/x", "blue/y", "default/z", "default/y")] == [0, 1, added, None]
