from typing import Any

import pytest

from kplan.admission.limits import Rejection, apply_defaults, check, check_claim, of_namespace
from kplan.api.core import LimitRange, PersistentVolumeClaim, Pod
from kplan.api.decode import convert


def limit_range(**item: Any) -> LimitRange:
    return convert(
        {"metadata": {"name": "l", "namespace": "d"}, "spec": {"limits": [{"type": "Container", **item}]}}, LimitRange
    )


def pod(resources: dict[str, Any], /, **spec: Any) -> Pod:
    containers = [{"name": "c", "resources": resources}]
    return convert({"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": containers, **spec}}, Pod)


def test_defaults_fill_what_is_not_stated_in_every_container() -> None:
    limits = limit_range(default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "1"})
    found = apply_defaults(pod({"limits": {"cpu": "3"}}, initContainers=[{"name": "i"}]), limits)
    assert found.spec.containers[0].resources.requests == {"cpu": "1"}
    assert found.spec.containers[0].resources.limits == {"cpu": "3", "memory": "1Gi"}
    assert found.spec.init_containers[0].resources.limits == {"cpu": "2", "memory": "1Gi"}


def test_other_namespaces_do_not_matter() -> None:
    elsewhere = convert(
        {"metadata": {"name": "l", "namespace": "e"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
        LimitRange,
    )
    bare = pod({"limits": {"cpu": "9"}})
    assert of_namespace(bare, [elsewhere]) == []
    check(bare, [elsewhere])


TWO_PROBLEMS = (
    "[maximum cpu usage per Container is 1, but limit is 2,"
    " maximum memory usage per Container is 1.  No limit is specified]"
)


@pytest.mark.parametrize(
    ("item", "resources", "message"),
    [
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per Container is 1.  No request is specified"),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "999m"}},
            "minimum cpu usage per Container is 1, but request is 999m",
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}},
            "minimum cpu usage per Container is 1, but limit is 500m",
        ),
        ({"max": {"memory": "1Gi"}}, {}, "maximum memory usage per Container is 1Gi.  No limit is specified"),
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "1025Mi"}},
            "maximum memory usage per Container is 1Gi, but limit is 1025Mi",
        ),
        (
            {"max": {"cpu": "1"}},
            {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but request is 2",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Pod is 1, but limit is 2",
        ),
        ({"max": {"cpu": "1", "memory": "1"}}, {"limits": {"cpu": "2"}}, TWO_PROBLEMS),
    ],
)
def test_out_of_bounds(item: dict[str, Any], resources: dict[str, Any], message: str) -> None:
    with pytest.raises(Rejection) as caught:
        check(pod(resources), [limit_range(**item)])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("item", "resources"),
    [
        ({"min": {"cpu": "1"}, "max": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1"}}, {}),
    ],
)
def test_within_bounds(item: dict[str, Any], resources: dict[str, Any]) -> None:
    check(pod(resources), [limit_range(**item)])


def test_a_pod_counts_as_a_whole_with_what_it_states_itself() -> None:
    item = {"type": "Pod", "max": {"cpu": "3"}}
    two = pod(
        {"limits": {"cpu": "2"}},
        initContainers=[{"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": "2"}}}],
    )
    with pytest.raises(Rejection, match="but limit is 4"):
        check(two, [limit_range(**item)])
    check(pod({"limits": {"cpu": "2"}}, resources={"limits": {"cpu": "3"}}), [limit_range(**item)])


def claim(storage: str) -> PersistentVolumeClaim:
    spec = {"resources": {"requests": {"storage": storage}}} if storage else {}
    return convert({"metadata": {"name": "c", "namespace": "d"}, "spec": spec}, PersistentVolumeClaim)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
        ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
        (
            "",
            (
                "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified,"
                " maximum storage usage per PersistentVolumeClaim is 5Gi.  No request is specified]"
            ),
        ),
    ],
)
def test_claims_are_held_against_bounds_too(storage: str, message: str) -> None:
    bounds = limit_range(type="PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "5Gi"})
    check_claim(claim("2Gi"), [bounds])
    with pytest.raises(Rejection) as caught:
        check_claim(claim(storage), [bounds])
    assert str(caught.value) == message
