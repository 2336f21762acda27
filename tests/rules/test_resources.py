"""What pods ask for, exactly."""

import copy
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.rules.resources import (
    CPU,
    MEMORY,
    is_counted,
    is_extended,
    is_native,
    is_scalar,
    pod_requests,
    pod_resources,
    quantity_text,
    resource_order,
    rounded,
    rounded_requests,
)
from tests.oracle.scheduler_world import Needs, in_units, total_requests
from tests.recorded import examples

AMOUNTS = {
    "cpu": ["100m", "1", "0.5", "1m"],
    "memory": ["1Gi", "100M", "1", "64Ki", "0.5"],
    "ephemeral-storage": ["1G"],
    "hugepages-2Mi": ["4Mi"],
    "example.com/gpu": ["1", "2"],
}
WHOLE = ("cpu", "memory", "hugepages-2Mi")


def _requests(draw, names=tuple(AMOUNTS)):
    return {name: draw.choice(AMOUNTS[name]) for name in names if draw.random() < 0.5}


def _container(draw, name, **more):
    return {"name": name, "resources": {"requests": _requests(draw)}, **more}


def _pod(draw):
    starting = [
        _container(draw, f"i{number}", **({"restartPolicy": "Always"} if draw.random() < 0.5 else {}))
        for number in range(draw.randint(0, 3))
    ]
    spec = {
        "containers": [_container(draw, f"c{number}") for number in range(draw.randint(1, 3))],
        "initContainers": starting,
    }
    if draw.random() < 0.3:
        spec["overhead"] = {"cpu": "250m", "memory": "1Mi"}
    if draw.random() < 0.4:
        spec["resources"] = {"requests": _requests(draw, WHOLE)}
    return {"metadata": {"name": "pod", "namespace": "default"}, "spec": spec}


_draw = random.Random(1)
PODS = st.sampled_from([_pod(_draw) for _ in range(400)])


def decoded(pod):
    return convert(copy.deepcopy(pod), Pod)


@examples(300)
@given(PODS, st.booleans(), st.booleans())
def test_requests_equal_the_oracle(pod, use_pod_level, use_status):
    exact = pod_requests(decoded(pod), use_status=use_status, use_pod_level=use_pod_level)
    assert rounded_requests(exact) == in_units(total_requests(pod, pod_level=use_pod_level))


@examples(300)
@given(PODS)
def test_what_a_pod_takes_equals_the_oracle(pod):
    taken = pod_resources(decoded(pod))
    needs = Needs(pod)
    assert taken.requests == needs.running
    assert (taken.nonzero_cpu, taken.nonzero_memory) == tuple(needs.running_nonzero[name] for name in ("cpu", "memory"))


def resized(spec, actuated, allocated, *conditions, of="containers", policy="Always"):
    """Make a pod of one container (or sidecar) that asks for, runs with and was promised so much CPU."""
    container = {"name": "c", "restartPolicy": policy, "resources": {"requests": {"cpu": spec}}}
    status = {"name": "c", "allocatedResources": {"cpu": allocated}}
    if actuated is not None:
        status["resources"] = {"requests": {"cpu": actuated}}
    kind = "containerStatuses" if of == "containers" else "initContainerStatuses"
    return decoded(
        {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "other"}], of: [container]},
            "status": {kind: [status], "conditions": [{"type": kind, "reason": reason} for kind, reason in conditions]},
        }
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(resized("1", "2", "3"), 3000, id="what is allocated is the largest"),
        pytest.param(resized("1", "3", "2"), 3000, id="what is running is the largest"),
        pytest.param(resized("3", "1", "2"), 3000, id="what is asked is the largest"),
        pytest.param(resized("3", "1", "2", ("PodResizePending", "Infeasible")), 2000,
                     id="an infeasible resize does not count"),
        pytest.param(resized("3", "1", "2", ("PodResizePending", "Deferred")), 3000,
                     id="a resize that is put off counts"),
        pytest.param(resized("3", "1", "2", ("PodResizePending", "Deferred"), ("PodResizePending", "Infeasible")), 3000,
                     id="the first condition of its type counts"),
        pytest.param(resized("3", "1", "2", ("PodResizeInProgress", "Infeasible")), 3000,
                     id="another condition says nothing"),
        pytest.param(resized("1", None, "3"), 1000, id="without resources in the status only the spec counts"),
        pytest.param(resized("1", "2", "3", of="initContainers"), 3000, id="a sidecar is resized like a container"),
        pytest.param(resized("1", "2", "3", of="initContainers", policy=""), 1000,
                     id="an init container is never resized"),
    ],
)  # fmt: skip
def test_resizing_in_place(pod, expected):
    assert pod_resources(pod).requests == {CPU: expected}
    spec_only = pod_requests(pod, use_status=False)
    assert rounded_requests(spec_only)[CPU] == int(
        1000 * int((*pod.spec.init_containers, *pod.spec.containers)[0].resources.requests[CPU])
    )


