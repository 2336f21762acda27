"""The content of manifests.

Workloads, their pods, kinds that kplan does not know, everything else, and what is wrong with it.

What a HorizontalPodAutoscaler does next depends on metrics, which no snapshot holds. So a warning names the autoscaler
of a workload and its bounds, and says what it does at once whatever the metrics are.
Upstream: pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler).
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.admission.decoding import ApiKind, Fault, kind_named, kinds_in, nearest_kind
from kplan.admission.validation.checks import FieldError
from kplan.api.core import Pod
from kplan.api.decode import DecodeError
from kplan.api.kinds import kind_of, split_api_version
from kplan.api.names import object_name
from kplan.api.quantity import MAX_INT64, grouped, parse
from kplan.api.workloads import HorizontalPodAutoscaler
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.reading.files import Step, path_of
from kplan.reading.items import Item
from kplan.snapshot.model import Snapshot
from kplan.workloads.expansion import WORKLOADS
from kplan.workloads.sources import PassedOver, Source, Text

CODE = "AutoscaledReplicas"


class Autoscalers:
    """Autoscalers by the workload that they scale; of several with the same name the last one counts."""

    def __init__(self, scalers: Iterable[HorizontalPodAutoscaler]) -> None:
        latest = {(scaler.metadata.namespace, scaler.metadata.name): scaler for scaler in scalers}
        targets = [(scaler.spec.scale_target_ref, scaler) for scaler in latest.values()]
        self._by_target = grouped(
            ((split_api_version(target.api_version)[0], target.kind, scaler.metadata.namespace, target.name), scaler)
            for target, scaler in targets
        )

    def of(self, api_version: str, kind: str, namespace: str, name: str) -> tuple[HorizontalPodAutoscaler, ...]:
        """Return the autoscalers of a workload, by name; if there are several, Kubernetes lets none of them act."""
        scalers = self._by_target.get((split_api_version(api_version)[0], kind, namespace, name), ())
        return tuple(sorted(scalers, key=lambda scaler: scaler.metadata.name))


def live_replicas(snapshot: Snapshot, kind: str, namespace: str, name: str) -> int | None:
    """Return `spec.replicas` of a workload of the cluster; None if the cluster has no such workload."""
    known = kind_of("v1" if kind == "ReplicationController" else "apps/v1", kind)
    held: tuple[Any, ...] = () if known is None else snapshot.objects(known.attribute)
    live = next((obj for obj in held if (obj.metadata.namespace, obj.metadata.name) == (namespace, name)), None)
    if live is None:
        return None
    replicas: int | None = getattr(live.spec, "replicas", None)
    return 1 if replicas is None else replicas


def autoscaler_warnings(
    scalers: tuple[HorizontalPodAutoscaler, ...],
    target: tuple[str, str, str],
    replicas: int | None,
    live: int | None,
    last_applied: int | None = None,
) -> tuple[InputWarning, ...]:
    """Return a warning about what an autoscaler does with the number of replicas in a manifest, if anything.

    - `scalers`: the autoscalers of the workload
    - `target`: kind, namespace and name of the workload
    - `replicas`: the number in the manifest; None if it has none
    - `live`: `spec.replicas` of the workload in the cluster; None for a new workload
    - `last_applied`: the number in the manifest that kubectl applied last
    """
    if not scalers:
        return ()
    if len(scalers) > 1:
        names = ", ".join(scaler.metadata.name for scaler in scalers)
        message = f"autoscalers {names} all scale it, and so Kubernetes lets none of them act: leave it to one"
    else:
        message = _message(scalers[0], replicas, live, last_applied)
    return (InputWarning(CODE, object_name(*target), message),) if message else ()


def _message(scaler: HorizontalPodAutoscaler, replicas: int | None, live: int | None, last_applied: int | None) -> str:
    lowest = 1 if scaler.spec.min_replicas is None else scaler.spec.min_replicas
    highest = scaler.spec.max_replicas
    who = f"autoscaler {scaler.metadata.name} ({lowest}-{highest})"
    if replicas is None:
        if live is None and lowest > 1:
            return f"names no number of replicas, so it starts with 1, which {who} raises to {lowest} at once"
        if live is not None and last_applied is not None:
            return (
                f"names no number of replicas any more, and {who} keeps the {live} that it has; kubectl apply without"
                f" --server-side falls back to 1 for a moment, because {last_applied} was applied last"
            )
        return ""
    advice = "leave spec.replicas out of the manifest"
    number = "1 replica" if replicas == 1 else f"{replicas} replicas"
    if replicas == 0 and lowest > 0:
        return f"requests 0 replicas, which turns {who} off until somebody scales it up again"
    if not lowest <= replicas <= highest:
        bound = min(max(replicas, lowest), highest)
        return f"requests {number}, and {who} will set them to {bound} at once: {advice}"
    now = "" if live in (None, replicas) else f", {live} at present"
    return f"requests {number}, and {who} will set them back to what its metrics call for{now}: {advice}"


_GROUPS = ("apps", "autoscaling", "batch", "extensions", "policy")
"""Kubernetes' API groups without a dot, and the removed group ``extensions``."""

