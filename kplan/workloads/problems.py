"""Problems of manifests: fields that are invalid, amounts that are too large, kinds that do not exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kplan.admission.decoding import Fault
from kplan.admission.fields import kinds_in, nearest_kind
from kplan.admission.validation.errors import FieldError
from kplan.api.kinds import split_api_version
from kplan.api.quantity import MAX_INT64, parse
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.reading.items import Item
from kplan.workloads.expansion import WORKLOADS
from kplan.workloads.sources import PassedOver, Source, Text

_GROUPS = ("apps", "autoscaling", "batch", "extensions", "policy")
"""Kubernetes' API groups without a dot, and the removed group ``extensions``."""

_MOST_WAYS = 3
_NANOS = 10**9
_COUNT_HINT = "check the suffix: m is a thousandth, M is a million, E is 10^18"


def field_problem(item: Item, error: FieldError, path: str) -> Problem:
    """Return a validation error of the API server as a problem in the manifest's file."""
    return item.locate(Problem(error.body, json_path=f"$.{path}", hint=_explain(item.kind, path)))


def fault_hint(fault: Fault, kind: str) -> str:
    """Return a hint about a field that does not decode."""
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
    fields = re.sub(r"\[[^\]]*\]|\.?\{.*", "", path)
    return f"kubectl explain {kind.lower()}.{fields} describes this field"


def uncountable(spec: dict[str, Any], path: str) -> Iterator[Problem]:
    """Yield a problem for each amount of a pod's spec above the largest int64, for cpu in thousandths."""
    amounts_at = [(spec.get("resources", {}), f"{path}.resources"), ({"limits": spec.get("overhead", {})}, path)]
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, [])):
            amounts_at.append((container.get("resources", {}), f"{path}.{group}[{index}].resources"))
    for resources, at in amounts_at:
        for side in ("limits", "requests"):
            for name, amount in resources.get(side, {}).items():
                most = MAX_INT64 // 1000 if name == "cpu" else MAX_INT64
                if parse(amount).nanos > most * _NANOS:
                    where = "overhead" if at == path else side
                    message = f"{amount[:60]!r} is more than Kubernetes can count"
                    yield Problem(message, json_path=f"{at}.{where}.{name}", hint=_COUNT_HINT)


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

    Parameters
    ----------
    foreign : kinds that are not known and have pod templates
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


def not_judged(kinds: Mapping[str, int]) -> Iterator[InputWarning]:
    """Yield a warning about each kind of which only the fields are checked.

    Parameters
    ----------
    kinds : kind -> number of objects
    """
    message = "only the names and types of its fields are checked, so the API server may still refuse it"
    for kind, n in sorted(kinds.items()):
        yield InputWarning("NotJudged", kind if n == 1 else f"{kind} ({n})", message)
