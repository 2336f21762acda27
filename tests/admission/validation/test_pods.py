"""What is invalid in the specs of pods, in upstream's words."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kplan.admission.judge import default_pod
from kplan.admission.validation.pods import pod_errors
from tests.admission.validation.makers import container, errors_of_spec

SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"


def test_a_plain_pod_is_valid() -> None:
    assert errors_of_spec() == []


def test_a_pod_that_uses_nearly_everything_is_valid() -> None:
    spec = {
        "initContainers": [container(name="i"), container(name="s", restartPolicy="Always")],
        "volumes": [{"name": "v"}, {"name": "w", "configMap": {"name": "m", "items": [{"key": "k", "path": "a/b"}]}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
                }
            }
        },
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "dnsConfig": {"nameservers": ["10.0.0.1"], "searches": ["a.b.", "_x.y", "."]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}],
        "securityContext": {"runAsUser": 0, "sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
        "os": {"name": "linux"},
    }
    assert errors_of_spec(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"restartPolicy": "Sometimes"}, 'spec.restartPolicy: Unsupported value: "Sometimes": supported values: '),
        ({"dnsPolicy": "Guess"}, 'spec.dnsPolicy: Unsupported value: "Guess": supported values: "ClusterFirstWithHost'),
        ({"dnsPolicy": "None"}, "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
        (
            {"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}},
            "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is",
        ),
        ({"dnsConfig": {"nameservers": ["010.0.0.1"]}}, "spec.dnsConfig.nameservers[0]: Invalid value"),
        ({"dnsConfig": {"nameservers": ["1", "2", "3", "4"]}}, "must not have more than 3 nameservers"),
        ({"dnsConfig": {"options": [{}]}}, "spec.dnsConfig.options[0]: Required value: must not be empty"),
        ({"nodeSelector": {"a b": "c"}}, 'spec.nodeSelector: Invalid value: "a b": name part must consist of'),
        ({"serviceAccountName": "A"}, f'spec.serviceAccountName: Invalid value: "A": {SUBDOMAIN}'),
        ({"priorityClassName": "A"}, f'spec.priorityClassName: Invalid value: "A": {SUBDOMAIN}'),
        ({"runtimeClassName": ""}, f'spec.runtimeClassName: Invalid value: "": {SUBDOMAIN}'),
        ({"hostname": "a.b"}, 'spec.hostname: Invalid value: "a.b": must not contain dots'),
        ({"subdomain": "-"}, 'spec.subdomain: Invalid value: "-": a lowercase RFC 1123 label must'),
        ({"hostAliases": [{"ip": "here"}]}, "spec.hostAliases[0].ip: Invalid value: "),
        ({"hostAliases": [{"ip": "::ffff:1.2.3.4"}]}, "must not be an IPv4-mapped IPv6 address"),
        ({"readinessGates": [{"conditionType": "a b"}]}, "spec.readinessGates[0].conditionType: Invalid value"),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
        ),
        ({"ephemeralContainers": [{"name": "e"}]}, "spec.ephemeralContainers: Forbidden: cannot be set on create"),
        ({"hostUsers": False, "hostPID": True}, "spec.HostPID: Forbidden: when `hostUsers` is false"),
        ({"hostNetwork": True, "hostUsers": False}, "spec.hostNetwork: Forbidden: when `hostUsers` is false"),
        (
            {"hostnameOverride": "h", "setHostnameAsFQDN": True},
            "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
        ),
        ({"os": {}}, "spec.os.name: Required value"),
        ({"os": {"name": "windows"}, "hostPID": True}, "spec.hostPID: Forbidden: cannot be set for a windows pod"),
        (
            {"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}},
            "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
        ),
        ({"overhead": {"gpu": "1"}}, 'spec.overhead.limits[gpu]: Invalid value: "gpu": must be a standard resource'),
        (
            {"resourceClaims": [{"name": "a", "resourceClaimName": "x"}, {"name": "a", "resourceClaimName": "x"}]},
            'spec.resourceClaims[1].name: Duplicate value: "a"',
        ),
        (
            {"containers": [container(image=" x ")]},
            'spec.containers[0].image: Invalid value: " x ": must not have leading or trailing whitespace',
        ),
        (
            {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 1, "hostPort": 2}])]},
            "ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
        ),
        (
            {"containers": [container(env=[{"name": "E", "valueFrom": {"fileKeyRef": {"volumeName": "v"}}}])]},
            'env[0].valueFrom.fileKeyRef.volumeName: Not found: "v"',
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_invalid_is_told(spec: dict[str, Any], expected: str) -> None:
    assert expected in "\n".join(errors_of_spec(spec))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A"}, f'metadata.name: Invalid value: "A": {SUBDOMAIN}'),
        ({"name": "a" * 254}, "must be no more than 253 characters"),
        ({"generateName": "Ab-"}, 'metadata.generateName: Invalid value: "Ab-"'),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": must not contain dots'),
        ({"labels": {"a": "b c"}}, 'metadata.labels: Invalid value: "b c": a valid label must be an empty string'),
        ({"labels": {"a": "b" * 64}}, "must be no more than 63 bytes"),
        ({"annotations": {"a b": ""}}, 'metadata.annotations: Invalid value: "a b": name part must consist of'),
        ({"annotations": {"a": "b" * 262144}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"finalizers": ["mine"]}, "name is neither a standard finalizer name nor is it fully qualified"),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "finalizer orphan and foregroundDeletion cannot be both"),
        ({"ownerReferences": [{"kind": "X"}]}, "metadata.ownerReferences.apiVersion: Invalid value"),
        (
            {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+1"}},
            'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit',
        ),
        (
            {"annotations": {"container.apparmor.security.beta.kubernetes.io/x": "odd"}},
            'Invalid value: "x": container not found',
        ),
        (
            {"annotations": {"kubernetes.io/config.mirror": "x"}},
            "must set spec.nodeName if mirror pod annotation is set",
        ),
        (
            {"annotations": {"scheduler.alpha.kubernetes.io/tolerations": "[{}]"}},
            "operator must be Exists when `key` is empty",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_invalid_in_metadata_is_told(metadata: dict[str, Any], expected: str) -> None:
    assert expected in "\n".join(errors_of_spec(**metadata))


def test_annotation_and_field_have_to_agree() -> None:
    spec = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}

    (error,) = errors_of_spec(spec, annotations=annotations)
    assert error.endswith("seccompProfile.type: Forbidden: seccomp type in annotation and field must match")
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "docker/default"}
    assert errors_of_spec(spec, annotations=annotations) == []


names = st.sampled_from(["containers", "initContainers", "volumes", "tolerations", "affinity", "securityContext", "os"])
values = st.recursive(st.just({}), lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=5)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(names, st.one_of(values, st.lists(values, max_size=2)), max_size=4))
def test_what_decodes_never_breaks_validation(spec: dict[str, Any]) -> None:
    from kplan.admission.decoding import decode_object

    decoded = decode_object({"metadata": {"name": "p"}, "spec": spec}, "V1Pod").content
    assert all(str(error) for error in pod_errors(default_pod(decoded)))
