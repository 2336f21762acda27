"""Catalogues are read in kwok's format, and refused with the place of each mistake."""

from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.autoscaling.karpenter.catalogue import MOST_TYPES, plain_entries, read_catalogue

TYPE: dict[str, Any] = {
    "name": "m.large",
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "2", "memory": "8Gi"},
    "offerings": [{"zone": "a", "capacityType": "spot", "price": 0.1}],
}


TWO_ZONES = {"zone": "b", "Requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}


def test_offerings_may_be_written_in_short() -> None:
    (entry,) = read_catalogue([TYPE])

    assert plain_entries([entry])[0]["offerings"] == [
        {
            "Requirements": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            ],
            "Price": 0.1,
            "Available": True,
        }
    ]


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ({"name": ""}, "$[0].name", "needs a name"),
        ({"name": "two words"}, "$[0].name", "is no name"),
        ({"resources": {"cpu": "2"}}, "$[0].resources", "no memory"),
        ({"resources": {"cpu": "2", "memory": "lots"}}, "$[0].resources", "is not a quantity"),
        ({"resources": {"cpu": "-2", "memory": "1Gi"}}, "$[0].resources", "is negative"),
        ({"resources": {"cpu": "9e30", "memory": "1Gi"}}, "$[0].resources", "more than Kubernetes can count"),
        ({"overhead": {"kubeReserved": {"cpu": "x"}}}, "$[0].overhead.kubeReserved", "is not a quantity"),
        ({"labels": {"a b": "c"}}, "$[0].labels", "label 'a b'"),
        ({"offerings": [TWO_ZONES]}, "$[0].offerings[0]", "one requirement on topology.kubernetes.io/zone at most"),
        ({"offerings": [{"zone": "a", "capacityType": "spot", "price": -1}]}, "offerings[0].Price", "is negative"),
        ({"offerings": [{"zone": "a", "capacityType": "spot", "cost": 1}]}, "offerings[0].cost", "unknown field"),
        ({"architectur": "amd64"}, "$[0].architectur", "did you mean architecture?"),
        ({"offerings": "everywhere"}, "$[0].offerings", ""),
    ],
)
def test_a_mistake_is_pointed_at(change: dict[str, Any], place: str, message: str) -> None:
    with pytest.raises(kplan.InputError) as refused:
        read_catalogue([TYPE | change])

    problems = refused.value.problems
    assert any(place in problem.json_path and message in f"{problem.message} {problem.hint}" for problem in problems)


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "types.yaml"
    file.write_text("- name: a\n  resources: {cpu: 1, memory: x}\n- name: a\n  resources: {}\n")

    with pytest.raises(kplan.InputError) as refused:
        read_catalogue(file)

    lines = {problem.line for problem in refused.value.problems}
    assert {2, 4} <= lines


def test_two_types_of_one_name_and_endless_lists_are_refused() -> None:
    with pytest.raises(kplan.InputError, match=r"second instance type is called m\.large"):
        read_catalogue([TYPE, TYPE])
    with pytest.raises(kplan.InputError, match="at most"):
        read_catalogue([TYPE] * (MOST_TYPES + 1))


@pytest.mark.parametrize("content", ["{}", "[7]", "name: x"])
def test_other_content_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "types.yaml"
    file.write_text(content)

    with pytest.raises(kplan.InputError):
        read_catalogue(file)
