import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.affinity import TopologySpreadConstraint
from kplan.api.decode import convert
from kplan.config.args import PodTopologySpreadArgs
from kplan.framework.interface import SKIP_SHAPE, PreScoreResult, StatusCode
from kplan.framework.results import PluginError
from kplan.plugins.pod_topology_spread import plugin as spread_plugin
from kplan.plugins.pod_topology_spread.filtering import REASON_LABEL_MISSING, REASON_SKEW
from kplan.plugins.pod_topology_spread.plugin import PodTopologySpread
from tests.oracle.scheduler_counts import SpreadCounts, spread_scores

from .asking import changes, details, filtered, verdicts
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
    spread_constraints,
)

SKEWED = ("Unschedulable", [REASON_SKEW])
UNLABELLED = ("UnschedulableAndUnresolvable", [REASON_LABEL_MISSING])


def plugin(world, **args):
    return PodTopologySpread(PodTopologySpreadArgs(**args), world.handle)


def spread(key=ZONE, max_skew=1, *, hard=True, labels=None, **more):
    return {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": selector(**(labels or {"app": "x"})),
        **more,
    }


def web(*constraints, **more):
    return app("x", topologySpreadConstraints=list(constraints), **more)


def zones(*counts, more_nodes=()):
    """One node a zone, with that many pods app=x each."""
    names = [f"n{index}" for index in range(len(counts))]
    return Neighbourhood(
        [*(node(name, f"z{index}") for index, name in enumerate(names)), *more_nodes],
        {name: [app("x")] * count for name, count in zip(names, counts, strict=True)},
    )


def ask(world, incoming, **args):
    return filtered(plugin(world, **args), world.cycle(incoming), world.view())


@pytest.mark.parametrize(
    ("counts", "constraint", "expected"),
    [
        pytest.param((1, 0, 0), {}, [SKEWED, None, None], id="only the emptiest zones stay within a skew of one"),
        pytest.param((1, 0, 0), {"max_skew": 2}, [None, None, None], id="a skew of two lets one more in"),
        pytest.param((3, 2, 2), {}, [SKEWED, None, None], id="the emptiest zone has two pods, so two count as none"),
        pytest.param((1, 1), {"minDomains": 3}, [SKEWED, SKEWED], id="too few domains: the minimum counts as zero"),
        pytest.param((1, 1), {"minDomains": 2}, [None, None], id="as many domains as wanted"),
        pytest.param((1, 0), {"labels": {"app": "y"}}, [None, None], id="pods that are not meant do not count"),
    ],
)
def test_filter_looks_at_the_skew(counts, constraint, expected):
    assert ask(zones(*counts), web(spread(**constraint))) == expected


def test_pod_that_is_not_meant_itself_adds_nothing():
    incoming = pod(labels={"app": "other"}, topologySpreadConstraints=[spread()])

    assert ask(zones(1, 0), incoming) == [None, None]


def test_node_without_the_label_cannot_be_helped():
    world = zones(0, 0, more_nodes=[node("n2")])

    assert ask(world, web(spread())) == [None, None, UNLABELLED]


def test_the_first_constraint_that_fails_is_reported():
    world = zones(2, 0, more_nodes=[node("n2")])
    on_rack = spread("rack")

    assert ask(world, web(spread(), on_rack)) == [UNLABELLED, UNLABELLED, UNLABELLED]
    world = Neighbourhood([node("n0", "a"), node("n1", "b", rack="r")], {"n0": [app("x")] * 2})
    # n0 has no rack, so it is no domain of either constraint, and its pods do not count.
    assert ask(world, web(spread(), on_rack)) == [UNLABELLED, None]


def test_selector_that_takes_everything_counts_no_running_pod():
    assert ask(zones(5, 0), web(spread(labels={}) | {"labelSelector": {}})) == [None, None]


def test_terminating_pods_do_not_count():
    world = Neighbourhood([node("n0", "a"), node("n1", "b")], {"n0": [app("x", terminating=True)]})

    assert ask(world, web(spread())) == [None, None]


