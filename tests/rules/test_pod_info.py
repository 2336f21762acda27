"""What is derived from a pod, and when two pods say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.rules.pod_info import DistinctResources, PodInfo, affinity_terms
from kplan.rules.resources import CPU, DEFAULT_REQUESTS, pod_requests, pod_resources, rounded_requests
from tests.recorded import examples


def shape(*volumes, name="pod"):
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return PodInfo(
        convert({"metadata": meta, "spec": {"containers": [{"name": "c"}], "volumes": list(volumes)}}, Pod)
    ).shape


def claim(name):
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([claim("data-0")], [claim("data-1")], id="replicas with a claim each"),
        pytest.param([{"name": "kube-api-access-x", "projected": {}}], [], id="what the API server adds to every pod"),
        pytest.param([{"name": "a", "emptyDir": {}}], [{"name": "b", "configMap": {"name": "c"}}],
                     id="private volumes"),
        pytest.param([{"name": "a", "ephemeral": {}}], [{"name": "b", "ephemeral": {}}, {"name": "c", "ephemeral": {}}],
                     id="numbers"),
    ],
)  # fmt: skip
def test_pods_of_one_shape(one, other):
    assert shape(*one, name="a") == shape(*other, name="b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([claim("a")], [], id="a claim or none"),
        pytest.param([claim("a")], [{"name": "a", "ephemeral": {}}], id="a claim or a generated one"),
        pytest.param([{"name": "a", "rbd": {}}], [{"name": "a", "iscsi": {}}], id="types of disks"),
        pytest.param(
            [{"name": "a", "image": {"reference": "x:1"}}], [{"name": "a", "image": {"reference": "x:2"}}], id="images"
        ),
    ],
)
def test_pods_of_two_shapes(one, other):
    assert shape(*one) != shape(*other)


def info(metadata=None, spec=None, status=None):
    meta = {"name": "pod", "namespace": "default", **(metadata or {})}
    return PodInfo(convert({"metadata": meta, "spec": spec or {}, "status": status or {}}, Pod))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param({"uid": "a"}, {"uid": "b"}, True, id="who it is"),
        pytest.param({"creationTimestamp": "2026-03-01T10:00:00Z"}, {}, True, id="when it was made"),
        pytest.param({"labels": {"a": "b"}}, {}, False, id="labels"),
        pytest.param({"namespace": "blue"}, {}, False, id="namespace"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "controller": True}]},
            {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "y", "controller": True}]},
            False, id="controller",
        ),
        pytest.param({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x"}]}, {}, True,
                     id="an owner that does not control it"),
    ],
)  # fmt: skip
def test_what_of_the_metadata_makes_a_shape(one, other, is_same):
    assert (info(one).shape == info(other).shape) is is_same


def test_pods_with_resource_claims_are_of_a_shape_of_their_own():
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    assert info({"uid": "a"}, spec).shape != info({"uid": "b"}, spec).shape
    assert info({"name": "a"}, spec).shape != info({"name": "b"}, spec).shape
    assert info({"uid": "a"}, spec).shape == info({"uid": "a"}, spec).shape


def test_a_pod_that_is_being_deleted_is_terminating():
    assert info({"deletionTimestamp": "2026-03-01T10:00:00Z"}).is_terminating
    assert not info().is_terminating
    assert info().key == "default/pod"
    assert repr(info()) == "PodInfo(default/pod)"


QUANTITIES = st.sampled_from(["0", "1m", "250m", "2", "1Gi", 1, 1.5])
REQUESTS = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), QUANTITIES, max_size=2)
RESOURCES = st.builds(lambda requests: {"requests": requests}, REQUESTS)


@st.composite
def pods(draw):
    """A pod with anything that what it takes from its node follows from."""
    names = ["a", "b"][: draw(st.integers(0, 2))]
    spec = {"containers": [{"name": name, "resources": draw(RESOURCES)} for name in names]}
    status = {}
    if draw(st.integers(0, 3)) == 0:
        spec["initContainers"] = [{"name": "init", "resources": draw(RESOURCES)}]
    if draw(st.integers(0, 5)) == 0:
        spec["overhead"] = draw(REQUESTS)
    if draw(st.integers(0, 5)) == 0:
        spec["resources"] = draw(RESOURCES)
    if draw(st.booleans()):
        status["containerStatuses"] = [
            {
                "name": name,
                "allocatedResources": draw(REQUESTS),
                **({"resources": draw(RESOURCES)} if draw(st.booleans()) else {}),
            }
            for name in draw(st.permutations(names))
        ]
    if draw(st.booleans()):
        reason = draw(st.sampled_from(["Infeasible", "Deferred"]))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return convert({"metadata": {"name": "p"}, "spec": spec, "status": status}, Pod)


@examples(150)
@given(st.lists(pods(), max_size=6))
def test_what_pods_take_worked_out_at_once_is_what_each_takes(listed):
    infos = [PodInfo(pod) for pod in listed]
    resources = DistinctResources()
    codes = [*resources.share(infos[:2]), *resources.share(infos[2:])]
    expected = [pod_resources(pod) for pod in listed]
    assert [resources.distinct[code] for code in codes] == expected
    assert [info.resources for info in infos] == expected


def test_what_claims_take_of_a_node_is_each_pods_own():
    statuses = [{"nodeAllocatableResourceClaimStatuses": [{"resources": {"cpu": cpu}}]} for cpu in ("1", "2")]
    infos = [info(status=status) for status in statuses]
    DistinctResources().share(infos)
    assert [each.resources.requests for each in infos] == [{CPU: 1000}, {CPU: 2000}]


@examples(150)
@given(pods())
def test_what_a_pod_asks_for_before_it_runs_is_read_off_where_its_status_is_silent(pod):
    scored = rounded_requests(
        pod_requests(pod, use_status=False, missing_container_requests=DEFAULT_REQUESTS, use_pod_level=False)
    )
    found = PodInfo(pod)
    assert found.requests == rounded_requests(pod_requests(pod, use_status=False))
    assert {name: amount for name, amount in found.scored_requests.items() if amount} == {
        name: amount for name, amount in scored.items() if amount
    }


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
BAD = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "{bad}"}}}
GOOD = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}


def compiled(**affinity):
    pod = {"metadata": {"name": "p", "namespace": "blue"}, "spec": {"affinity": affinity}}
    return affinity_terms(convert(pod, Pod))


def term(**more):
    terms, error = compiled(podAffinity={REQUIRED: [{**GOOD, **more}]})
    assert error == ""
    return terms.required_affinity[0]


def test_equal_terms_are_equal_whoever_holds_them():
    other = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}
    other["labelSelector"]["matchExpressions"][0]["values"] = ["web"]
    assert term() == term(**other)
    assert hash(term()) == hash(term(**other))
    assert term() != term(topologyKey="host")


def test_a_list_with_an_invalid_selector_counts_as_empty_and_the_others_hold():
    terms, error = compiled(podAffinity={REQUIRED: [GOOD, BAD]}, podAntiAffinity={REQUIRED: [GOOD]})
    assert (len(terms.required_affinity), len(terms.required_anti_affinity)) == (0, 1)
    assert error.startswith('requiredAffinityTerms: values[0][app]: Invalid value: "{bad}": a valid label must')


def test_several_invalid_lists_are_told_together():
    weighted = [{"weight": 1, "podAffinityTerm": BAD}]
    _, error = compiled(podAffinity={REQUIRED: [BAD]}, podAntiAffinity={REQUIRED: [BAD], PREFERRED: weighted})
    assert error[0] + error[-1] == "[]"
    names = ("requiredAffinityTerms: ", "requiredAntiAffinityTerms: ", "preferredAntiAffinityTerms: ")
    positions = [error.find(name) for name in names]
    assert 0 < positions[0] < positions[1] < positions[2]
