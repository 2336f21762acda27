"""Names that the snapshot does not hold, answered with the ones that were probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kplan.errors import NotFoundError

_MOST = 3


def no_pod(key: str, known: Iterable[str]) -> NotFoundError:
    """Return the error for a pod that is not there."""
    hint = _meant([key], known) or "name it as NAMESPACE/NAME, as kubectl get pods -A lists them"
    return NotFoundError(f"the snapshot has no pod {key}", hint=hint)


def no_node(names: Iterable[str], known: Iterable[str]) -> NotFoundError:
    """Return the error for nodes that are not there."""
    unknown = list(names)
    hint = _meant(unknown, known) or "kubectl get nodes lists those that there are"
    return NotFoundError(f"the snapshot has no node {', '.join(unknown)}", hint=hint)


def _meant(names: Iterable[str], known: Iterable[str]) -> str:
    candidates = list(known)
    near = dict.fromkeys(each for name in names for each in difflib.get_close_matches(name, candidates, n=_MOST))
    return f"did you mean {', '.join(near)}?" if near else ""
