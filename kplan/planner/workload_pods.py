"""The pods of a workload, found through their chain of owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kplan.api.core import Pod
from kplan.api.kinds import POD_MAKERS, SHORT_NAMES
from kplan.api.meta import controller_of
from kplan.errors import NotFoundError, UsageError
from kplan.planner.not_found import meant
from kplan.snapshot.model import Snapshot

_POD_NAMES = frozenset({"pod", "pods", "po"})
_SHORT = {kind: short for short, kind in SHORT_NAMES.items()}
_ENDED = frozenset({"Succeeded", "Failed"})
_Key = tuple[str, str, str]


def kind_named(text: str) -> str:
    """Return the kind that kubectl understands by ``deploy``, ``deployments``, ``Deployment`` or ``deployment.apps``.

    Returns
    -------
    str
        ``Pod``, a kind of `POD_MAKERS`, or empty.
    """
    word = text.lower().partition(".")[0]
    if word in _POD_NAMES:
        return "Pod"
    known = {name: kind for kind in POD_MAKERS for name in (kind.lower(), f"{kind.lower()}s")}
    named = known.get(word) or SHORT_NAMES.get(word, "")
    return named if named in POD_MAKERS else ""


def pods_of(snapshot: Snapshot, kind: str, namespace: str, name: str) -> list[str]:
    """Return the pods of a workload that have not ended, by name, pending pods first.

    Parameters
    ----------
    kind : one of `POD_MAKERS`

    Raises
    ------
    NotFoundError
        When neither the workload nor a pod of it exists.
    UsageError
        When it has no pods.
    """
    wanted = (kind, namespace, name)
    owners = _owners(snapshot)
    pods = [pod for pod in snapshot.pods if pod.status.phase not in _ENDED and wanted in _above(pod, owners)]
    if pods:
        pods.sort(key=lambda pod: (bool(pod.spec.node_name), pod.metadata.name))
        return [pod.metadata.key for pod in pods]
    held = getattr(snapshot, POD_MAKERS[kind].attribute)
    there = {obj.metadata.key: obj for obj in held}
    key = f"{namespace}/{name}"
    if key not in there:
        raise NotFoundError(
            f"the snapshot has no {kind} {key}",
            hint=meant([key], there) or f"kubectl get {POD_MAKERS[kind].resource} -A lists those that there are",
        )
    raise UsageError(
        f"{kind} {key} has no pods that run or wait", hint="ask for its manifest: kplan place FILE, kplan pods FILE"
    )


def workloads_called(snapshot: Snapshot, key: str) -> list[str]:
    """Return the workloads of a name as kubectl takes them, ``deploy/shop/cart``.

    Parameters
    ----------
    key : NAMESPACE/NAME; where the namespace has no such workload, those of other namespaces count
    """
    namespace, _, name = key.partition("/")
    called = [
        (obj.metadata.namespace, _SHORT.get(kind.name, kind.name.lower()))
        for kind in POD_MAKERS.values()
        for obj in getattr(snapshot, kind.attribute)
        if obj.metadata.name == name
    ]
    own = [workload for workload in called if workload[0] == namespace]
    return [f"{kind}/{where}/{name}" for where, kind in own or called]


def _owners(snapshot: Snapshot) -> dict[_Key, _Key]:
    """Return the controlling workload of each workload."""
    owners = {}
    for kind in POD_MAKERS.values():
        for obj in getattr(snapshot, kind.attribute):
            owner = controller_of(obj.metadata)
            if owner is not None:
                namespace = obj.metadata.namespace
                owners[kind.name, namespace, obj.metadata.name] = (owner.kind, namespace, owner.name)
    return owners


def _above(pod: Pod, owners: Mapping[_Key, _Key]) -> Iterator[_Key]:
    """Yield the controller of the pod, the controller of that, and so on, until none is left or one repeats."""
    owner = controller_of(pod.metadata)
    key = None if owner is None else (owner.kind, pod.metadata.namespace, owner.name)
    visited: set[_Key] = set()
    while key is not None and key not in visited:
        yield key
        visited.add(key)
        key = owners.get(key)
