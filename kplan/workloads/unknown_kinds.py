"""Kinds that the API server does not serve: custom, misspelt and removed ones."""

from __future__ import annotations

import difflib

from kplan.admission.fields import kinds_in, nearest_kind
from kplan.api.kinds import split_api_version
from kplan.errors import Problem

_WORDS = ("apps", "autoscaling", "batch", "extensions", "policy")
"""Kubernetes' API groups without a dot, and the removed group ``extensions``."""


def is_foreign(api_version: str, kind: str) -> bool:
    """Return whether a kind is not one of Kubernetes' own: a custom resource, or an object of another tool.

    Custom groups are domain names; other tools have words of their own, such as skaffold. A group that resembles one of
    Kubernetes' groups counts as misspelt.
    """
    group, version = split_api_version(api_version)
    if not group or not version or not kind or kinds_in(group):
        return False
    return "." in group or not difflib.get_close_matches(group, _WORDS, n=1, cutoff=0.7)


def unknown_kind(api_version: str, kind: str) -> Problem:
    """Return kubectl's problem for a kind that the API server does not have, with the nearest known kind as a hint."""
    group, _ = split_api_version(api_version)
    near = nearest_kind(api_version, kind)
    hint = f"did you mean apiVersion: {near[0]} with kind: {near[1]}?" if near else "kubectl api-resources lists all"
    is_version_wrong = kind in kinds_in(group)
    path = "$.apiVersion" if is_version_wrong else "$.kind"
    return Problem(f'no matches for kind "{kind}" in version "{api_version}"', json_path=path, hint=hint)
