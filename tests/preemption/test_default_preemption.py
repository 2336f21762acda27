"""DefaultPreemption by example; numbers of the rows stand in the names."""

import numpy as np
import pytest

from kplan.framework.cycle import schedule_pod
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.interface import ExtenderError, ExtenderFilterResult, ExtenderVictims, Status
from tests.preemption.scenes import HOSTNAME, app, budget, node, planner, pod, preempt, victims

DEALLOCATE = "no new claims to deallocate, "
TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


# --- may the pod preempt ----------------------------------------------------------------------------------------------


def test_a_pod_that_never_preempts_says_so():
    found = preempt(node("a"), pod("low", "a", cpu="4"), pod("vip", cpu="4", priority=10, preemptionPolicy="Never"))

    assert found["eligible"] is False
    assert found["message"] == f"{DEALLOCATE}preemption: not eligible due to preemptionPolicy=Never."
    assert found["candidates"] == found["rejected"] == {}
    assert found["nominatedNode"] is None


WAITING = f"{DEALLOCATE}preemption: not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize(
    ("low", "fits_elsewhere"),
    [
        (pod("low", "a", cpu="4", leaving=True), False),
        ({**pod("low", "a", cpu="4", leaving=True), "status": {"phase": "Running"}}, True),
        (pod("low", "a", cpu="4", leaving=True, priority=10), True),
        (pod("low", "a", cpu="4"), True),
    ],
    ids=[
        "its victim is still leaving: it waits",
        "the leaving pod was not preempted: it looks on",
        "the leaving pod is as important: it looks on",
        "nothing leaves: it looks on",
    ],
)
def test_a_pod_waits_for_its_victims_on_the_nominated_node(low, fits_elsewhere):
    found = preempt(
        node("a"), node("b"), low, pod("other", "b", cpu="4"), pod("vip", cpu="4", priority=10, nominated="a")
    )

    assert (found["message"] == WAITING) is not fits_elsewhere
    assert found["eligible"] is fits_elsewhere
    assert (found["nominatedNode"] is not None) is fits_elsewhere


def test_a_pod_does_not_wait_on_a_nominated_node_that_cannot_help_any_more():
    found = preempt(
        node("a", taints=[TAINT]),
        node("b"),
        pod("low", "a", cpu="4", leaving=True),
        pod("other", "b", cpu="4"),
        pod("vip", cpu="4", priority=10, nominated="a"),
    )

    assert found["nominatedNode"] == "b"


# --- where it does not help -------------------------------------------------------------------------------------------


