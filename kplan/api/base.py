"""The base classes of all Kubernetes structs.

Structs have only the fields that scheduling reads. Attribute names are the JSON names in snake case; other fields are
skipped while decoding, and defaults are omitted while encoding.
"""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
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


def annotation_of(cls: type[msgspec.Struct], field: str) -> tuple[str, Mapping[str, Any]]:
    """Return the annotation of a field as it is written, and the names that it may use."""
    owner = next(base for base in cls.__mro__ if field in vars(base).get("__annotations__", ()))
    return owner.__annotations__[field], vars(sys.modules[owner.__module__])


def structs_of(cls: type[msgspec.Struct], field: str) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that a field may hold: those that its annotation names.

    Evaluating the annotations of all structs takes longer than all decisions about a small cluster.
    """
    written, names = annotation_of(cls, field)
    for word in re.findall(r"\w+", written):
        yield from structs_in(names.get(word))


def structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that values of a type may be or hold at once."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    elif typing.get_origin(kind) in (types.UnionType, typing.Union, tuple, dict, typing.Annotated):
        for arg in typing.get_args(kind):
            yield from structs_in(arg)
