"""The rules by which plugins are asked at each extension point."""

import numpy as np
import pytest

from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.interface import (
    SKIP,
    SKIP_SHAPE,
    SUCCESS,
    PreFilterResult,
    PreScoreResult,
    Scope,
    Status,
    StatusCode,
)
from kplan.framework.results import PluginError
from tests.framework.fakes import cycle_of, plugin, pod, post_filter, rejecting, rows_of, scoring, session


def never(*_):
    raise AssertionError("not to be asked")


def pre_filter(*answers):
    """Run PreFilter plugins A, B, … with these answers."""
    plugins = [plugin(name, pre_filter=answer) for name, answer in zip("ABCDE", answers, strict=False)]
    framework, cycle, entry = cycle_of(session(plugins))
    return framework.run_pre_filter(cycle, entry)


def rejected(status):
    return PreFilterResult(status=status)


def named(*nodes):
    return PreFilterResult(nodes=frozenset(nodes))


def test_nothing_to_say_is_success_for_all_nodes_and_who_skips_says_so():
    outcome = pre_filter(SKIP, None, SKIP_SHAPE)
    assert (outcome.status, outcome.nodes, outcome.skipped) == (None, None, {"A", "C"})


def test_an_unresolvable_rejection_ends_it_and_the_rest_is_not_asked():
    asked = []
    outcome = pre_filter(SKIP, rejected(Status.unresolvable("never", "ever")), lambda _: asked.append("C"))
    assert outcome.status == Status(StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE, ("never", "ever"), "B")
    assert outcome.status.message == "never, ever"
    assert outcome.skipped == {"A"}
    assert asked == []


def test_after_a_rejection_that_preemption_may_cure_the_rest_is_asked_and_the_last_one_counts():
    asked = []
    outcome = pre_filter(
        rejected(Status.unschedulable("one")), rejected(Status.unschedulable("two")), lambda _: asked.append("C"), SKIP
    )
    assert outcome.status == Status(StatusCode.UNSCHEDULABLE, ("two",), "B")
    assert outcome.skipped == {"D"}
    assert asked == ["C"]


def test_an_unresolvable_rejection_counts_over_an_earlier_one():
    outcome = pre_filter(rejected(Status.unschedulable("one")), rejected(Status.unresolvable("two")))
    assert outcome.status == Status(StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE, ("two",), "B")


