from hypothesis import given
from hypothesis import strategies as st

from kplan.config.args import InterPodAffinityArgs
from kplan.framework.interface import SKIP, StatusCode
from kplan.plugins.inter_pod_affinity import REASON_EXISTING_ANTI_AFFINITY, InterPodAffinity
from tests.oracle.scheduler_counts import AffinityCounts, affinity_scores

from .asking import changes, details, filtered
from .neighbours import (
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


NAMESPACES = [
    {"metadata": {"name": "default", "labels": {}}},
    {"metadata": {"name": "blue", "labels": {"team": "a"}}},
    {"metadata": {"name": "red", "labels": {"team": "b"}}},
]


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
            "topologyKey": ZONE, "domain": "b", "terms": terms, "matchingPods": 1, "pods": ["default/grumpy"],
            "andMore": 0,
        },
    ]  # fmt: skip


def test_details_say_where_company_would_be():
    world = neighbourhood({"n2": [app("x")]})
    cycle = world.cycle(app("y", affinity=near(term(namespaceSelector={}))))

    terms = [{"labelSelector": "app=x", "namespaces": "all"}]
    assert details(plugin(world), cycle, world.view(), 0) == [
        {
            "topologyKey": ZONE, "terms": terms, "domain": "a", "matchingPods": 0, "domainsWithMatchingPods": ["b"],
            "andMore": 0,
        },
    ]  # fmt: skip
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
    alone = details(plugin(world), world.cycle(app("y", affinity=near(term()))), world.view([0], [(0, 0, -1)]), 0)
    assert (alone[0]["domain"], alone[0]["matchingPods"]) == ("a", 0)


def test_details_describe_the_terms_of_running_pods():
    scope = {"namespaces": ["blue"], "namespaceSelector": selector(team="a")}
    world = neighbourhood({"n0": [named("p", {}, affinity=apart(term(**scope)))]}, namespaces=NAMESPACES)
    found = details(plugin(world), world.cycle(app("x", namespace="blue")), world.view(), 0)
    assert found[0]["terms"] == [{"labelSelector": "app=x", "namespaces": ["blue"], "namespaceSelector": "team=a"}]


# --- scores -----------------------------------------------------------------------------------------------------------


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
