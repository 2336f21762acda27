import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.affinity import TopologySpreadConstraint
from kplan.api.decode import convert
from kplan.config.args import PodTopologySpreadArgs
from kplan.framework.interface import StatusCode
from kplan.plugins import pod_topology_spread as spread_plugin
from kplan.plugins.pod_topology_spread import PodTopologySpread
from kplan.plugins.pod_topology_spread.filtering import REASON_SKEW
from tests.oracle.scheduler_counts import SpreadCounts, spread_scores

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
    spread_constraints,
)


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


def test_a_zone_whose_only_node_has_left_is_no_domain_any_more():
    world = zones(1, 1, 0)
    asked, answers = plugin(world), []
    for has_left in (False, True):
        world.cluster.nodes = world.cluster.nodes.with_absent(np.asarray([False, False, has_left]))
        answers.append([answer is None for answer in filtered(asked, world.cycle(web(spread())), world.view([0, 1]))])
    assert answers == [[False, False], [True, True]]


def test_details_tell_the_numbers():
    world = zones(3, 1, more_nodes=[node("n2")])
    cycle, asked = world.cycle(web(spread())), plugin(world)

    assert details(asked, cycle, world.view(), 0) == [
        {
            "reason": REASON_SKEW, "topologyKey": ZONE, "maxSkew": 1, "labelSelector": "app=x", "domain": "z0",
            "matchingPods": 3, "selfMatch": 1, "minimum": 1, "skew": 3, "domains": 2, "emptiestDomains": ["z1"],
        },
    ]  # fmt: skip
    assert details(asked, cycle, world.view(), 2)[0]["missingLabel"] == ZONE
    few_domains = details(plugin(world), world.cycle(web(spread(minDomains=5))), world.view(), 0)[0]
    assert (few_domains["minimum"], few_domains["minDomains"], few_domains["domains"]) == (0, 5, 2)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_score_lines_tell_what_was_counted():
    world = zones(2, 1, more_nodes=[node("n2")])
    cycle, asked = world.cycle(web(spread(hard=False))), plugin(world)
    scored(asked, cycle, world.view())
    assert asked.score_details(cycle, 0) == [f"{ZONE}=z0: 2 matching pods (app=x), weight 1.39, maxSkew 1"]
    assert asked.score_details(cycle, 2) == [f"no label {ZONE}"]


# --- defaults ---------------------------------------------------------------------------------------------------------

SERVICE = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}


# --- against the plain rules ------------------------------------------------------------------------------------------


@few
@given(neighbourhoods(max_terms=0), pods(is_spread=True))
def test_filter_is_that_of_single_nodes(world, incoming):
    counts = SpreadCounts(incoming, world.plain, {})
    assert filtered(plugin(world), world.cycle(incoming), world.view()) == [
        counts.filter(info) for info in counts.world.nodes.values()
    ]


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