def test_the_message_counts_every_node_once_those_that_cannot_help_included():
    found = preempt(
        node("a", taints=[TAINT]),
        node("b"),
        node("c"),
        node("d"),
        pod("high-b", "b", cpu="4", priority=10),
        pod("high-c", "c", cpu="3", priority=10),
        pod("low-c", "c", cpu="1"),
        pod("high-d", "d", cpu="3", priority=20),
        pod("low-d", "d", cpu="500m"),
        pod("vip", cpu="2", priority=10),
    )

    assert found["message"] == (
        f"{DEALLOCATE}preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling, 2 Insufficient cpu."
    )
    assert found["rejected"] == {
        "b": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": None,
            "reasons": ["No preemption victims found for incoming pod"],
        },
        "c": {"code": "Unschedulable", "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]},
        "d": {"code": "Unschedulable", "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]},
    }


def test_nowhere_a_node_may_help():
    found = preempt(node("a", taints=[TAINT]), pod("low", "a"), pod("vip", priority=10))

    assert found["message"] == (
        f"{DEALLOCATE}preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert found["rejected"] == {}
    assert found["eligible"] is True


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


def test_nodes_that_the_pod_does_not_name_cannot_help():
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    only_b = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    objects = [node("a"), node("b"), pod("low-a", "a", cpu="4"), pod("high-b", "b", cpu="3", priority=20)]

    stuck = preempt(*objects, pod("low-b", "b"), pod("vip", cpu="2", priority=10, affinity=only_b))
    helped = preempt(*objects, pod("low-b", "b"), pod("vip", cpu="1", priority=10, affinity=only_b))

    assert stuck["message"] == (
        f"{DEALLOCATE}preemption: 0/2 nodes are available: 1 Insufficient cpu, "
        "1 Preemption is not helpful for scheduling."
    )
    assert victims(helped, "b") == ["low-b"]


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


def test_only_as_many_leave_as_must_the_most_important_stay():
    found = preempt(
        node("a", cpu="4"),
        pod("zero", "a", priority=0, start=1),
        pod("five", "a", priority=5, start=1),
        pod("old", "a", priority=3, start=8),
        pod("new", "a", priority=3, start=9),
        pod("vip", cpu="2", priority=10),
    )

    assert victims(found) == ["new", "zero"]


def test_a_small_pod_stays_although_a_more_important_large_one_leaves():
    found = preempt(
        node("a", cpu="4"),
        pod("large", "a", cpu="3", priority=5),
        pod("small", "a", cpu="1", priority=0),
        pod("vip", cpu="3", priority=10),
    )

    assert victims(found) == ["large"]


def test_pods_that_have_not_started_leave_before_others_and_the_last_in_line_stays():
    found = preempt(
        node("a", cpu="4"),
        pod("p1", "a"),
        pod("p2", "a"),
        pod("p3", "a"),
        pod("started", "a", start=9),
        pod("vip", cpu="2", priority=10),
    )

    assert victims(found) == ["p2", "p1"]


def test_thirteen_equal_pods_keep_their_order_as_go_leaves_sorted_lists_alone():
    found = preempt(
        node("a", cpu="13"),
        *[pod(f"p{index:02}", "a", start=9) for index in range(13)],
        pod("vip", cpu="3", priority=10),
    )

    assert victims(found) == ["p10", "p11", "p12"]


def test_of_two_pods_with_one_host_port_neither_is_brought_back_beside_a_pod_that_wants_it():
    """The port is forgotten with either of them; brought back, the first takes it again."""
    found = preempt(
        node("a"),
        pod("first", "a", ports=[80], start=1),
        pod("second", "a", ports=[80], start=2),
        pod("vip", priority=10, ports=[80]),
    )

    assert victims(found) == ["first", "second"]


def test_a_pod_nominated_to_a_node_takes_room_there_when_it_is_as_important():
    objects = [node("a"), pod("low", "a", cpu="2"), pod("vip", cpu="3", priority=10)]

    alone = preempt(*objects)
    crowded = preempt(*objects, pod("promised", cpu="2", priority=10, nominated="a"))

    assert victims(alone) == ["low"]
    assert crowded["candidates"] == {}
    assert crowded["rejected"]["a"]["reasons"] == ["Insufficient cpu"]


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


def test_pods_of_lower_priority_lose_their_nomination_to_the_chosen_node_only():
    found = preempt(
        node("a"),
        node("b"),
        pod("low", "a", cpu="3"),
        pod("high", "b", cpu="3", priority=5),
        pod("promised-a", priority=1, nominated="a"),
        pod("promised-b", priority=1, nominated="b"),
        pod("equal", priority=10, nominated="a"),
        pod("vip", cpu="3", priority=10),
    )

    assert found["nominatedNode"] == "a"
    assert found["clearedNominations"] == ["default/promised-a"]


def test_nobody_loses_a_nomination_when_all_victims_are_leaving_already():
    found = preempt(
        node("a"),
        pod("low", "a", cpu="4", leaving=True),
        pod("promised", priority=1, nominated="a"),
        pod("vip", cpu="3", priority=10),
    )

    assert found["victims"][0]["name"] == "low"
    assert found["clearedNominations"] == []


# --- disruption budgets -----------------------------------------------------------------------------------------------

THREE = [
    pod("p1", "a", start=1, labels={"app": "web"}),
    pod("p2", "a", start=2, labels={"app": "web"}),
    pod("p3", "a", start=3, labels={"app": "db"}),
    pod("p4", "a", start=4),
]


def expression(operator, *values):
    return {"matchExpressions": [{"key": "app", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("budgets", "expected", "violations"),
    [
        ([], ["p3", "p4"], 0),
        ([budget("b", app("db"))], ["p2", "p4"], 0),
        ([budget("b", app("db"), 1)], ["p3", "p4"], 0),
        ([budget("b", app("web"))], ["p3", "p4"], 0),
        ([budget("b", expression("Exists"))], ["p3", "p4"], 1),
        ([budget("b", expression("NotIn", "web"))], ["p2", "p4"], 0),
        ([budget("b", app("db"), disrupted=["p3"])], ["p3", "p4"], 0),
        ([budget("b", app("db"), namespace="other")], ["p3", "p4"], 0),
        ([budget("b", {})], ["p3", "p4"], 0),
        ([budget("b", None)], ["p3", "p4"], 0),
        ([budget("b", expression("In"))], ["p3", "p4"], 0),
        ([budget("b", app("db"), 1), budget("c", app("db"))], ["p2", "p4"], 0),
    ],
    ids=[
        "without budgets the two last in line go",
        "a covered pod is tried first, so it stays and p2 goes",
        "a budget of one is not violated by one",
        "covered pods that would have stayed stay",
        "three covered pods, two fit: the third one violates",
        "a pod without labels matches no budget, whatever the selector",
        "a pod on its way out is not counted",
        "another namespace's budget does not count",
        "an empty selector matches nothing",
        "no selector matches nothing",
        "an invalid selector matches nothing",
        "of two budgets the one that is used up counts",
    ],
)
def test_victims_that_violate_a_budget_are_brought_back_first(budgets, expected, violations):
    found = preempt(node("a", cpu="4"), *THREE, *budgets, pod("vip", cpu="2", priority=10))

    assert victims(found) == expected
    assert found["candidates"]["a"]["pdbViolations"] == violations


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
            "namespace": "default",
            "name": "p1",
            "priority": 0,
            "pdbViolation": False,
            "owner": "ReplicaSet/web",
            "startTime": "2026-03-01T01:00:00Z",
        },
        {"namespace": "default", "name": "p2", "priority": 0, "pdbViolation": True, "owner": None, "startTime": None},
    ]
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


@pytest.mark.parametrize(
    ("on_a", "on_b", "decided_by"),
    [
        ([pod("a1", "a", cpu="4", labels=COVERED)], [pod("b1", "b", cpu="4", priority=9)], "pdb-violations"),
        (
            [pod("a1", "a", cpu="4", priority=2)],
            [pod("b1", "b", cpu="4", priority=1)],
            "lowest-highest-victim-priority",
        ),
        (
            [pod("a1", "a", cpu="2", priority=2), pod("a2", "a", cpu="2", priority=1)],
            [pod("b1", "b", cpu="2", priority=2), pod("b2", "b", cpu="2", priority=0)],
            "lowest-priority-sum",
        ),
        (
            [pod("a1", "a", cpu="2", priority=-(2**31)), pod("a2", "a", cpu="2", priority=-(2**31))],
            [pod("b1", "b", cpu="4", priority=-(2**31))],
            "fewest-victims",
        ),
        ([pod("a1", "a", cpu="4", start=1)], [pod("b1", "b", cpu="4", start=2)], "latest-start-time"),
        ([pod("a1", "a", cpu="4", start=1)], [pod("b1", "b", cpu="4")], "latest-start-time"),
        (
            [pod("a1", "a", cpu="2", priority=1, start=1), pod("a2", "a", cpu="2", start=9)],
            [pod("b1", "b", cpu="2", priority=1, start=2), pod("b2", "b", cpu="2", start=1)],
            "latest-start-time",
        ),
    ],
    ids=[
        "no budget violated before anything else",
        "then the lower priority of the most important victim",
        "then the smaller sum of priorities",
        "then fewer victims",
        "then the later start",
        "a pod that has not started counts as started now",
        "only the most important victims' start counts",
    ],
)
def test_b_is_taken_for_one_criterion(on_a, on_b, decided_by):
    found = preempt(node("a"), node("b"), *on_a, *on_b, budget("b", app("web")), pod("vip", cpu="4", priority=10))

    assert (found["nominatedNode"], found["ties"], found["decidedBy"]) == ("b", ["b"], decided_by)


def test_a_single_candidate_needs_no_criterion():
    found = preempt(node("a"), pod("low", "a", cpu="4"), pod("vip", cpu="4", priority=10))

    assert (found["nominatedNode"], found["decidedBy"], found["message"]) == ("a", "only-candidate", "")


EQUAL = [
    *(each for name in "abc" for each in (node(name), pod(f"low-{name}", name, cpu="4", start=1))),
    pod("vip", cpu="4", priority=10),
]


def test_equal_candidates_are_all_named_and_the_first_is_taken():
    found = preempt(*EQUAL)

    assert (found["nominatedNode"], found["ties"], found["decidedBy"]) == ("a", ["a", "b", "c"], "tie")


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

    assert [found.lost_by(index) for index in range(3)] == ["pdb-violations", "lowest-highest-victim-priority", None]
    assert found.victim_budgets(found.candidates.victims(0)[0]) == ["default/b"]
    assert found.victim_budgets(found.candidates.victims(2)[0]) == []


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


def test_all_candidates_are_looked_at_unless_asked_otherwise():
    assert in_turn(covered="") == ["a", "b", "c", "d"]


def test_sampling_stops_with_two_candidates():
    assert in_turn(covered="", sampling="as-configured") == ["a", "b"]


def test_sampling_goes_on_until_one_candidate_violates_no_budget_and_keeps_two_of_either_kind():
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


# --- extenders --------------------------------------------------------------------------------------------------------


class FakeExtender:
    """Answers preempt with what a function makes of the candidates, and filter with no node at all when told so."""

    name = "fake"
    weight = 1
    prioritizes = False

    def __init__(self, answer=None, *, is_ignorable=False, rejects_all=False):
        self.answer = answer
        self.is_ignorable = is_ignorable
        self.preempts = answer is not None
        self.filters = rejects_all

    def is_interested(self, pod):
        return True

    def filter(self, pod, nodes):
        return ExtenderFilterResult([], {each.metadata.name: "not today" for each in nodes}, {})

    def prioritize(self, pod, nodes):
        raise NotImplementedError

    def preempt(self, pod, candidates, pods_on):
        return self.answer(dict(candidates))


TWO = [
    node("a"),
    node("b"),
    pod("a1", "a", cpu="2", start=1),
    pod("a2", "a", cpu="2", start=2),
    pod("b1", "b", cpu="4", priority=5),
    pod("vip", cpu="2", priority=10),
]


def test_an_extender_drops_a_candidate():
    found = preempt(*TWO, extenders=[FakeExtender(lambda asked: {"b": asked["b"]})])

    assert list(found["candidates"]) == ["b"]
    assert found["nominatedNode"] == "b"


def test_an_extender_names_other_victims_and_the_next_one_hears_of_them():
    heard = []

    def more(asked):
        return {"a": ExtenderVictims(["default/a1", "default/a2"], 1), "b": asked["b"]}

    def listen(asked):
        heard.append({name: list(each.pods) for name, each in asked.items()})
        return asked

    found = preempt(*TWO, extenders=[FakeExtender(more), FakeExtender(listen)])

    assert heard == [{"a": ["default/a1", "default/a2"], "b": ["default/b1"]}]
    assert found["candidates"]["a"]["pdbViolations"] == 1
    assert victims(found) == ["a1", "a2"]
    assert (found["nominatedNode"], found["decidedBy"]) == ("b", "pdb-violations")


def test_an_extender_that_drops_all_candidates_leaves_none():
    found = preempt(*TWO, extenders=[FakeExtender(lambda asked: {})])

    assert found["message"] == f"{DEALLOCATE}preemption: no candidate node for preemption"


def fail(asked):
    raise ExtenderError("connection refused")


def test_a_failing_extender_ends_preemption_unless_it_is_ignorable():
    assert preempt(*TWO, extenders=[FakeExtender(fail)])["message"] == "preemption: connection refused"
    assert preempt(*TWO, extenders=[FakeExtender(fail, is_ignorable=True)])["nominatedNode"] == "a"


def test_an_extender_that_leaves_a_candidate_without_victims_is_wrong_about_it():
    def empty(asked):
        return {**asked, "a": ExtenderVictims([], 0)}

    strict = preempt(*TWO, extenders=[FakeExtender(empty)])
    lenient = preempt(*TWO, extenders=[FakeExtender(empty, is_ignorable=True)])

    assert strict["message"] == 'preemption: expected at least one victim pod on node "a"'
    assert list(lenient["candidates"]) == ["b"]


def test_a_node_where_all_victims_could_stay_is_an_error_when_nothing_else_is_found():
    """Only an extender keeps the pod away, and no victim changes its mind."""
    found = preempt(
        node("a"),
        pod("low", "a", cpu="1"),
        pod("vip", cpu="1", priority=10),
        extenders=[FakeExtender(rejects_all=True)],
    )

    assert found["message"] == 'preemption: expected at least one victim pod on node "a"'
    assert found["candidates"] == {}


def test_several_errors_are_told_together_each_once():
    found = preempt(
        node("a"),
        node("b"),
        pod("low-a", "a"),
        pod("low-b", "b"),
        pod("vip", priority=10),
        extenders=[FakeExtender(rejects_all=True)],
    )

    assert found["message"] == (
        'preemption: [expected at least one victim pod on node "a", expected at least one victim pod on node "b"]'
    )


# --- settling ---------------------------------------------------------------------------------------------------------


def test_victims_leave_the_pod_is_nominated_and_placed_and_nominations_are_dropped():
    plan = planner(
        [
            node("a"),
            pod("low", "a", cpu="3"),
            pod("promised", cpu="2", priority=1, nominated="a"),
            pod("vip", cpu="3", priority=10),
        ]
    ).plan(["default/vip", "default/promised"], settle_preemption=True)

    assert [(each.pod.name, each.node, each.nominated_node) for each in plan.placements] == [
        ("vip", None, "a"),
        ("vip", "a", None),
        ("promised", None, None),
    ]


def test_anti_affinity_of_victims_goes_with_them():
    term = {"topologyKey": HOSTNAME, "labelSelector": app("vip")}
    averse = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = preempt(
        node("a"), pod("averse", "a", affinity=averse), pod("calm", "a"), pod("vip", priority=10, labels={"app": "vip"})
    )

    assert victims(found) == ["averse"]
