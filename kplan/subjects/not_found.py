"""Errors about names that do not exist, with hints that name the nearest ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kplan.api.alike import nearest_texts
from kplan.api.core import Pod
from kplan.errors import NotFoundError, UsageError

_MOST = 3
_ENDED = {"Succeeded": "has succeeded", "Failed": "has failed"}


def no_pod(key: str, known: Iterable[str], workloads: Iterable[str] = ()) -> NotFoundError:
    """Return the error for a pod that does not exist.

    Parameters
    ----------
    workloads : workloads of the same name; the hint prefers them to pods with a similar name
    """
    same = list(workloads)[:_MOST]
    hint = f"did you mean {', '.join(same)}?" if same else did_you_mean([key], known)
    hint = hint or "name it as NAMESPACE/NAME, as kubectl get pods -A lists them"
    return NotFoundError(f"the snapshot has no pod {key}", hint=hint)


def has_ended(pod: Pod) -> UsageError | None:
    """Return the error for a pod that has ended, or None for one that has not."""
    how = _ENDED.get(pod.status.phase)
    if how is None:
        return None
    return UsageError(
        f"pod {pod.metadata.key} {how}; it no longer takes up room, so there is nothing to decide",
        hint="name a pod that runs or waits: kubectl get pods -A lists them",
    )


def no_node(names: Iterable[str], known: Iterable[str]) -> NotFoundError:
    """Return the error for nodes that do not exist."""
    unknown = list(names)
    hint = did_you_mean(unknown, known) or "kubectl get nodes lists those that there are"
    return NotFoundError(f"the snapshot has no node {', '.join(unknown)}", hint=hint)


def did_you_mean(names: Iterable[str], known: Iterable[str]) -> str:
    """Return a hint with the names nearest to unknown ones; empty if none is near.

    The same name in another namespace is nearer than a similar name, which in a namespace is compared without it.
    """
    candidates = list(known)
    near = dict.fromkeys(near for name in names for near in nearest_names(name, candidates))
    return f"did you mean {', '.join(near)}?" if near else ""


def nearest_names(name: str, candidates: Sequence[str]) -> list[str]:
    """Return the names nearest to an unknown one, as `did_you_mean`."""
    namespace, _, last = name.rpartition("/")
    elsewhere = [candidate for candidate in candidates if candidate.endswith(f"/{last}")] if namespace else []
    return elsewhere[:_MOST] or _nearest(namespace, last, candidates)


def _nearest(namespace: str, name: str, candidates: Sequence[str]) -> list[str]:
    """Return the names nearest to one of a namespace, which is part of what may be misspelt only if it is unknown."""
    prefix = f"{namespace}/" if namespace else ""
    own = [candidate.removeprefix(prefix) for candidate in candidates if candidate.startswith(prefix)]
    if not own:
        return list(nearest_texts(f"{prefix}{name}", candidates, _MOST))
    return [f"{prefix}{text}" for text in nearest_texts(name, own, _MOST)]
