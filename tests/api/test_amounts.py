"""Quantities are found wherever the types have them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from kplan.api.kinds import KINDS
from kplan.errors import SnapshotError
from kplan.snapshot import load_snapshot
from kplan.snapshot.build import amounts_of
from tests.cli.commands import invoke

BAD = "no quantity"


def _samples(type_info: inspect.Type, seen: frozenset[type] = frozenset()) -> list[Any]:
    """Return values of a type, in JSON, each with one bad quantity at another place."""
    types = type_info.types if isinstance(type_info, inspect.UnionType) else (type_info,)
    names = {type(kind).__name__ for kind in types} - {"NoneType"}
    if names == {"StrType", "IntType", "FloatType"}:
        return [BAD]
    samples: list[Any] = []
    for kind in types:
        if isinstance(kind, inspect.StructType) and kind.cls not in seen:
            required = {field.encode_name: "x" for field in kind.fields if field.required}
            for field in kind.fields:
                inner = _samples(field.type, seen | {kind.cls})
                samples += [required | {field.encode_name: sample} for sample in inner]
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
            samples += [[sample] for sample in _samples(kind.item_type, seen)]
        elif isinstance(kind, inspect.DictType):
            samples += [{"cpu": sample} for sample in _samples(kind.value_type, seen)]
    return samples


OBJECTS = [
    (kind, sample | {"metadata": {"name": "x", "namespace": "default", "uid": "u"}})
    for kind in KINDS
    for sample in _samples(inspect.type_info(kind.type))
]


def test_there_are_quantities_in_many_kinds() -> None:
    assert len(OBJECTS) > 60
    assert {"Pod", "Node", "ResourceQuota", "ResourceSlice", "StatefulSet"} <= {kind.name for kind, _ in OBJECTS}


def test_each_is_refused_with_its_path_wherever_it_stands() -> None:
    for kind, sample in OBJECTS:
        obj = {"apiVersion": kind.api_version, "kind": kind.name} | sample
        with pytest.raises(SnapshotError, match="is not a quantity") as caught:
            load_snapshot([obj])
        (problem,) = caught.value.problems
        assert problem.json_path.startswith("$[0].")


def test_bad_amounts_in_the_status_of_a_pod_are_told_with_their_path(tmp_path: Path) -> None:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"containers": [{"name": "c"}]}
    pod["status"] = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1e"}}}]}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    refused = invoke("place", "shop/voucher-api", "--with", tmp_path / "pod.json")
    assert refused.exit_code == 2
    assert "$.status.containerStatuses[0].resources.requests.cpu" in refused.stderr
    assert "'1e' is not a quantity" in refused.stderr


def test_amounts_come_with_the_name_of_their_resource() -> None:
    node = msgspec.convert(
        {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1", "nvidia.com/gpu": 2}}}, KINDS[0].type
    )
    assert [tuple(amount) for amount in amounts_of(node)] == [
        ("$.status.capacity.cpu", "cpu", "1"),
        ("$.status.capacity['nvidia.com/gpu']", "nvidia.com/gpu", 2),
    ]
