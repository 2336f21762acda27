"""DefaultPreemption by example; numbers of the rows stand in the names."""

import numpy as np
import pytest

from kplan.framework.cycle import schedule_pod
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.interface import ExtenderError, ExtenderVictims, Status
from kplan.preemption.default_preemption import Unit
from tests.framework.fakes import FakeExtender
from tests.objects import node, pod
from tests.preemption.scenes import app, budget, planner, preempt, victims

DEALLOCATE = "no new claims to deallocate, "
TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


# --- where it does not help -------------------------------------------------------------------------------------------


def test_preemption_is_not_tried_when_a_plugin_before_it_cannot_tell():
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    found = preempt(node("a"), pod("low", "a", cpu="4"), pod("vip", cpu="4", priority=10, volumes=[volume]))

    assert found == {
        "eligible": False,
        "message": "not found",
        "nominatedNode": None,
        "ties": [],
        "decidedBy": None,
        "victims": [],
        "candidates": {},
        "rejected": {},
        "clearedNominations": [],
        "whyNot": "not-tried",
    }


@pytest.mark.parametrize(
    ("turn_away", "expected"),
    [(Status.unschedulable, ["b"]), (Status.unresolvable, [])],
    ids=["for a reason that may go away: every node is looked at", "for good: none is"],
)
def test_a_pod_that_pre_filter_turned_away(turn_away, expected):
    objects = [node("a", taints=[TAINT]), node("b"), pod("low-a", "a", cpu="4"), pod("low-b", "b", cpu="4")]
    session = planner([*objects, pod("vip", cpu="4", priority=10)]).session
    decided = schedule_pod(session, session.find("default/vip"))
    outcome = FilterOutcome(2, np.zeros(2, np.bool_), pre_filter_status=turn_away("not now"))
    found = (
        decided.framework.post_filter_plugins[-1].post_filter(decided.cycle, outcome).findings.to_document().to_dict()
    )
    assert list(found["candidates"]) == expected
    assert found["rejected"].get("a", {}).get("plugin") == ("TaintToleration" if expected else None)


# --- whom it takes ----------------------------------------------------------------------------------------------------


def test_pods_without_uid_are_not_taken_for_one_another():
    objects = [
        node("a"),
        pod("low", "a", cpu="2"),
        pod("promised", cpu="2", priority=10, nominated="a"),
        pod("vip", cpu="3", priority=10),
    ]
    for each in objects[1:]:
        del each["metadata"]["uid"]
    assert preempt(*objects)["candidates"] == {}


# --- disruption budgets -----------------------------------------------------------------------------------------------

THREE = [
    pod("p1", "a", start=1, labels={"app": "web"}),
    pod("p2", "a", start=2, labels={"app": "web"}),
    pod("p3", "a", start=3, labels={"app": "db"}),
    pod("p4", "a", start=4),
]


def test_each_victim_tells_its_violation_and_each_candidate_its_number():
    found = preempt(
        node("a", cpu="2"),
        pod("p1", "a", start=1, labels={"app": "web"}, owner="ReplicaSet/web"),
        pod("p2", "a", labels={"app": "web"}),
        budget("b", app("web"), 1),
        pod("vip", cpu="2", priority=10),
    )

    assert found["victims"] == [
        {
            "namespace": "default", "name": "p1", "priority": 0, "pdbViolation": False, "owner": "ReplicaSet/web",
            "startTime": "2026-03-01T01:00:00Z",
        },
        {"namespace": "default", "name": "p2", "priority": 0, "pdbViolation": True, "owner": None, "startTime": None},
    ]  # fmt: skip
    assert found["candidates"]["a"] == {
        "victims": ["default/p1", "default/p2"],
        "pdbViolations": 1,
        "criteria": {
            "pdbViolations": 1,
            "highestVictimPriority": 0,
            "prioritySum": 2 * 2**31,
            "victims": 2,
            "latestStartTime": "2026-03-01T01:00:00Z",
        },
    }


# --- which node it takes ----------------------------------------------------------------------------------------------

COVERED = {"app": "web"}


EQUAL = [
    *(each for name in "abc" for each in (node(name), pod(f"low-{name}", name, cpu="4", start=1))),
    pod("vip", cpu="4", priority=10),
]


def test_a_seed_draws_among_equal_candidates_the_same_one_each_time():
    drawn = {preempt(*EQUAL, seed=seed)["nominatedNode"] for seed in range(30)}
    assert drawn == {"a", "b", "c"}
    assert preempt(*EQUAL, seed=3)["nominatedNode"] == preempt(*EQUAL, seed=3)["nominatedNode"]


