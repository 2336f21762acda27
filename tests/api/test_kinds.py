from typing import get_args

import msgspec

from kplan.api.kinds import KINDS, kind_of, split_api_version, type_of
from kplan.api.meta import QuantityLike, structs_in, types_in, types_of


def test_groups_tell_kinds_apart_and_versions_do_not() -> None:
    assert kind_of("apps/v1", "Deployment") is not None
    assert kind_of("extensions/v1beta1", "Deployment") is None
    found = kind_of("resource.k8s.io/v1beta1", "ResourceSlice")
    assert found is not None
    assert found.reads("v1beta1")
    assert not found.reads("v1alpha3")


def test_every_kind_decodes_nothing_into_something_with_a_name() -> None:
    for kind in KINDS:
        obj = msgspec.json.decode(b'{"metadata":{"name":"x"}}', type=kind.type)
        assert obj.metadata.name == "x"
        assert type_of(obj) is kind


def test_structs_know_their_own_kind() -> None:
    for kind in KINDS:
        assert kind.type.kind == kind.name


def test_splitting_api_versions() -> None:
    assert split_api_version("v1") == ("", "v1")
    assert split_api_version("storage.k8s.io/v1") == ("storage.k8s.io", "v1")


def test_the_types_of_a_field_are_those_by_which_it_is_decoded_and_only_quantities_may_be_floats() -> None:
    waiting, known = [kind.type for kind in KINDS], set()
    while waiting:
        if (cls := waiting.pop()) in known:
            continue
        known.add(cls)
        for field in msgspec.structs.fields(cls):
            kinds = list(types_in(field.type))
            assert list(types_of(cls)[field.name]) == kinds, f"{cls.__name__}.{field.name}"
            assert float not in kinds or set(kinds) >= set(get_args(QuantityLike)), f"{cls.__name__}.{field.name}"
            waiting += structs_in(kinds)
    assert len(known) > 100
