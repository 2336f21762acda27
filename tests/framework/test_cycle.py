"""One pod's cycle, rule by rule, with plugins that answer as told."""

import pytest

from kplan.engine.verdicts import Code
from kplan.framework.cycle import schedule_pod
from kplan.framework.interface import SUCCESS, PreFilterResult, Scope, Status
from kplan.framework.results import Outcome
from tests.framework.fakes import FakeExtender, plugin, pod, post_filter, profile, rejecting, rows_of, scoring, session

ONLY_AFFINITY = "node(s) didn't satisfy plugin(s) [A]"


def decide(plugins, nodes="abc", pods=(), **options):
    return schedule_pod(session(plugins, nodes, pods, **options), 0)


def told(result):
    """Read a result out: outcome, node, message."""
    return result.outcome, result.row, result.message


def never(*_):
    raise AssertionError("not to be asked")


# --- before the search ------------------------------------------------------------------------------------------------


def test_without_nodes_nobody_is_asked():
    gate = plugin("A", pre_enqueue=SUCCESS, pre_filter=never, post_filter=never)

    assert told(decide([gate], "")) == (Outcome.UNSCHEDULABLE, None, "no nodes available to schedule pods")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(
            pod(scheduler="other"), 'profile not found for scheduler name "other"', id="nobody schedules such pods"
        ),
        pytest.param(
            pod(deletionTimestamp="2026-03-01T10:00:00Z"),
            "skip schedule deleting pod: default/pod",
            id="it is being deleted",
        ),
    ],
)
def test_pods_that_are_not_tried(made, message):
    assert told(decide([plugin("A", pre_enqueue=never)], pods=[made])) == (Outcome.ERROR, None, message)


def test_a_pod_that_the_api_server_refuses_is_not_tried():
    made = session([plugin("A", pre_enqueue=never)])
    made.refused[0] = "quota exceeded"

    assert told(schedule_pod(made, 0)) == (Outcome.ERROR, None, "quota exceeded")


def test_a_gated_pod_is_not_tried():
    gate = plugin("A", pre_enqueue=Status.unresolvable("waiting", "long"), pre_filter=never)

    assert told(decide([gate], "")) == (Outcome.GATED, None, "waiting, long")


def test_the_profile_is_the_one_of_the_pods_scheduler():
    one, other = plugin("A", filter=rejecting("a", "b")), plugin("B", filter=rejecting("b", "c"))
    profiles = [profile([one], name="one"), profile([other], name="other")]
    made = session([one, other], pods=[pod("x", scheduler="one"), pod("y", scheduler="other")], profiles=profiles)

    assert [schedule_pod(made, row).row for row in (0, 1)] == [2, 0]


# --- the search -------------------------------------------------------------------------------------------------------


def test_a_pod_that_fits_nowhere_is_told_why_node_by_node():
    plugins = [
        plugin("A", filter=rejecting("b", text="taken")),
        plugin("B", filter=rejecting("a", "b", "c", text="far")),
        plugin("C", post_filter=post_filter(Status.unschedulable("no help"))),
    ]
    result = decide(plugins)

    assert told(result) == (Outcome.UNSCHEDULABLE, None, "0/3 nodes are available: 1 taken, 2 far. no help")
    assert result.scores is None


def test_a_pod_for_which_room_is_made_is_told_no_more_than_why():
    plugins = [plugin("A", filter=rejecting(*"abc")), plugin("B", post_filter=post_filter(SUCCESS, row=1))]
    result = decide(plugins)

    assert told(result) == (Outcome.UNSCHEDULABLE, None, "0/3 nodes are available: 3 no.")
    assert result.post_filter.nominated_row == 1


def test_without_post_filters_nothing_is_looked_for():
    result = decide([plugin("A", filter=rejecting(*"abc"))])

    assert (result.post_filter, result.message) == (None, "0/3 nodes are available: 3 no.")


