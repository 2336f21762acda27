"""Lists of node shapes: what they mean, and everything that is wrong with one at once."""

from decimal import Decimal
from pathlib import Path

import pytest

import kplan
from kplan.capacity.shapes import MAX_LISTED, PricedShape, read_shapes
from kplan.errors import InputError
from tests.objects import node

LISTED = """
- name: small
  price: 0.1008
  cpu: 1930m
  memory: 6Gi
  gpus: 1
  resources: {ephemeral-storage: 80Gi}
  labels: {zone: a}
  taints: [{key: dedicated, value: ml, effect: NoSchedule}]
- like: a
  price: "2"
- like: a
  name: larger
  price: 3
  cpu: 8
  labels: {pool: b}
  taints: []
"""


def read(path: Path, text: str) -> list[PricedShape]:
    path.write_text(text)
    model = node("a")
    model["metadata"]["labels"]["pool"] = "a"
    model["spec"]["taints"] = [
        {"key": "t", "value": "v", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
    ]
    return read_shapes(path, kplan.load_snapshot([model]).node_by_name)


def test_what_is_written_becomes_nodes(tmp_path: Path) -> None:
    small, like, larger = read(tmp_path / "shapes.yaml", LISTED)

    assert (small.name, small.price, small.like) == ("small", Decimal("0.1008"), "")
    assert small.node.status.allocatable == {
        "pods": "110",
        "ephemeral-storage": "80Gi",
        "cpu": "1930m",
        "memory": "6Gi",
        "nvidia.com/gpu": 1,
    }
    assert small.node.metadata.labels == {"zone": "a"}
    assert [taint.key for taint in small.node.spec.taints] == ["dedicated"]
    assert (like.name, like.price, like.like) == ("a", Decimal(2), "a")
    assert like.node.metadata.labels == {"pool": "a"}
    assert [taint.key for taint in like.node.spec.taints] == ["t"]
    assert larger.node.status.allocatable == {"cpu": 8, "memory": "8Gi", "pods": "110"}
    assert (larger.node.metadata.labels, larger.node.spec.taints) == ({"pool": "b"}, ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        ("name: a", "no list of shapes"),
        ("[]", "no list of shapes"),
        ("- name: {a: b}\n  price: 1", "$[0].name"),
        ("- {name: a, price: 1, cpu: 1, cpu: 2, memory: 1}", "$[0].cpu: this field appears twice"),
        ("\n".join("- {like: a, price: 1}" for _ in range(MAX_LISTED + 1)), "at most 50 are compared"),
        ("- {like: a, price: '.nan'}", "is not a price"),
        ("- {like: a, price: 1, cpu: 99999999999999999999999}", "$[0].cpu"),
        ("a: [", "shapes.yaml"),
    ],
)
def test_what_is_no_list_of_shapes(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path / "shapes.yaml", text)
    assert problem in str(error.value)
