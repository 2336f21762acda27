"""The problems of a configuration, in kube-scheduler's words and under its field; documents passed by mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from kplan.api import field_errors
from kplan.api.field_errors import shown
from kplan.config.releases import Release, reference
from kplan.errors import ConfigError, Problem
from kplan.facts import InputWarning
from kplan.reading.positions import Lines

T = TypeVar("T")


class Problems:
    """The problems and warnings of a document; after a value that does not decode, others about it are dropped."""

    def __init__(
        self,
        file: str,
        document: object = None,
        *,
        others: int = 0,
        lines: Lines | None = None,
        release: Release | None = None,
    ) -> None:
        self.file = file  #: empty for a document from memory
        self.document = document  #: as plain values
        self.others = others  #: documents of the file that follow it
        self.release = release or reference()  #: the release whose rules apply
        self._lines = lines
        self.recorded: list[Problem] = []
        self.unreadable: list[str] = []  #: the paths of values that do not decode
        self.warnings: list[InputWarning] = []

    def warn(self, code: str, subject: str, message: str) -> None:
        self.warnings.append(InputWarning(code=code, object=subject, message=message))

    def raise_if_any(self, *, in_order: bool = True) -> None:
        """Raise ConfigError with all recorded problems, in the order of the document's fields."""
        if self.recorded:
            order = {path: position for position, path in enumerate(_paths(self.document if in_order else None, ""))}
            problems = sorted(self.recorded, key=lambda problem: _position(problem.json_path, order))
            lines = self._lines
            raise ConfigError(one._replace(line=lines.of(one.json_path)) if lines else one for one in problems)


class FieldPath:
    """The path of a field in a document, such as ``profiles[0].plugins``, under which problems are recorded."""

    def __init__(self, problems: Problems, path: str = "") -> None:
        self.problems = problems
        self.path = path

    @property
    def release(self) -> Release:
        return self.problems.release

    def __getitem__(self, step: str | int) -> FieldPath:
        """Return the path of a field or item of what stands here."""
        return self.at(below(self.path, step))

    def at(self, path: str) -> FieldPath:
        return FieldPath(self.problems, path)

    def walk(self, items: Iterable[T]) -> Iterator[tuple[FieldPath, T]]:
        """Yield the items of the list that stands here, with their paths."""
        return ((self[position], item) for position, item in enumerate(items))

    def add(self, message: str, hint: str = "") -> None:
        """Record a problem, unless the field is in a value that does not decode."""
        if not any(f"{self.path}.".startswith((f"{path}.", f"{path}[")) for path in self.problems.unreadable):
            problem = Problem(message=message, path=self.problems.file, json_path=self.path, hint=hint)
            self.problems.recorded.append(problem)

    def invalid(self, value: object, detail: str, hint: str) -> None:
        self.add(field_errors.invalid(self.path, value, detail).body, hint)

    def check_range(self, value: int, most: int, hint: str = "") -> None:
        if not 0 <= value <= most:
            self.invalid(value, f"not in valid range [0, {most}]", hint or f"write a number from 0 to {most}")

    def check_percentage(self, percentage: int | None) -> None:
        if percentage is not None and not 0 <= percentage <= 100:
            hint = "write a number from 0 (adaptive) to 100 (every node)"
            self.invalid(percentage, "not in valid range [0-100]", hint)

    def required(self, detail: str, hint: str) -> None:
        self.add(field_errors.required(self.path, detail).body, hint)

    def forbidden(self, detail: str, hint: str) -> None:
        self.add(field_errors.forbidden(self.path, detail).body, hint)

    def duplicate(self, value: object, hint: str) -> None:
        self.add(field_errors.duplicate(self.path, value).body, hint)

    def unsupported(self, value: object, supported: Sequence[str], hint: str) -> None:
        self.add(field_errors.not_supported(self.path, value, supported).body, hint)


def below(path: str, step: str | int) -> str:
    """Return the path of a field or item of what stands at a path."""
    return f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}".removeprefix(".")


