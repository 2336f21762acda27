"""The base classes of all Kubernetes structs.

Structs have only the fields that scheduling reads. Attribute names are the JSON names in snake case; other fields are
skipped while decoding, and defaults are omitted while encoding.
"""

from __future__ import annotations

from typing import Annotated

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
