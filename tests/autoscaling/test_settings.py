"""The files that settings name are read once, whatever becomes of the cluster."""

import json
import pickle
from pathlib import Path

import pytest

import kplan
from tests.autoscaling.karpenter.test_autoscaler import TYPES

GROUPS = {"nodeGroups": [{"name": "a", "maxSize": 3, "nodes": ["general-a-1"], "price": 2}]}


@pytest.mark.parametrize("name", ["groups.json", "types.json"])
def test_a_changed_cluster_does_not_read_the_file_again(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(json.dumps(GROUPS if name == "groups.json" else TYPES))
    settings: kplan.ClusterAutoscaler | kplan.Karpenter = (
        kplan.ClusterAutoscaler(node_groups=file) if name == "groups.json" else kplan.Karpenter(instance_types=file)
    )
    planner = kplan.Planner("demo", autoscaler=settings)
    source = planner.followed.source
    file.unlink()

    assert planner.changed(cordon=["general-a-1"]).followed.source == source == str(file)
    assert pickle.loads(pickle.dumps(planner)).followed.source == source