_MOST_WAYS = 3  # a hint names so many; the others are counted
_NANOS = 10**9
_COUNT_HINT = "check the suffix: m is a thousandth, M is a million, E is 10^18"


def field_problem(item: Item, error: FieldError, path: str) -> Problem:
    return item.locate(Problem(error.body, json_path=f"$.{path}", hint=_explain(item.kind, path)))


def fault_hint(fault: Fault, kind: str) -> str:
    if fault.is_strict:
        return "leave it out, or pass over such fields with --validate ignore"
    if fault.is_quantity:
        return 'a quantity is a number with an optional suffix, such as "500m", "2", "1.5Gi" or "2e3"'
    return _explain(kind, fault.path)


def other_namespace(item: Item, namespace: str, wanted: str) -> Iterator[Problem]:
    """Yield what kubectl says of an object in another namespace than the one that its command names.

    Upstream: staging/src/k8s.io/cli-runtime/pkg/resource/visitor.go RequireNamespace.
    """
    if namespace != wanted:
        message = f'the namespace from the provided object "{namespace}" does not match the namespace "{wanted}"'
        hint = f"pass --namespace={namespace}, or leave --namespace out: then each object goes where it says"
        yield item.locate(Problem(message, json_path="$.metadata.namespace", hint=hint))


def _explain(kind: str, path: str) -> str:
    """Return the kubectl command that describes the field; indices and map keys are left out of its path."""
    fields = re.sub(r"\[[^\[\]]*+\]|\.?\{.*", "", path)
    return f"kubectl explain {kind.lower()}.{fields} describes this field"


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


def no_workloads(sources: Sequence[Source], passed_over: Sequence[PassedOver], foreign: Sequence[str] = ()) -> Problem:
    """Return the problem of manifests without a pod and without a workload.

    `foreign`: kinds that are not known and have pod templates.
    """
    names = [
        source.name if isinstance(source, Text) else str(source)
        for source in sources
        if isinstance(source, str | Path | Text)
    ]
    hint = f"name files that hold one of {', '.join(WORKLOADS)}"
    hint = _builds(passed_over) or hint
    if foreign:
        kinds = " ".join(f"--as-deployment {kind}" for kind in dict.fromkeys(foreign))
        hint = f"{kinds} places the pods of such kinds as those of Deployments"
    return Problem("no pod and no workload in the manifests", path=", ".join(names), hint=hint)


def _builds(passed_over: Sequence[PassedOver]) -> str:
    """Return what to type for the kustomizations and charts among passed over files; empty where there is none."""
    kinds = (
        ("overlay", [file.built_by for file in passed_over if file.is_overlay]),
        ("kustomization", [file.built_by for file in passed_over if file.built_by.startswith("-k ")]),
        ("chart", [file.built_by for file in passed_over if file.built_by.startswith("helm ")]),
    )
    hints: list[str] = []
    for kind, commands in kinds:
        ways = list(dict.fromkeys(commands))
        if not ways or (kind == "kustomization" and hints):
            continue
        more = f", and {len(ways) - _MOST_WAYS} more" if len(ways) > _MOST_WAYS else ""
        verb = "render" if kind == "chart" else "build"
        article = "an" if kind == "overlay" else "a"
        which = f"is {article} {kind}; {verb} it" if len(ways) == 1 else f"are {len(ways)} {kind}s; {verb} one"
        hints.append(f"there {which} with {' or '.join(ways[:_MOST_WAYS])}{more}")
    return "; ".join(hints)


def not_judged(items: Sequence[Item]) -> Iterator[InputWarning]:
    """Yield a warning for all objects of which kplan does not judge more than their fields, if that.

    It is about the first of them. Where nothing else is checked, either, there is nothing to warn about.
    """
    if not items:
        return
    numbers = Counter(item.kind for item in items)
    kinds = {kind: kind if number == 1 else f"{kind} ({number})" for kind, number in numbers.items()}
    known = {item.kind for item in items if kind_named(item.api_version, item.kind) is not None}
    parts = (
        (
            [text for kind, text in kinds.items() if kind in known],
            "only the names and types of fields are checked, so the API server may still refuse it",
        ),
        (
            [text for kind, text in kinds.items() if kind not in known],
            "the kind is not known, so nothing of it is checked",
        ),
    )
    texts = [f"{', '.join(which)}: {words}" for which, words in parts if which]
    yield InputWarning("NotJudged", name_in(items[0].kind, items[0].value()), "; ".join(texts))