def test_match_label_keys_narrow_the_selector():
    world = Neighbourhood(
        [node("n0", "a"), node("n1", "b")], {"n0": [pod(labels={"app": "x", "hash": "old"})], "n1": []}
    )
    constraint = spread(matchLabelKeys=["hash", "no"])
    incoming = pod(labels={"app": "x", "hash": "new"}, topologySpreadConstraints=[constraint])

    assert ask(world, incoming) == [None, None]


def test_inclusion_policies_say_which_nodes_form_domains():
    taints = [{"key": "only", "effect": "NoSchedule"}]
    world = Neighbourhood([node("n0", "a"), node("n1", "b", taints=taints)], {"n0": [app("x")]})

    assert ask(world, web(spread())) == [SKEWED, None]
    assert ask(world, web(spread(nodeTaintsPolicy="Honor"))) == [None, None]
    assert ask(world, web(spread(), nodeSelector={ZONE: "a"})) == [None, None]
    assert ask(world, web(spread(nodeAffinityPolicy="Ignore"), nodeSelector={ZONE: "a"})) == [SKEWED, None]


def test_each_position_sees_its_own_change_only():
    world = zones(1, 1, 1)
    coming = world.coming(app("x"))
    cycle, asked = world.cycle(web(spread())), plugin(world)

    # Alone, zone 0 without its pod is the emptiest by one, and zone 1 with another pod is two ahead of the others.
    view = world.view(None, [(0, 0, -1), (1, coming, 1)])
    assert filtered(asked, cycle, view) == [None, SKEWED, None]
    assert details(asked, cycle, view, 1)[0]["matchingPods"] == 2


def test_the_emptiest_domain_may_be_overtaken_by_its_own_change():
    world = zones(0, 2, 4)
    changes = [(0, world.coming(app("x")), 1) for _ in range(2)]

    # Two pods in zone 0 make two the fewest of all, not the none that it had.
    answers = filtered(plugin(world), world.cycle(web(spread())), world.view(None, changes))
    assert answers == [None, SKEWED, SKEWED]


def test_changes_on_a_node_that_forms_no_domain_do_not_count():
    world = Neighbourhood([node("n0", "a"), node("n1", "a", rack="r"), node("n2", "b", rack="r")])
    coming = [world.coming(app("x")) for _ in range(2)]
    constraint = spread()

    changes = [(position, row, 1) for position in (0, 1) for row in coming]
    incoming = web(constraint, nodeSelector={"rack": "r"})
    assert filtered(plugin(world), world.cycle(incoming), world.view(None, changes)) == [None, SKEWED, None]


def test_terminating_pods_count_when_they_leave():
    """Upstream does not count them, but takes them off when preemption evicts them."""
    world = Neighbourhood([node("n0", "a"), node("n1", "b")], {"n0": [app("x"), app("x"), app("x", terminating=True)]})
    cycle, asked = world.cycle(web(spread(max_skew=2))), plugin(world)

    assert filtered(asked, cycle, world.view()) == [SKEWED, None]
    assert filtered(asked, cycle, world.view(None, [(0, 2, -1)])) == [None, None]


def test_pod_without_hard_constraints_skips_the_filter():
    world = zones(1, 0)
    asked = plugin(world)

    assert asked.pre_filter(world.cycle(pod())) is SKIP_SHAPE
    assert asked.pre_filter(world.cycle(web(spread(hard=False)))) is SKIP_SHAPE
    assert asked.pre_score(world.cycle(web(spread())), world.view()) is PreScoreResult.SKIP_SHAPE


def test_invalid_selector_ends_the_cycle_with_upstreams_text():
    world = zones(0)
    bad = {"matchLabels": {"app": "-"}}
    hard = plugin(world).pre_filter(world.cycle(web(spread() | {"labelSelector": bad})))
    soft = plugin(world).pre_score(world.cycle(web(spread(hard=False) | {"labelSelector": bad})), world.view())

    assert hard.status.code is StatusCode.ERROR
    assert hard.status.message.startswith(
        "get constraints from pod: obtaining pod's hard topology spread constraints: values[0][app]: Invalid value"
    )
    assert soft.code is StatusCode.ERROR
    assert soft.message.startswith(
        "calculating preScoreState: obtaining pod's soft topology spread constraints: values[0][app]: Invalid value"
    )


