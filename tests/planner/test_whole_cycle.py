"""Whole decisions against a scheduler that takes one pod and one node at a time, on clusters full of contrivances."""

import random
from typing import Any

import pytest

import kplan
from kplan.engine.view import NodeView
from kplan.framework import plugin_cache
from kplan.framework.interface import CycleState, KeyedPlugin, Scope
from tests.oracle.clusters import ClusterMaker
from tests.oracle.comparison import like, of_document, of_oracle, of_record
from tests.oracle.scheduler import Scheduler
from tests.recorded import sample
from tests.scenarios import key, pending, scenarios

# Areas without devices; scenarios with volumes are passed over, as the oracle reads plain numbers of bytes only.
RECORDED = (
    "resources",
    "taints",
    "nodeaffinity",
    "ports",
    "images",
    "podaffinity",
    "spread",
    "defaultspread",
    "gates",
    "config",
    "sequence",
    "mixed",
    "preemption",
    "preemption_rules",
    "nominated",
    "settle",
    "sampling",
)

Case = dict[str, Any]


def expected(case: Case, *, sampling: bool = False, start_index: int = 0) -> list[dict[str, Any]]:
    oracle = Scheduler(case["objects"], case.get("config"), sampling=sampling, start_index=start_index)
    answers = oracle.plan(case["pods"], settle=case.get("settlePreemption", False))
    return [of_oracle(answer) for answer in answers]


def decided(case: Case, *, sampling: bool = False, start_index: int = 0) -> list[dict[str, Any]]:
    planner = kplan.Planner(
        kplan.load_snapshot(case["objects"]),
        kplan.load_scheduler_config(case.get("config")),
        sampling="as-configured" if sampling else "all",
        start_index=start_index,
        ties="name",
    )
    plan = planner.plan(case["pods"], settle_preemption=case.get("settlePreemption", False))
    return [of_document(placement.to_dict()) for placement in plan.placements]


def has_volumes(case: Case) -> bool:
    kinds = {"persistentVolumeClaim", "csi", "ephemeral"}
    pods = [obj for obj in case["objects"] if obj["kind"] == "Pod"]
    return any(kinds & volume.keys() for pod in pods for volume in pod["spec"].get("volumes", ()))


@pytest.mark.parametrize("area", RECORDED)
def test_the_oracle_decides_as_recorded(area: str) -> None:
    for case in scenarios(area):
        if not has_volumes(case):
            records = [of_record(record) for record in case["expect"]]
            answers = expected(case, sampling=area == "sampling")
            assert [like(*pair) for pair in zip(answers, records, strict=True)] == records, case["id"]


@pytest.mark.parametrize("seed", sample(range(160), 2))
def test_small_clusters(seed: int) -> None:
    case = ClusterMaker(seed, (2, 12)).make()
    assert decided(case) == expected(case)


@pytest.mark.parametrize("seed", range(15))
def test_large_clusters(seed: int) -> None:
    case = ClusterMaker(seed, (40, 90)).make()
    assert decided(case) == expected(case)


@pytest.mark.parametrize("seed", sample(range(20), 2))
def test_more_pods_on_a_node_than_go_sorts_by_insertion(seed: int) -> None:
    case = ClusterMaker(seed, (2, 8), most_pods=40).make()
    assert decided(case) == expected(case)


@pytest.mark.parametrize("seed", sample(range(60), 2))
def test_clusters_whose_pods_have_claims(seed: int) -> None:
    case = ClusterMaker(seed, (3, 15), with_volumes=True).make()
    assert decided(case) == expected(case)


@pytest.mark.parametrize("seed", sample(range(20), 2))
def test_searches_that_stop_early(seed: int) -> None:
    case = sampled(ClusterMaker(seed, (95, 160), most_pods=3).make(), seed)
    start = random.Random(seed).randrange(95)
    assert decided(case, sampling=True, start_index=start) == expected(case, sampling=True, start_index=start)


@pytest.mark.parametrize("seed", range(10))
def test_long_sequences_of_few_shapes(seed: int) -> None:
    maker = ClusterMaker(seed, (5, 25))
    case = maker.make()
    originals = [original for original in pending(case) if "nominatedNodeName" not in original["status"]]
    replicas = [maker.twin(originals[i % len(originals)]) for i in range(25)] if originals else []
    case["objects"] += replicas
    case["pods"] += [key(replica) for replica in replicas]
    assert decided(case) == expected(case)


