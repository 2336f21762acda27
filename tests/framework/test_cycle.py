"""One pod's cycle, rule by rule, with plugins that answer as told.

Nominated pods, early ends of the search and messages in whole decisions are recorded in tests/conformance.
"""

import pytest

from kplan.engine.verdicts import Code
from kplan.framework.cycle import schedule_pod
from kplan.framework.interface import SUCCESS, PreFilterResult, Scope, Status
from kplan.framework.results import Outcome
from tests.framework.fakes import FakeExtender, plugin, pod, rejecting, rows_of, scoring, session

ONLY_AFFINITY = "node(s) didn't satisfy plugin(s) [A]"
SCORE = plugin("Score", score=scoring(a=1))
HUNDREDS = [f"n{row:03}" for row in range(250)]


def decide(plugins, nodes="abc", pods=(), **options):
    return schedule_pod(session(plugins, nodes, pods, **options), 0)


def told(result):
    """Read a result out: outcome, node, message."""
    return result.outcome, result.row, result.message


def never(*_):
    raise AssertionError("not to be asked")


def crowded(view, least, most, text):
    """Reject nodes with fewer or more pods."""
    names, counts = view.cluster.nodes.names, view.pod_count.tolist()
    rejected = [names[row] for row, n in zip(rows_of(view).tolist(), counts, strict=True) if not least <= n <= most]
    return rejecting(*rejected, text=text)(None, view)


FULL = plugin("Full", Scope.NODE, filter=lambda _, view: crowded(view, 0, 1, "full"))
COMPANY = plugin("Company", Scope.NODE, filter=lambda _, view: crowded(view, 1, 9, "lonely"))


def names_only(*nodes, **more):
    return plugin("A", pre_filter=PreFilterResult(nodes=frozenset(nodes)), **more)


def error_on(name, node, text="no", **more):
    return plugin(name, filter=rejecting(node, text=text, code=Code.ERROR), **more)