def test_filter_without_prefilter_and_score_without_prescore_are_errors():
    world = zones(0)
    cycle = world.cycle(web(spread()))

    assert verdicts(plugin(world), cycle, world.view()) == [
        ("Error", ['reading "PreFilterPodTopologySpread" from cycleState: not found'])
    ]
    with pytest.raises(PluginError, match='running Score plugins: plugin "PodTopologySpread" failed with: error'):
        plugin(world).score(cycle, world.view())


def test_details_tell_the_numbers():
    world = zones(3, 1, more_nodes=[node("n2")])
    cycle, asked = world.cycle(web(spread())), plugin(world)

    assert details(asked, cycle, world.view(), 0) == [
        {
            "reason": REASON_SKEW,
            "topologyKey": ZONE,
            "maxSkew": 1,
            "labelSelector": "app=x",
            "domain": "z0",
            "matchingPods": 3,
            "selfMatch": 1,
            "minimum": 1,
            "skew": 3,
            "domains": 2,
            "emptiestDomains": ["z1"],
        }
    ]
    assert details(asked, cycle, world.view(), 2)[0]["missingLabel"] == ZONE
    few_domains = details(plugin(world), world.cycle(web(spread(minDomains=5))), world.view(), 0)[0]
    assert (few_domains["minimum"], few_domains["minDomains"], few_domains["domains"]) == (0, 5, 2)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_fewer_matching_pods_score_better():
    world = zones(2, 1, 0)

    raw, final = scored(plugin(world), world.cycle(web(spread(hard=False))), world.view())

    assert raw == [3, 2, 0]
    assert final == [0, 33, 100]


def test_nodes_without_all_labels_score_nothing():
    world = zones(1, 0, more_nodes=[node("n2")])

    _, final = scored(plugin(world), world.cycle(web(spread(hard=False))), world.view())

    assert final == [0, 100, 0]


def test_score_lines_tell_what_was_counted():
    world = zones(2, 1, more_nodes=[node("n2")])
    cycle, asked = world.cycle(web(spread(hard=False))), plugin(world)
    scored(asked, cycle, world.view())

    assert asked.score_details(cycle, 0) == [f"{ZONE}=z0: 2 matching pods (app=x), weight 1.39, maxSkew 1"]
    assert asked.score_details(cycle, 2) == [f"no label {ZONE}"]


# --- defaults ---------------------------------------------------------------------------------------------------------

SERVICE = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}


def test_system_defaults_spread_pods_that_a_service_selects():
    world = Neighbourhood(
        [node("n0", "a"), node("n1", "b"), node("n2")], {"n0": [app("x")] * 2}, {"services": [SERVICE]}
    )

    assert scored(plugin(world), world.cycle(app("y")), world.view()) is None
    raw, final = scored(plugin(world), world.cycle(app("x")), world.view())

    # Hosts: ln(3 + 2) each pod, and 2 for the skew of 3. Zones: ln(3 + 2) with "no zone" as a domain of its own, and 4.
    assert raw == [12, 6, 2]
    assert final == [16, 66, 100]


def test_system_defaults_take_a_missing_zone_for_an_empty_one():
    nodes = [node("n0", "a"), node("n1", ""), node("n2"), node("n3")]
    world = Neighbourhood(nodes, {"n3": [app("x")] * 2}, {"services": [SERVICE]})

    raw, _ = scored(plugin(world), world.cycle(app("x")), world.view())

    # Four hosts weigh ln 6, two zones ln 4: the pods without a zone stand in the way where the zone is empty.
    assert raw == [2 + 4, 2 + 4 + 3, 2, 2 + 4]


@pytest.mark.parametrize(
    ("kind", "owner", "spec"),
    [
        ("replication_controllers", ("v1", "ReplicationController", "c"), {"selector": {"app": "x"}}),
        ("replica_sets", ("apps/v1", "ReplicaSet", "c"), {"selector": selector(app="x")}),
        ("stateful_sets", ("apps/v1", "StatefulSet", "c"), {"selector": selector(app="x")}),
    ],
)
def test_system_defaults_spread_pods_of_a_controller(kind, owner, spec):
    controller = {"metadata": {"name": "c", "namespace": "default"}, "spec": spec}
    world = Neighbourhood([node("n0", "a"), node("n1", "b")], {"n0": [app("x")]}, {kind: [controller]})

    assert scored(plugin(world), world.cycle(app("x")), world.view()) is None
    assert scored(plugin(world), world.cycle(app("x", owner=owner)), world.view())[1] == [66, 100]
    assert scored(plugin(world), world.cycle(app("x", owner=("apps/v1beta1", *owner[1:]))), world.view()) is None


