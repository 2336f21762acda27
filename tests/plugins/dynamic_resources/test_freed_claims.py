"""Claims that stand in a pod's way lose their devices when the pod is rejected, and others find them free."""

import copy

import kplan
from tests.plugins.dynamic_resources.device_worlds import (
    allocation,
    claim,
    device,
    device_class,
    device_slice,
    node,
    pod,
    request,
)

LOST = allocation(("n", "gpu-0"), on="gone")


def planner(*objects):
    def kind_of(each):
        if "containers" in each.get("spec", {}):
            return "v1", "Pod"
        if "driver" in each.get("spec", {}):
            return "resource.k8s.io/v1", "ResourceSlice"
        if "selectors" in each.get("spec", {}):
            return "resource.k8s.io/v1", "DeviceClass"
        return ("v1", "Node") if "spec" not in each else ("resource.k8s.io/v1", "ResourceClaim")

    world = [node("n"), device_slice("s", device("gpu-0"), on="n"), device_class(), *objects]
    typed = [{"apiVersion": kind_of(each)[0], "kind": kind_of(each)[1], **copy.deepcopy(each)} for each in world]
    return kplan.Planner(kplan.load_snapshot(typed))


def test_what_one_question_frees_is_held_in_the_next():
    asked = planner(claim("lost", request(), allocation=LOST), claim("c", request()), pod("p", "lost"), pod("q", "c"))
    assert asked.place("default/p").node is None
    assert asked.place("default/q").node is None


def test_the_pod_itself_comes_back_and_is_placed():
    found = planner(claim("lost", request(), allocation=LOST), pod("p", "lost")).plan_queue().report()
    assert [change.to_node for change in found.changes] == ["n"]