def test_resizing_a_whole_pod_in_place():
    pod = decoded(
        {
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "resources": {"requests": {"cpu": "2"}},
            },
            "status": {"resources": {"requests": {"cpu": "3", "memory": "9"}}, "allocatedResources": {"cpu": "4"}},
        }
    )

    assert pod_resources(pod).requests == {CPU: 4000}
    assert rounded_requests(pod_requests(pod, use_status=False)) == {CPU: 2000}


@pytest.mark.parametrize(
    ("name", "native", "extended", "scalar", "counted"),
    [
        ("cpu", True, False, False, True),
        ("ephemeral-storage", True, False, False, True),
        ("unheard-of", True, False, False, False),
        ("hugepages-2Mi", True, False, True, True),
        ("attachable-volumes-x", True, False, True, True),
        ("kubernetes.io/batch-cpu", True, False, True, True),
        ("nvidia.com/gpu", False, True, True, True),
        ("requests.nvidia.com/gpu", False, False, False, False),
        ("UPPER.com/gpu", False, False, False, False),
        ("nvidia.com/two/slashes", False, False, False, False),
        ("nvidia.com/", False, False, False, False),
        ("my.kubernetes.io/foo", True, False, True, True),
        ("nvidia.com/" + "x" * 63, False, True, True, True),
        ("nvidia.com/" + "x" * 64, False, False, False, False),
        ("a" * 240 + ".com/x", False, True, True, True),
        ("a" * 241 + ".com/x", False, False, False, False),
        ("nvidia.com/-gpu", False, False, False, False),
    ],
)
def test_kinds_of_resources(name, native, extended, scalar, counted):
    assert (is_native(name), is_extended(name), is_scalar(name), is_counted(name)) == (
        native,
        extended,
        scalar,
        counted,
    )


@pytest.mark.parametrize(
    ("name", "nano", "expected"),
    [
        (CPU, 1, 1), (CPU, 1_000_000, 1), (CPU, 1_000_001, 2), (MEMORY, 1_000_000, 1), (MEMORY, 2_000_000_000, 2),
        (MEMORY, -1, -1), (MEMORY, -1_000_000_000, -1), (MEMORY, 2**63 * 10**9, -(2**63)),
    ],
)  # fmt: skip
def test_amounts_are_rounded_away_from_zero_and_wrap_at_64_bits(name, nano, expected):
    assert rounded(name, nano) == expected


@pytest.mark.parametrize(
    ("name", "amount", "expected"),
    [
        (CPU, 500, "500m"), (CPU, 2000, "2"), (MEMORY, 2 * 2**30, "2Gi"), ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        ("example.com/gpu", 3000, "3k"), (MEMORY, 0, "0"),
    ],
)  # fmt: skip
def test_amounts_are_written_as_quantities(name, amount, expected):
    assert quantity_text(name, amount) == expected


def test_resources_are_named_in_the_order_of_reasons():
    names = ["b.com/x", "memory", "a.com/x", "ephemeral-storage", "cpu"]
    assert resource_order(names) == ["cpu", "memory", "ephemeral-storage", "a.com/x", "b.com/x"]