@pytest.mark.parametrize("status", [Status.unschedulable("one", "two"), Status.unresolvable("one", "two")])
def test_a_rejection_in_pre_filter_is_the_message(status):
    plugins = [
        plugin("A", pre_filter=PreFilterResult(status=status)),
        plugin("B", filter=never, score=never, post_filter=post_filter(Status.unschedulable("no help"))),
    ]
    result = decide(plugins)

    assert told(result) == (Outcome.UNSCHEDULABLE, None, "0/3 nodes are available: one, two. no help")
    assert not result.filter.feasible.any()


def test_only_the_nodes_that_pre_filter_names_are_filtered():
    seen = []

    def ask(cycle, view):
        seen.append(rows_of(view).tolist())
        return rejecting("a", text="full")(cycle, view)

    plugins = [plugin("A", pre_filter=PreFilterResult(nodes=frozenset({"d", "a", "gone"}))), plugin("B", filter=ask)]

    fits = decide(plugins, "abcd")
    assert (fits.row, seen) == (3, [[0, 3]])
    assert [fits.filter.status(row) and fits.filter.status(row).texts for row in range(4)] == [
        ("full",),
        (ONLY_AFFINITY,),
        (ONLY_AFFINITY,),
        None,
    ]
    assert decide(plugins, "abc").message == f"0/3 nodes are available: 1 full, 2 {ONLY_AFFINITY}."
    assert decide(plugins, "bc").message == f"0/2 nodes are available: 2 {ONLY_AFFINITY}."


def test_an_error_of_a_filter_is_that_of_the_first_node_by_name():
    plugins = [
        plugin("A", filter=rejecting("c", text="one", code=Code.ERROR)),
        plugin("B", filter=rejecting("b", text="two", code=Code.ERROR), post_filter=never),
    ]

    assert told(decide(plugins)) == (Outcome.ERROR, None, 'running "B" filter plugin: two')


def test_a_node_that_was_rejected_before_the_failing_filter_is_no_error():
    plugins = [plugin("A", filter=rejecting("b")), plugin("B", filter=rejecting("b", code=Code.ERROR))]

    assert told(decide(plugins)) == (Outcome.SCHEDULED, 0, "")


# --- the choice -------------------------------------------------------------------------------------------------------


def test_a_single_feasible_node_is_not_scored():
    plugins = [plugin("A", filter=rejecting("a", "c")), plugin("B", pre_score=never, score=never)]
    result = decide(plugins)

    assert (result.row, result.ties.tolist(), result.scores) == (1, [1], None)


def test_the_best_score_wins_and_ties_go_by_name():
    result = decide([plugin("A", score=scoring(b=5, c=5, a=4))])

    assert (result.row, result.ties.tolist()) == (1, [1, 2])
    assert result.scores.total.tolist() == [4, 5, 5]


def test_a_seed_draws_among_the_ties_and_always_draws_alike():
    plugins = [plugin("A", score=scoring(a=1))]
    nodes = "abcdefgh"
    drawn = {seed: decide(plugins, nodes[1:], seed=seed).row for seed in range(12)}

    assert len(set(drawn.values())) > 2
    assert {seed: decide(plugins, nodes[1:], seed=seed).row for seed in range(12)} == drawn
    assert {decide(plugins, nodes, seed=seed).row for seed in range(5)} == {0}


def test_without_score_plugins_the_first_feasible_node_is_taken_and_the_rest_is_not_looked_at():
    result = decide([plugin("A", filter=rejecting("a"))], "abcd")

    assert (result.row, result.scores) == (1, None)
    assert result.filter.not_evaluated.tolist() == [False, False, True, True]


def test_an_error_of_pre_score_ends_the_cycle():
    result = decide([plugin("A", pre_score=Status.error("broken"), score=scoring())])
    assert told(result) == (Outcome.ERROR, None, 'running PreScore plugin "A": broken')


