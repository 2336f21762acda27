"""Objects of kinds that are not known or not judged: pod templates in them, and what is said of them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.admission.decoding import kind_named, kinds_in, nearest_kind
from kplan.api.kinds import split_api_version
from kplan.api.names import object_name
from kplan.api.quantity import grouped
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.reading.items import Item
from kplan.reading.positions import Step, path_of
from kplan.workloads import Object

_GROUPS = ("apps", "autoscaling", "batch", "extensions", "policy")
"""Kubernetes' API groups without a dot, and the removed group ``extensions``."""

_MOST_TEMPLATES = 20  # of one object; further ones are not looked for
_MOST_VISITED = 10_000  # values of an object of an unknown kind: the search for templates ends
_MOST_REPLICAS = 1_000_000  # more is a mistake, or cannot be counted in time


def is_foreign(api_version: str, kind: str) -> bool:
    """Return whether a kind is not one of Kubernetes' own: a custom resource, or an object of another tool.

    Custom groups are domain names; other tools have words of their own, such as skaffold. A group that resembles one of
    Kubernetes' groups counts as misspelt.
    """
    group, version = split_api_version(api_version)
    if not group or not version or not kind or kinds_in(group):
        return False
    return "." in group or not difflib.get_close_matches(group, _GROUPS, n=1, cutoff=0.7)


def unknown_kind(api_version: str, kind: str) -> Problem:
    """Return kubectl's problem for a kind that the API server does not have, with the nearest known kind as a hint."""
    group, _ = split_api_version(api_version)
    near = nearest_kind(api_version, kind)
    hint = f"did you mean apiVersion: {near[0]} with kind: {near[1]}?" if near else "kubectl api-resources lists all"
    is_version_wrong = kind in kinds_in(group)
    path = "$.apiVersion" if is_version_wrong else "$.kind"
    return Problem(f'no matches for kind "{kind}" in version "{api_version}"', json_path=path, hint=hint)


class PodTemplateAt(msgspec.Struct, frozen=True):
    """A pod template in an object."""

    path: tuple[Step, ...]
    template: Object
    replicas: int  #: as the nearest object around it says; 1 where none says


def pod_templates(content: Object) -> list[PodTemplateAt]:
    """Return what looks like a pod template in an object: a ``spec`` with containers, at any depth, up to a bound."""
    templates: list[PodTemplateAt] = []
    open_ends: list[tuple[Any, tuple[Step, ...], int]] = [(content.get("spec"), ("spec",), 1)]
    for _ in range(_MOST_VISITED):
        if not open_ends or len(templates) == _MOST_TEMPLATES:
            break
        value, path, replicas = open_ends.pop()
        if isinstance(value, dict):
            containers = _dict(value.get("spec")).get("containers")
            if isinstance(containers, list) and containers and all(isinstance(one, dict) for one in containers):
                templates.append(PodTemplateAt(path, value, replicas))
                continue
            numbers = (value.get(name) for name in ("replicas", "parallelism"))
            number = next((one for one in numbers if isinstance(one, int)), None)
            inner = replicas if number is None else min(max(number, 0), _MOST_REPLICAS)
            open_ends += [(below, (*path, str(name)), inner) for name, below in reversed(value.items())]
        elif isinstance(value, list):
            open_ends += [(below, (*path, index), replicas) for index, below in reversed([*enumerate(value)])]
    return templates


def as_deployments(item: Item, templates: list[PodTemplateAt]) -> Iterator[Item]:
    """Yield a Deployment for each template of an object; of several templates each has a name of its own."""
    content = item.value()
    metadata = _dict(content.get("metadata"))
    for number, entry in enumerate(templates):
        name = str(metadata.get("name", "")) + (f"-{number}" if len(templates) > 1 else "")
        labels = {"kplan/as-deployment": name[:63].rstrip("-.")}
        template = entry.template
        own = _dict(template.get("metadata"))
        merged = {**_dict(own.get("labels")), **labels}
        pod_spec = {**template["spec"]}
        # A Deployment takes no other; a Job-like kind restarts its pods as it likes.
        pod_spec.pop("restartPolicy", None)
        yield replace(
            item,
            api_version="apps/v1",
            kind="Deployment",
            content={
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {key: value for key, value in metadata.items() if key in ("namespace", "labels")}
                | {"name": name},
                "spec": {
                    "replicas": entry.replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {**own, "labels": merged}, "spec": pod_spec},
                },
            },
        )


_OF_KNOWN = "only the names and types of fields are checked, so the API server may still refuse it"
_OF_UNKNOWN = "the kind is not known, so nothing of it is checked"


def not_judged(items: Sequence[Item]) -> Iterator[InputWarning]:
    """Yield a warning for all objects of which kplan does not judge more than their fields, if that.

    It is about the first of them. Where nothing else is checked, either, there is nothing to warn about.
    """
    if not items:
        return
    numbers = Counter(item.kind for item in items)
    kinds = {kind: kind if number == 1 else f"{kind} ({number})" for kind, number in numbers.items()}
    known = {item.kind for item in items if kind_named(item.api_version, item.kind) is not None}
    by_words = grouped((_OF_KNOWN if kind in known else _OF_UNKNOWN, text) for kind, text in kinds.items())
    texts = [f"{', '.join(by_words[words])}: {words}" for words in (_OF_KNOWN, _OF_UNKNOWN) if words in by_words]
    yield InputWarning("NotJudged", name_in(items[0].kind, items[0].value()), "; ".join(texts))


def not_placed(item: Item, templates: list[PodTemplateAt]) -> InputWarning:
    number = sum(template.replicas for template in templates)
    paths = ", ".join(path_of(template.path).removeprefix("$.") for template in templates[:3])
    pods = "1 pod" if number == 1 else f"{number} pods"
    message = (
        f"kplan does not know this kind, whose {paths} looks like a template of {pods}: none of them is placed here; "
        f"--as-deployment {item.kind} places them as those of a Deployment"
    )
    return InputWarning("UnknownPodTemplate", name_in(item.kind, item.value()), message)


def name_in(kind: str, content: Mapping[str, Any]) -> str:
    """Return the name that an object has by its content, KIND/NAMESPACE/NAME."""
    metadata = _dict(content.get("metadata"))
    return object_name(kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _dict(value: Any) -> Object:
    return value if isinstance(value, dict) else {}
