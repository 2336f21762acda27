"""A change answers for what it brings about, and not for pods that were pending before."""

import pytest

from tests.incidents.asking import answer, manifest

BUMP = ("--against-manifests", manifest("web-image-bump"), "--fail-on", "regression")


def test_an_image_bump_is_no_regression() -> None:
    document = answer("image-bump", "diff", manifest("web-before"), *BUMP, exit_code=0)
    assert {pod["pod"].rpartition("-")[0] for pod in document["pods"]} == {"shop/shopfront-nlhjzs75bc"}
    assert document["victimsAdded"] == []


def test_the_same_manifests_differ_in_nothing() -> None:
    same = ("--against-manifests", manifest("web-before"), "--fail-on", "regression")
    assert answer("image-bump", "diff", manifest("web-before"), *same, exit_code=0)["pods"] == []


@pytest.mark.parametrize("args", [("drain", "general-a-1"), ("plan", manifest("web-image-bump"))])
def test_pods_that_waited_before_are_told_apart(args: tuple[str, ...]) -> None:
    document = answer("image-bump", *args)
    causes = {change["pod"]: change["causedBy"] for change in document["changes"]}
    waiting = [pod for pod, cause in causes.items() if cause == "waiting"]
    assert "change" in causes.values()
    assert "shop/flash-sale" in waiting
    assert not [line for line in document["verdict"]["because"] if any(pod in line for pod in waiting)]