@pytest.mark.parametrize("point", ["reserve", "permit"])
@pytest.mark.parametrize(
    ("status", "outcome", "message"),
    [
        (Status.unschedulable("b", "a", "b"), Outcome.UNSCHEDULABLE, "0/1 nodes are available: 1 a, 2 b."),
        (Status.unresolvable("never"), Outcome.UNSCHEDULABLE, "0/1 nodes are available: 1 never."),
        (Status.unschedulable(), Outcome.UNSCHEDULABLE, "0/1 nodes are available:"),
        (Status.error("broken"), Outcome.ERROR, 'running {} plugin "B": broken'),
    ],
)
def test_a_pod_turned_down_on_its_node_gives_everything_back(point, status, outcome, message):
    taken = []
    keeper = plugin(
        "A", reserve=lambda _, row: taken.append(row) or SUCCESS, unreserve=lambda _, row: taken.remove(row)
    )
    refusing = plugin("B", **{point: status}, **({"unreserve": None} if point == "reserve" else {}))
    result = decide([keeper, refusing, plugin("C", score=scoring(b=1))])

    assert told(result) == (outcome, None, message.format(point.capitalize()))
    assert (result.ties.tolist(), taken) == ([1], [])


def test_a_pod_that_is_placed_keeps_what_was_reserved():
    taken = []
    keeper = plugin("A", reserve=lambda _, row: taken.append(row) or SUCCESS, unreserve=never, permit=SUCCESS)

    assert decide([keeper, plugin("B", score=scoring(c=1))]).row == 2
    assert taken == [2]


# --- nominations ------------------------------------------------------------------------------------------------------

FULL = plugin("Full", Scope.NODE, filter=lambda _, view: rejecting_full(view))


def rejecting_full(view):
    """Reject nodes with two pods or more."""
    names = view.cluster.nodes.names
    full = [names[row] for row, count in zip(rows_of(view).tolist(), view.pod_count.tolist(), strict=True) if count > 1]
    return rejecting(*full, text="full")(None, view)


def companions(view):
    """Reject nodes without a pod."""
    names = view.cluster.nodes.names
    lone = [names[row] for row, count in zip(rows_of(view).tolist(), view.pod_count.tolist(), strict=True) if not count]
    return rejecting(*lone, text="lonely")(None, view)


SCORE = plugin("Score", score=scoring(a=1))


def test_a_nominated_node_that_passes_is_taken_and_no_other_is_looked_at():
    result = decide([FULL, SCORE], pods=[pod(nominated="b")])

    assert (result.row, result.scores) == (1, None)
    assert result.filter.not_evaluated.tolist() == [True, False, True]
    assert result.filter.status(0) is None


def test_a_nominated_node_that_does_not_pass_is_one_of_all():
    pods = [pod(nominated="b"), pod("x", on="b"), pod("y", on="b")]
    result = decide([FULL, SCORE], pods=pods)

    assert (result.row, result.ties.tolist()) == (0, [0])
    assert result.filter.not_evaluated is None
    assert result.filter.status(1).texts == ("full",)


@pytest.mark.parametrize("nominated", ["gone", ""])
def test_a_nominated_node_that_is_gone_is_as_none(nominated):
    assert decide([FULL, SCORE], pods=[pod(nominated=nominated)]).filter.not_evaluated is None


def test_a_nomination_that_was_taken_back_no_longer_counts():
    made = session([FULL, SCORE], pods=[pod(nominated="b")])
    made.nominator.drop(0)

    assert schedule_pod(made, 0).row == 0


def test_a_nominated_node_is_tried_even_where_pre_filter_did_not_name_it():
    plugins = [plugin("A", pre_filter=PreFilterResult(nodes=frozenset("a"))), FULL, SCORE]

    assert decide(plugins, pods=[pod(nominated="b")]).row == 1


