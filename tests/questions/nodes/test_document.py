"""The question for an autoscaler: its advice becomes a report."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

import kplan
from kplan.api.core import Node, NodeMeta
from kplan.api.time import to_micros
from kplan.autoscaling import settings
from kplan.autoscaling.seam import Advice, NewNode, NodeRemoval, PreparedCluster, reason_to_stay
from kplan.documents.nodes import AddedNode, AutoscalerName, RemovedNodes
from kplan.questions.nodes import Nodes
from kplan.snapshot import Snapshot
from tests.objects import node, planner_of, pod
from tests.schemas import assert_keeps_to_its_schema


class Generous:
    """Adds a node for every pending pod, removes one node, keeps another."""

    name: AutoscalerName = "karpenter"
    version = "1.0"
    source = "a test"
    usual_loops = (0, 60)

    def provision(self, cluster: PreparedCluster) -> Advice:
        pending = [pod.metadata.key for pod in cluster.snapshot.pods if not pod.spec.node_name]
        kind = AddedNode(
            name="", pool="general", instance_type="", zone="", capacity_type="", price=0.5, pods=(), options=()
        )
        facts = (replace(kind, name=f"new-{n}", pods=(key,)) for n, key in enumerate(pending))
        return Advice(adds=tuple(NewNode(node=Node(metadata=NodeMeta(name=one.name)), facts=one) for one in facts))

    def look(self, cluster: PreparedCluster, *, loops: Sequence[float]) -> Advice:
        gone = RemovedNodes(nodes=("n1",), reason="Empty", replacements=(), moves={}, saves=0.25)
        stays = {"n2": reason_to_stay("BlockedByPod", pod="default/a")}
        unhelped = {"default/x": {"general": ("too big",)}}
        added = self.provision(cluster).adds
        return Advice(
            adds=added,
            removes=(NodeRemoval(gone),),
            stays=stays,
            unhelped=lambda: unhelped,
            detail=lambda: {"now": cluster.now, "loops": list(loops)},
        )


def content_of(_settings: settings.Settings) -> list[object]:
    return []


def set_up(_settings: settings.Settings, _snapshot: Snapshot) -> Generous:
    return Generous()


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> kplan.Planner:
    monkeypatch.setattr(settings, "_MODULES", {kplan.Karpenter: __name__})
    snapshot = kplan.load_snapshot([node("n1"), node("n2"), pod("web", cpu="1")])
    return kplan.Planner(snapshot, autoscaler=kplan.Karpenter(), now="2026-01-15T12:00:00Z")


def test_the_advice_of_an_autoscaler_is_reported(planner: kplan.Planner) -> None:
    report = planner.nodes(full=True, loops=[0, 10])

    assert [(new.name, new.pool, new.pods, new.price) for new in report.adds] == [
        ("new-0", "general", ("default/web",), 0.5)
    ]
    assert report.removes[0].nodes == ("n1",)
    assert report.stays["n2"].pod == "default/a"
    assert report.unhelped == {"default/x": {"general": ("too big",)}}
    assert report.detail == {"now": 1768478400000000, "loops": [0, 10]}
    assert_keeps_to_its_schema(report.to_dict())


def test_a_changed_planner_follows_the_same_autoscaler_at_the_same_moment(planner: kplan.Planner) -> None:
    other = planner.changed(without=["pod/default/web"])
    assert other.nodes().adds == ()
    assert other.now == planner.now


def test_without_an_autoscaler_there_is_nobody_to_ask() -> None:
    with pytest.raises(kplan.UsageError, match="no autoscaler"):
        planner_of(node("n1")).nodes()


@pytest.mark.parametrize("loops", [[], [-1], [10, 0], [float("nan")], [float("inf")]])
def test_loops_are_times_in_ascending_order(planner: kplan.Planner, loops: list[float]) -> None:
    with pytest.raises(kplan.UsageError, match=r"ascending order|loops\[0\]: expected a number from 0"):
        planner.nodes(loops=loops)


def test_the_moment_of_a_question_is_a_time() -> None:
    with pytest.raises(kplan.UsageError, match="not a time"):
        planner_of(node("n1"), now="tomorrow")


def made_anew() -> kplan.Planner:
    """Return the planner of a cluster whose controllers have pods to make anew."""
    groups = Path(__file__).parents[3] / "fixtures/node-groups.yaml"
    planner = kplan.Planner("demo", autoscaler=kplan.ClusterAutoscaler(node_groups=groups))
    return planner.changed(without=["node/general-a-1", "node/general-a-2"])


def test_pods_that_are_made_while_the_cluster_settles_are_not_of_the_future() -> None:
    report = Nodes(settles=True, loops=None).answer(made_anew())
    assert {new.group for new in report.adds} == {"general-b", "gpu-b"}
    helped = {pod.rpartition("-")[0] for new in report.adds for pod in new.pods}
    assert {"batch/report-daily", "ml/train-ranking"} <= helped


def test_questions_about_a_cluster_that_settled_are_of_the_time_at_which_it_did() -> None:
    settled = made_anew().changed(settle=True)
    assert settled.now >= max(to_micros(pod.metadata.creation_timestamp or "") for pod in settled.snapshot.pods)
    assert settled.now >= made_anew().now > kplan.Planner("demo").now  # controllers wait before they make them anew
