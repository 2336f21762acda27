"""What is invalid in containers: ports, environment, mounts, probes, resources, security."""

from typing import Any

import pytest

from tests.admission.validation.makers import container, errors_of_container, errors_of_spec

AT = "spec.containers[0]"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": ""}, f"{AT}.name: Required value"),
        ({"image": ""}, f"{AT}.image: Required value"),
        (
            {"imagePullPolicy": "Now"},
            f'{AT}.imagePullPolicy: Unsupported value: "Now": supported values: "Always", "If',
        ),
        ({"terminationMessagePolicy": "X"}, f'{AT}.terminationMessagePolicy: Unsupported value: "X"'),
        ({"ports": [{}]}, f"{AT}.ports[0].containerPort: Required value"),
        ({"ports": [{"containerPort": 70000}]}, "Invalid value: 70000: must be between 1 and 65535, inclusive"),
        ({"ports": [{"containerPort": 1, "name": "a--b"}]}, "must not contain consecutive hyphens"),
        ({"ports": [{"containerPort": 1, "name": "1"}]}, "must contain at least one letter (a-z)"),
        (
            {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
            f'{AT}.ports[1].name: Duplicate value: "a"',
        ),
        ({"env": [{}]}, f"{AT}.env[0].name: Required value"),
        ({"env": [{"name": "a=b"}]}, "must consist only of printable ASCII characters other than '='"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "must specify one of: `fieldRef`, `resourceFieldRef`"),
        (
            {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            f'{AT}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.odd"}}}]},
            'Invalid value: "spec.odd": error converting fieldPath: field label not supported: spec.odd',
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
            'fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name"',
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]},
            "only divisor's values 1m and 1 are supported with the cpu resource",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": ".."}}}]},
            f"{AT}.env[0].valueFrom.secretKeyRef.key: Invalid value: \"..\": must not be '..'",
        ),
        ({"envFrom": [{}]}, f'{AT}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
        ({"envFrom": [{"configMapRef": {}}]}, f"{AT}.envFrom[0].configMapRef.name: Required value"),
        ({"volumeMounts": [{"name": "v"}]}, f"{AT}.volumeMounts[0].mountPath: Required value"),
        ({"livenessProbe": {}}, f"{AT}.livenessProbe: Required value: must specify a handler type"),
        (
            {"livenessProbe": {"exec": {"command": ["a"]}, "httpGet": {"port": 1}}},
            f"{AT}.livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 80}, "successThreshold": 2}},
            f"{AT}.livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            {"readinessProbe": {"tcpSocket": {"port": "Http"}}},
            f'{AT}.readinessProbe.tcpSocket.port: Invalid value: "Http": must contain only alpha-numeric characters',
        ),
        (
            {"readinessProbe": {"grpc": {"port": 1}, "terminationGracePeriodSeconds": 1}},
            "must not be set for readinessProbes",
        ),
        ({"startupProbe": {"exec": {}, "periodSeconds": -1}}, f"{AT}.startupProbe.exec.command: Required value"),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 99}}}},
            "Invalid value: 99: must be non-negative and less than terminationGracePeriodSeconds (30)",
        ),
        ({"restartPolicyRules": [{}]}, "must specify restartPolicy when restart rules are used"),
        (
            {"restartPolicy": "Now"},
            f'{AT}.restartPolicy: Unsupported value: "Now": supported values: "Always", "Never"',
        ),
        ({"resizePolicy": [{"resourceName": "gpu"}]}, f'{AT}.resizePolicy: Unsupported value: "gpu"'),
        (
            {"securityContext": {"runAsUser": -1}},
            f"{AT}.securityContext.runAsUser: Invalid value: -1: must be between 0",
        ),
        ({"securityContext": {"procMount": "Unmasked"}}, "`hostUsers` must be false to use `Unmasked`"),
        (
            {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            "seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
        ),
        ({"securityContext": {"appArmorProfile": {}}}, "type is required when appArmorProfile is set"),
        (
            {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": ""}}},
            "localhostProfile: Required value: must be set when AppArmor type is Localhost",
        ),
        (
            {"securityContext": {"windowsOptions": {"runAsUserName": "a\\b\\c"}}},
            "runAsUserName cannot contain more than one backslash",
        ),
    ],
    ids=lambda value: value[-40:] if isinstance(value, str) else "",
)
def test_what_is_invalid_is_told(fields: dict[str, Any], expected: str) -> None:
    assert expected in "\n".join(errors_of_container(**fields))


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "must be less than or equal to cpu limit of 1"),
        (
            {"requests": {"cpu": "-1"}},
            'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        ({"limits": {"a.b/c": "500m"}}, 'resources.limits[a.b/c]: Invalid value: "500m": must be an integer'),
        ({"requests": {"a.b/c": "1"}}, "resources.limits: Required value: Limit must be set for non overcommitable"),
        ({"limits": {"kubernetes.io/x/y": "1"}}, "a valid label key must consist of"),
        ({"limits": {"requests.a/b": "1"}}, "doesn't follow extended resource name standard"),
        ({"limits": {"hugepages-2Mi": "2Mi"}}, "resources: Forbidden: HugePages require cpu or memory"),
        ({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}, "3Mi is not positive integer multiple of hugepages-2Mi"),
        ({"claims": [{}]}, "resources.claims[0]: Required value"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_invalid_in_resources_is_told(resources: dict[str, Any], expected: str) -> None:
    assert expected in "\n".join(errors_of_container(resources=resources))


def test_pod_level_resources_cover_their_containers() -> None:
    one = container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "3"}})
    spec = {"containers": [one, {**one, "name": "d"}], "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}

    first, *others = errors_of_spec(spec)
    assert first.startswith('spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to')
    assert first.endswith("aggregate container requests of 2")
    assert others == [
        'spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2',
        'spec.resources.containers[1][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2',
    ]


def test_host_ports_are_taken_once_a_pod_and_once_each_init_container() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    init = [container(name="i", ports=ports), container(name="j", ports=ports)]

    assert errors_of_spec({"initContainers": init}) == []
    assert errors_of_spec({"containers": [container(ports=ports), container(name="d", ports=ports)]}) == [
        'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"'
    ]


def test_init_containers_that_end_have_no_probes() -> None:
    probe = {"exec": {"command": ["a"]}}
    (error,) = errors_of_spec({"initContainers": [container(name="i", livenessProbe=probe)]})
    assert error.startswith("spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers")
    sidecar = container(name="i", livenessProbe=probe, restartPolicy="Always")
    assert errors_of_spec({"initContainers": [sidecar]}) == []


def test_devices_are_claims_and_not_mounted_too() -> None:
    volumes = [{"name": "v"}, {"name": "d", "persistentVolumeClaim": {"claimName": "x"}}]
    device = container(
        volumeDevices=[{"name": "v", "devicePath": "/dev/x"}, {"name": "d", "devicePath": "/dev/x"}],
        volumeMounts=[{"name": "d", "mountPath": "/d"}],
    )
    errors = errors_of_spec({"volumes": volumes, "containers": [device]})

    assert any("can only use volume source type of PersistentVolumeClaim or Ephemeral" in error for error in errors)
    assert any("must not already exist in volumeDevices" in error for error in errors)
    assert any('devicePath: Invalid value: "/dev/x": must be unique' in error for error in errors)
