import pytest

from kplan.config.args import VolumeBindingArgs, default_args
from kplan.config.loading import load_scheduler_config
from kplan.config.releases import reference, with_gates
from kplan.errors import ConfigError

GATES = {"StorageCapacityScoring": True}
FILE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": [{"utilization": 5, "score": 3}]}}]}],
}


def points(args: object) -> list[tuple[int, int]]:
    assert isinstance(args, VolumeBindingArgs)
    return [(point.utilization, point.score) for point in args.shape or ()]


def test_storage_is_scored_by_a_shape_where_its_gate_is_on() -> None:
    assert points(default_args("VolumeBinding", reference())) == []
    assert points(default_args("VolumeBinding", with_gates(reference(), GATES))) == [(0, 10), (100, 0)]
    assert points(load_scheduler_config(FILE, feature_gates=GATES).profiles[0].args["VolumeBinding"]) == [(5, 3)]


def test_a_shape_may_be_right_for_the_server_that_a_planner_will_know() -> None:
    assert points(load_scheduler_config(FILE).profiles[0].args["VolumeBinding"]) == [(5, 3)]
    with pytest.raises(ConfigError, match="unexpected field `shape`"):
        load_scheduler_config(FILE, kubernetes="1.36")
