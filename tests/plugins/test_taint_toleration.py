import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.framework.results import PluginError
from kplan.plugins.taint_toleration import TaintToleration
from tests.oracle import taint_toleration as oracle

from .asking import details, filtered
from .worlds import EFFECTS, World, few, node, pod, scored, tolerations


def taint(key="dedicated", value="ml", effect="NoSchedule"):
    return {"key": key, "value": value, "effect": effect}


def make(world):
    return TaintToleration(None, world.handle)


TAINTS = st.lists(
    st.builds(taint, st.sampled_from(["a", "b"]), st.sampled_from(["", "1"]), st.sampled_from(EFFECTS)), max_size=3
)
CLUSTERS = st.lists(TAINTS, min_size=1, max_size=5).map(
    lambda sets: World([node(f"n{index}", taints=taints) for index, taints in enumerate(sets)])
)
PODS = st.lists(tolerations(), max_size=3).map(lambda each: pod(tolerations=each))


@few
@given(CLUSTERS, PODS)
def test_filter_and_scores_equal_the_oracle_for_all_nodes_and_for_some(world, incoming):
    plugin, cycle, rows = make(world), world.cycle(incoming), list(range(len(world.nodes)))[::-2]
    expected = [oracle.filter_node(incoming, each) for each in world.nodes]
    raw = [oracle.score(incoming, each) for each in world.nodes]
    assert filtered(plugin, cycle, world.view()) == expected
    assert filtered(plugin, cycle, world.view(rows)) == [expected[row] for row in rows]
    assert scored(plugin, cycle, world.view()) == raw
    assert scored(plugin, cycle, world.view(rows)) == [raw[row] for row in rows]
    assert plugin.normalize_score(cycle, np.asarray(raw)).tolist() == oracle.normalized(raw)


def test_details_name_every_taint_that_is_not_tolerated():
    taints = [taint(), taint("gpu", "", "NoExecute"), taint("spot"), taint("soft", effect="PreferNoSchedule")]
    world = World([node(taints=taints)])
    incoming = pod(tolerations=[{"key": "spot", "operator": "Exists"}])
    assert details(make(world), world.cycle(incoming), world.view()) == [
        {"taint": "dedicated=ml:NoSchedule"},
        {"taint": "gpu:NoExecute"},
    ]


def test_score_details_name_the_soft_taints_that_are_not_tolerated():
    world = World([node(taints=[taint("a", effect="PreferNoSchedule"), taint("b")])])
    plugin, cycle = make(world), world.cycle(pod())
    scored(plugin, cycle, world.view())
    assert plugin.score_details(cycle, 0) == ["taint a=ml:PreferNoSchedule is not tolerated"]


def test_a_score_is_the_caller_s_to_change():
    world = World([node("a"), node("b")])
    plugin, cycle = make(world), world.cycle(pod())
    plugin.pre_score(cycle, world.view())
    plugin.score(cycle, world.view())[:] = 9
    assert scored(plugin, cycle, world.view()) == [0, 0]


def test_scoring_without_pre_score_is_an_error():
    world = World([node()])
    with pytest.raises(PluginError, match='failed to read "PreScoreTaintToleration" from cycleState: not found'):
        make(world).score(world.cycle(pod()), world.view())
