"""The base classes of all Kubernetes structs.

Structs have only the fields that scheduling reads. Attribute names are the JSON names in snake case; other fields are
skipped while decoding, and defaults are omitted while encoding.

The modules of structs do not import annotations from the future: msgspec would have to compile each of these texts at
every start.
"""

import typing
from collections.abc import Iterable, Iterator
from inspect import get_annotations
from typing import Annotated, Any

import msgspec

#: Integers of the API, within the range of Go's types.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: A quantity as in the object; :mod:`kplan.api.quantity` parses it.
QuantityLike = str | int | float

#: Resource name to quantity.
ResourceList = dict[str, QuantityLike]


class KubeStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all structs: immutable, by keyword, camelCase in JSON, defaults omitted, unknown fields ignored."""


def types_of(cls: type[msgspec.Struct], field: str) -> Iterator[Any]:
    """Yield the types that the type of a field consists of, as `types_in`."""
    annotations = (get_annotations(base) for base in cls.__mro__)
    return types_in(next(own[field] for own in annotations if field in own))


def types_in(kind: Any) -> Iterator[Any]:
    """Yield the types that a type consists of: ``dict[str, int] | None`` of str, int and None."""
    args = typing.get_args(kind)
    if not args:
        yield kind
    for arg in args:
        yield from types_in(arg)


def structs_in(kinds: Iterable[Any]) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs among types."""
    return (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct))
