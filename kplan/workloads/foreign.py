"""Objects of kinds that kplan does not know, such as an Argo Rollout, and the pod templates in them.

What their controllers do with the templates is not known. They can be asked about as Deployments: so many pods of
each template at once, as the object's ``replicas`` or ``parallelism`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.admission.fields import ApiKind, kind_named
from kplan.api.decode import DecodeError
from kplan.api.references import object_name
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.reading.items import Item
from kplan.reading.positions import Step, path_of
from kplan.workloads.contents import Object
from kplan.workloads.problems import is_foreign, unknown_kind

_MOST_TEMPLATES = 20
_MOST_VISITED = 10_000
_NUMBERS = ("replicas", "parallelism")
_LABEL = "kplan/as-deployment"
_MOST_REPLICAS = 1_000_000


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
            if _is_template(value):
                templates.append(PodTemplateAt(path, value, replicas))
                continue
            number = next((value[name] for name in _NUMBERS if isinstance(value.get(name), int)), None)
            inner = replicas if number is None else min(max(number, 0), _MOST_REPLICAS)
            open_ends += [(below, (*path, str(name)), inner) for name, below in reversed(value.items())]
        elif isinstance(value, list):
            open_ends += [(below, (*path, index), replicas) for index, below in reversed([*enumerate(value)])]
    return templates


def take_object(
    item: Item,
    problems: list[Problem],
    take_known: Callable[[Item, ApiKind], None],
    take_foreign: Callable[[Item, list[PodTemplateAt]], None],
) -> None:
    """Take an object of one of Kubernetes' kinds, or of another with its pod templates; record what is wrong with it.

    Both functions may raise DecodeError.
    """
    api_kind = kind_named(item.api_version, item.kind)
    try:
        if api_kind is not None:
            take_known(item, api_kind)
        elif is_foreign(item.api_version, item.kind):
            take_foreign(item, pod_templates(item.value()))
        else:
            problems.append(item.locate(unknown_kind(item.api_version, item.kind)))
    except DecodeError as error:
        problems += map(item.locate, error.problems)


def _is_template(value: Mapping[str, Any]) -> bool:
    containers = _dict(value.get("spec")).get("containers")
    return isinstance(containers, list) and bool(containers) and all(isinstance(one, dict) for one in containers)


def as_deployments(item: Item, templates: list[PodTemplateAt]) -> Iterator[Item]:
    """Yield a Deployment for each template of an object; of several templates each has a name of its own."""
    content = item.value()
    metadata = _dict(content.get("metadata"))
    for number, entry in enumerate(templates):
        name = str(metadata.get("name", "")) + (f"-{number}" if len(templates) > 1 else "")
        labels = {_LABEL: name[:63].rstrip("-.")}
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


def not_placed(item: Item, templates: list[PodTemplateAt]) -> InputWarning:
    """Return the warning about an object whose pods are not placed, since its kind is not known."""
    number = sum(template.replicas for template in templates)
    paths = ", ".join(path_of(template.path).removeprefix("$.") for template in templates[:3])
    pods = "1 pod" if number == 1 else f"{number} pods"
    message = (
        f"kplan does not know this kind, whose {paths} looks like a template of {pods}: none of them is placed here; "
        f"--as-deployment {item.kind} places them as those of a Deployment"
    )
    return InputWarning("UnknownPodTemplate", _name(item), message)


def placed_as_deployment(item: Item) -> InputWarning:
    """Return the warning about an object whose pods are placed as those of a Deployment."""
    message = "its pods are placed as those of a new Deployment; what its own controller does is not known"
    return InputWarning("PlacedAsDeployment", _name(item), message)


def _name(item: Item) -> str:
    metadata = _dict(item.value().get("metadata"))
    return object_name(item.kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _dict(value: Any) -> Object:
    return value if isinstance(value, dict) else {}
