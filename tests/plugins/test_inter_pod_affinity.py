import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.config.args import InterPodAffinityArgs
from kplan.framework.interface import SKIP, PreScoreResult, StatusCode
from kplan.framework.results import PluginError
from kplan.plugins.inter_pod_affinity.plugin import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING_ANTI_AFFINITY,
    InterPodAffinity,
)
from tests.oracle.scheduler_counts import AffinityCounts, affinity_scores

from .asking import changes, details, filtered, verdicts
from .neighbours import (
    HOSTNAME,
    ZONE,
    Neighbourhood,
    app,
    assert_follows,
    few,
    neighbourhoods,
    node,
    pod,
    pods,
    scored,
    selector,
    signed,
)

ALONE = ("UnschedulableAndUnresolvable", [REASON_AFFINITY])
CROWDED = ("Unschedulable", [REASON_ANTI_AFFINITY])
UNWANTED = ("Unschedulable", [REASON_EXISTING_ANTI_AFFINITY])


def plugin(world, **args):
    return InterPodAffinity(InterPodAffinityArgs(**args), world.handle)


def term(name="x", key=ZONE, **more):
    return {"labelSelector": selector(app=name), "topologyKey": key, **more}


def required(part, *terms):
    return {part: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def preferred(part, *weighted):
    return {
        part: {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": each} for weight, each in weighted
            ]
        }
    }


def near(*terms):
    return required("podAffinity", *terms)


def apart(*terms):
    return required("podAntiAffinity", *terms)


def neighbourhood(running, **objects):
    """Two nodes in zone a, one in zone b, and one in none."""
    nodes = [node("n0", "a"), node("n1", "a"), node("n2", "b"), node("n3")]
    return Neighbourhood(nodes, running, objects)


def ask(world, incoming, **args):
    return filtered(plugin(world, **args), world.cycle(incoming), world.view())


# --- filter -----------------------------------------------------------------------------------------------------------


def test_affinity_wants_a_pod_in_the_same_domain():
    world = neighbourhood({"n0": [app("x")]})

    assert ask(world, app("y", affinity=near(term()))) == [None, None, ALONE, ALONE]
    assert ask(world, app("y", affinity=near(term(key=HOSTNAME)))) == [None, ALONE, ALONE, ALONE]


def test_affinity_wants_one_pod_that_all_terms_mean():
    both = near(term(), {"labelSelector": selector(tier="t"), "topologyKey": ZONE})
    apart_from_each_other = neighbourhood({"n0": [app("x"), pod(labels={"tier": "t"})]})
    in_one = neighbourhood({"n0": [pod(labels={"app": "x", "tier": "t"})]})

    assert ask(apart_from_each_other, app("y", affinity=both)) == [ALONE] * 4
    assert ask(in_one, app("y", affinity=both)) == [None, None, ALONE, ALONE]


def test_the_first_of_a_series_may_go_anywhere_with_a_label():
    incoming = app("x", affinity=near(term()))

    assert ask(neighbourhood({}), incoming) == [None, None, None, ALONE]
    assert ask(neighbourhood({"n2": [app("x")]}), incoming) == [ALONE, ALONE, None, ALONE]
    # A pod on a node without the label is in no domain, so it is as if it were not there.
    assert ask(neighbourhood({"n3": [app("x")]}), incoming) == [None, None, None, ALONE]
    assert ask(neighbourhood({}), app("y", affinity=near(term()))) == [ALONE] * 4


def test_anti_affinity_wants_no_pod_in_the_same_domain():
    world = neighbourhood({"n0": [app("x")], "n3": [app("x")]})

    assert ask(world, app("y", affinity=apart(term()))) == [CROWDED, CROWDED, None, None]
    assert ask(world, app("y", affinity=apart(term(key=HOSTNAME)))) == [CROWDED, None, None, CROWDED]


def test_anti_affinity_of_running_pods_counts_too():
    world = neighbourhood({"n0": [app("y", affinity=apart(term()))]})

    assert ask(world, app("x")) == [UNWANTED, UNWANTED, None, None]
    assert plugin(world).pre_filter(world.cycle(app("z"))) is SKIP


def test_terminating_pods_count():
    world = neighbourhood({"n0": [app("x", terminating=True)]})

    assert ask(world, app("y", affinity=apart(term())))[0] == CROWDED


def test_the_first_rule_that_fails_is_reported():
    world = neighbourhood({"n0": [app("y", affinity=apart(term()))]})
    incoming = app("x", affinity={**near(term("z")), **apart(term("y"))})

    assert ask(world, incoming) == [ALONE] * 4
    assert ask(world, app("x", affinity=apart(term("y"))))[:2] == [CROWDED, CROWDED]


