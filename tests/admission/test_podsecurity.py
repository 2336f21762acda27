"""What the levels of PodSecurity forbid, in the API server's words."""

from typing import Any

from kplan.admission.podsecurity import Policy, enforced, violations


def pod(security: dict[str, Any] | None = None, *, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    containers = [{"name": "c", **({"securityContext": security} if security is not None else {})}]
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": containers, **spec}}


def told(level: str, found: Any, version: str = "latest") -> str:
    return violations(Policy(level, version), found).removeprefix(f'violates PodSecurity "{level}:{version}": ')


def test_the_labels_of_a_namespace_say_what_is_demanded() -> None:
    enforce = "pod-security.kubernetes.io/enforce"
    assert enforced({})[:2] == ("privileged", "latest")
    assert enforced({enforce: "baseline", f"{enforce}-version": "v1.30"})[:2] == ("baseline", "v1.30")
    assert enforced({enforce: "all", f"{enforce}-version": "1.30"})[:2] == ("restricted", "latest")
    assert not violations(Policy("privileged", "latest"), pod({"privileged": True}))


def test_older_versions_of_a_level_are_what_they_were() -> None:
    unmasked = pod({"procMount": "Unmasked"}, hostUsers=False)
    windows = pod({"runAsNonRoot": True}, os={"name": "windows"})
    noted = pod(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"})

    assert not told("baseline", unmasked)
    assert told("baseline", unmasked, "v1.34").startswith("procMount")
    assert not told("restricted", windows)
    assert told("restricted", windows, "v1.24").startswith("allowPrivilegeEscalation")
    assert not told("baseline", noted)
    assert told("baseline", noted, "v1.18") == (
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    )
    assert told("restricted", pod(), "v1.0") == (
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)'
    )


def test_the_latest_policies_are_those_that_the_api_server_knows() -> None:
    probe = {"httpGet": {"host": "10.0.0.1", "port": 80}}
    probed = {"spec": {"containers": [{"name": "c", "livenessProbe": probe}]}}
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    assert "probe or lifecycle host" in violations(enforced(labels, 36), probed)
    assert violations(enforced(labels, 33), probed) == ""
    newer = {**labels, "pod-security.kubernetes.io/enforce-version": "v1.35"}
    assert violations(enforced(newer, 33), probed) == ""
    assert "probe or lifecycle host" in violations(enforced(newer, 34), probed)
