"""Names of pods and workloads as people write them: NAMESPACE/POD, KIND/NAME or KIND/NAMESPACE/NAME."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kplan.api.references import PodKey, object_name
from kplan.errors import UsageError
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.snapshot.model import Snapshot
from kplan.subjects.workload_pods import kind_named, pods_of

_POD = "Pod"


class Named(NamedTuple):
    """A pod or a workload that an argument names."""

    kind: str  #: ``Pod``, or a kind of `kplan.api.kinds.POD_MAKERS`
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


def object_named(text: str, namespace: str, snapshot: Snapshot) -> Named:
    """Return the pod or the workload that a text names.

    A pod takes precedence: ``rs/web`` is the pod ``web`` of the namespace ``rs`` where it exists. Raises UsageError
    when the text names neither.

    Parameters
    ----------
    namespace : namespace where the text names none; empty for ``default``
    """
    namespace = namespace or DEFAULT_NAMESPACE
    if text in snapshot.pod_by_key:
        return Named(_POD, *PodKey.parse(text))
    first, *rest = text.split("/")
    kind = kind_named(first) if rest else ""
    if len(rest) == 1 and not kind:
        return Named(_POD, first, rest[0])
    if not rest:
        return Named(_POD, namespace, first)
    if not kind or len(rest) > 2:
        raise UsageError(
            f"{text} names neither a pod nor a workload", hint="name it as NAMESPACE/POD or KIND/NAMESPACE/NAME"
        )
    return Named(kind, rest[0] if len(rest) == 2 else namespace, rest[-1])


def workloads_named(what: Sequence[str], namespace: str, snapshot: Snapshot) -> set[str]:
    """Return the workloads that arguments name, as KIND/NAMESPACE/NAME; parameters and errors as `object_named`."""
    named = (object_named(text, namespace, snapshot) for text in what)
    return {object_name(*name) for name in named if name.kind != _POD}


def pods_named(names: Sequence[str], namespace: str, snapshot: Snapshot) -> list[str]:
    """Return the pods that texts name, as NAMESPACE/NAME, none twice; parameters and errors as `object_named`."""
    keys: list[str] = []
    for text in names:
        named = object_named(text, namespace, snapshot)
        keys += [named.key] if named.kind == _POD else pods_of(snapshot, *named)
    return list(dict.fromkeys(keys))
