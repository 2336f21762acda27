"""What a planner may be asked, and what it says when it cannot answer."""

import pytest
from msgspec import UNSET

import kplan
from kplan.cluster.incoming import IncomingPod
from kplan.documents.placement import Origin
from kplan.errors import NotFoundError, UsageError
from kplan.snapshot.load import decode_pod
from tests.objects import node, pod
from tests.preemption.scenes import planner

WORLD = [node("a", cpu="2"), node("b", cpu="2"), pod("web", on="a"), pod("web-1", cpu="2"), pod("web-2", cpu="2")]


def test_a_pod_can_be_named_or_given():
    asking = planner(WORLD)
    given = pod("new", cpu="2")
    assert [asking.place(form).node for form in ("default/web-1", given, decode_pod(given))] == ["b", "b", "b"]
    assert asking.place(IncomingPod(decode_pod(given), Origin("web.yaml"))).pod.origin == Origin("web.yaml")
    assert asking.place(given).pod.origin is UNSET


def test_a_pod_that_the_api_server_refuses_is_an_error():
    refused = IncomingPod(decode_pod(pod("new")), Origin("web.yaml"), refused="exceeded quota: q")
    placement = planner(WORLD).place(refused)
    assert (placement.outcome.value, placement.node, placement.message) == ("Error", None, "exceeded quota: q")


@pytest.mark.parametrize(
    ("key", "error", "message", "hint"),
    [
        ("default/web-3", NotFoundError, "the snapshot has no pod default/web-3", "did you mean default/web-"),
        ("zzz", NotFoundError, "the snapshot has no pod zzz", "name it as NAMESPACE/NAME"),
        ("default/web", UsageError, "pod default/web already runs on node a", "kplan explain default/web"),
    ],
)
def test_a_pod_that_cannot_be_placed_is_told_with_a_hint(key, error, message, hint):
    with pytest.raises(error) as raised:
        planner(WORLD).place(key)
    assert str(raised.value) == message
    assert raised.value.hint.startswith(hint)


def test_sampling_is_all_or_as_configured():
    with pytest.raises(UsageError) as raised:
        planner(WORLD, sampling="some")
    assert raised.value.message == 'Planner: sampling: expected one of "all", "as-configured", got "some"'


def test_a_plan_takes_room_pod_by_pod_and_placing_takes_none():
    asking = planner(WORLD)
    assert [asking.place(f"default/web-{number}").node for number in (1, 2, 1)] == ["b", "b", "b"]
    plan = asking.plan(["default/web-2", "default/web-1"])
    assert [placement.node for placement in plan.placements] == ["b", None]
    assert asking.place("default/web-1").node == "b"


def test_pods_that_have_ended_take_no_room_and_are_not_pending():
    ended = [{**pod(f"done-{phase}", on="b", cpu="2"), "status": {"phase": phase}} for phase in ("Succeeded", "Failed")]
    unplaced = {**pod("done", cpu="1"), "status": {"phase": "Failed"}}
    asking = planner([*WORLD, *ended, unplaced])

    assert asking.place("default/web-1").node == "b"
    names = [asking.session.cluster.pods.infos[row].name for row in asking.pending.rows]
    assert names == ["web-1", "web-2"]
    with pytest.raises(UsageError, match="has failed"):
        asking.place("default/done")


def test_a_pod_on_a_node_that_is_not_there_is_not_pending():
    asking = planner([*WORLD, pod("astray", on="gone")])
    assert [asking.session.cluster.pods.infos[row].name for row in asking.pending.rows] == ["web-1", "web-2"]
    with pytest.raises(UsageError):
        asking.place("default/astray")


def test_a_queue_holds_each_pod_once():
    asking = planner(WORLD)
    one, other = asking.queue_of(None).rows
    assert asking.queue_of(["default/web-2", "default/web-1", "default/web-2"]).rows == (other, one)
    assert asking.queue_of(["default/web-2"], with_pending=True).rows == (one, other)
    assert asking.queue_of([]).rows == ()


def test_another_world_is_asked_in_the_same_way():
    asking = planner(WORLD, sampling="as-configured", start_index=1, seed=4)
    other = asking.for_cluster(kplan.load_snapshot(WORLD[:1]))
    assert (other.options, other.config, other.extenders) == (asking.options, asking.config, asking.extenders)
    assert other.session.cluster.nodes.names == ["a"]


def test_a_plan_is_a_document():
    plan = planner(WORLD).plan(["default/web-1"])
    made = plan.to_dict(fail_on=["gated"])
    assert made["kind"] == "PlacementReport"
    assert made["verdict"]["failOn"] == ["gated"]
    assert made["placements"] == [plan.placements[0].to_dict()]
