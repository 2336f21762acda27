"""A service account that may be missing is told where a manifest names it and nothing shows that it is there."""

from typing import Any

import kplan
from kplan.workloads.manifests import load_manifests
from tests.objects import head

Object = dict[str, Any]


def _pod(name: str, **spec: Any) -> Object:
    return head("Pod", name=name) | {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def _deployment(name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _pod(name, serviceAccountName="robot")["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _account(name: str, namespace: str = "default") -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def _warned_objects(*manifests: Object, held: tuple[Object, ...] = ()) -> list[str]:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    snapshot = kplan.load_snapshot([node, *held])
    found = load_manifests(manifests, snapshot=snapshot)
    return [warning.object for warning in found.warnings if warning.code == "UnknownServiceAccount"]


def test_an_account_of_which_nothing_is_known_is_told_once() -> None:
    assert _warned_objects(_pod("a", serviceAccountName="robot"), _pod("b", serviceAccount="robot")) == [
        "ServiceAccount/default/robot"
    ]


def test_the_default_account_and_one_that_comes_along_are_not() -> None:
    assert _warned_objects(_pod("a"), _pod("b", serviceAccountName="default")) == []
    assert _warned_objects(_pod("a", serviceAccountName="robot"), _account("robot")) == []
    assert len(_warned_objects(_pod("a", serviceAccountName="robot"), _account("robot", "elsewhere"))) == 1


def test_a_workload_that_runs_already_has_its_account() -> None:
    assert _warned_objects(_deployment("web")) == ["ServiceAccount/default/robot"]
    assert _warned_objects(_deployment("web"), held=(_deployment("web"),)) == []


def _refusals(*manifests: Object, held: tuple[Object, ...]) -> list[str]:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    return [pod.refusal for pod in kplan.Planner(kplan.load_snapshot([node, *held])).pods(list(manifests))]


def test_where_the_snapshot_holds_accounts_a_pod_without_its_account_is_forbidden() -> None:
    words = 'pods "a" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    others = (_account("other"), _account("robot", "elsewhere"))
    assert _warned_objects(_pod("a", serviceAccountName="robot"), held=others) == []
    assert _refusals(_pod("a", serviceAccountName="robot"), held=others) == [words]
    assert _refusals(_pod("a", serviceAccountName="robot"), held=(*others, _account("robot"))) == [""]
    assert _refusals(_pod("a", serviceAccountName="robot"), _account("robot"), held=others) == [""]
    assert _refusals(_pod("a"), held=others) == [""]
