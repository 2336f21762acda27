"""The settings that every Kubernetes struct shares, and the base of the kinds that stand alone.

Structs hold only what scheduling reads. Attribute names are the JSON names in snake case; fields that are not listed
are skipped while decoding, and defaults are left out when encoding, so a struct written back is the part of the object
that decides.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

#: Integers of the API, refused where Go's own would overflow.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: A quantity as it stands in the object; :mod:`kplan.api.quantity` gives it a meaning.
QuantityLike = str | int | float

#: Resource name to quantity.
ResourceList = dict[str, QuantityLike]


class KubeStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all structs: immutable, by keyword, camelCase in JSON, defaults omitted, unknown fields ignored."""


class ApiObject(KubeStruct, frozen=True):
    """Base of the kinds that an API server serves by themselves.

    ``api_version`` and ``kind`` are facts about the class, not fields of the object.
    """

    api_version: ClassVar[str] = ""
    kind: ClassVar[str] = ""
