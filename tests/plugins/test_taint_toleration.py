import pytest

from kplan.framework.results import PluginError
from kplan.plugins.taint_toleration import TaintToleration

from .asking import details
from .worlds import World, node, pod, scored


def taint(key="dedicated", value="ml", effect="NoSchedule"):
    return {"key": key, "value": value, "effect": effect}


def make(world):
    return TaintToleration(None, world.handle)


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
