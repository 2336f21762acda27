"""What outlasts the loss of a node or a zone, held against a plain check: the loss takes place, and all are placed."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kplan
from kplan.api.labels import ZONE
from kplan.capacity.counting import fill
from kplan.capacity.losses import _most, possible_losses
from kplan.capacity.measure import Capacity
from kplan.errors import NotFoundError, UsageError
from tests.capacity.test_counting import APART, spread, template, web, zoned
from tests.effects.test_queue_plan import node, pod

Object = dict[str, Any]
NEAR = {"requiredDuringSchedulingIgnoredDuringExecution": [{**APART[0], "topologyKey": ZONE}]}
SHAPES: list[Object] = [{}, spread(ZONE), {"affinity": {"podAntiAffinity": NEAR}}, {"affinity": {"podAffinity": NEAR}}]


def plainly_holds(objects: list[Object], made: Object, places: list[str], lost: set[str]) -> bool:
    """Let nodes be gone, make their pods again, and place them one after the other in the order of the queue."""
    nodes = [obj for obj in objects if obj["kind"] == "Node" and obj["metadata"]["name"] not in lost]
    if not nodes:
        return not places
    pods = [obj for obj in objects if obj["kind"] == "Pod"]
    stay = [pod for pod in pods if pod["spec"]["nodeName"] not in lost]
    again = [pod for pod in pods if pod["spec"]["nodeName"] in lost and "ownerReferences" in pod["metadata"]]
    again = [pod for pod in again if pod["spec"]["priority"] >= made["spec"]["priority"]]
    again.sort(key=lambda pod: (-pod["spec"]["priority"], pod["metadata"]["name"]))
    replicas = [
        {**made, "metadata": {**made["metadata"], "name": f"web-{i}", "uid": f"web-{i}"}} for i in range(len(places))
    ]
    standing = [
        {**replica, "spec": {**replica["spec"], "nodeName": place}}
        for replica, place in zip(replicas, places, strict=True)
        if place not in lost
    ]
    moving = [replica for replica, place in zip(replicas, places, strict=True) if place in lost]

    def homeless(running: list[Object], queue: list[Object]) -> set[str]:
        fresh = [{**queued, "spec": {**queued["spec"], "nodeName": ""}, "status": {}} for queued in queue]
        for queued in fresh:
            queued["metadata"] = {**queued["metadata"], "name": f"{queued['metadata']['name']}-again", "uid": ""}
        planner = kplan.Planner(kplan.load_snapshot([*nodes, *running]))
        return {placement.pod.name for placement in planner.plan(fresh).placements if placement.node is None}

    first = [pod for pod in again if pod["spec"]["priority"] >= made["spec"]["priority"]]
    return homeless([*stay, *standing], [*first, *moving]) <= homeless(stay, first)


def clusters() -> st.SearchStrategy[list[Object]]:
    def made(cpus: list[int], running: list[tuple[int, int, int, bool]]) -> list[Object]:
        objects = [zoned(f"n{i}", f"z{i % 2}", str(cpu)) for i, cpu in enumerate(cpus)]
        for i, (at, cpu, priority, has_owner) in enumerate(running):
            owner = "ReplicaSet" if has_owner else None
            where = f"n{at % len(cpus)}"
            objects.append(pod(f"p{i}", f"{cpu}00m", priority=priority, node_name=where, owner=owner))
        return objects

    running = st.tuples(st.integers(0, 3), st.integers(1, 20), st.integers(-1, 1), st.booleans())
    return st.builds(made, st.lists(st.integers(1, 4), min_size=2, max_size=4), st.lists(running, max_size=5))


def capacity_of(objects: list[Object], made: Object, **how: Any) -> Capacity:
    return kplan.Planner(kplan.load_snapshot(objects)).capacity([template(made)], **how)


@settings(deadline=None, max_examples=10)
@given(clusters(), st.sampled_from(["400m", "1"]), st.sampled_from(SHAPES), st.booleans())
def test_what_is_said_holds_when_it_is_checked_plainly(
    objects: list[Object], cpu: str, shape: Object, zones: bool
) -> None:
    made = web(cpu, **shape)
    answer = capacity_of(objects, made, lose=1, zones=zones)
    planner = kplan.Planner(kplan.load_snapshot(objects))
    course: list[tuple[int, int]] = []
    fill(planner.fork(), [template(made)], course=course)
    names = planner.session.cluster.nodes.names
    places = [names[row] for _, row in course]
    groups: dict[str, set[str]] = {}
    for name in names:
        groups.setdefault(planner.objects.node_by_name[name].metadata.labels[ZONE] if zones else name, set()).add(name)

    def holds(number: int) -> bool:
        return all(plainly_holds(objects, made, places[:number], lost) for lost in groups.values())

    assert answer.survival is not None
    assert answer.survival.fits_before == len(places)
    assert holds(answer.fit.total)
    assert answer.survival.tried_all
    assert not any(holds(number) for number in range(answer.fit.total + 1, len(places) + 1))
    assert (answer.survival.stopped_by is None) == (answer.fit.total == len(places))


def test_room_for_the_largest_loss_stays_free() -> None:
    objects = [node("a"), node("b"), node("c")]
    found = capacity_of(objects, web(), lose=1)

    assert (found.fit.total, found.stop is not None and found.stop.outcome.value) == (8, "Unschedulable")
    assert found.per_node().keys() == {"a", "b", "c"}
    assert found.survival is not None
    assert found.survival.stopped_by is not None
    assert (found.survival.losses, found.survival.stopped_by.nodes) == (3, 1)


def test_two_at_once() -> None:
    found = capacity_of([node(name) for name in "abcd"], web(), lose=2)

    assert found.fit.total == 8
    assert found.survival is not None
    assert found.survival.losses == len(list(combinations("abcd", 2)))


def test_pods_of_the_cluster_take_their_room_first() -> None:
    held = [pod(f"p{i}", "1", node_name="a", owner="ReplicaSet") for i in range(2)]
    objects = [node("a"), node("b", "2"), *held]

    assert capacity_of(objects, web(), lose=1).fit.total == 0
    assert capacity_of(objects, web(priority=5), lose=1).fit.total == 2


def test_pods_that_find_no_other_place_anyway_do_not_count() -> None:
    pinned = pod("p", "1", node_name="a", owner="ReplicaSet", nodeSelector={"kubernetes.io/hostname": "a"})
    found = capacity_of([node("a"), node("b"), pinned], web(), lose=1)

    assert found.fit.total == 3
    assert found.survival is not None
    assert (found.survival.homeless, found.survival.homeless_count) == (("default/p",), 1)


def test_nothing_is_left_of_one_node() -> None:
    found = capacity_of([node("a")], web(), lose=1)

    assert found.fit.total == 0
    assert found.stop is not None
    assert found.stop.message == "no nodes available to schedule pods"


def test_larger_numbers_may_hold_where_smaller_ones_do_not() -> None:
    class Odd:
        tried: list[int] = []

        def holds(self, number: int) -> bool:
            self.tried.append(number)
            return number in (0, 1, 2, 9)

    assert _most(Odd(), 12) == (9, True)  # type: ignore[arg-type]
    assert _most(Odd(), 1000) == (2, False)  # type: ignore[arg-type]


def test_a_pod_that_takes_the_last_place_is_named() -> None:
    held = [pod(f"p{i}", "1", node_name="a", owner="ReplicaSet") for i in range(3)]
    found = capacity_of([node("a"), node("b"), *held], web(), lose=1).report()

    assert found.summary.fits == 1
    assert found.stop is not None
    assert found.stop.template.startswith("default/")


def test_what_cannot_be_lost_is_said() -> None:
    planner = kplan.Planner(kplan.load_snapshot([node(f"n{i:03}") for i in range(120)]))

    with pytest.raises(UsageError, match="7,140 ways"):
        possible_losses(planner, 2, zones=False)
    with pytest.raises(UsageError, match="only 120 nodes"):
        possible_losses(planner, 121, zones=False)
    with pytest.raises(NotFoundError, match="in which zone"):
        possible_losses(planner, 1, zones=True)
    with pytest.raises(UsageError, match="preempt and lose do not go together"):
        planner.capacity([template(web())], lose=1, preempt=True)
    claiming = web(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    with pytest.raises(UsageError, match="claims devices"):
        planner.capacity([template(claiming)], lose=1)
