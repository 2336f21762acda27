from kplan.documents.change import WorkloadState
from tests.objects import Object, deployment, device_slice, head, node, planner_of

DEVICES: list[Object] = [
    head("ResourceClaimTemplate", name="gpu", namespace="default")
    | {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}}}},
    head("DeviceClass", name="gpu.example.com") | {"spec": {}},
    device_slice("n0", "d0", "d1"),
]  # fmt: skip


def trained(replicas: int, image: str = "app:1") -> Object:
    found = deployment("web", replicas, image, maxUnavailable=1, maxSurge=0)
    spec = found["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "gpu"}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "g"}]
    return found


def test_pods_get_claims_of_their_own_and_give_their_devices_back() -> None:
    planner = planner_of(node("n0", "8"), node("n1", "8"), *DEVICES)
    change = planner.roll_out([trained(2), trained(2, "app:2")])
    assert [each.state for each in change.workloads] == [WorkloadState.COMPLETE] * len(change.workloads)
    assert [each.node for each in change.after] == ["n0", "n0"]


def test_a_rollout_is_stuck_when_the_devices_are_taken() -> None:
    planner = planner_of(node("n0", "8"), node("n1", "8"), *DEVICES)
    change = planner.roll_out([trained(3)])
    assert (change.workloads[0].state, change.workloads[0].ready) == (WorkloadState.STUCK, 2)
    assert "cannot allocate all claims" in change.workloads[0].because


def test_a_pod_whose_cycle_ends_in_an_error_is_tried_again_after_an_event() -> None:
    broken = head("DeviceClass", name="gpu.example.com") | {
        "spec": {"selectors": [{"cel": {"expression": 'device.attributes["gpu.example.com"].size == 1'}}]}
    }
    planner = planner_of(node("n0"), node("n1"), *DEVICES[:1], broken, DEVICES[2])
    steps = [{"at": 0, "apply": [trained(1)]}, {"at": 5, "delete": [["Node", "n0"]]}]
    first, last = (planner.timeline(steps[:n]).workloads[0].because for n in (1, 2))
    assert "no such key: size" in first
    assert "cannot allocate all claims" in last


def test_devices_of_an_extended_resource_are_free_once_their_pod_is_gone() -> None:
    gpus = head("DeviceClass", name="gpu.example.com") | {"spec": {"extendedResourceName": "example.com/gpu"}}
    web, other = deployment("web", 2), deployment("other", 1)
    for workload in (web, other):
        workload["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    planner = planner_of(node("n0", "8"), gpus, DEVICES[2])
    change = planner.roll_out([web, other, deployment("web", 1)])
    assert [each.node for each in change.after if each.workload.endswith("other")] == ["n0"]