@pytest.mark.parametrize("seed", sample(range(30), 2))
def test_long_sequences_of_pods_that_differ_a_little(seed: int) -> None:
    maker = ClusterMaker(seed, (5, 25))
    case = maker.make()
    originals = [original for original in pending(case) if "nominatedNodeName" not in original["status"]]
    replicas = [maker.twin(originals[i % len(originals)]) for i in range(25)] if originals else []
    for i, replica in enumerate(replicas):
        if i % 3:
            labels = replica["metadata"].setdefault("labels", {})
            labels["app"] = f"{labels.get('app', 'x')}-{i % 4}"
            replica["spec"]["containers"][0].setdefault("resources", {})["requests"] = {"cpu": f"{10 * i}m"}
    case["objects"] += replicas
    case["pods"] += [key(replica) for replica in replicas]
    assert decided(case) == expected(case)


@pytest.mark.parametrize("seed", sample(range(40), 2))
def test_pods_of_which_a_plugin_reads_the_same_get_the_same_answers(seed: int) -> None:
    case = ClusterMaker(seed, (3, 10)).make()
    session = kplan.Planner(kplan.load_snapshot(case["objects"])).session
    (framework,) = session.frameworks.values()
    infos = session.cluster.pods.infos
    cycles = [CycleState(info, pod, session.cluster) for pod, info in enumerate(infos)]
    for plugin in {plugin.name: plugin for plugin in [*framework.filter_plugins, *framework.score_plugins]}.values():
        if not isinstance(plugin, KeyedPlugin):
            continue
        answers: dict[Any, Any] = {}
        for cycle in cycles:
            answer = answer_alone(plugin, cycle, NodeView(session.cluster))
            assert answers.setdefault(plugin.reads(cycle.pod), answer) == answer, plugin.name


def answer_alone(plugin: Any, cycle: CycleState, nodes: NodeView) -> Any:
    """Ask a plugin at all its points, and read out what is kept of it for more pods than one."""
    result = plugin.pre_filter(cycle) if hasattr(plugin, "pre_filter") else None
    if plugin.scope is Scope.CLUSTER:
        return result if result is not None and result.for_shape else None
    is_filtered = hasattr(plugin, "filter") and (result is None or not (result.skip or result.status))
    verdicts = plugin.filter(cycle, nodes) if is_filtered else None
    skip = plugin.pre_score(cycle, nodes) if hasattr(plugin, "pre_score") else None
    scores = plugin.score(cycle, nodes).tolist() if hasattr(plugin, "score") and skip is None else None
    reasons = None
    if verdicts is not None:
        reasons = [
            [(reason.text, reason.code) for reason in verdicts.reasons_at(position)] for position in range(len(nodes))
        ]
    return result, reasons, skip, scores


@pytest.mark.parametrize("seed", range(3))
def test_hundreds_of_nodes_whatever_is_kept_and_in_whatever_order_objects_come(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = ClusterMaker(seed, (300, 400), most_pods=5).make()
    answers = decided(case)
    random.Random(seed).shuffle(case["objects"])
    assert decided(case) == answers

    monkeypatch.setattr(plugin_cache, "MAX_SHAPES", 0)
    assert decided(case) == answers


def sampled(case: Case, seed: int) -> Case:
    """Change how many nodes and candidates are enough."""
    draw = random.Random(seed)
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = case.get("config") or {**kind, "profiles": [{"schedulerName": "default-scheduler"}]}
    config["percentageOfNodesToScore"] = draw.choice((0, 5, 80, 100))
    profile = config["profiles"][0]
    if draw.random() < 0.4:
        profile["percentageOfNodesToScore"] = draw.choice((0, 70, 95))
    enough = {"minCandidateNodesPercentage": draw.choice((1, 10)), "minCandidateNodesAbsolute": draw.choice((1, 5))}
    args = {**kind, "kind": "DefaultPreemptionArgs", **enough}
    profile.setdefault("pluginConfig", []).append({"name": "DefaultPreemption", "args": args})
    return {**case, "config": config}