def test_candidates_that_violate_a_budget_are_listed_last():
    found = preempt(
        node("a"),
        node("b"),
        pod("low-a", "a", cpu="4", labels=COVERED),
        pod("low-b", "b", cpu="4"),
        budget("b", app("web")),
        pod("vip", cpu="4", priority=10),
    )
    assert list(found["candidates"]) == ["b", "a"]


# --- explaining -------------------------------------------------------------------------------------------------------


def result_of(*objects, **options):
    session = planner(objects, **options).session
    return schedule_pod(session, session.find("default/vip")).post_filter


def test_every_lower_priority_pod_tells_the_step_that_decided_about_it():
    found = result_of(node("a", cpu="4"), *THREE, budget("b", app("db")), pod("vip", cpu="2", priority=10)).findings
    steps = found.reprieves()
    assert list(steps) == ["a"]
    assert [(each.pod, each.step, each.pdb_violation, each.reprieved) for each in steps["a"]] == [
        ("default/p3", 1, True, True),
        ("default/p1", 2, False, True),
        ("default/p2", 3, False, False),
        ("default/p4", 4, False, False),
    ]


def test_candidates_tell_what_they_lost_by_and_victims_their_budgets():
    found = result_of(
        node("a"),
        node("b"),
        node("c"),
        pod("low-a", "a", cpu="4", labels=COVERED),
        pod("low-b", "b", cpu="4", priority=1),
        pod("low-c", "c", cpu="4"),
        budget("b", app("web")),
        pod("vip", cpu="4", priority=10),
    ).findings

    told = found.with_costs(found.to_document(), reprieve=False)
    lost_by = {node: candidate.lost_by for node, candidate in told.candidates.items()}
    assert lost_by == {"a": "pdb-violations", "b": "lowest-highest-victim-priority", "c": None}
    assert [victim.budgets for victim in told.victims] == [()]
    covering = found.budgets.covering
    table = found.choice.candidates.table
    assert [covering(table, found.choice.candidates.victims(index)[0]) for index in (0, 2)] == [["default/b"], []]


def test_a_result_lasts_when_the_cluster_changes():
    session = planner(EQUAL).session.fork()
    found = schedule_pod(session, session.find("default/vip")).post_filter.findings
    before = found.to_document()
    for key in ("default/low-a", "default/low-b"):
        session.evict(session.find(key))
    assert found.to_document() == before


# --- as configured: stop early ----------------------------------------------------------------------------------------


def test_enough_candidates_are_the_share_or_the_number_configured_but_no_more_than_there_are():
    def enough(percentage, absolute, n_nodes):
        args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
        session = planner([node("a")], configured(args)).session
        plugin = session.frameworks["default-scheduler"].post_filter_plugins[-1]
        return plugin.number_of_candidates(n_nodes)

    assert enough(10, 100, 5000) == 500
    assert enough(10, 100, 500) == 100
    assert enough(10, 100, 50) == 50
    assert enough(33, 1, 10) == 3


def configured(args):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}],
    }


def in_turn(*, covered, **options):
    """Preempt on four full nodes; pods on those named are covered by a budget that is used up."""
    objects = [
        each
        for name in "abcd"
        for each in (node(name), pod(f"low-{name}", name, cpu="4", labels=COVERED if name in covered else {}))
    ]
    args = configured({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2})
    found = preempt(*objects, budget("b", app("web")), pod("vip", cpu="4", priority=10), config=args, **options)
    return list(found["candidates"])


def test_sampling_stops_with_two_candidates_of_which_one_violates_no_budget_where_there_is_one():
    assert in_turn(covered="", sampling="as-configured") == ["a", "b"]
    assert in_turn(covered="abc", sampling="as-configured") == ["d", "a", "b"]
    assert in_turn(covered="a", sampling="as-configured") == ["b", "a"]
    assert in_turn(covered="abcd", sampling="as-configured") == ["a", "b"]


def test_a_seed_draws_where_the_search_starts():
    starts = {tuple(in_turn(covered="", sampling="as-configured", seed=seed)) for seed in range(40)}
    assert starts == {("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")}


