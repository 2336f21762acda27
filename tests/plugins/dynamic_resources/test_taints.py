import pytest

from .device_worlds import DRIVER, DeviceWorld, claim, device, device_slice, pod, request

GATE = "DRADeviceTaintRules"


def rule(effect="NoSchedule", name="rule", **selector):
    spec = {"taint": {"key": "broken", "effect": effect}}
    return {"metadata": {"name": name}, "spec": spec | ({"deviceSelector": selector} if selector else {})}


def where(*rules, gates=(GATE,), tolerations=()):
    wanted = request(tolerations=list(tolerations))
    slices = (device_slice("s", device("a"), on="n1"), device_slice("t", device("a"), on="n2"))
    world = DeviceWorld(["n1", "n2"], *slices, claims=[claim("c", wanted)], rules=rules, gates=gates)
    return world.place(pod("p", "c"))


@pytest.mark.parametrize(
    ("selector", "placed"),
    [
        ({}, None),
        ({"driver": DRIVER}, None),
        ({"driver": "other"}, "n1"),
        ({"pool": "n1"}, "n2"),
        ({"pool": "n1", "device": "b"}, "n1"),
        ({"device": "a"}, None),
    ],
)
def test_a_rule_keeps_the_devices_that_it_selects_from_being_allocated(selector, placed):
    assert where(rule(**selector)) == placed


def test_a_rule_is_tolerated_like_a_taint_of_the_device():
    assert where(rule(), tolerations=[{"key": "broken", "operator": "Exists"}]) == "n1"
    assert where(rule(effect="None")) == "n1"
    assert where(rule(), gates=()) == "n1"