def test_the_nodes_named_intersect():
    outcome = pre_filter(named("a", "b"), None, named("b", "c"))
    assert outcome.nodes == {"b"}
    assert outcome.plugins_with_nodes == {"A", "C"}
    assert outcome.status is None


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        pytest.param([None, named()], "node(s) didn't satisfy plugin B", id="one plugin leaves none"),
        pytest.param(
            [named("b"), None, named("a"), named("a")],
            "node(s) didn't satisfy plugin(s) [A C] simultaneously",
            id="two leave none together",
        ),
    ],
)
def test_no_nodes_left(answers, text):
    outcome = pre_filter(*answers)
    assert outcome.status == Status(StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
    assert outcome.nodes == frozenset()


def counting(log, name, answer=None):
    def ask(*_):
        log.append(name)
        return answer

    return ask


def test_pre_filters_of_one_node_are_asked_once_a_shape_and_the_others_each_time():
    log = []
    plugins = [
        plugin("A", Scope.NODE, pre_filter=counting(log, "A")),
        plugin("B", Scope.NODE_OBJECT, pre_filter=counting(log, "B", SKIP)),
        plugin("C", Scope.CLUSTER, pre_filter=counting(log, "C", SKIP)),
        plugin("D", Scope.CLUSTER, pre_filter=counting(log, "D", SKIP_SHAPE)),
    ]
    made = session(plugins, pods=[pod("x"), pod("y"), pod("z", cpu="1")])

    skipped = []
    for row in range(3):
        framework, cycle, entry = cycle_of(made, row)
        skipped.append(framework.run_pre_filter(cycle, entry).skipped)

    assert log == [*"ABCD", *"C", *"ABCD"]
    assert skipped == [{"B", "C", "D"}] * 3


class Kept:
    """What a plugin keeps in the cycle."""


@pytest.mark.parametrize(("scope", "nodes"), [(Scope.NODE, None), (Scope.NODE_OBJECT, {"a"})])
def test_what_a_plugin_kept_in_the_cycle_and_named_is_there_for_the_next_pod_of_its_shape(scope, nodes):
    states = []

    def ask(cycle):
        states.append(Kept())
        cycle.write(states[-1])
        return nodes and named(*nodes)

    made = session([plugin("A", scope, pre_filter=ask)], pods=[pod("x"), pod("y")])
    for row in range(2):
        framework, cycle, entry = cycle_of(made, row)
        assert framework.run_pre_filter(cycle, entry).nodes == nodes
        assert cycle.read(Kept) is cycle.find(Kept) is states[0]
    assert len(states) == 1


@pytest.mark.parametrize("answer", [rejected(Status.unschedulable("no")), named("a")], ids=["a rejection", "nodes"])
def test_a_plugin_asked_each_time_may_change_its_mind(answer):
    answers = iter([None, answer, answer, None])
    plugins = [plugin("A", Scope.NODE, pre_filter=SKIP), plugin("B", pre_filter=lambda _: next(answers))]
    made = session(plugins, pods=[pod("x"), pod("y"), pod("z")])

    found = []
    for row in range(2):
        framework, cycle, entry = cycle_of(made, row)
        found.append(framework.run_pre_filter(cycle, entry))

    assert (found[0].status, found[0].nodes) == (None, None)
    assert (found[1].status, found[1].nodes) != (None, None)
    assert [each.skipped for each in found] == [{"A"}] * 2


# --- filters ----------------------------------------------------------------------------------------------------------


def test_all_filters_answer_whatever_those_before_them_said():
    plugins = [plugin("A", filter=rejecting(*"abc")), plugin("B", filter=rejecting("b")), plugin("C", filter=None)]
    framework, cycle, entry = cycle_of(session(plugins))
    verdicts, passes = framework.filter_all(cycle, entry, frozenset({"C"}))
    assert [(name, verdict.bits.tolist()) for name, verdict in verdicts] == [("A", [1, 1, 1]), ("B", [0, 1, 0])]
    assert passes.tolist() == [False, False, False]


def test_the_status_of_a_node_is_that_of_the_first_plugin_that_rejects():
    plugins = [plugin("A", filter=rejecting("b", text="one")), plugin("B", filter=rejecting(*"bc", text="two"))]
    framework, cycle, _ = cycle_of(session(plugins))
    statuses = framework.statuses(cycle, np.asarray([2, 1, 0]), frozenset())
    assert [None if each is None else (each.plugin, each.texts) for each in statuses] == [
        ("B", ("two",)),
        ("A", ("one",)),
        None,
    ]


def test_plugins_that_ignore_pods_are_those_of_node_objects_and_those_that_say_so():
    plugins = [
        plugin("A", Scope.NODE_OBJECT),
        plugin("B", Scope.NODE),
        plugin("C", Scope.CLUSTER),
        plugin("D", Scope.CLUSTER, ignores_pods=True),
    ]
    framework, _, _ = cycle_of(session(plugins))
    assert framework.pod_blind == {"A", "D"}


@pytest.mark.parametrize(
    ("priorities", "expected"),
    [
        pytest.param((0, 0), [(0, 1, 1), (1, 2, 1)], id="of equal priority"),
        pytest.param((1, -1), [(0, 1, 1)], id="of higher priority only"),
        pytest.param((-1, -1), None, id="none that counts"),
    ],
)
def test_nominated_pods_of_equal_or_higher_priority_count_as_running(priorities, expected):
    one, other = priorities
    pods = [pod(), pod("one", nominated="c", priority=one), pod("other", nominated="a", priority=other)]
    framework, cycle, _ = cycle_of(session([], pods=pods))
    delta = framework.nominated_changes(cycle, np.asarray([2, 0, 1]))
    found = delta and list(zip(delta.positions.tolist(), delta.pods.tolist(), delta.signs.tolist(), strict=True))
    assert found == expected


def test_a_pod_does_not_stand_in_its_own_way_where_it_is_nominated():
    framework, cycle, _ = cycle_of(session([], pods=[pod(nominated="a")]))
    assert framework.nominated_changes(cycle, np.arange(3)) is None


# --- scores -----------------------------------------------------------------------------------------------------------


def scores(plugins, rows=(0, 1, 2), *, keep=True, **options):
    framework, cycle, entry = cycle_of(session(plugins, **options))
    return framework.run_scores(cycle, np.asarray(rows), entry if keep else framework.unshared)


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("keep", [True, False])
def test_scores_are_normalized_over_the_feasible_nodes_and_weighted(scope, keep):
    plugins = [
        plugin("A", scope, score=scoring(a=1, b=5, c=2)),
        plugin("B", scope, score=scoring(a=3, b=9, c=4), normalize_score=lambda _, raw: 100 * raw // raw.max()),
    ]
    found = scores(plugins, [0, 2], weights={"A": 2, "B": 3}, keep=keep)
    assert found.total.tolist() == [2 * 1 + 3 * 75, 2 * 2 + 3 * 100]
    assert [found.plugins_at(position) for position in (0, 1)] == [{"A": 2, "B": 225}, {"A": 4, "B": 300}]


@pytest.mark.parametrize("answer", list(PreScoreResult))
def test_a_plugin_may_leave_its_score_out(answer):
    log = []
    plugins = [plugin("A", pre_score=answer, score=counting(log, "A")), plugin("B", pre_score=None, score=scoring(b=1))]
    found = scores(plugins)
    assert found.total.tolist() == [0, 1, 0]
    assert found.plugins_at(0) == {"B": 0}
    assert log == []


def test_pre_scores_of_one_node_are_asked_once_a_shape_and_the_others_each_time():
    log, states = [], []

    def keep(cycle, _):
        log.append("A")
        states.append(Kept())
        cycle.write(states[-1])

    def score(cycle, view):
        assert cycle.read(Kept) is states[0]
        return scoring()(cycle, view)

    plugins = [
        plugin("A", Scope.NODE, pre_score=keep, score=score, normalize_score=lambda _, raw: raw),
        plugin("B", Scope.NODE, pre_score=counting(log, "B", PreScoreResult.SKIP), score=never),
        plugin("C", pre_score=counting(log, "C", PreScoreResult.SKIP), score=never),
        plugin("D", pre_score=counting(log, "D", PreScoreResult.SKIP_SHAPE), score=never),
        plugin("E", pre_score=counting(log, "E"), score=scoring(a=1)),
    ]
    made = session(plugins, pods=[pod("x"), pod("y")])
    for row in range(2):
        framework, cycle, entry = cycle_of(made, row)
        assert framework.run_scores(cycle, np.arange(3), entry).plugins_at(0) == {"A": 0, "E": 1}

    assert log == [*"ABCDE", *"CE"]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        pytest.param({}, 6, id="as it stands"),
        pytest.param({"normalize_score": lambda _, raw: raw * 4}, 24, id="normalized"),
    ],
)
def test_a_score_that_is_the_same_everywhere_is_not_asked_for(points, expected):
    plugins = [plugin("A", constant_score=3, score=never, **points), plugin("B", score=scoring(b=1))]
    made = session(plugins, weights={"A": 2})
    for row in (0, 0):
        framework, cycle, entry = cycle_of(made, row)
        found = framework.run_scores(cycle, np.asarray([0, 1]), entry)
        assert [found.plugins_at(position) for position in (0, 1)] == [{"A": expected, "B": 0}, {"A": expected, "B": 1}]
        assert found.total.tolist() == [expected, expected + 1]


