"""What an API server refuses in a pod or template, all of it at once, each with its JSON path.

The rules are those that matter to placing pods: names, containers, resources, ports, selectors, affinity, spreading and
tolerations.
Upstream: pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.admission.validate_placement import placement_problems
from kplan.admission.validate_resources import resource_problems
from kplan.api.core import Container, ContainerPort, Pod, PodSpec, PodTemplateSpec
from kplan.api.meta import PlainMeta
from kplan.api.names import (
    dns_label_problems,
    dns_subdomain_problems,
    label_key_problems,
    label_value_problems,
)
from kplan.errors import Problem

__all__ = ["validate_pod", "validate_template"]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_PORT = 65535


def validate_pod(pod: Pod) -> list[Problem]:
    """Return everything for which an API server would refuse the pod; paths start at ``$.metadata`` and ``$.spec``."""
    return [*_name_problems(pod.metadata), *_label_problems(pod.metadata), *_spec_problems(pod.spec, "$.spec")]


def validate_template(template: PodTemplateSpec, path: str = "$.spec.template") -> list[Problem]:
    """Return everything for which an API server would refuse pods of the template, with paths below `path`."""
    labels = _label_problems(template.metadata, f"{path}.metadata")
    return [*labels, *_spec_problems(template.spec, f"{path}.spec")]


def _name_problems(metadata: PlainMeta) -> Iterator[Problem]:
    if not metadata.name and not metadata.generate_name:
        yield Problem("a name or generateName is required", json_path="$.metadata.name")
    elif metadata.name:
        for text in dns_subdomain_problems(metadata.name):
            yield Problem(f'"{metadata.name}": {text}', json_path="$.metadata.name")
    if metadata.namespace:
        for text in dns_label_problems(metadata.namespace):
            yield Problem(f'"{metadata.namespace}": {text}', json_path="$.metadata.namespace")


def _label_problems(metadata: PlainMeta, path: str = "$.metadata") -> Iterator[Problem]:
    for key, value in metadata.labels.items():
        for text in label_key_problems(key):
            yield Problem(f'"{key}": {text}', json_path=f"{path}.labels")
        for text in label_value_problems(value):
            yield Problem(f'"{value}": {text}', json_path=f"{path}.labels[{key!r}]")


def _spec_problems(spec: PodSpec, path: str) -> Iterator[Problem]:
    if not spec.containers:
        yield Problem("a pod needs at least one container", json_path=f"{path}.containers")
    yield from _unique(
        [*_names(spec.containers, f"{path}.containers"), *_names(spec.init_containers, f"{path}.initContainers")]
    )
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield from _container_problems(container, f"{path}.{field}[{index}]", host_network=spec.host_network)
    volumes = [(volume.name, f"{path}.volumes[{index}].name") for index, volume in enumerate(spec.volumes)]
    yield from _unique(volumes)
    for name, place in volumes:
        yield from _dns_label(name, place)
    yield from resource_problems(spec, path)
    yield from placement_problems(spec, path)
    yield from _choice(spec.restart_policy, ("Always", "Never", "OnFailure"), f"{path}.restartPolicy")
    if spec.termination_grace_period_seconds is not None and spec.termination_grace_period_seconds < 0:
        yield Problem("must not be negative", json_path=f"{path}.terminationGracePeriodSeconds")
    if spec.active_deadline_seconds is not None and spec.active_deadline_seconds < 1:
        yield Problem("must be at least 1", json_path=f"{path}.activeDeadlineSeconds")
    yield from _choice(spec.preemption_policy or "", ("Never", "PreemptLowerPriority"), f"{path}.preemptionPolicy")


def _names(containers: Sequence[Container], path: str) -> list[tuple[str, str]]:
    return [(container.name, f"{path}[{index}].name") for index, container in enumerate(containers)]


def _unique(names: Sequence[tuple[str, str]]) -> Iterator[Problem]:
    seen = set()
    for name, place in names:
        if name and name in seen:
            yield Problem(f'"{name}" is there twice', json_path=place, hint="names within a pod are unique")
        seen.add(name)


def _container_problems(container: Container, path: str, *, host_network: bool) -> Iterator[Problem]:
    yield from _dns_label(container.name, f"{path}.name")
    if not container.image.strip():
        yield Problem("an image is required", json_path=f"{path}.image")
    is_init = ".initContainers[" in path
    allowed = ("Always",) if is_init and not container.restart_policy_rules else ("Always", "Never", "OnFailure")
    yield from _choice(container.restart_policy or "", allowed, f"{path}.restartPolicy")
    for index, port in enumerate(container.ports):
        yield from _port_problems(port, f"{path}.ports[{index}]", host_network=host_network)


def _port_problems(port: ContainerPort, path: str, *, host_network: bool) -> Iterator[Problem]:
    if not 0 < port.container_port <= _MAX_PORT:
        yield Problem(f"{port.container_port} is not a port, 1 to {_MAX_PORT}", json_path=f"{path}.containerPort")
    if not 0 <= port.host_port <= _MAX_PORT:
        yield Problem(f"{port.host_port} is not a port, 1 to {_MAX_PORT}", json_path=f"{path}.hostPort")
    elif host_network and port.host_port not in {0, port.container_port}:
        message = f"must be {port.container_port}, like containerPort, where hostNetwork is true"
        yield Problem(message, json_path=f"{path}.hostPort")
    yield from _choice(port.protocol, _PROTOCOLS, f"{path}.protocol")


def _dns_label(name: str, path: str) -> Iterator[Problem]:
    if not name:
        yield Problem("a name is required", json_path=path)
    else:
        for text in dns_label_problems(name):
            yield Problem(f'"{name}": {text}', json_path=path)


def _choice(value: str, allowed: Sequence[str], path: str) -> Iterator[Problem]:
    if value and value not in allowed:
        yield Problem(f'"{value}" is not one of {", ".join(allowed)}', json_path=path)