def test_nodes_that_were_not_looked_at_are_not_rejected():
    args = configured({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1})
    objects = [
        *(node(name) for name in "abc"),
        pod("high-a", "a", cpu="4", priority=20),
        pod("low-b", "b", cpu="4"),
        pod("high-c", "c", cpu="4", priority=20),
        pod("vip", cpu="4", priority=10),
    ]

    assert list(preempt(*objects, config=args)["rejected"]) == ["a", "c"]
    assert list(preempt(*objects, config=args, sampling="as-configured")["rejected"]) == ["a"]
    lower = [pod("low-a", "a", cpu="4"), pod("high-b", "b", cpu="4", priority=20), pod("low-c", "c", cpu="4")]
    found = preempt(*objects[:3], *lower, objects[-1], config=args, sampling="as-configured")
    assert (list(found["candidates"]), found["rejected"]) == (["a"], {})


# --- extenders --------------------------------------------------------------------------------------------------------


def extender(answer, **more):
    """Make an extender that answers preempt with what a function makes of the candidates."""
    return FakeExtender(filters=False, preempts=True, victims=answer, **more)


#: Turns every node away, whoever is evicted.
CLOSED = FakeExtender(rejects={"a": "not today", "b": "not today"})


TWO = [
    node("a"),
    node("b"),
    pod("a1", "a", cpu="2", start=1),
    pod("a2", "a", cpu="2", start=2),
    pod("b1", "b", cpu="4", priority=5),
    pod("vip", cpu="2", priority=10),
]


def test_an_extender_drops_a_candidate():
    found = preempt(*TWO, extenders=[extender(lambda asked: {"b": asked["b"]})])
    assert list(found["candidates"]) == ["b"]
    assert found["nominatedNode"] == "b"


def test_an_extender_names_other_victims_and_the_next_one_hears_of_them():
    heard = []

    def more(asked):
        return {"a": ExtenderVictims(["default/a1", "default/a2"], 1), "b": asked["b"]}

    def listen(asked):
        heard.append({name: list(each.pods) for name, each in asked.items()})
        return asked

    found = preempt(*TWO, extenders=[extender(more), extender(listen)])

    assert heard == [{"a": ["default/a1", "default/a2"], "b": ["default/b1"]}]
    assert found["candidates"]["a"]["pdbViolations"] == 1
    assert victims(found) == ["a1", "a2"]
    assert (found["nominatedNode"], found["decidedBy"]) == ("b", "pdb-violations")


def test_an_extender_that_drops_all_candidates_leaves_none():
    found = preempt(*TWO, extenders=[extender(lambda asked: {})])
    assert found["message"] == f"{DEALLOCATE}preemption: no candidate node for preemption"


def fail(asked):
    raise ExtenderError("connection refused")


def test_a_failing_extender_ends_preemption_unless_it_is_ignorable():
    assert preempt(*TWO, extenders=[extender(fail)])["message"] == "preemption: connection refused"
    assert preempt(*TWO, extenders=[extender(fail, is_ignorable=True)])["nominatedNode"] == "a"


def test_an_extender_that_leaves_a_candidate_without_victims_is_wrong_about_it():
    def empty(asked):
        return {**asked, "a": ExtenderVictims([], 0)}

    strict = preempt(*TWO, extenders=[extender(empty)])
    lenient = preempt(*TWO, extenders=[extender(empty, is_ignorable=True)])

    assert strict["message"] == 'preemption: expected at least one victim pod on node "a"'
    assert list(lenient["candidates"]) == ["b"]


def test_a_node_where_all_victims_could_stay_is_an_error_when_nothing_else_is_found():
    """Only an extender keeps the pod away, and no victim changes its mind."""
    found = preempt(node("a"), pod("low", "a", cpu="1"), pod("vip", cpu="1", priority=10), extenders=[CLOSED])
    assert found["message"] == 'preemption: expected at least one victim pod on node "a"'
    assert found["candidates"] == {}


def test_several_errors_are_told_together_each_once():
    found = preempt(
        node("a"), node("b"), pod("low-a", "a"), pod("low-b", "b"), pod("vip", priority=10), extenders=[CLOSED]
    )

    assert found["message"] == (
        'preemption: [expected at least one victim pod on node "a", expected at least one victim pod on node "b"]'
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Unit([1], 2, False, 9, "b"), Unit([2, 3], 1, True, 1, "a")),
        (Unit([1], 1, True, 9, "b"), Unit([2], 1, False, 1, "a")),
        (Unit([1, 2], 1, True, 9, "b"), Unit([3], 1, True, 1, "a")),
        (Unit([1], 1, True, 1, "b"), Unit([2], 1, True, 9, "a")),
        (Unit([1], 1, False, 1, "a"), Unit([2], 1, False, 1, "b")),
    ],
    ids=["its priority", "a group", "more pods of a group", "its start", "its name"],
)
def test_units_are_compared_by_what_makes_one_more_important(one, other):
    assert one.rank < other.rank