def test_a_plugin_that_leaves_its_score_out_has_none_even_if_it_is_the_same_everywhere():
    plugins = [
        plugin("A", pre_score=PreScoreResult.SKIP, constant_score=3, score=never),
        plugin("B", constant_score=None, score=scoring(b=1)),
    ]
    assert scores(plugins).plugins_at(1) == {"B": 1}


def test_pre_score_sees_the_feasible_nodes():
    seen = []
    scores([plugin("A", pre_score=lambda _, nodes: seen.append(rows_of(nodes).tolist()))], [0, 2])
    assert seen == [[0, 2]]


def test_an_error_names_its_plugin():
    with pytest.raises(PluginError, match=r'^running PreFilter plugin "B": broken$'):
        pre_filter(None, rejected(Status.error("broken")))
    with pytest.raises(PluginError, match=r'^running PreScore plugin "A": broken$'):
        scores([plugin("A", pre_score=Status.error("broken"))])


# --- after the choice, or without one ---------------------------------------------------------------------------------


def after(*results):
    """Run PostFilter plugins A, B, … with these results."""
    plugins = [plugin(name, post_filter=answer) for name, answer in zip("ABC", results, strict=False)]
    framework, cycle, _ = cycle_of(session(plugins))
    return framework.run_post_filter(cycle, FilterOutcome(3, np.zeros(3, np.bool_)))


