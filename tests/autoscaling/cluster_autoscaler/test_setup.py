"""Groups, flags and prices: what can be said, and what is said about mistakes."""

from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.autoscaling.cluster_autoscaler.setup import Setup, setup_of
from tests.objects import head, node

NODES = [node("general-1"), node("general-2"), node("gpu-1")]


def set_up(
    groups: list[dict[str, Any]] | str, *more: dict[str, Any], options: dict[str, Any] | None = None, **settings: Any
) -> Setup:
    snapshot = kplan.load_snapshot([*NODES, *more])
    return setup_of(kplan.ClusterAutoscaler(node_groups=groups, options=options or {}, **settings), snapshot)


def test_a_group_has_the_nodes_that_it_names_or_selects() -> None:
    labelled = node("pool-1")
    labelled["metadata"]["labels"]["pool"] = "a"
    setup = set_up(
        [
            {"name": "general", "minSize": 1, "maxSize": 5, "nodes": ["general-1", "general-2"]},
            {"name": "pool", "maxSize": 3, "nodes": {"selector": {"pool": "a"}}},
        ],
        labelled,
    )
    assert [(group.name, group.nodes, group.target) for group in setup.groups] == [
        ("general", ("general-1", "general-2"), 2),
        ("pool", ("pool-1",), 1),
    ]


def test_sizes_and_nodes_of_a_file_that_are_hardly_meant_are_told(tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text("- {name: a, maxSize: 3, nodes: [typo], targetSize: 5}\n")
    assert [one.message.removeprefix(f"{file} (document 1, line 1): ") for one in set_up(str(file)).warnings] == [
        "$.nodeGroups[0].nodes: typo is no node of the cluster: it counts as one that is not ready",
        "$.nodeGroups[0].targetSize: 5 is above maxSize 3",
    ]


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("max-nodes-total", "many"), ("expander", "cheapest"), ("scale-down-unneeded-time", "ten minutes"),
        ("cores-total", "100"), ("gpu-total", "nvidia"), ("scale-up-from-zero", "perhaps"),
        ("scale-down-utilization-threshold", "nan"),
    ],
)  # fmt: skip
def test_a_flag_that_cannot_be_read_is_an_error(flag: str, value: str) -> None:
    with pytest.raises(kplan.UsageError, match=f"--{flag}"):
        set_up([], options={flag: value})


def test_a_flag_that_is_not_followed_is_a_warning() -> None:
    setup = set_up([], options={"capacity-buffer-pod-injection-enabled": True, "v": 4, "max-node-total": 3})
    assert [(warning.object, warning.message) for warning in setup.warnings] == [
        ("--capacity-buffer-pod-injection-enabled", "kplan does not follow this flag"),
        ("--max-node-total", "kplan does not follow this flag; did you mean --max-nodes-total?"),
    ]


@pytest.mark.parametrize("price", ["cheap", -1, float("nan"), True])
def test_prices_are_numbers(price: object) -> None:
    with pytest.raises(kplan.UsageError, match="price of m5"):
        set_up([], prices={"instanceTypes": {"m5": price}})


def config_map(priorities: str, namespace: str = "kube-system") -> dict[str, Any]:
    own = head("ConfigMap", name="cluster-autoscaler-priority-expander", namespace=namespace)
    return own | {"data": {"priorities": priorities}}


@pytest.mark.parametrize("priorities", ["", "- a", "10: a", "10: ['(']", "a: [b", "x: [a]", "true: [a]"])
def test_priorities_that_cannot_be_read_are_a_warning(priorities: str) -> None:
    elsewhere = config_map("5: [true, 7, null]\n6:", "elsewhere")
    setup = set_up([], elsewhere, config_map(priorities))
    assert setup.priorities is None
    assert [warning.code for warning in setup.warnings] == ["PriorityConfigMapInvalid"]
    assert set_up([], elsewhere).priorities == {5: ("true", "7", ""), 6: ()}
    assert set_up([], elsewhere, options={"namespace": "kube-system"}).priorities is None


def test_other_config_maps_are_not_even_read() -> None:
    other = head("ConfigMap", name="secrets") | {"data": {"status": "hush"}}
    assert kplan.load_snapshot([*NODES, other]).config_maps == ()


def test_a_device_with_no_amount_is_named_with_its_place() -> None:
    devices = [{"name": "one", "capacity": {"memory": {"value": "much"}}}]
    slices = [{"driver": "gpu.example.com", "pool": {"name": "node"}, "devices": devices}]
    with pytest.raises(kplan.InputError, match=r"\$\[0\]\.resourceSlices\[0\]\.spec\.devices\[0\]\.capacity\.memory"):
        set_up([{"name": "g", "maxSize": 3, "template": {"like": "gpu-1"}, "resourceSlices": slices}])