OTHERS = {
    "without nodes nobody is asked": (
        [plugin("A", pre_enqueue=SUCCESS, pre_filter=never, post_filter=never)], "", (),
        (Outcome.UNSCHEDULABLE, None, "no nodes available to schedule pods"),
    ),
    "nobody schedules such pods": (
        [plugin("A", pre_enqueue=never)], "abc", [pod(scheduler="other")],
        (Outcome.ERROR, None, 'profile not found for scheduler name "other"'),
    ),
    "it is being deleted": (
        [plugin("A", pre_enqueue=SUCCESS, pre_filter=never)], "abc", [pod(deletionTimestamp="2026-03-01T10:00:00Z")],
        (Outcome.ERROR, None, "skip schedule deleting pod: default/pod"),
    ),
    "a gated pod is not tried, also while it is being deleted": (
        [plugin("A", pre_enqueue=Status.unresolvable("waiting", "long"), pre_filter=never)], "",
        [pod(deletionTimestamp="2026-03-01T10:00:00Z")],
        (Outcome.GATED, None, "waiting, long"),
    ),
    "without post filters nothing is looked for": (
        [plugin("A", filter=rejecting(*"abc"))], "abc", (),
        (Outcome.UNSCHEDULABLE, None, "0/3 nodes are available: 3 no."),
    ),
    "an error of a filter is that of the first node by name": (
        [error_on("A", "c", "one"), error_on("B", "b", "two", post_filter=never)], "abc", (),
        (Outcome.ERROR, None, 'running "B" filter plugin: two'),
    ),
    "a node that was rejected before the failing filter is no error": (
        [plugin("A", filter=rejecting("b")), error_on("B", "b")], "abc", (), (Outcome.SCHEDULED, 0, ""),
    ),
    "an error of PreScore ends the cycle": (
        [plugin("A", pre_score=Status.error("broken"), score=scoring())], "abc", (),
        (Outcome.ERROR, None, 'running PreScore plugin "A": broken'),
    ),
    "a nominated node is tried even where PreFilter did not name it": (
        [names_only("a"), FULL, SCORE], "abc", [pod(nominated="b")], (Outcome.SCHEDULED, 1, ""),
    ),
    "an error on the nominated node alone ends nothing": (
        [names_only("a"), error_on("B", "b")], "abc", [pod(nominated="b")], (Outcome.SCHEDULED, 0, ""),
    ),
    "pods nominated to a node that PreFilter left out say nothing about it": (
        [names_only("a", filter=rejecting("a")), FULL], "ab", [pod(), pod("x", on="b"), pod("y", nominated="b")],
        (Outcome.UNSCHEDULABLE, None, f"0/2 nodes are available: 1 no, 1 {ONLY_AFFINITY}."),
    ),
    "a node must pass without the nominated pods too": (
        [COMPANY, SCORE], "abc", [pod(), pod("x", nominated="a"), pod("y", on="b")], (Outcome.SCHEDULED, 1, ""),
    ),
    "the own nominated node must pass with the other nominated pods": (
        [FULL, SCORE], "abc", [pod(nominated="a"), pod("x", on="a"), pod("y", nominated="a")],
        (Outcome.SCHEDULED, 1, ""),
    ),
    "and without them": (
        [COMPANY, SCORE], "abc", [pod(nominated="a"), pod("y", nominated="a"), pod("z", on="c")],
        (Outcome.SCHEDULED, 2, ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plugins", "nodes", "pods", "expected"), OTHERS.values(), ids=OTHERS)
def test_what_comes_of_a_cycle(plugins, nodes, pods, expected):
    assert told(decide(plugins, nodes, pods)) == expected


def test_a_pod_that_the_api_server_refuses_is_not_tried():
    made = session([plugin("A", pre_enqueue=never)])
    made.refused[0] = "quota exceeded"
    assert told(schedule_pod(made, 0)) == (Outcome.ERROR, None, "quota exceeded")


def test_only_the_nodes_that_pre_filter_names_are_filtered():
    seen = []

    def ask(cycle, view):
        seen.append(rows_of(view).tolist())
        return rejecting("a", text="full")(cycle, view)

    plugins = [names_only("d", "a", "gone"), plugin("B", filter=ask)]

    fits = decide(plugins, "abcd")
    texts = [fits.filter.status(row) and fits.filter.status(row).texts for row in range(4)]
    assert (fits.row, seen) == (3, [[0, 3]])
    assert texts == [("full",), (ONLY_AFFINITY,), (ONLY_AFFINITY,), None]
    assert decide(plugins, "abc").message == f"0/3 nodes are available: 1 full, 2 {ONLY_AFFINITY}."
    assert decide(plugins, "bc").message == f"0/2 nodes are available: 2 {ONLY_AFFINITY}."


# --- the choice -------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("point", ["reserve", "permit"])
@pytest.mark.parametrize(
    ("status", "outcome", "message"),
    [
        (Status.unschedulable("b", "a", "b"), Outcome.UNSCHEDULABLE, "0/1 nodes are available: 1 a, 2 b."),
        (Status.unresolvable("never"), Outcome.UNSCHEDULABLE, "0/1 nodes are available: 1 never."),
        (Status.unschedulable(), Outcome.UNSCHEDULABLE, "0/1 nodes are available:"),
        (Status.error("broken"), Outcome.ERROR, 'running {} plugin "B": broken'),
        (SUCCESS, Outcome.SCHEDULED, ""),
    ],
)
def test_a_pod_turned_down_on_its_node_gives_everything_back(point, status, outcome, message):
    taken = []
    keeper = plugin(
        "A", reserve=lambda _, row: taken.append(row) or SUCCESS, unreserve=lambda _, row: taken.remove(row)
    )
    answering = plugin("B", **{point: status}, **({"unreserve": None} if point == "reserve" else {}))
    result = decide([keeper, answering, plugin("C", score=scoring(b=1))])
    placed = [1] if status is SUCCESS else []
    assert told(result) == (outcome, placed[0] if placed else None, message.format(point.capitalize()))
    assert (result.ties.tolist(), taken) == ([1], placed)


# --- nominations ------------------------------------------------------------------------------------------------------


def test_a_nominated_node_that_pre_filter_left_out_keeps_what_the_filters_said():
    plugins = [names_only("a", "c"), plugin("B", filter=rejecting(*"abc", text="B says no"))]
    result = decide(plugins, "abcd", pods=[pod(nominated="b")])
    assert result.message == f"0/4 nodes are available: 1 {ONLY_AFFINITY}, 3 B says no."
    assert [result.filter.status(row).texts[0] for row in range(4)] == ["B says no"] * 3 + [ONLY_AFFINITY]
    assert result.filter.rows_with_code(Code.UNSCHEDULABLE).tolist() == [0, 1, 2]
    assert result.filter.rows_with_code(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).tolist() == [3]


def test_what_nominated_pods_took_is_free_again_for_the_next_pod_of_the_same_shape():
    pods = [pod("one"), pod("two"), pod("x", on="a"), pod("y", nominated="a")]
    made = session([FULL, SCORE], pods=pods)
    assert schedule_pod(made, 0).row == 1
    made.nominator.drop(3)
    assert schedule_pod(made, 1).row == 0


# --- extenders --------------------------------------------------------------------------------------------------------


def test_extenders_filter_one_after_another_what_the_filters_left():
    one = FakeExtender(rejects={"b": "busy"})
    other = FakeExtender("other", unresolvable={"c": "broken"})
    result = decide([plugin("A", filter=rejecting("a")), SCORE], "abcd", extenders=(one, other))
    codes = [result.filter.status(row) and result.filter.status(row).code.text for row in range(4)]
    assert (one.asked, other.asked) == ([["b", "c", "d"]], [["c", "d"]])
    assert result.row == 3
    assert codes == ["Unschedulable", "Unschedulable", "UnschedulableAndUnresolvable", None]


def test_when_no_node_is_left_no_further_extender_is_asked():
    one, other = FakeExtender(drops="abc"), FakeExtender("other")
    assert decide([SCORE], extenders=(one, other)).message == "0/3 nodes are available:"
    assert (one.asked, other.asked) == ([["a", "b", "c"]], [])


@pytest.mark.parametrize(
    ("first", "extender", "message"),
    [
        (plugin("A", filter=rejecting("a")), {"rejects": {"b": "busy"}, "drops": ("c",)}, "1 busy, 1 no"),
        (names_only("a", "b"), {"rejects": {"a": "busy"}, "drops": ("b",)}, f"1 busy, 2 {ONLY_AFFINITY}"),
    ],
    ids=["a silent drop is not told", "or counts with those that PreFilter left out"],
)
def test_what_extenders_say_is_told_in_the_message(first, extender, message):
    result = decide([first, SCORE], extenders=(FakeExtender(**extender),))
    assert result.message == f"0/3 nodes are available: {message}."


def test_a_node_in_both_lists_of_an_extender_is_unresolvable():
    extenders = (FakeExtender(rejects={"a": "busy"}, unresolvable={"a": "broken"}, drops="bc"),)
    result = decide([SCORE], extenders=extenders)
    assert result.filter.status(0).texts == ("broken",)
    assert result.filter.status(0).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@pytest.mark.parametrize(
    ("options", "expected", "n_asked"),
    [
        ({"fails": True, "is_ignorable": True}, (Outcome.SCHEDULED, 0, ""), 1),
        ({"fails": True, "is_ignorable": False}, (Outcome.ERROR, None, "extender is away"), 1),
        ({"rejects": {"a": "busy"}, "interested": False}, (Outcome.SCHEDULED, 0, ""), 0),
        ({"rejects": {"a": "busy"}, "filters": False}, (Outcome.SCHEDULED, 0, ""), 0),
    ],
)
def test_an_extender_that_does_not_answer_or_has_no_say(options, expected, n_asked):
    extender = FakeExtender(**options)
    assert told(decide([SCORE], extenders=(extender,))) == expected
    assert len(extender.asked) == n_asked


@pytest.mark.parametrize(
    ("options", "expected", "n_asked"),
    [
        ({"rejects": {"b": "busy"}}, (Outcome.SCHEDULED, 0, ""), 2),
        ({"drops": ("b",)}, (Outcome.SCHEDULED, 0, ""), 2),
        ({"fails": True}, (Outcome.ERROR, None, "extender is away"), 2),
        ({}, (Outcome.SCHEDULED, 1, ""), 1),
    ],
)
def test_a_nominated_node_is_taken_unless_an_extender_turns_it_down(options, expected, n_asked):
    extender = FakeExtender(**options)
    result = decide([SCORE], pods=[pod(nominated="b")], extenders=(extender,))
    assert told(result) == expected
    assert (extender.asked[0], len(extender.asked)) == (["b"], n_asked)


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


@pytest.mark.parametrize(("node", "n_not_evaluated"), [("n200", 124), ("n003", 124)])
def test_a_rejected_nominated_node_counts_once_as_looked_at_wherever_the_search_stops(node, n_not_evaluated):
    plugins = [plugin("A", filter=rejecting(node, text="full")), SCORE]
    made = session(plugins, HUNDREDS, pods=[pod(nominated=node), pod("next")], sample=True, percentage=50)
    result = schedule_pod(made, 0)
    assert made.sampling.start_index == 126
    assert result.filter.not_evaluated.sum() == n_not_evaluated
    assert result.filter.status(int(node[1:])).texts == ("full",)
    assert not schedule_pod(made, 1).filter.not_evaluated[126:].any()


def test_what_nominated_pods_rejected_beyond_the_end_of_the_search_is_not_told():
    pods = [pod(), pod("r", on="n249"), pod("n", nominated="n249")]
    result = decide([FULL, SCORE], HUNDREDS, pods, sample=True, percentage=50)
    assert result.filter.not_evaluated[249]
    assert result.filter.reason_counts() == {}
