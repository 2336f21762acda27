"""Pods and replica sets as controllers see them, for tables of cases."""

import itertools

from kplan.course.simulation.controllers.deployment import ObservedReplicaSet
from kplan.course.simulation.controllers.observed import Action, Create, Delete, ObservedPod

NOW = 1_000_000.0
_ROWS = itertools.count()


def pod(
    name: str = "",
    *,
    node: str = "",
    ready: bool = False,
    phase: str | None = None,
    created: float = NOW - 100,
    since: float | None = None,
    revision: str = "",
    index: int | None = None,
    target: str = "",
    cost: int = 0,
    restarts: tuple[int, int] = (0, 0),
    uid: str = "",
) -> ObservedPod:
    """Return a pod; one with a node runs, and `ready` says whether it is ready."""
    row = next(_ROWS)
    return ObservedPod(
        row,
        "default",
        name or f"pod-{row}",
        uid,
        node,
        phase or ("Running" if node else "Pending"),
        created,
        (created if since is None else since) if ready else None,
        revision,
        index,
        target or node,
        cost,
        restarts,
        order=row,
    )


def replica_set(
    name: str,
    replicas: int,
    available: int | None = None,
    *,
    age: int = 0,
    new: bool = False,
    desired: int | None = None,
    most: int | None = None,
) -> ObservedReplicaSet:
    """Return a replica set whose pods are all there and, unless said otherwise, available."""
    ready = replicas if available is None else available
    return ObservedReplicaSet(name, new, age, replicas, ready, replicas, desired, most)


def said(actions: list[Action]) -> list[str]:
    """Write actions down in short: +NUMBER or +NODE for a new pod, -NAME for one that goes."""
    found = []
    for action in actions:
        if isinstance(action, Create):
            found.append(f"+{action.node or ('' if action.index is None else action.index)}")
        elif isinstance(action, Delete):
            found.append(f"-{action.pod.name}")
    return found
