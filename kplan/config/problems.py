"""The problems of a configuration, in kube-scheduler's words and under its field.

Documents that people pass by mistake.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kplan.config.releases import Release, reference
from kplan.errors import ConfigError, Problem
from kplan.reading.files import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def child(path: str, *names: str) -> str:
    return ".".join(part for part in (path, *names) if part)


def index(path: str, position: int) -> str:
    return f"{path}[{position}]"


def go_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


class Problems:
    """The problems of one document, and the paths of values that do not decode.

    Problems of a value that does not decode are recorded once: later checks of it are dropped.
    """

    def __init__(
        self, file: str, document: int | None = None, lines: Lines | None = None, release: Release | None = None
    ) -> None:
        self.release = release or reference()  #: the release whose rules apply
        self.file = file
        self.document = document
        self._lines = lines
        self.recorded: list[Problem] = []
        self._unreadable: list[str] = []
        self._only_once: set[str] = set()

    def add(self, path: str, message: str, hint: str = "") -> None:
        """Record a problem, unless its path is that of a value that does not decode."""
        if any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in self._unreadable):
            return
        self.recorded.append(
            Problem(message=message, path=self.file, document=self.document, json_path=path, hint=hint)
        )

    def add_once(self, path: str, message: str, hint: str) -> None:
        """Record a problem, unless this has recorded one at the path."""
        if path not in self._only_once:
            self._only_once.add(path)
            self.add(path, message, hint)

    def unreadable(self, path: str, message: str, hint: str = "") -> None:
        """Record a value that does not decode; later problems at its path are dropped."""
        self.add(path, message, hint)
        self._unreadable.append(path)

    def invalid(self, path: str, value: object, detail: str, hint: str) -> None:
        """Record a value that the field does not allow."""
        self.add(path, f"Invalid value: {go_value(value)}: {detail}", hint)

    def check_range(self, path: str, value: int, least: int, most: int, hint: str = "") -> None:
        if not least <= value <= most:
            self.invalid(
                path, value, f"not in valid range [{least}, {most}]", hint or f"write a number from {least} to {most}"
            )

    def check_percentage(self, path: str, percentage: int | None) -> None:
        if percentage is not None and not 0 <= percentage <= 100:
            hint = "write a number from 0 (adaptive) to 100 (every node)"
            self.invalid(path, percentage, "not in valid range [0-100]", hint)

    def required(self, path: str, detail: str, hint: str) -> None:
        self.add(path, f"Required value: {detail}" if detail else "Required value", hint)

    def forbidden(self, path: str, detail: str, hint: str) -> None:
        self.add(path, f"Forbidden: {detail}", hint)

    def duplicate(self, path: str, value: object, hint: str) -> None:
        self.add(path, f"Duplicate value: {go_value(value)}", hint)

    def unsupported(self, path: str, value: object, supported: Iterable[str], hint: str = "") -> None:
        words = ", ".join(go_value(word) for word in supported)
        self.add(path, f"Unsupported value: {go_value(value)}: supported values: {words}", hint)

    def raise_if_any(self, document: object = None) -> None:
        """Raise all recorded problems, in the order of the document's fields if it is given.

        Raises ConfigError when a problem was recorded.
        """
        if self.recorded:
            order = {path: position for position, path in enumerate(_paths(document, ""))}
            problems = sorted(self.recorded, key=lambda problem: _place(problem.json_path, order))
            raise ConfigError(map(self._with_line, problems))

    def _with_line(self, problem: Problem) -> Problem:
        return replace(problem, line=self._lines.of(problem.json_path)) if self._lines else problem


def _paths(value: object, path: str) -> Iterator[str]:
    """Yield the paths of a document in reading order."""
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, child(path, name))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _paths(item, index(path, position))


def _place(path: str, order: Mapping[str, int]) -> int:
    while path and path not in order:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return order.get(path, 0)


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
    return [str(word) for key in ("command", "args") for word in _listed(container.get(key))]
