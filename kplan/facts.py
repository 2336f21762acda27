"""What all rooms tell: the base of documents, warnings, kinds that are missing, changes on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, UnsetType

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Percent = Annotated[float, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]

T = TypeVar("T")


class DerivedOnce(Generic[T]):
    """As `functools.cached_property`, but without its lock, which costs more than most of what is derived."""

    def __init__(self, derive: Callable[[Any], T]) -> None:
        self._derive = derive
        self._name = derive.__name__
        self.__doc__ = derive.__doc__

    def __get__(self, owner: Any, kind: type) -> T:
        value = owner.__dict__[self._name] = self._derive(owner)
        return value


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all structs: immutable, camelCase in JSON; fields that are not known are passed over."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form as plain values, all fresh."""
        fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return fields


LOST_NODE_STAYS = "LostNodeStays"  #: code of the warning about a node that does not answer, on which pods stay


class InputWarning(Document, frozen=True):
    """Something that does not stop the answer but may change it."""

    code: str  #: a stable word for this sort of warning
    object: str  #: what it is about, such as Node/n1
    message: str
    #: file, line: where a manifest has the object, or the field; absent for what comes from no manifest
    file: str | UnsetType = UNSET
    line: Positive | UnsetType = UNSET


class MissingKind(Document, frozen=True):
    """A kind of object that could not be read."""

    resource: str
    reason: str
    blinds: tuple[str, ...] = ()  #: plugins that decide without these objects
    namespaces: tuple[str, ...] | UnsetType = UNSET  #: those that the reason names; absent where it names none


ChangeWord = Literal[
    "with", "without", "add-nodes", "cordon", "uncordon", "scale", "resize", "taint", "budget", "quota", "settle"
]
CHANGES: tuple[ChangeWord, ...] = get_args(ChangeWord)


class RequestSum(Document, frozen=True, kw_only=True):
    """How much of a resource pods request together, before a change and after it; quantities in Kubernetes form."""

    before: str
    after: str


class ClusterChange(Document, frozen=True, kw_only=True):
    """A change to the cluster, made on paper before the question is answered."""

    #: what was done: with, without, add-nodes, cordon, uncordon, scale, resize, taint, budget, quota, or settle
    change: ChangeWord
    what: str  #: the argument of the flag; a file for with, empty for settle
    count: Count = 0  #: how many objects were added, replaced, removed or changed, dependent ones included
    objects: tuple[str, ...] = ()  #: the first of them, as KIND/NAME or KIND/NAMESPACE/NAME
    #: of resize: resource -> the requests of the pods that have a recommendation, of those that had a node
    requests: dict[str, RequestSum] | UnsetType = UNSET


class QuotaUse(Document, frozen=True, kw_only=True):
    """A resource of which a quota has too little left for one more pod; quantities in Kubernetes form."""

    resource: str
    requested: str
    used: str
    hard: str


class LimitChange(Document, frozen=True):
    """A limit of a NodePool or a ResourceQuota, and the higher one."""

    resource: str
    old: str
    to: str


class QuotaRaise(Document, frozen=True):
    """The limits of a quota, NAMESPACE/NAME, with which it takes all pods that are missing in its namespace."""

    quota: str
    limits: tuple[LimitChange, ...]


class NodesLeftOut(Document, frozen=True, kw_only=True):
    """Nodes on which a DaemonSet wants no pod, those with one reason together."""

    nodes: tuple[str, ...]  #: by name
    conditions: tuple[str, ...] = ()  #: of its node selector and affinity, which these nodes do not meet
    meant: tuple[str, ...] = ()  #: KEY=VALUE of labels that nodes have, probably meant by conditions that none meets
    taints: tuple[str, ...] = ()  #: KEY=VALUE:EFFECT of those that its pods do not tolerate


class MissingName(Document, frozen=True):
    """An object that pods name, and that does not exist; `nearest` exists, and is probably meant, or is empty."""

    kind: Literal["PriorityClass", "RuntimeClass", "ServiceAccount", "ConfigMap", "Secret"]
    name: str
    nearest: str = ""

    @property
    def field(self) -> str:
        """The field of a pod's spec by which it names such an object alone, such as ``priorityClassName``."""
        return f"{self.kind[0].lower()}{self.kind[1:]}Name"


class RefusedPods(Document, frozen=True, kw_only=True):
    """Why the API server takes no more pods of a workload."""

    by: str = ""  #: what refuses them, such as ResourceQuota web/team; empty where it has no name
    uses: tuple[QuotaUse, ...] = ()  #: where a quota does
    message: str = ""  #: of the API server; empty where nothing tells it
    #: reason, since: what the condition ReplicaFailure says, which is more than that only of webhooks and policies
    reason: str = ""
    since: str | None = None
    #: the quotas that have to allow more; empty where none refuses them, or where that is not known
    raises: tuple[QuotaRaise, ...] = ()
    lacks: MissingName | UnsetType = UNSET  #: what has to exist for the pods, and does not


class UnmodelledFeature(msgspec.Struct, frozen=True):
    """A feature that an object uses and that kplan, or the reference scheduler with default gates, ignores."""

    object: str
    feature: str
    message: str
