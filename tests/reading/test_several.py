"""Arguments that are one thing or several."""

from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.reading.arguments import listed
from tests.objects import deployment, node


@pytest.mark.parametrize("single", ["web.yaml", Path("web.yaml"), {"kind": "Pod"}, 5])
def test_a_single_thing_is_a_list_of_one(single: Any) -> None:
    assert listed(single) == [single]


def test_several_things_stay_as_they_are() -> None:
    assert listed(("a", "b")) == listed(iter(["a", "b"])) == ["a", "b"]


def test_questions_take_a_single_pod_node_manifest_or_change(tmp_path: Path) -> None:
    demo = kplan.Planner(kplan.load_snapshot("demo"))
    path = tmp_path / "web.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n")

    assert [placement.pod.name for placement in demo.plan("shop/voucher-api").placements] == ["voucher-api"]
    assert [*demo.odds("shop/voucher-api", runs=2).counts] == ["shop/voucher-api"]
    assert demo.drain("spot-a-1").steps == demo.drain(["spot-a-1"]).steps
    assert demo.changed(cordon="gpu-a-1").objects.node_by_name["gpu-a-1"].spec.unschedulable
    for manifest in (str(path), path, deployment("web", 1)):
        assert [pod.origin.name for pod in demo.pods(manifest)] == ["web"]
        assert demo.roll_out(manifest).steps == demo.roll_out([manifest]).steps
    assert [node.metadata.name for node in kplan.load_snapshot(node("a", "8")).nodes] == ["a"]


@pytest.mark.parametrize("pod", [5, None])
def test_what_is_no_pod_and_no_manifest_is_an_error_of_kplan(pod: Any) -> None:
    demo = kplan.Planner(kplan.load_snapshot("demo"))

    for question in (demo.place, demo.pods, demo.roll_out, kplan.load_snapshot):
        with pytest.raises(kplan.KplanError):
            question(pod)


def test_an_empty_path_is_not_the_present_directory() -> None:
    demo = kplan.Planner(kplan.load_snapshot("demo"))
    for question in (demo.pods, demo.roll_out, kplan.load_snapshot, lambda path: demo.changed(with_=path)):
        with pytest.raises(kplan.UsageError, match="an empty path"):
            question("")