def test_a_nominated_node_that_pre_filter_left_out_keeps_what_the_filters_said():
    plugins = [
        plugin("A", pre_filter=PreFilterResult(nodes=frozenset("ac"))),
        plugin("B", filter=rejecting(*"abc", text="B says no")),
    ]
    result = decide(plugins, "abcd", pods=[pod(nominated="b")])

    assert result.message == f"0/4 nodes are available: 1 {ONLY_AFFINITY}, 3 B says no."
    assert [result.filter.status(row).texts[0] for row in range(4)] == ["B says no"] * 3 + [ONLY_AFFINITY]
    assert result.filter.rows_with_code(Code.UNSCHEDULABLE).tolist() == [0, 1, 2]
    assert result.filter.rows_with_code(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).tolist() == [3]


def test_an_error_on_the_nominated_node_alone_ends_nothing():
    plugins = [
        plugin("A", pre_filter=PreFilterResult(nodes=frozenset("a"))),
        plugin("B", filter=rejecting("b", code=Code.ERROR)),
    ]

    assert told(decide(plugins, pods=[pod(nominated="b")])) == (Outcome.SCHEDULED, 0, "")


@pytest.mark.parametrize(
    ("priority", "row"), [pytest.param(0, 1, id="of equal priority"), pytest.param(-1, 0, id="of lower priority")]
)
def test_pods_nominated_to_a_node_count_there_unless_their_priority_is_lower(priority, row):
    pods = [pod(), pod("x", on="a"), pod("y", nominated="a", priority=priority)]
    result = decide([FULL, SCORE], pods=pods)

    assert result.row == row
    assert result.filter.feasible.tolist() == [row == 0, True, True]


def test_what_nominated_pods_took_is_free_again_for_the_next_pod_of_the_same_shape():
    pods = [pod("one"), pod("two"), pod("x", on="a"), pod("y", nominated="a")]
    made = session([FULL, SCORE], pods=pods)
    assert schedule_pod(made, 0).row == 1
    made.nominator.drop(3)

    assert schedule_pod(made, 1).row == 0


def test_a_node_must_pass_without_the_nominated_pods_too():
    plugins = [plugin("A", Scope.NODE, filter=lambda _, view: companions(view)), SCORE]
    pods = [pod(), pod("x", nominated="a"), pod("y", on="b")]
    result = decide(plugins, pods=pods)

    assert result.filter.feasible.tolist() == [False, True, False]
    assert result.row == 1


def test_the_own_nominated_node_must_pass_both_with_the_other_nominated_pods_and_without():
    pods = [pod(nominated="a"), pod("x", on="a"), pod("y", nominated="a")]
    assert decide([FULL, SCORE], pods=pods).row == 1

    lone = [pod(nominated="a"), pod("y", nominated="a"), pod("z", on="c")]
    companion = plugin("A", Scope.NODE, filter=lambda _, view: companions(view))
    assert decide([companion, SCORE], pods=lone).row == 2


def test_what_nominated_pods_rejected_is_told_in_the_message():
    pods = [pod(), *(pod(f"r{name}", on=name) for name in "ab"), *(pod(f"n{name}", nominated=name) for name in "ab")]
    result = decide([FULL, SCORE], "ab", pods=pods)

    assert result.message == "0/2 nodes are available: 2 full."
    assert result.filter.status(0).plugin == "Full"
    assert result.filter.all_failing(0) == {}


def test_pods_nominated_to_a_node_that_pre_filter_left_out_say_nothing_about_it():
    plugins = [plugin("A", pre_filter=PreFilterResult(nodes=frozenset("a")), filter=rejecting("a")), FULL]
    result = decide(plugins, "ab", pods=[pod(), pod("x", on="b"), pod("y", nominated="b")])

    assert result.message == f"0/2 nodes are available: 1 no, 1 {ONLY_AFFINITY}."


# --- extenders --------------------------------------------------------------------------------------------------------


