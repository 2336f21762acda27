"""Workloads as kubectl names them, and the pods that are theirs."""

from typing import Any

import pytest

import kplan
from kplan.cluster.workload_pods import kind_named, pods_named
from kplan.errors import NotFoundError, UsageError
from tests.report.documents import node


def _object(kind: str, name: str, owner: tuple[str, str] | None = None, api: str = "apps/v1") -> dict[str, Any]:
    owners = (
        []
        if owner is None
        else [{"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}]
    )
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners}}


def _pod(name: str, owner: tuple[str, str], node_name: str = "", phase: str = "Running") -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node_name} if node_name else {})}
    return {**_object("Pod", name, owner, "v1"), "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("deploy", "Deployment"),
        ("deployments.apps", "Deployment"),
        ("Deployment", "Deployment"),
        ("sts", "StatefulSet"),
        ("cronjobs", "CronJob"),
        ("po", "Pod"),
        ("shop", ""),
        ("node", ""),
    ],
)
def test_kinds_are_named_as_kubectl_takes_them(text: str, kind: str) -> None:
    assert kind_named(text) == kind


@pytest.mark.parametrize("text", ["shop/voucher-api", "pod/shop/voucher-api", "po/voucher-api", "voucher-api"])
def test_pods_are_named_as_kubectl_takes_them(text: str) -> None:
    assert pods_named([text], "shop", kplan.load_snapshot("demo")) == ["shop/voucher-api"]


def test_pods_are_followed_up_to_the_workload_that_waits_first() -> None:
    snapshot = kplan.load_snapshot(
        [
            node("a"),
            _object("Deployment", "web"),
            _object("ReplicaSet", "web-1", ("Deployment", "web")),
            _object("ReplicaSet", "other-1", ("Deployment", "other")),
            _pod("web-1-b", ("ReplicaSet", "web-1"), "a"),
            _pod("web-1-c", ("ReplicaSet", "web-1"), phase="Pending"),
            _pod("web-1-d", ("ReplicaSet", "web-1"), "a", phase="Failed"),
            _pod("other-1-a", ("ReplicaSet", "other-1"), "a"),
        ]
    )

    assert pods_named(["Deployment/shop/web"], "", snapshot) == ["shop/web-1-c", "shop/web-1-b"]
    assert pods_named(["ReplicaSet/shop/web-1"], "", snapshot) == ["shop/web-1-c", "shop/web-1-b"]


def test_owners_that_own_each_other_end_the_search() -> None:
    snapshot = kplan.load_snapshot(
        [
            node("a"),
            _object("ReplicaSet", "one", ("ReplicaSet", "two")),
            _object("ReplicaSet", "two", ("ReplicaSet", "one")),
            _object("Deployment", "web"),
            _pod("p", ("ReplicaSet", "one"), "a"),
        ]
    )

    assert pods_named(["ReplicaSet/shop/two"], "", snapshot) == ["shop/p"]
    with pytest.raises(UsageError, match="Deployment shop/web has no pods that run or wait"):
        pods_named(["Deployment/shop/web"], "", snapshot)


def test_a_workload_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFoundError) as caught:
        pods_named(["Deployment/shop/crt"], "", kplan.load_snapshot("demo"))
    assert caught.value.hint.startswith("did you mean deploy/shop/cart")
