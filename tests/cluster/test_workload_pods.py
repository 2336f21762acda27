"""Workloads as kubectl names them, the pods that are theirs, and decisions about pods one after the other."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.cluster.runs import Replay, run_in_order
from kplan.cluster.workload_pods import did_you_mean, kind_with_pods, pods_named
from kplan.errors import NotFoundError, UsageError
from tests.objects import head, node, owned_by, pod
from tests.preemption.scenes import planner
from tests.recorded import examples


def _object(kind: str, name: str, owner: tuple[str, str] | None = None) -> dict[str, Any]:
    owners = [] if owner is None else owned_by("/".join(owner), "u")
    return head(kind, name=name, namespace="shop", ownerReferences=owners)


def _pod(name: str, owner: tuple[str, str], node_name: str = "", phase: str = "Running") -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node_name} if node_name else {})}
    return {**_object("Pod", name, owner), "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("deploy", "Deployment"), ("deployments.apps", "Deployment"), ("deployments.v1.apps", "Deployment"),
        ("deployments.example.org", ""), ("Deployment", "Deployment"), ("sts", "StatefulSet"),
        ("cronjobs", "CronJob"), ("po", "Pod"), ("shop", ""), ("node", ""),
    ],
)  # fmt: skip
def test_kinds_are_named_as_kubectl_takes_them(text: str, kind: str) -> None:
    assert kind_with_pods(text) == kind


@pytest.mark.parametrize("text", ["shop/voucher-api", "pod/shop/voucher-api", "po/voucher-api", "voucher-api"])
def test_pods_are_named_as_kubectl_takes_them(text: str) -> None:
    assert pods_named([text], "shop", kplan.load_snapshot("demo")) == ["shop/voucher-api"]


def test_pods_are_followed_up_to_the_workload_that_waits_first() -> None:
    snapshot = kplan.load_snapshot(
        [
            node("a"),
            _object("Deployment", "web"),
            _object("ReplicaSet", "web-1", ("Deployment", "web")),
            _object("ReplicaSet", "other-1", ("Deployment", "other")),
            _pod("web-1-b", ("ReplicaSet", "web-1"), "a"),
            _pod("web-1-c", ("ReplicaSet", "web-1"), phase="Pending"),
            _pod("web-1-d", ("ReplicaSet", "web-1"), "a", phase="Failed"),
            _pod("other-1-a", ("ReplicaSet", "other-1"), "a"),
        ]
    )

    assert pods_named(["Deployment/shop/web"], "", snapshot) == ["shop/web-1-c", "shop/web-1-b"]
    assert pods_named(["ReplicaSet/shop/web-1"], "", snapshot) == ["shop/web-1-c", "shop/web-1-b"]


def test_owners_that_own_each_other_end_the_search() -> None:
    snapshot = kplan.load_snapshot(
        [
            node("a"),
            _object("ReplicaSet", "one", ("ReplicaSet", "two")),
            _object("ReplicaSet", "two", ("ReplicaSet", "one")),
            _object("Deployment", "web"),
            _pod("p", ("ReplicaSet", "one"), "a"),
        ]
    )

    assert pods_named(["ReplicaSet/shop/two"], "", snapshot) == ["shop/p"]
    with pytest.raises(UsageError, match="Deployment shop/web has no pods that run or wait"):
        pods_named(["Deployment/shop/web"], "", snapshot)


def test_a_workload_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFoundError) as caught:
        pods_named(["Deployment/shop/crt"], "", kplan.load_snapshot("demo"))
    assert caught.value.hint.startswith("did you mean deploy/shop/cart")


KNOWN = ["shop/voucher-api", "shop/cart-0", "data/redis-0", "node-a"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shop/cart-1", "did you mean shop/cart-0?"),
        ("shop/nosuch", ""),
        ("shop/redis-0", "did you mean data/redis-0?"),
        ("dta/redis-1", "did you mean data/redis-0?"),
        ("node-b", "did you mean node-a?"),
    ],
)
def test_a_namespace_that_two_names_share_does_not_make_them_alike(name: str, hint: str) -> None:
    assert did_you_mean([name], KNOWN) == hint


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


@pytest.mark.parametrize(
    ("settle", "decided", "ends"),
    [
        (False, [("small", "Scheduled", "a")], {"low-a": "a", "low-b": "b", "small": "a"}),
        (True, [("vip", "Scheduled", "a"), ("small", "Unschedulable", None)], {"low-b": "b", "vip": "a"}),
    ],
)
def test_a_pod_that_fits_nowhere_leaves_no_trace_unless_preemption_is_settled(settle, decided, ends):
    session, run = started(["vip", "small"], settle=settle)
    assert [facts(session, result)[:3] for result in run] == [("vip", "Unschedulable", None), *decided]
    assert where(session) == ends
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
