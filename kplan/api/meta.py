"""The base classes of all structs of Kubernetes: objects, their metadata and label selectors (apimachinery meta/v1)."""

import typing
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

#: Integers of the API, within the range of Go's types.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
QuantityLike = str | int | float  #: a quantity as in the object; :mod:`kplan.api.quantity` parses it
ResourceList = dict[str, QuantityLike]  #: resource name to quantity
IntOrString = int | str  #: a number or a percentage, as in ``maxUnavailable``


class KubeStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all structs: immutable, by keyword, camelCase in JSON, defaults omitted, unknown fields ignored."""


@cache
def types_of(cls: type[msgspec.Struct]) -> dict[str, tuple[Any, ...]]:
    """Return each field with the types that its type consists of, as `types_in`."""
    annotated: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        annotated |= vars(base).get("__annotations__", {})
    if any(isinstance(kind, str) for kind in annotated.values()):  # texts have to be read, which takes longer
        annotated = {field.name: field.type for field in msgspec.structs.fields(cls)}
    return {name: tuple(types_in(kind)) for name, kind in annotated.items()}


def types_in(kind: Any) -> Iterator[Any]:
    """Yield the types that a type consists of: ``dict[str, int] | None`` of str, int and None."""
    args = typing.get_args(kind)
    if not args:
        yield kind
    for arg in args:
        yield from types_in(arg)


def structs_in(kinds: Iterable[Any]) -> Iterator[type[msgspec.Struct]]:
    return (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct))


class OwnerReference(KubeStruct, frozen=True):
    """An owner of an object; at most one owner is its controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class PlainMeta(KubeStruct, frozen=True):
    """Metadata of kinds whose annotations scheduling does not read: pods, nodes, workloads.

    Annotations are the bulk of many objects (``last-applied-configuration``), so they are not even decoded here.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        """The uid or, for a manifest without one, NAMESPACE/NAME."""
        return self.uid or self.key


class ObjectMeta(PlainMeta, frozen=True):
    """Metadata of kinds of which scheduling reads some annotations: volumes, claims, storage classes, CSI nodes."""

    annotations: dict[str, str] = {}


class ApiObject(KubeStruct, frozen=True):
    """Base of the kinds that an API server serves; `kind` is the name of the class, not a field of the object."""

    kind: ClassVar[str] = ""

    metadata: PlainMeta = PlainMeta()

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__


class Empty(KubeStruct, frozen=True):
    """An object of whose fields none is read: that it is there says all."""


class Condition(KubeStruct, frozen=True):
    type: str = ""
    status: str = ""


C = TypeVar("C", bound=Condition)


def condition_of(conditions: Iterable[C], kind: str) -> C | None:
    """Return the first condition of a type; None where there is none."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)


class Phase(KubeStruct, frozen=True):
    """The status of a namespace or a volume."""

    phase: str = ""


class LabelSelectorRequirement(KubeStruct, frozen=True):
    """One expression of a label selector; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(KubeStruct, frozen=True):
    """A label selector as written; :func:`kplan.api.labels.selector_from` compiles it."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class TypedObjectReference(KubeStruct, frozen=True):
    """A reference to an object by kind and name, as in ``targetRef``, ``claimRef`` and ``dataSourceRef``."""

    api_version: str = ""
    api_group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


def controller_of(metadata: PlainMeta) -> OwnerReference | None:
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None
