"""What the levels of PodSecurity forbid, in the API server's words."""

from typing import Any

import pytest

from kplan.admission.podsecurity import Policy, enforced, violations

SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


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


def test_a_plain_pod_is_not_restricted_enough() -> None:
    assert violations(Policy("restricted", "latest"), pod()) == (
        'violates PodSecurity "restricted:latest": '
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or'
        ' "Localhost")'
    )
    assert not told("baseline", pod())
    assert not told("restricted", pod(SAFE))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (pod(hostNetwork=True, hostPID=True), "host namespaces (hostNetwork=true, hostPID=true)"),
        (pod({"privileged": True}), 'privileged (container "c" must not set securityContext.privileged=true)'),
        (
            pod({"capabilities": {"add": ["SYS_TIME", "NET_ADMIN", "KILL"]}}),
            (
                'non-default capabilities (container "c" must not include "NET_ADMIN", "SYS_TIME" in'
                " securityContext.capabilities.add)"
            ),
        ),
        (
            pod(volumes=[{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "hostPath": {"path": "/"}}]),
            'hostPath volumes (volumes "a", "b")',
        ),
        (
            pod(containers=[{"name": name, "ports": [{"hostPort": port}]} for name, port in (("a", 80), ("b", 443))]),
            'hostPort (containers "a", "b" use hostPorts 443, 80)',
        ),
        (
            pod(containers=[{"name": "c", "livenessProbe": {"httpGet": {"host": "example.com", "port": 80}}}]),
            'probe or lifecycle host (container "c" uses probe or lifecycle host "example.com")',
        ),
        (
            pod({"procMount": "Unmasked"}),
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            pod({"seLinuxOptions": {"user": "u"}}, securityContext={"seLinuxOptions": {"type": "spc_t"}}),
            (
                'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: type "spc_t"; user'
                " may not be set)"
            ),
        ),
        (
            pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            pod(securityContext={"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            pod({"windowsOptions": {"hostProcess": True}}),
            'hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
        (
            pod(
                {"appArmorProfile": {"type": "Unconfined"}},
                annotations={"container.apparmor.security.beta.kubernetes.io/c": "unconfined"},
            ),
            (
                'forbidden AppArmor profiles (container "c" and annotation must not set AppArmor profile type to'
                ' "Unconfined", "container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
            ),
        ),
    ],
)
def test_what_baseline_forbids(found: Any, words: str) -> None:
    assert told("baseline", found) == words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (pod({**SAFE, "runAsNonRoot": False}), "runAsNonRoot != true (container "),
        (pod({**SAFE, "runAsUser": 0}), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
        (
            pod({**SAFE, "seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            pod({**SAFE, "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"]}}),
            'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
        (
            pod(SAFE, volumes=[{"name": "h", "hostPath": {}}, {"name": "n", "nfs": {}}, {"name": "e", "emptyDir": {}}]),
            'restricted volume types (volumes "h", "n" use restricted volume types "hostPath", "nfs")',
        ),
        (
            pod({**SAFE, "procMount": "Unmasked"}, hostUsers=False),
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
    ],
)
def test_what_restricted_forbids_beside(found: Any, words: str) -> None:
    assert told("restricted", found).startswith(words)


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
