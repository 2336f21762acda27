"""What holds of every rollout and every drain, whatever the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kplan
from kplan.documents.change import Change, Step, StepEvent, WorkloadState
from kplan.planner.change import ChangePlan
from tests.simulation.clusters import budget, deployment, node, running, stateful_set

NODES = ["n0", "n1", "n2", "n3"]
_QUICK = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
_amounts = st.one_of(st.integers(0, 3), st.sampled_from(["0%", "25%", "50%", "100%"]))


def _planner(*objects: dict[str, Any], cpu: str = "64") -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot([*(node(name, cpu) for name in NODES), *objects]))


def _share(amount: int | str, of: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    share = int(amount.rstrip("%")) * of
    return -(-share // 100) if up else share // 100


def _counts(change: ChangePlan, before: int, workload: str) -> Iterator[tuple[int, int]]:
    """Yield after each step how many pods a workload has, and how many of them are bound."""
    pods = bound = before
    for step in change.steps:
        if step.workload != workload or not step.pod:
            continue
        if step.event is StepEvent.CREATED:
            pods += 1
        elif step.event is StepEvent.BOUND:
            bound += 1
        elif step.event in (StepEvent.DELETED, StepEvent.EVICTED):
            pods -= 1
            bound -= step.node is not None
        yield pods, bound


def _moves(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.pod]


@_QUICK
@given(
    before=st.integers(1, 12),
    after=st.integers(0, 12),
    unavailable=_amounts,
    surge=_amounts,
)
def test_a_rollout_with_room_completes_within_what_its_strategy_allows(
    before: int, after: int, unavailable: int | str, surge: int | str
) -> None:
    strategy = {"maxUnavailable": unavailable, "maxSurge": surge}
    may_miss, more = _share(unavailable, after, up=False), _share(surge, after, up=True)
    if may_miss == more == 0:
        may_miss = 1
        if not isinstance(unavailable, str) or not isinstance(surge, str) or unavailable == "0%":
            strategy = {"maxUnavailable": 1, "maxSurge": surge}
    planner = _planner(*running(deployment("web", before, **strategy), NODES))

    change = planner.roll_out([deployment("web", after, "app:2", **strategy)])

    web = change.workloads[0]
    assert (web.state, web.change) == (WorkloadState.COMPLETE, Change.ROLLOUT)
    assert [each.new for each in change.after if each.workload == "Deployment/default/web"] == [True] * after
    if before == after:
        for pods, bound in _counts(change, before, "Deployment/default/web"):
            assert bound >= after - may_miss
            assert pods <= after + more


@_QUICK
@given(replicas=st.integers(1, 8), image=st.sampled_from(["app:1", "app:2"]), cpu=st.sampled_from(["2", "64"]))
def test_a_change_that_is_applied_twice_moves_nothing_the_second_time(replicas: int, image: str, cpu: str) -> None:
    planner = _planner(*running(deployment("web", 4), NODES), cpu=cpu)
    manifest = deployment("web", replicas, image)

    once, twice = planner.roll_out([manifest]), planner.roll_out([manifest, manifest])

    assert _moves(list(twice.steps)) == _moves(list(once.steps))
    assert twice.after == once.after


@_QUICK
@given(
    webs=st.integers(1, 8),
    minimum=st.integers(0, 8),
    drained=st.lists(st.sampled_from(NODES), min_size=1, unique=True),
    one_by_one=st.booleans(),
    cpu=st.sampled_from(["1", "2", "64"]),
)
def test_a_drain_never_breaks_a_budget(
    webs: int, minimum: int, drained: list[str], *, one_by_one: bool, cpu: str
) -> None:
    planner = _planner(*running(deployment("web", webs), NODES), budget("web", minAvailable=minimum), cpu=cpu)

    change = planner.drain(drained, one_by_one=one_by_one)

    for _, bound in _counts(change, webs, "Deployment/default/web"):
        assert bound >= min(minimum, webs)
    stays = [each for each in change.after if each.node in drained]
    assert {f"{each.namespace}/{each.name}" for each in stays} == set(change.blocked)
    assert all("disruption budget" in words for words in change.blocked.values())


@_QUICK
@given(replicas=st.integers(1, 6), more=st.integers(0, 6))
def test_a_stateful_set_is_rolled_from_its_last_pod_down(replicas: int, more: int) -> None:
    planner = _planner()

    change = planner.roll_out([stateful_set("db", replicas), stateful_set("db", more, "app:2")])

    names = [each.name for each in change.after]
    assert names == [f"db-{ordinal}" for ordinal in range(more)]
    deleted = [step.pod for step in change.steps if step.event is StepEvent.DELETED]
    assert deleted == [f"default/db-{ordinal}" for ordinal in reversed(range(replicas))]


def test_a_drain_puts_every_pod_elsewhere() -> None:
    planner = _planner(*running(deployment("web", 8), NODES), budget("web", maxUnavailable=1))

    change = planner.drain(["n0", "n1"])

    assert Counter(each.node for each in change.after) == Counter({"n2": 4, "n3": 4})
    assert not change.blocked
    assert change.workloads[0].state is WorkloadState.COMPLETE
