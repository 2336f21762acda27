import msgspec

from kplan.api.base import structs_in, structs_of
from kplan.api.kinds import KINDS


def test_the_names_in_an_annotation_are_the_structs_of_its_type() -> None:
    waiting, known = [kind.type for kind in KINDS], set()
    while waiting:
        if (cls := waiting.pop()) in known:
            continue
        known.add(cls)
        for field in msgspec.structs.fields(cls):
            structs = set(structs_in(field.type))
            assert set(structs_of(cls, field.name)) == structs, f"{cls.__name__}.{field.name}"
            waiting += structs
    assert len(known) > 100
