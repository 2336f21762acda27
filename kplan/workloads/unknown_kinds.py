"""Kinds that the API does not serve: custom ones, and those that were misspelt or are gone."""

from __future__ import annotations

from kplan.admission.fields import kinds_in, nearest_kind
from kplan.api.kinds import split_api_version
from kplan.errors import Problem

__all__ = ["is_foreign", "unknown_kind"]


def is_foreign(api_version: str, kind: str) -> bool:
    """Tell whether a kind can be a custom one: custom groups are domains, and none of Kubernetes' own."""
    group, version = split_api_version(api_version)
    return "." in group and bool(version) and not kinds_in(group) and bool(kind)


def unknown_kind(api_version: str, kind: str) -> Problem:
    """Say that the API server has no such kind, as kubectl does, and which was probably meant."""
    group, _ = split_api_version(api_version)
    near = nearest_kind(api_version, kind)
    hint = f"did you mean apiVersion: {near[0]} with kind: {near[1]}?" if near else "kubectl api-resources lists all"
    is_version_wrong = kind in kinds_in(group)
    path = "$.apiVersion" if is_version_wrong else "$.kind"
    return Problem(f'no matches for kind "{kind}" in version "{api_version}"', json_path=path, hint=hint)