def test_each_position_sees_its_own_change_only():
    world = neighbourhood({"n0": [app("x")], "n1": [app("x")]})
    cycle = world.cycle(app("y", affinity=apart(term(key=HOSTNAME))))

    assert filtered(plugin(world), cycle, world.view([0, 1, 2], [(0, 0, -1)])) == [None, CROWDED, None]


def test_the_first_of_a_series_under_changes():
    world = neighbourhood({"n0": [app("x")]})
    incoming = world.cycle(app("x", affinity=near(term(key=HOSTNAME))))
    coming = world.coming(app("x"))

    # Where the only other pod leaves, nobody is left; everywhere else it still runs.
    assert filtered(plugin(world), incoming, world.view([0, 1], [(0, 0, -1)])) == [None, ALONE]
    # Nobody runs: where one comes, it is company on its node, and nodes without changes do not know of it.
    world = neighbourhood({})
    incoming = world.cycle(app("x", affinity=near(term())))
    coming = world.coming(app("x"))
    assert filtered(plugin(world), incoming, world.view([0, 2, 3], [(0, coming, 1)])) == [None, None, ALONE]


def test_pods_on_a_node_without_the_label_are_in_nobodys_domain():
    world = neighbourhood({"n0": [app("z", affinity=apart(term("y", HOSTNAME)))]})
    near_x, grumpy = world.coming(app("x")), world.coming(app("w", affinity=apart(term("y"))))
    cycle = world.cycle(app("y", affinity=apart(term())))

    changes = [(0, near_x, 1), (1, near_x, 1), (2, grumpy, 1), (3, grumpy, 1)]
    assert filtered(plugin(world), cycle, world.view([1, 3, 2, 3], changes)) == [CROWDED, None, UNWANTED, None]


def test_pods_that_come_bring_terms_that_nobody_held_before():
    world = neighbourhood({"n0": [app("z", affinity=apart(term("x", HOSTNAME)))]})
    coming = world.coming(app("z", affinity=apart(term("x"))))
    cycle, asked = world.cycle(app("x")), plugin(world)

    view = world.view([1, 2], [(1, coming, 1)])
    assert filtered(asked, cycle, view) == [None, UNWANTED]
    assert details(asked, cycle, view, 1)[0]["topologyKey"] == ZONE


NAMESPACES = [
    {"metadata": {"name": "default", "labels": {}}},
    {"metadata": {"name": "blue", "labels": {"team": "a"}}},
    {"metadata": {"name": "red", "labels": {"team": "b"}}},
]


@pytest.mark.parametrize(
    ("scope", "blue", "red"),
    [
        pytest.param({}, False, False, id="the pod's own namespace where none is named"),
        pytest.param({"namespaces": ["blue"]}, True, False, id="named"),
        pytest.param({"namespaceSelector": selector(team="b")}, False, True, id="selected"),
        pytest.param({"namespaces": ["blue"], "namespaceSelector": selector(team="b")}, True, True, id="both"),
        pytest.param({"namespaceSelector": {}}, True, True, id="an empty selector selects all"),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}},
            True,
            True,
            id="one that takes a namespace without labels selects all",
        ),
    ],
)
def test_namespaces_of_the_pods_own_terms(scope, blue, red):
    running = {"n0": [app("x", namespace="blue")], "n2": [app("x", namespace="red")]}
    world = neighbourhood(running, namespaces=NAMESPACES)

    answers = ask(world, app("y", affinity=apart(term(**scope))))

    assert [answers[0] == CROWDED, answers[2] == CROWDED] == [blue, red]


@pytest.mark.parametrize(
    ("scope", "is_meant"),
    [
        ({}, False),
        ({"namespaces": ["blue"]}, True),
        ({"namespaceSelector": selector(team="a")}, True),
        ({"namespaceSelector": selector(team="b")}, False),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}}, False),
    ],
)
def test_namespaces_of_running_pods_terms(scope, is_meant):
    world = neighbourhood({"n0": [app("y", affinity=apart(term(**scope)))]}, namespaces=NAMESPACES)

    assert (ask(world, app("x", namespace="blue"))[0] == UNWANTED) == is_meant


BAD = {"labelSelector": {"matchLabels": {"app": "-"}}, "topologyKey": ZONE}


