"""Pods and snapshots as Python programs pass them: objects, dicts and paths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kplan.api.core import Pod
from kplan.api.decode import DecodeError, convert
from kplan.api.kinds import kind_of
from kplan.errors import ManifestError, Problem, UsageError
from kplan.snapshot.checks import QuantityCheck, time_problems
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot


def as_snapshot(source: object) -> Snapshot:
    """Return a snapshot as it is, or load that of a path or ``demo``; raises UsageError for anything else."""
    if isinstance(source, Snapshot):
        return source
    if not isinstance(source, str | Path):
        hint = 'for example kplan.Planner(kplan.load_snapshot("demo"))'
        raise UsageError(f"expected a snapshot, got {type(source).__name__}", hint=hint)
    from kplan.snapshot.load import load_snapshot

    return load_snapshot(source)


def decode_pod(obj: Pod | Mapping[str, Any]) -> Pod:
    """Decode a pod, with an API server's defaults where it has no uid; a `Pod` is returned as it is.

    Raises
    ------
    ManifestError
        With every problem and its JSON path.
    UsageError
        When it is no object.
    """
    if isinstance(obj, Pod):
        return obj
    if not isinstance(obj, Mapping):
        raise UsageError(f"{obj!r} is not a pod", hint="name a pod as NAMESPACE/NAME, or give it as a dict")
    kind = kind_of(str(obj.get("apiVersion", "v1")), str(obj.get("kind", "Pod")))
    if kind is None or kind.type is not Pod:
        problem = Problem(f"expected a Pod, got {obj.get('kind')!r} of {obj.get('apiVersion')!r}", json_path="$.kind")
        raise ManifestError([problem])
    try:
        pod = convert(dict(obj), Pod)
    except DecodeError as error:
        raise ManifestError(error.problems) from None
    problems = [] if pod.spec.containers else [Problem("a pod needs a container", json_path="$.spec.containers")]
    problems += [*QuantityCheck(refuses_odd=False).problems(pod), *time_problems(pod)]
    if problems:
        raise ManifestError(problems)
    completed: Pod = complete(pod, kind)
    return completed
