import pytest

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.api.resource import DeviceClass
from kplan.plugins.dynamic_resources.requests import extended_claim_spec

from .device_worlds import device_class, pod

GPU = "example.com/gpu"
CLASSES = {GPU: convert(device_class("gpu", extended=GPU), DeviceClass)}
SIDECAR = {"sidecar": True}


@pytest.mark.parametrize(
    ("containers", "init", "requests"),
    [
        pytest.param([{GPU: "2"}], [], {"container-0-request-0": 2}, id="one container"),
        pytest.param([{"cpu": "1", GPU: "1", "memory": "1"}], [], {"container-0-request-1": 1},
                     id="by place of the name"),
        pytest.param([{GPU: "1"}, {"cpu": "1"}, {GPU: "2"}], [],
                     {"container-0-request-0": 1, "container-2-request-0": 2}, id="one request a container"),
        pytest.param([{GPU: "2"}], [{GPU: "2"}], {"container-1-request-0": 2},
                     id="init containers use what comes later"),
        pytest.param([{GPU: "1"}], [{GPU: "3"}], {"container-0-request-0": 2, "container-1-request-0": 1},
                     id="an init container asks for what is missing"),
        pytest.param([{GPU: "1"}], [{GPU: "3"}, {GPU: "5"}], {"container-1-request-0": 4, "container-2-request-0": 1},
                     id="only the largest init container asks"),
        pytest.param([{GPU: "1"}], [{GPU: "1"} | SIDECAR, {GPU: "2"}],
                     {"container-0-request-0": 1, "container-1-request-0": 1, "container-2-request-0": 1},
                     id="a sidecar before an init container is not reused"),
        pytest.param([{GPU: "0"}, {GPU: "1500m"}], [], {}, id="no whole devices"),
    ],
)  # fmt: skip
def test_requests_of_the_claim_for_extended_resources(containers, init, requests):
    incoming = convert(pod(containers=containers, init=init), Pod)
    spec = extended_claim_spec(incoming, [GPU], CLASSES)
    assert {each.name: each.count for (each,) in spec.requests} == requests
    assert {each.class_name for (each,) in spec.requests} <= {"gpu"}
