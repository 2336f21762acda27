"""Laws that every plan obeys, held on the conformance scenarios and on sequences drawn from them."""

import copy
import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.capacity.counting import Template
from kplan.course import in_order
from kplan.documents.plan import Action
from kplan.framework import plugin_cache
from kplan.rules.pod_info import PodInfo
from tests.recorded import IS_WHOLE, examples
from tests.scenarios import key, pending, planner, replica, scenarios

# Areas whose pods keep nothing but their room: what volumes and devices reserve does not stand in a snapshot yet.
PLAIN = ("resources", "taints", "nodeaffinity", "ports", "images", "podaffinity", "spread", "defaultspread", "sequence")
ALL = (*PLAIN, "mixed", "volumes", "dra", "preemption", "nominated", "settle", "config")
SCENARIOS = 10 if IS_WHOLE else 1


def documents(plan: Any) -> list[dict[str, Any]]:
    return [placement.to_dict() for placement in plan.placements]


def bound(pod: dict[str, Any], node: str) -> dict[str, Any]:
    running = copy.deepcopy(pod)
    running["spec"]["nodeName"] = node
    running["status"] = {**running.get("status", {}), "phase": "Running"}
    return running


def drawn(area: str, data: st.DataObject) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw a scenario of an area and a sequence of pods, most of them replicas of few."""
    scenario = data.draw(st.sampled_from(scenarios(area)), label="scenario")
    originals = pending(scenario)
    numbers = data.draw(st.lists(st.integers(0, len(originals) - 1), min_size=2, max_size=10), label="pods")
    return scenario, [replica(originals[number], i) for i, number in enumerate(numbers)]


@examples(60)
@given(area=st.sampled_from(PLAIN), data=st.data())
def test_a_plan_equals_placing_one_by_one_on_snapshots_that_hold_the_earlier_decisions(
    area: str, data: st.DataObject
) -> None:
    scenario, pods = drawn(area, data)
    whole = planner(scenario, [*scenario["objects"], *pods]).plan([key(pod) for pod in pods])

    objects = [*scenario["objects"], *pods]
    for placement, pod in zip(whole.placements, pods, strict=True):
        alone = planner(scenario, objects).place(key(pod))
        assert alone.to_dict() == placement.to_dict()
        if alone.node is not None:
            objects = [bound(obj, alone.node) if obj is pod else obj for obj in objects]


@examples(60)
@given(area=st.sampled_from([*PLAIN, "mixed", "volumes", "config"]), data=st.data(), n=st.integers(1, 12))
def test_as_many_replicas_fit_as_a_plan_of_them_places_on_the_same_nodes(
    area: str, data: st.DataObject, n: int
) -> None:
    scenario = data.draw(st.sampled_from(scenarios(area)), label="scenario")
    original = data.draw(st.sampled_from(pending(scenario)), label="pod")
    replicas = [replica(original, number) for number in range(n)]
    plan = planner(scenario, [*scenario["objects"], *replicas]).plan([key(replica) for replica in replicas])

    asking = planner(scenario, [*scenario["objects"], *replicas])
    template = Template("replicas", (PodInfo(asking.objects.pod_by_key[key(replicas[0])]),))
    found = asking.capacity([template], limit=n)

    fitting = list(itertools.takewhile(lambda placement: placement.node is not None, plan.placements))
    assert found.fit.total == len(fitting)
    assert found.per_node() == {
        node: {"replicas": count} for node, count in sorted(Counter(placement.node for placement in fitting).items())
    }
    if len(fitting) < n:
        assert found.stop.message == plan.placements[len(fitting)].message
        assert found.stop.rejection_summary == plan.placements[len(fitting)].rejection_summary


@examples(40)
@given(area=st.sampled_from(ALL), data=st.data())
def test_a_queue_that_is_worked_off_stays_so(area: str, data: st.DataObject) -> None:
    scenario, pods = drawn(area, data)
    plan = planner(scenario, [*scenario["objects"], *pods]).plan_queue(max_rounds=3)

    after, document = plan.simulation.session.cluster, plan.report()
    placed = {
        change.pod: change.to_node for change in document.changes if change.action in (Action.PLACED, Action.MOVED)
    }
    assert all(after.nodes.row_of[node] >= 0 for node in placed.values() if node is not None)
    assert (after.pod_count == [len(on) for on in after.pods_on]).all()
    assert len({change.pod for change in document.changes}) == len(document.changes)
    report = document.to_dict()
    counts = Counter(change.action for change in document.changes)
    assert [report["summary"][name] for name in ("placed", "moved", "evicted", "pending")] == [
        counts[Action.PLACED],
        counts[Action.MOVED],
        counts[Action.EVICTED],
        counts[Action.PENDING],
    ]
    assert (
        planner(scenario, [*scenario["objects"], *pods]).plan_queue(max_rounds=3).report().changes == document.changes
    )


@examples(60)
@given(area=st.sampled_from(ALL), data=st.data(), settle=st.booleans())
def test_what_is_kept_per_shape_never_changes_a_decision(area: str, data: st.DataObject, settle: bool) -> None:
    scenario, pods = drawn(area, data)
    asking = planner(scenario, [*scenario["objects"], *pods])
    keys = [key(pod) for pod in pods]
    cached = documents(asking.plan(keys, settle_preemption=settle))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin_cache, "MAX_SHAPES", 0)
        assert documents(asking.plan(keys, settle_preemption=settle)) == cached


@pytest.mark.parametrize("area", ALL)
def test_explanations_brought_back_later_equal_those_read_at_once(area: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for scenario in scenarios(area)[:SCENARIOS]:
        settle = scenario.get("settlePreemption", False)
        at_once = documents(planner(scenario).plan(scenario["pods"], settle_preemption=settle))

        monkeypatch.setattr(in_order, "_EAGER_CELLS", -1)
        later = planner(scenario).plan(scenario["pods"], settle_preemption=settle)
        backwards = [placement.to_dict() for placement in reversed(later.placements)]
        monkeypatch.undo()

        assert backwards[::-1] == at_once


@pytest.mark.parametrize("area", ALL)
def test_the_order_of_objects_does_not_matter(area: str) -> None:
    for number, scenario in enumerate(scenarios(area)[:SCENARIOS]):
        settle = scenario.get("settlePreemption", False)
        shuffled = list(scenario["objects"])
        random.Random(number).shuffle(shuffled)
        as_given = documents(planner(scenario).plan(scenario["pods"], settle_preemption=settle))
        otherwise = documents(planner(scenario, shuffled).plan(scenario["pods"], settle_preemption=settle))
        assert otherwise == as_given


@pytest.mark.parametrize("area", ALL)
def test_plugin_scores_stay_within_zero_and_a_hundred_times_their_weight(area: str) -> None:
    for scenario in scenarios(area)[:SCENARIOS]:
        asking = planner(scenario)
        for placement in asking.plan(scenario["pods"]).placements:
            weights = {
                ref.name: ref.weight
                for profile in asking.config.profiles
                if profile.scheduler_name == placement.pod.scheduler_name
                for ref in profile.plugins["score"]
            }
            for score in placement.scores.values():
                assert all(0 <= value <= 100 * weights[name] for name, value in score.plugins.items())
                assert score.total == sum(score.plugins.values())