def test_invalid_terms_reject_the_pod():
    world = neighbourhood({})
    one = plugin(world).pre_filter(world.cycle(app("x", affinity=apart(BAD))))
    two = plugin(world).pre_filter(world.cycle(app("x", affinity={**near(BAD), **apart(BAD)})))

    assert one.status.code is StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert one.status.message.startswith("parsing pod: requiredAntiAffinityTerms: values[0][app]: Invalid value")
    assert two.status.message.startswith("parsing pod: [requiredAffinityTerms: values[0][app]")
    assert ", requiredAntiAffinityTerms: " in two.status.message
    scored_anyway = plugin(world).pre_score(world.cycle(app("x", affinity=near(BAD))), world.view())
    assert scored_anyway.message.startswith("failed to parse pod: requiredAffinityTerms: ")


def test_valid_terms_of_a_running_pod_hold_beside_invalid_ones():
    world = neighbourhood({"n0": [app("y", affinity={**near(BAD), **apart(term())})]})

    assert ask(world, app("x")) == [UNWANTED, UNWANTED, None, None]


def test_filter_without_prefilter_and_score_without_prescore_are_errors():
    world = neighbourhood({})
    cycle = world.cycle(app("x"))

    text = 'error reading "PreFilterInterPodAffinity" from cycleState: not found'
    assert verdicts(plugin(world), cycle, world.view()) == [("Error", [text])] * 4
    with pytest.raises(PluginError, match='failed to read "PreScoreInterPodAffinity" from cycleState: not found'):
        plugin(world).score(cycle, world.view())


# --- details ----------------------------------------------------------------------------------------------------------


def named(name, labels, **more):
    return pod(name, labels=labels, **more)


def test_details_name_the_pods_in_the_way():
    running = {
        "n0": [named(f"x{index}", {"app": "x"}) for index in range(4)],
        "n1": [named(f"x{index}", {"app": "x"}) for index in range(4, 7)],
        "n2": [named("grumpy", {"app": "y"}, affinity=apart(term()))],
    }
    world = neighbourhood(running)
    cycle = world.cycle(app("x", affinity=apart(term())))

    terms = [{"labelSelector": "app=x", "namespaces": ["default"]}]
    expected = {
        "topologyKey": ZONE,
        "domain": "a",
        "terms": terms,
        "matchingPods": 7,
        "pods": [f"default/x{index}" for index in range(5)],
        "andMore": 2,
    }
    assert details(plugin(world), cycle, world.view(), 0) == [expected]
    assert details(plugin(world), cycle, world.view(), 1) == [expected]
    assert details(plugin(world), cycle, world.view(), 2) == [
        {
            "topologyKey": ZONE,
            "domain": "b",
            "terms": terms,
            "matchingPods": 1,
            "pods": ["default/grumpy"],
            "andMore": 0,
        }
    ]


def test_details_say_where_company_would_be():
    world = neighbourhood({"n2": [app("x")]})
    cycle = world.cycle(app("y", affinity=near(term(namespaceSelector={}))))

    terms = [{"labelSelector": "app=x", "namespaces": "all"}]
    assert details(plugin(world), cycle, world.view(), 0) == [
        {
            "topologyKey": ZONE,
            "terms": terms,
            "domain": "a",
            "matchingPods": 0,
            "domainsWithMatchingPods": ["b"],
            "andMore": 0,
        }
    ]
    assert details(plugin(world), cycle, world.view(), 3) == [
        {"topologyKey": ZONE, "terms": terms, "missingLabel": ZONE}
    ]


def test_details_see_the_changes_of_their_own_node():
    world = neighbourhood({"n0": [named("old", {"app": "x"})]})
    cycle = world.cycle(app("y", affinity=apart(term())))
    coming = world.coming(named("new", {"app": "x"}))

    view = world.view([0, 2], [(0, 0, -1), (0, coming, 1), (1, coming, 1)])

    assert details(plugin(world), cycle, view, 0)[0]["pods"] == ["default/new"]
    assert details(plugin(world), cycle, view, 1)[0]["pods"] == ["default/new"]


def test_details_describe_the_terms_of_running_pods():
    scope = {"namespaces": ["blue"], "namespaceSelector": selector(team="a")}
    world = neighbourhood({"n0": [named("p", {}, affinity=apart(term(**scope)))]}, namespaces=NAMESPACES)

    found = details(plugin(world), world.cycle(app("x", namespace="blue")), world.view(), 0)

    assert found[0]["terms"] == [{"labelSelector": "app=x", "namespaces": ["blue"], "namespaceSelector": "team=a"}]


# --- scores -----------------------------------------------------------------------------------------------------------


