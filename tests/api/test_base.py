from typing import get_args

import msgspec

from kplan.api.kinds import KINDS
from kplan.api.meta import QuantityLike, structs_in, types_in, types_of


def test_the_types_of_a_field_are_those_by_which_it_is_decoded_and_only_quantities_may_be_floats() -> None:
    waiting, known = [kind.type for kind in KINDS], set()
    while waiting:
        if (cls := waiting.pop()) in known:
            continue
        known.add(cls)
        for field in msgspec.structs.fields(cls):
            kinds = list(types_in(field.type))
            assert list(types_of(cls, field.name)) == kinds, f"{cls.__name__}.{field.name}"
            assert float not in kinds or set(kinds) >= set(get_args(QuantityLike)), f"{cls.__name__}.{field.name}"
            waiting += structs_in(kinds)
    assert len(known) > 100