def test_extenders_filter_one_after_another_what_the_filters_left():
    one = FakeExtender(rejects={"b": "busy"})
    other = FakeExtender("other", unresolvable={"c": "broken"})
    result = decide([plugin("A", filter=rejecting("a")), SCORE], "abcd", extenders=(one, other))

    assert (one.asked, other.asked) == ([["b", "c", "d"]], [["c", "d"]])
    assert result.row == 3
    assert [result.filter.status(row) and result.filter.status(row).code.text for row in range(4)] == [
        "Unschedulable",
        "Unschedulable",
        "UnschedulableAndUnresolvable",
        None,
    ]


def test_when_no_node_is_left_no_further_extender_is_asked():
    one, other = FakeExtender(drops="abc"), FakeExtender("other")
    assert decide([SCORE], extenders=(one, other)).message == "0/3 nodes are available:"
    assert (one.asked, other.asked) == ([["a", "b", "c"]], [])


def test_what_extenders_say_is_told_in_the_message_and_a_silent_drop_is_not():
    extenders = (FakeExtender(rejects={"b": "busy"}, drops=("c",)),)
    plugins = [plugin("A", filter=rejecting("a")), SCORE]

    assert decide(plugins, extenders=extenders).message == "0/3 nodes are available: 1 busy, 1 no."


def test_a_node_that_an_extender_drops_silently_counts_with_those_that_pre_filter_left_out():
    plugins = [plugin("A", pre_filter=PreFilterResult(nodes=frozenset("ab"))), SCORE]
    result = decide(plugins, extenders=(FakeExtender(rejects={"a": "busy"}, drops=("b",)),))

    assert result.message == f"0/3 nodes are available: 1 busy, 2 {ONLY_AFFINITY}."


def test_a_node_in_both_lists_of_an_extender_is_unresolvable():
    extenders = (FakeExtender(rejects={"a": "busy"}, unresolvable={"a": "broken"}, drops="bc"),)
    result = decide([SCORE], extenders=extenders)

    assert result.filter.status(0).texts == ("broken",)
    assert result.filter.status(0).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@pytest.mark.parametrize(
    ("ignorable", "expected"), [(True, (Outcome.SCHEDULED, 0, "")), (False, (Outcome.ERROR, None, "extender is away"))]
)
def test_an_extender_that_does_not_answer(ignorable, expected):
    assert told(decide([SCORE], extenders=(FakeExtender(fails=True, is_ignorable=ignorable),))) == expected


@pytest.mark.parametrize("options", [{"interested": False}, {"filters": False}])
def test_extenders_that_have_no_say_are_not_asked(options):
    extender = FakeExtender(rejects={"a": "busy"}, **options)

    assert decide([SCORE], extenders=(extender,)).row == 0
    assert extender.asked == []


@pytest.mark.parametrize("options", [{"rejects": {"b": "busy"}}, {"fails": True}, {"drops": ("b",)}])
def test_a_nominated_node_that_an_extender_turns_down_is_not_taken(options):
    extender = FakeExtender(**options, is_ignorable=False)
    made = session([SCORE], pods=[pod(nominated="b")], extenders=(extender,))
    if "fails" in options:
        assert told(schedule_pod(made, 0)) == (Outcome.ERROR, None, "extender is away")
    else:
        result = schedule_pod(made, 0)
        assert (result.row, result.filter.not_evaluated) == (0, None)
    assert extender.asked[0] == ["b"]


def test_a_nominated_node_that_passes_the_extenders_too_is_taken():
    extender = FakeExtender()
    result = decide([SCORE], pods=[pod(nominated="b")], extenders=(extender,))

    assert (result.row, extender.asked) == (1, [["b"]])


def test_extenders_score_from_0_to_10_times_ten_times_their_weight():
    extender = FakeExtender(prioritizes=True, filters=False, weight=3, scores={"a": 2, "c": 10, "gone": 7})
    result = decide([plugin("Score", score=scoring(a=100))], extenders=(extender,))

    assert result.scores.total.tolist() == [160, 0, 300]
    assert result.scores.plugins_at(2) == {"Score": 0, "extender": 300}
    assert extender.asked == [["a", "b", "c"]]


