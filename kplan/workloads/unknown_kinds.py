"""Kinds that the API does not serve: custom ones, and those that were misspelt or are gone."""

from __future__ import annotations

import difflib

from kplan.admission.fields import kinds_in, nearest_kind
from kplan.api.kinds import split_api_version
from kplan.errors import Problem

_WORDS = ("apps", "autoscaling", "batch", "extensions", "policy")
"""Groups of Kubernetes that are no domains, and one that is gone."""


def is_foreign(api_version: str, kind: str) -> bool:
    """Tell whether a kind is none of Kubernetes': a custom one, or an object of another tool.

    Custom groups are domains; other tools have words of their own, such as skaffold. What is like one of Kubernetes'
    own groups was meant to be that.
    """
    group, version = split_api_version(api_version)
    if not group or not version or not kind or kinds_in(group):
        return False
    return "." in group or not difflib.get_close_matches(group, _WORDS, n=1, cutoff=0.7)


def unknown_kind(api_version: str, kind: str) -> Problem:
    """Say that the API server has no such kind, as kubectl does, and which was probably meant."""
    group, _ = split_api_version(api_version)
    near = nearest_kind(api_version, kind)
    hint = f"did you mean apiVersion: {near[0]} with kind: {near[1]}?" if near else "kubectl api-resources lists all"
    is_version_wrong = kind in kinds_in(group)
    path = "$.apiVersion" if is_version_wrong else "$.kind"
    return Problem(f'no matches for kind "{kind}" in version "{api_version}"', json_path=path, hint=hint)