def written_twice(first: Item, second: Item, name: str) -> InputWarning:
    """Return the warning about an object that a later one of its kind and name updates."""
    places = " and ".join(
        f"{item.path}:{item.source().line}" if item.source().line else item.path for item in (first, second)
    )
    return InputWarning(
        "WrittenTwice", name, f"is there twice, in {places}; the last one counts, as an update of the first"
    )


Object = dict[str, Any]
_TEMPLATE_PATH = {"Pod": "", "PodTemplate": ".template", "CronJob": ".spec.jobTemplate.spec.template"}


class ManifestWorkload(msgspec.Struct, frozen=True):
    """A workload or a pod of a manifest."""

    item: Item  #: the object with its place in the file
    #: group, resource: of its kind, such as ``apps`` and ``deployments``
    group: str
    resource: str
    namespace: str
    name: str
    template: Object  #: the pod template as it is written, ``metadata`` and ``spec``; for a pod the whole pod
    sample: Pod  #: a pod of the template without what a controller adds, with the fields that scheduling reads
    created: Pod  #: the first pod that the controller creates; where it creates none, what it would create

    @property
    def kind(self) -> str:
        return self.item.kind

    @property
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        return object_name(self.kind, self.namespace, self.name)

    @property
    def template_path(self) -> str:
        """JSON path of the pod or the pod template below the object, such as ``.spec.template``."""
        return _TEMPLATE_PATH.get(self.kind, ".spec.template")

    def locate(self, error: FieldError) -> Problem:
        below = self.template_path.removeprefix(".")
        return field_problem(self.item, error, f"{below}.{error.field}" if below else error.field)

    def uncountable(self) -> Iterator[Problem]:
        """Yield the amounts of resources that overflow int64."""
        spec, path = self.template.get("spec", {}), f"${self.template_path}.spec"
        amounts_at = [(spec.get("resources", {}), f"{path}.resources"), ({"limits": spec.get("overhead", {})}, path)]
        for group in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(group, [])):
                amounts_at.append((container.get("resources", {}), f"{path}.{group}[{index}].resources"))
        for resources, at in amounts_at:
            amounts = [(side, *amount) for side in ("limits", "requests") for amount in resources.get(side, {}).items()]
            for side, name, amount in amounts:
                most = MAX_INT64 // 1000 if name == "cpu" else MAX_INT64
                if parse(amount).nanos > most * _NANOS:
                    where = f"{at}.{'overhead' if at == path else side}.{name}"
                    message = f"{amount[:60]!r} is more than Kubernetes can count"
                    yield self.item.locate(Problem(message, json_path=where, hint=_COUNT_HINT))


class ManifestPod(msgspec.Struct, frozen=True):
    """A pod of a manifest, as its controller sends it to the API server."""

    pod: Pod
    workload: ManifestWorkload
    more: int = 0  #: further replicas like it, which are only counted: they have the same outcome

    @property
    def kind(self) -> str:
        return self.workload.kind

    @property
    def name(self) -> str:
        return self.workload.name


class Manifests(msgspec.Struct, frozen=True):
    """The content of manifests, with workloads expanded into pods."""

    pods: tuple[ManifestPod, ...]  #: in reading order
    workloads: tuple[ManifestWorkload, ...] = ()  #: the objects of these pods, and workloads without a pod
    objects: tuple[msgspec.Struct, ...] = ()  #: other objects that scheduling reads
    warnings: tuple[InputWarning, ...] = ()
    skipped: dict[str, int] = {}  #: kind that scheduling does not read -> number of objects
    passed_over: tuple[PassedOver, ...] = ()  #: files of directories that hold no manifests
    items: tuple[Item, ...] = ()  #: all objects, also those that are skipped, with their places


def duplicate_names(pods: Sequence[ManifestPod]) -> Iterator[Problem]:
    """Yield a problem for pods with the name of an earlier pod, one per workload.

    Only a pod and a stateful set can have such pods: all other names are drawn.
    """
    first: dict[str, ManifestPod] = {}
    reported: set[int] = set()
    for pod in pods:
        key = pod.pod.metadata.key
        earlier = first.setdefault(key, pod)
        if not pod.pod.metadata.name or earlier is pod or id(pod.workload) in reported:
            continue
        reported.add(id(pod.workload))
        place = earlier.workload.item.locate(Problem("")).path
        number = f" (document {earlier.workload.item.document})"
        yield pod.workload.item.locate(
            Problem(
                f"has a pod {key}, as has {earlier.workload.key} in {place}{number}",
                json_path="$.metadata.name",
                hint="give one of them another name or namespace",
            )
        )


_MOST_TEMPLATES = 20  # of one object; further ones are not looked for
_MOST_VISITED = 10_000  # values of an object of an unknown kind: the search for templates ends
_MOST_REPLICAS = 1_000_000  # more is a mistake, or cannot be counted in time


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