def _paths(value: object, path: str) -> Iterator[str]:
    """Yield the paths of a document in reading order."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from _paths(item, below(path, step))


def _position(path: str, order: Mapping[str, int]) -> int:
    while path and path not in order:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return order.get(path, 0)


API_GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{API_GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

#: Versions that are still close enough to v1 for the rest of the document to be checked too.
_NEAR: Final = {"v1beta3": "1.29", "v1beta2": "1.28"}
_WORKLOADS: Final = ("Pod", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet")
_BEGIN: Final = f"begin with: apiVersion: {API_VERSION}, kind: {KIND}"


def check_type_meta(value: object, field: FieldPath) -> bool:
    """Tell whether the document is a KubeSchedulerConfiguration; record a problem for another document.

    A document of a near older version counts as one, with its version as a problem.
    """
    if not isinstance(value, dict):
        got = "a list" if isinstance(value, list) else "a single value"
        field.add(f"expected an object with apiVersion and kind, got {got}", _BEGIN)
        return False
    if value.get("kind") == "List":
        value = next((item for item in _objects(value, "items") if _leads_to_one(item)), value)
    kind, at = value.get("kind"), field["kind"]
    if kind == "ConfigMap":
        _config_map(value, field)
    elif kind in _WORKLOADS:
        _manifest(value, at)
    elif kind == "List":
        at.add(f"this is a List, not a {KIND}", _BEGIN)
    elif kind == "Policy":
        hint = f"describe it as a {KIND} with profiles and extenders"
        at.add("scheduler policies are gone since Kubernetes 1.23", hint)
    else:
        if kind is None:
            at.add("Object 'Kind' is missing", f"add: kind: {KIND}")
        elif kind != KIND:
            at.add(f"expected {KIND}, got {shown(kind)}", f"write: kind: {KIND}")
        return _version(value.get("apiVersion"), field["apiVersion"]) and kind in (None, KIND)
    return False


def _version(version: object, field: FieldPath) -> bool:
    if version == API_VERSION:
        return True
    if version is None:
        field.add("Object 'apiVersion' is missing", f"add: apiVersion: {API_VERSION}")
        return True
    name = str(version).removeprefix(f"{API_GROUP}/")
    hint = f"write: apiVersion: {API_VERSION}"
    if name in _NEAR:
        hint += f"; {name} is gone since Kubernetes {_NEAR[name]}"
    field.add(f"no kind {shown(KIND)} is registered for version {shown(version)}", hint)
    return name in _NEAR or name == str(version)


def _leads_to_one(item: dict[str, object]) -> bool:
    if item.get("kind") == "ConfigMap":
        return bool(_configuration_keys(item))
    return item.get("kind") in _WORKLOADS and _scheduler_container(item) is not None


def _config_map(value: dict[str, object], field: FieldPath) -> None:
    name, namespace = _identity(value)
    keys = _configuration_keys(value)
    for key in keys:
        at = field.at(f"data[{shown(key)}]")
        message = f"this is a ConfigMap; the configuration is the text under its key {shown(key)}"
        at.add(message, f"take it out: {_take_out(namespace, name, key)} > scheduler.yaml")
    if not keys:
        field["kind"].add(f"this is a ConfigMap, and no key of its data holds a {KIND}", _BEGIN)


def _configuration_keys(value: dict[str, object]) -> list[str]:
    pattern = rf"""(?m)["']?kind["']?\s*:\s*["']?{KIND}\b"""
    texts = _object(value, "data").items()
    return [key for key, text in texts if isinstance(text, str) and re.search(pattern, text)]


def _take_out(namespace: str, name: str, key: str) -> str:
    escaped = key.replace(".", r"\.")
    return f"kubectl -n {namespace} get configmap {name} -o jsonpath='{{.data.{escaped}}}'"


def _manifest(value: dict[str, object], field: FieldPath) -> None:
    """Record that this is kube-scheduler's manifest, with the file that its `--config` names."""
    kind, (name, namespace) = value["kind"], _identity(value)
    container = _scheduler_container(value)
    if container is None:
        field.add(f"this is a {kind}, not a {KIND}", _BEGIN)
        return
    path = _config_flag(container)
    what = f"this is the manifest of kube-scheduler ({kind} {namespace}/{name}), not its configuration"
    if path is None:
        hint = "leave --scheduler-config out: without --config kube-scheduler runs with the defaults"
        field.add(f"{what}; it has no --config", hint)
    else:
        field.add(f"{what}; its --config names {path}", _where(path, container, _pod(value), namespace))


def _pod(value: dict[str, object]) -> dict[str, object]:
    return _object(value, "spec", "template", "spec") or _object(value, "spec")


def _scheduler_container(value: dict[str, object]) -> dict[str, object] | None:
    for container in _objects(_pod(value), "containers"):
        words = [*_words(container), str(container.get("image", ""))]
        if any("kube-scheduler" in word for word in words) or _config_flag(container) is not None:
            return container
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
    for mount in _objects(container, "volumeMounts"):
        at = str(mount.get("mountPath", "")).rstrip("/")
        if not at or not f"{path}/".startswith(f"{at}/"):
            continue
        inside = path.removeprefix(at).lstrip("/") or str(mount.get("subPath", ""))
        for volume in _objects(pod, "volumes"):
            if volume.get("name") != mount.get("name"):
                continue
            if host := _object(volume, "hostPath"):
                on_host = str(host.get("path", "")).rstrip("/") + path.removeprefix(at)
                return f"copy that file from the control plane host and pass it: --scheduler-config {on_host}"
            if config_map := _object(volume, "configMap"):
                return f"take it out: {_take_out(namespace, str(config_map.get('name')), inside)} > scheduler.yaml"
    return f"pass that file: --scheduler-config {path}"


def _identity(value: dict[str, object]) -> tuple[str, str]:
    metadata = _object(value, "metadata")
    return str(metadata.get("name", "NAME")), str(metadata.get("namespace", "kube-system"))


def _object(value: object, *keys: str) -> dict[str, object]:
    """Return the object below some keys; empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _objects(value: dict[str, object], key: str) -> list[dict[str, object]]:
    listed = value.get(key)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _words(container: dict[str, object]) -> list[str]:
    listed = (container.get(key) for key in ("command", "args"))
    return [str(word) for words in listed if isinstance(words, list) for word in words]