@pytest.mark.parametrize("options", [{"fails": True}, {"interested": False}, {"prioritizes": False}])
def test_extenders_that_give_no_scores(options):
    extender = FakeExtender(**{"prioritizes": True, "filters": False, "scores": {"c": 10}, **options})

    assert decide([SCORE], extenders=(extender,)).scores.plugins_at(2) == {"Score": 0}


# --- sampling ---------------------------------------------------------------------------------------------------------

HUNDREDS = [f"n{row:03}" for row in range(250)]


def test_sampling_stops_at_the_percentage_and_goes_on_there():
    made = session([SCORE], HUNDREDS, pods=[pod("x"), pod("y")], sample=True, percentage=50)

    first = schedule_pod(made, 0)
    assert first.filter.not_evaluated.sum() == 125
    assert not first.filter.not_evaluated[:125].any()
    assert made.sampling.start_index == 125
    second = schedule_pod(made, 1)
    assert not second.filter.not_evaluated[125:].any()
    assert made.sampling.start_index == 0


def test_the_percentage_of_the_profile_goes_before_that_of_the_configuration():
    made = session([SCORE], HUNDREDS, sample=True)
    assert schedule_pod(made, 0).filter.not_evaluated.sum() == 250 - 250 * 48 // 100


def test_a_rejected_nominated_node_counts_as_looked_at_wherever_the_search_stops():
    plugins = [plugin("A", filter=rejecting("n200", text="full")), SCORE]
    made = session(plugins, HUNDREDS, pods=[pod(nominated="n200")], sample=True, percentage=50)
    result = schedule_pod(made, 0)

    assert made.sampling.start_index == 126
    assert result.filter.not_evaluated.sum() == 124
    assert result.filter.status(200).texts == ("full",)


def test_a_rejected_nominated_node_that_the_search_comes_to_counts_once():
    plugins = [plugin("A", filter=rejecting("n003", text="full")), SCORE]
    made = session(plugins, HUNDREDS, pods=[pod(nominated="n003")], sample=True, percentage=50)
    schedule_pod(made, 0)

    assert made.sampling.start_index == 126
    assert not schedule_pod(session(plugins, HUNDREDS, sample=True), 0).filter.not_evaluated[3]


def test_nodes_that_the_search_does_not_come_to_are_neither_feasible_nor_rejected():
    plugins = [plugin("A", filter=rejecting("n000", "n249")), SCORE]
    result = decide(plugins, HUNDREDS, sample=True, percentage=50)

    assert result.filter.feasible.sum() == 125
    assert result.filter.status(0).texts == ("no",)
    assert result.filter.status(249) is None
    assert result.filter.reason_counts() == {("A", "no"): 1}


def test_what_nominated_pods_rejected_beyond_the_end_of_the_search_is_not_told():
    pods = [pod(), pod("r", on="n249"), pod("n", nominated="n249")]
    result = decide([FULL, SCORE], HUNDREDS, pods, sample=True, percentage=50)

    assert result.filter.not_evaluated[249]
    assert result.filter.reason_counts() == {}


def test_only_nodes_that_pre_filter_names_are_searched():
    names = frozenset(HUNDREDS[::2])
    plugins = [plugin("A", pre_filter=PreFilterResult(nodes=names)), plugin("B", filter=rejecting()), SCORE]
    made = session(plugins, HUNDREDS, sample=True, percentage=10)
    result = schedule_pod(made, 0)

    assert result.filter.feasible.sum() == 100
    assert made.sampling.start_index == 100
    assert result.filter.not_evaluated.sum() == 25
    assert result.filter.status(1).texts == (ONLY_AFFINITY,)