def test_the_first_success_ends_post_filter():
    found = after(post_filter(Status.unschedulable("one")), post_filter(SUCCESS, row=2, findings="room"), never)
    assert (found.status.code, found.status.message) == (StatusCode.SUCCESS, "")
    assert (found.nominated_row, found.findings) == (2, "room")


@pytest.mark.parametrize("status", [Status.unresolvable("never"), Status.error("broken")])
def test_what_nothing_helps_against_and_errors_end_post_filter_too(status):
    found = after(post_filter(Status.unschedulable("one")), post_filter(status), never)
    assert found.status == Status(status.code, status.reasons, "B")


def test_post_filters_that_find_nothing_are_told_together_under_the_name_of_the_first():
    found = after(
        post_filter(Status.unschedulable("one", "two")), post_filter(Status.unschedulable("three"), findings="looked")
    )
    assert found.status == Status(StatusCode.UNSCHEDULABLE, ("one", "two", "three"), "A")
    assert found.status.message == "one, two, three"
    assert (found.nominated_row, found.findings) == (None, "looked")


@pytest.mark.parametrize(
    ("statuses", "outcome", "asked"),
    [
        ((SUCCESS, SUCCESS, SUCCESS), SUCCESS, "+A +B +C"),
        ((SUCCESS, Status.unschedulable("taken"), SUCCESS), Status(StatusCode.UNSCHEDULABLE, ("taken",), "B"),
         "+A +B -C -B -A"),
        ((Status.error("broken"), SUCCESS), Status.error('running Reserve plugin "A": broken'), "+A -B -A"),
    ],
    ids=["all reserve", "when one cannot, all give back, last first", "an error names its plugin"],
)  # fmt: skip
def test_reserving(statuses, outcome, asked):
    log = []
    plugins = [
        plugin(name, reserve=counting(log, f"+{name}", status), unreserve=counting(log, f"-{name}"))
        for name, status in zip("ABC", statuses, strict=False)
    ]
    framework, cycle, _ = cycle_of(session(plugins))
    assert (framework.run_reserve(cycle, 1), log) == (outcome, asked.split())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (SUCCESS, SUCCESS),
        (Status.unschedulable("wait"), Status(StatusCode.UNSCHEDULABLE, ("wait",), "B")),
        (Status.error("broken"), Status.error('running Permit plugin "B": broken')),
    ],
)
def test_permit_has_the_last_word(answer, expected):
    framework, cycle, _ = cycle_of(session([plugin("A", permit=SUCCESS), plugin("B", permit=answer)]))
    assert framework.run_permit(cycle, 0) == expected


def test_the_first_plugin_that_keeps_a_pod_out_of_the_queue_is_named():
    plugins = [
        plugin("A", pre_enqueue=SUCCESS),
        plugin("B", pre_enqueue=Status.unresolvable("gate")),
        plugin("C", pre_enqueue=never),
    ]
    framework, cycle, _ = cycle_of(session(plugins))
    assert framework.run_pre_enqueue(cycle.pod) == Status(StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE, ("gate",), "B")


def test_plugins_run_in_the_order_of_their_profile_and_only_where_it_names_them():
    log = []
    plugins = [
        plugin(name, filter=lambda cycle, view, name=name: log.append(name) or rejecting()(cycle, view))
        for name in "BAC"
    ]
    framework, cycle, entry = cycle_of(session(plugins))
    framework.filter_all(cycle, entry, frozenset())
    assert log == ["B", "A", "C"]
    assert framework.score_plugins == []