def test_default_constraints_of_the_configuration():
    constraints = (convert(spread() | {"labelSelector": None}, TopologySpreadConstraint),)
    args = {"default_constraints": constraints, "defaulting_type": "List"}
    world = Neighbourhood([node("n0", "a"), node("n1", "b")], {"n0": [app("x")]}, {"services": [SERVICE]})

    assert ask(world, app("x"), **args) == [SKEWED, None]
    assert plugin(world, **args).pre_filter(world.cycle(app("y"))) is SKIP_SHAPE
    assert plugin(world, defaulting_type="List").pre_filter(world.cycle(app("x"))) is SKIP_SHAPE


# --- against the plain rules ------------------------------------------------------------------------------------------


@few
@given(neighbourhoods(max_terms=0), pods(is_spread=True))
def test_filter_is_that_of_single_nodes(world, incoming):
    counts = SpreadCounts(incoming, world.plain, {})

    assert ask(world, incoming) == [counts.filter(info) for info in counts.world.nodes.values()]


@few
@given(st.data(), neighbourhoods(max_terms=0), pods(is_spread=True))
def test_filter_sees_the_changes_of_its_own_node(data, world, incoming):
    changed = data.draw(changes(world, st.lists(pods(1), max_size=2)))
    counts = SpreadCounts(incoming, world.plain, {})

    expected = [counts.after(each.row, signed(world, each)) for each in changed]
    assert filtered(plugin(world), world.cycle(incoming), world.changed(changed)) == expected


@few
@given(st.data(), neighbourhoods(max_terms=0), pods(is_spread=True))
def test_scores_are_those_of_single_nodes(data, world, incoming):
    rows = data.draw(st.lists(st.sampled_from(range(len(world.nodes))), unique=True, min_size=1))
    plain = world.plain
    feasible = [list(plain.nodes.values())[row] for row in rows]

    assert scored(plugin(world), world.cycle(incoming), world.view(rows)) == spread_scores(
        incoming, feasible, plain, {}
    )


@few
@given(neighbourhoods(max_terms=0), pods(is_spread=True))
def test_a_few_scores_computed_one_by_one_are_those_of_arrays(world, incoming):
    one_by_one = scored(plugin(world), world.cycle(incoming), world.view())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spread_plugin, "_FEW", 0)

        assert scored(plugin(world), world.cycle(incoming), world.view()) == one_by_one


@few
@given(st.data(), neighbourhoods(max_terms=0))
def test_default_scores_are_those_of_single_nodes(data, world):
    incoming = pod(labels={"app": "x"})
    defaults = data.draw(st.lists(spread_constraints(actions=("ScheduleAnyway",)), max_size=2))
    for each in defaults:
        each["labelSelector"] = None
        each.pop("matchLabelKeys", None)
    by_service = Neighbourhood(world.nodes, world.running, {"services": [SERVICE]})
    args, plain_args = {}, {}
    if not data.draw(st.booleans()):
        listed = tuple(convert(each, TopologySpreadConstraint) for each in defaults)
        args = {"default_constraints": listed, "defaulting_type": "List"}
        plain_args = {"defaultConstraints": defaults, "defaultingType": "List"}
    plain = by_service.plain

    assert scored(plugin(by_service, **args), by_service.cycle(incoming), by_service.view()) == spread_scores(
        incoming, list(plain.nodes.values()), plain, plain_args
    )


@few
@given(st.data(), neighbourhoods(max_terms=0), pods(is_spread=True))
def test_what_is_kept_follows_the_cluster(data, world, incoming):
    assert_follows(data, plugin, world, incoming, data.draw(st.lists(pods(0), max_size=3)))
