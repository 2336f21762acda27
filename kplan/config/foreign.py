"""Documents that people pass by mistake: a ConfigMap with the file, kube-scheduler's manifest, older versions."""

from __future__ import annotations

import re
from typing import Final

from kplan.config.problems import Problems, go_value

API_GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{API_GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

#: Versions that are still close enough to v1 for the rest of the document to be checked too.
_NEAR: Final = {"v1beta3": "1.29", "v1beta2": "1.28"}
_WORKLOADS: Final = frozenset({"Pod", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"})


def check_type_meta(value: object, problems: Problems) -> bool:
    """Tell whether the document is a KubeSchedulerConfiguration; record a problem for another document.

    A document of a near older version counts as one, with its version as a problem.
    """
    if not isinstance(value, dict):
        got = "a list" if isinstance(value, list) else "a single value"
        problems.add("", f"expected an object with apiVersion and kind, got {got}", _begin_with())
        return False
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind == "ConfigMap":
        return _config_map(value, problems)
    if kind == "List":
        return _list(value, problems)
    if isinstance(kind, str) and kind in _WORKLOADS:
        return _manifest(value, kind, problems)
    if kind == "Policy":
        hint = f"describe it as a {KIND} with profiles and extenders"
        problems.add("kind", "scheduler policies are gone since Kubernetes 1.23", hint)
        return False
    if kind is None:
        problems.add("kind", "Object 'Kind' is missing", f"add: kind: {KIND}")
    elif kind != KIND:
        problems.add("kind", f"expected {KIND}, got {go_value(kind)}", f"write: kind: {KIND}")
    return _version(version, problems) and kind in (None, KIND)


def _version(version: object, problems: Problems) -> bool:
    if version == API_VERSION:
        return True
    if version is None:
        problems.add("apiVersion", "Object 'apiVersion' is missing", f"add: apiVersion: {API_VERSION}")
        return True
    message = f"no kind {go_value(KIND)} is registered for version {go_value(version)}"
    name = str(version).removeprefix(f"{API_GROUP}/")
    hint = f"write: apiVersion: {API_VERSION}"
    if name in _NEAR:
        hint += f"; {name} is gone since Kubernetes {_NEAR[name]}"
    problems.add("apiVersion", message, hint)
    return name in _NEAR or name == str(version)


def _begin_with() -> str:
    return f"begin with: apiVersion: {API_VERSION}, kind: {KIND}"


def _config_map(value: dict[str, object], problems: Problems) -> bool:
    keys = _configuration_keys(value)
    if not keys:
        problems.add("kind", f"this is a ConfigMap, and no key of its data holds a {KIND}", _begin_with())
        return False
    name, namespace = _identity(value)
    for key in keys:
        problems.add(
            f"data[{go_value(key)}]",
            f"this is a ConfigMap; the configuration is the text under its key {go_value(key)}",
            f"take it out: {_take_out(namespace, name, key)} > scheduler.yaml",
        )
    return False


def _configuration_keys(value: dict[str, object]) -> list[str]:
    """Return the keys of a ConfigMap whose texts hold a configuration."""
    return [key for key, text in _object(value.get("data")).items() if _holds_configuration(text)]


def _holds_configuration(text: object) -> bool:
    return isinstance(text, str) and re.search(rf"""(?m)["']?kind["']?\s*:\s*["']?{KIND}\b""", text) is not None


def _take_out(namespace: str, name: str, key: str) -> str:
    escaped = key.replace(".", r"\.")
    return f"kubectl -n {namespace} get configmap {name} -o jsonpath='{{.data.{escaped}}}'"


def _list(value: dict[str, object], problems: Problems) -> bool:
    for item in map(_object, _listed(value.get("items"))):
        if item.get("kind") == "ConfigMap" and _configuration_keys(item):
            return _config_map(item, problems)
        if item.get("kind") in _WORKLOADS and _scheduler_container(item):
            return _manifest(item, str(item["kind"]), problems)
    problems.add("kind", f"this is a List, not a {KIND}", _begin_with())
    return False


def _manifest(value: dict[str, object], kind: str, problems: Problems) -> bool:
    """Record that this is kube-scheduler's manifest, with the file that its `--config` names."""
    scheduler = _scheduler_container(value)
    name, namespace = _identity(value)
    if scheduler is None:
        problems.add("kind", f"this is a {kind}, not a {KIND}", _begin_with())
        return False
    container, pod = scheduler
    path = _config_flag(container)
    what = f"this is the manifest of kube-scheduler ({kind} {namespace}/{name}), not its configuration"
    if path is None:
        hint = "leave --scheduler-config out: without --config kube-scheduler runs with the defaults"
        problems.add("kind", f"{what}; it has no --config", hint)
    else:
        problems.add("kind", f"{what}; its --config names {path}", _where(path, container, pod, namespace))
    return False


def _scheduler_container(value: dict[str, object]) -> tuple[dict[str, object], dict[str, object]] | None:
    """Find the container that runs kube-scheduler, and the pod spec around it."""
    spec = _object(value.get("spec"))
    pod = _object(_object(spec.get("template")).get("spec")) or spec
    for container in map(_object, _listed(pod.get("containers"))):
        words = [*_words(container), str(container.get("image", ""))]
        if any("kube-scheduler" in word for word in words) or _config_flag(container) is not None:
            return container, pod
    return None


def _config_flag(container: dict[str, object]) -> str | None:
    words = _words(container)
    for position, word in enumerate(words):
        flag, equals, rest = word.partition("=")
        if flag in {"--config", "-config"}:
            return rest if equals else next(iter(words[position + 1 :]), None)
    return None


def _where(path: str, container: dict[str, object], pod: dict[str, object], namespace: str) -> str:
    """Return a hint where the file of `--config` is outside the container: on the host, or in a ConfigMap."""
    for mount in map(_object, _listed(container.get("volumeMounts"))):
        at = str(mount.get("mountPath", "")).rstrip("/")
        if not at or not (path == at or path.startswith(f"{at}/")):
            continue
        inside = path.removeprefix(at).lstrip("/") or str(mount.get("subPath", ""))
        for volume in map(_object, _listed(pod.get("volumes"))):
            if volume.get("name") != mount.get("name"):
                continue
            host, config_map = _object(volume.get("hostPath")), _object(volume.get("configMap"))
            if host:
                on_host = str(host.get("path", "")).rstrip("/") + path.removeprefix(at)
                return f"copy that file from the control plane host and pass it: --scheduler-config {on_host}"
            if config_map:
                return f"take it out: {_take_out(namespace, str(config_map.get('name')), inside)} > scheduler.yaml"
    return f"pass that file: --scheduler-config {path}"


def _identity(value: dict[str, object]) -> tuple[str, str]:
    metadata = _object(value.get("metadata"))
    return str(metadata.get("name", "NAME")), str(metadata.get("namespace", "kube-system"))


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _words(container: dict[str, object]) -> list[str]:
    """Return the words of a container's command line."""
    return [str(word) for key in ("command", "args") for word in _listed(container.get(key))]