def test_preferred_terms_score_by_weight_and_number_of_pods():
    world = neighbourhood({"n0": [app("x"), app("x")], "n2": [app("y")]})
    wishes = {**preferred("podAffinity", (10, term())), **preferred("podAntiAffinity", (5, term("y", HOSTNAME)))}

    raw, final = scored(plugin(world), world.cycle(app("z", affinity=wishes)), world.view())

    assert raw == [20, 20, -5, 0]
    assert final == [100, 100, 0, 20]


def test_terms_of_running_pods_score():
    running = {
        "n0": [app("y", affinity=near(term()))],
        "n2": [app("y", affinity=preferred("podAntiAffinity", (3, term())))],
    }
    world = neighbourhood(running)

    assert scored(plugin(world), world.cycle(app("x")), world.view())[0] == [1, 1, -3, 0]
    assert scored(plugin(world, hard_pod_affinity_weight=7), world.cycle(app("x")), world.view())[0] == [7, 7, -3, 0]
    assert scored(plugin(world, hard_pod_affinity_weight=0), world.cycle(app("x")), world.view())[0] == [0, 0, -3, 0]
    assert scored(plugin(world), world.cycle(app("z")), world.view()) is None


def test_preferences_of_others_can_be_ignored():
    world = neighbourhood({"n0": [app("y", affinity=preferred("podAffinity", (3, term())))]})
    asked = plugin(world, ignore_preferred_terms_of_existing_pods=True)

    assert asked.pre_score(world.cycle(app("x")), world.view()) is PreScoreResult.SKIP_SHAPE
    # A pod with wishes of its own is scored, and then the others' wishes count all the same.
    wishes = preferred("podAffinity", (1, term("z")))
    assert scored(asked, world.cycle(app("x", affinity=wishes)), world.view())[0] == [3, 3, 0, 0]


def test_wishes_that_cancel_out_are_scored_and_those_that_mean_nobody_are_not():
    world = neighbourhood({"n0": [app("x")]})
    cancelling = {**preferred("podAffinity", (5, term())), **preferred("podAntiAffinity", (5, term()))}

    assert scored(plugin(world), world.cycle(app("z", affinity=cancelling)), world.view()) == ([0] * 4, [0] * 4)
    nobody = preferred("podAffinity", (5, term("nobody")))
    assert scored(plugin(world), world.cycle(app("z", affinity=nobody)), world.view()) is None


def test_score_lines_tell_what_each_domain_scores():
    world = neighbourhood({"n0": [app("x")]})
    cycle, asked = world.cycle(app("z", affinity=preferred("podAntiAffinity", (5, term())))), plugin(world)
    scored(asked, cycle, world.view())

    assert asked.score_details(cycle, 0) == [f"{ZONE}=a: -5 from preferred terms"]
    assert asked.score_details(cycle, 3) == [f"no label {ZONE}"]


# --- against the plain rules ------------------------------------------------------------------------------------------


@few
@given(neighbourhoods(), pods())
def test_filter_is_that_of_single_nodes(world, incoming):
    counts = AffinityCounts(incoming, world.plain)

    assert ask(world, incoming) == [
        None if counts.is_skipped else counts.filter(info) for info in counts.world.nodes.values()
    ]
    if counts.is_skipped:
        assert plugin(world).pre_filter(world.cycle(incoming)) is SKIP


@few
@given(st.data(), neighbourhoods(), pods())
def test_filter_sees_the_changes_of_its_own_node(data, world, incoming):
    changed = data.draw(changes(world, st.lists(pods(1), max_size=2)))
    counts = AffinityCounts(incoming, world.plain)

    expected = [None if counts.is_skipped else counts.after(each.row, signed(world, each)) for each in changed]
    assert filtered(plugin(world), world.cycle(incoming), world.changed(changed)) == expected


@few
@given(st.data(), neighbourhoods(), pods())
def test_scores_are_those_of_single_nodes(data, world, incoming):
    rows = data.draw(st.lists(st.sampled_from(range(len(world.nodes))), unique=True, min_size=1))
    hard_weight, ignores = data.draw(st.sampled_from([0, 1, 100])), data.draw(st.booleans())
    asked = plugin(world, hard_pod_affinity_weight=hard_weight, ignore_preferred_terms_of_existing_pods=ignores)
    args = {"hardPodAffinityWeight": hard_weight, "ignorePreferredTermsOfExistingPods": ignores}
    plain = world.plain
    feasible = [list(plain.nodes.values())[row] for row in rows]

    assert scored(asked, world.cycle(incoming), world.view(rows)) == affinity_scores(incoming, feasible, plain, args)


@few
@given(st.data(), neighbourhoods(), pods())
def test_what_is_kept_follows_the_cluster(data, world, incoming):
    assert_follows(data, plugin, world, incoming, data.draw(st.lists(pods(1), max_size=3)))
