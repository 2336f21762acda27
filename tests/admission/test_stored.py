"""What controllers and the API server write into pods beside what scheduling reads."""

from typing import Any

import pytest

import kplan
from tests.objects import Object, head


def _made(manifest: Object, refusal: str = "", **account: Any) -> Any:
    objects = [head("Node", name="n"), head("ServiceAccount", name="default", namespace="default") | account]
    (made,) = kplan.Planner(kplan.load_snapshot(objects)).pods([manifest])[:1]
    assert made.refusal == refusal
    return made


def _job(labels: dict[str, str], **spec: Any) -> Object:
    template = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def test_pods_of_jobs_wait_to_be_counted_and_know_their_index() -> None:
    created = _made(_job({}, completionMode="Indexed", completions=2)).as_created
    assert created["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert created["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0"
    assert created["spec"]["hostname"] == "j-0"
    (variable,) = created["spec"]["containers"][0]["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")


@pytest.mark.parametrize(
    ("annotation", "profile"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/mine", {"type": "Localhost", "localhostProfile": "mine"}),
    ],
)
def test_a_profile_of_an_annotation_becomes_a_field(annotation: str, profile: dict[str, str]) -> None:
    manifest = head("Pod", name="p", annotations={"container.apparmor.security.beta.kubernetes.io/c": annotation}) | {
        "spec": {"containers": [{"name": "c", "image": "i"}]}
    }
    assert _made(manifest).object["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}


def _with_account(account: Object, **spec: Any) -> Any:
    manifest = head("Pod", name="p") | {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return _made(manifest, **account).object["spec"]


def test_a_pod_that_has_a_volume_for_its_token_gets_no_other() -> None:
    spec = _with_account({}, volumes=[{"name": "kube-api-access-x2b4z", "emptyDir": {}}])
    assert [volume["name"] for volume in spec["volumes"]] == ["kube-api-access-x2b4z"]
    assert [mount["name"] for mount in spec["containers"][0]["volumeMounts"]] == ["kube-api-access-x2b4z"]


def test_a_pod_gets_secrets_and_token_as_its_account_says_unless_it_says_so_itself() -> None:
    account = {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "pull"}]}
    spec = _with_account(account)
    assert (spec["imagePullSecrets"], "volumes" in spec) == ([{"name": "pull"}], False)
    spec = _with_account(account, automountServiceAccountToken=True, imagePullSecrets=[{"name": "own"}])
    assert (spec["imagePullSecrets"], len(spec["volumes"])) == ([{"name": "own"}], 1)


def test_a_mirror_pod_gets_no_account_and_must_not_use_one() -> None:
    manifest: Object = head("Pod", name="p", annotations={"kubernetes.io/config.mirror": "x"}) | {
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    }
    assert "serviceAccountName" not in _made(manifest).object["spec"]
    manifest["spec"]["serviceAccountName"] = "robot"
    _made(manifest, 'pods "p" is forbidden: a mirror pod may not reference service accounts')
