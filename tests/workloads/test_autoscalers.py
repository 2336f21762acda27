"""What autoscalers make of the number of replicas that a manifest asks for."""

from typing import Any

import pytest

from kplan.api.meta import PlainMeta
from kplan.api.workloads import CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec
from kplan.snapshot import load_snapshot
from kplan.workloads.autoscalers import CODE, Autoscalers, autoscaler_warnings, live_replicas
from kplan.workloads.manifests import ReadOptions, load_manifests
from tests.objects import head, template

CART = ("Deployment", "shop", "cart")


def scaler(
    name: str = "cart", lowest: int | None = 2, highest: int = 10, target: str = "cart"
) -> HorizontalPodAutoscaler:
    reference = CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name=target)
    spec = HorizontalPodAutoscalerSpec(scale_target_ref=reference, min_replicas=lowest, max_replicas=highest)
    return HorizontalPodAutoscaler(metadata=PlainMeta(name=name, namespace="shop"), spec=spec)


def workload(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "cart"}}
    return head("Deployment", name="cart", namespace="shop") | {
        "spec": {"selector": selector, "template": template("cart"), **spec}
    }


def written(api_version: str = "autoscaling/v2", **spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}
    return head("HorizontalPodAutoscaler", api_version, name="cart", namespace="shop") | {
        "spec": {"scaleTargetRef": target, "maxReplicas": 10, **spec}
    }


WHO = "autoscaler cart (2-10)"
BACK = "will set them back to what its metrics call for"
FALLS = "kubectl apply without --server-side falls back to 1 for a moment, because 3 was applied last"
ADVICE = "leave spec.replicas out of the manifest"


@pytest.mark.parametrize(
    ("replicas", "live", "last", "words"),
    [
        (5, 7, None, f"requests 5 replicas, and {WHO} {BACK}, 7 at present: {ADVICE}"),
        (7, 7, 7, f"requests 7 replicas, and {WHO} {BACK}: {ADVICE}"),
        (1, 7, None, f"requests 1 replica, and {WHO} will set them to 2 at once: {ADVICE}"),
        (12, None, None, f"requests 12 replicas, and {WHO} will set them to 10 at once: {ADVICE}"),
        (0, 7, None, f"requests 0 replicas, which turns {WHO} off until somebody scales it up again"),
        (None, None, None, f"names no number of replicas, so it starts with 1, which {WHO} raises to 2 at once"),
        (None, 7, 3, f"names no number of replicas any more, and {WHO} keeps the 7 that it has; {FALLS}"),
    ],
)
def test_a_number_that_an_autoscaler_owns_is_told(
    replicas: int | None, live: int | None, last: int | None, words: str
) -> None:
    (warning,) = autoscaler_warnings((scaler(),), CART, replicas, live, last)
    assert (warning.code, warning.object, warning.message) == (CODE, "Deployment/shop/cart", words)


@pytest.mark.parametrize(("lowest", "live"), [(2, 7), (1, None), (None, None)])
def test_nothing_is_told_where_the_autoscaler_leaves_things_as_they_are(lowest: int | None, live: int | None) -> None:
    assert autoscaler_warnings((scaler(lowest=lowest),), CART, None, live) == ()


def test_nothing_is_told_without_an_autoscaler() -> None:
    assert autoscaler_warnings((), CART, 5, 7) == ()


def test_of_two_autoscalers_none_acts() -> None:
    (warning,) = autoscaler_warnings((scaler("a"), scaler("b")), CART, 5, 7)
    assert warning.message == "autoscalers a, b all scale it, and so Kubernetes lets none of them act: leave it to one"


def test_an_autoscaler_is_found_by_group_kind_namespace_and_name() -> None:
    found = Autoscalers([scaler(), scaler("other", target="web"), scaler(lowest=4)])
    (one,) = found.of("apps/v1", *CART)
    assert one.spec.min_replicas == 4
    assert found.of("v1", *CART) == ()
    assert found.of("apps/v1", "Deployment", "default", "cart") == ()


def test_the_cluster_says_how_many_a_workload_wants() -> None:
    snapshot = load_snapshot([workload(replicas=7), {**workload(), "metadata": {"name": "web", "namespace": "shop"}}])
    assert live_replicas(snapshot, *CART) == 7
    assert live_replicas(snapshot, "Deployment", "shop", "web") == 1
    assert live_replicas(snapshot, "Deployment", "shop", "none") is None


@pytest.mark.parametrize("api_version", ["autoscaling/v2", "autoscaling/v1"])
@pytest.mark.parametrize("is_in_cluster", [True, False])
def test_manifests_are_held_against_autoscalers_of_the_cluster_and_their_own(
    api_version: str, *, is_in_cluster: bool
) -> None:
    autoscaler = written(api_version, minReplicas=2)
    cluster, own = ([autoscaler], []) if is_in_cluster else ([], [autoscaler])
    found = load_manifests([workload(replicas=5), *own], ReadOptions(snapshot=load_snapshot(cluster)))
    assert [(warning.code, warning.object) for warning in found.warnings] == [(CODE, "Deployment/shop/cart")]
    assert not found.skipped


def test_the_number_of_the_command_line_counts_as_asked_for() -> None:
    found = load_manifests([workload(), written()], ReadOptions(snapshot=load_snapshot([]), replicas=12))
    assert "requests 12 replicas" in found.warnings[0].message
