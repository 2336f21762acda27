import msgspec
import pytest

from kplan.api.decode import convert
from kplan.api.resource import ResourceClaim, ResourceSlice

BETA_REQUEST = {
    "name": "r",
    "deviceClassName": "gpu",
    "selectors": [{"cel": {"expression": "true"}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": True,
    "tolerations": [{"key": "broken", "operator": "Exists"}],
    "capacity": {"requests": {"memory": "1Gi"}},
}
V1_REQUEST = {"name": "r", "exactly": {key: value for key, value in BETA_REQUEST.items() if key != "name"}}

CONTENT = {
    "attributes": {"size": {"int": 1}},
    "capacity": {"memory": {"value": "1Gi"}},
    "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}],
    "nodeName": "n",
    "taints": [{"key": "broken", "effect": "NoSchedule"}],
    "allowMultipleAllocations": True,
    "bindsToNode": True,
    "bindingConditions": ["Attached"],
}


def claim(*requests):
    return convert({"spec": {"devices": {"requests": list(requests)}}}, ResourceClaim)


def slice_of(device):
    return convert({"spec": {"driver": "d", "devices": [device]}}, ResourceSlice)


def test_a_v1beta1_request_becomes_one_of_v1():
    assert claim(BETA_REQUEST) == claim(V1_REQUEST)


@pytest.mark.parametrize(
    "request_", [{"name": "r"}, {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}]
)
def test_a_request_without_content_of_its_own_stays_as_it_is(request_):
    (found,) = claim(request_).spec.devices.requests
    assert found.exactly is None


def test_a_v1beta1_device_becomes_one_of_v1():
    assert slice_of({"name": "a", "basic": CONTENT}) == slice_of({"name": "a", **CONTENT})


def test_what_is_written_has_the_shape_of_v1():
    written = msgspec.json.decode(msgspec.json.encode(slice_of({"name": "a", "basic": CONTENT})))
    assert written["spec"]["devices"] == [{"name": "a", **CONTENT}]
    written = msgspec.json.decode(msgspec.json.encode(claim(BETA_REQUEST)))
    assert written["spec"]["devices"]["requests"] == [V1_REQUEST]
