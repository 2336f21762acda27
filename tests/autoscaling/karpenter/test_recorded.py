"""kplan decides as Karpenter did: the same nodes, instance types, pods, victims and replacements."""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.api.quantity import parse
from kplan.autoscaling.karpenter.autoscaler import KarpenterAutoscaler
from kplan.autoscaling.karpenter.detail import provisioning_answer
from kplan.autoscaling.seam import PreparedCluster
from tests.objects import planner_of
from tests.recorded import IS_WHOLE

HERE = Path(__file__).parent
_CHOSEN = (HERE / "chosen.txt").read_text(encoding="utf-8").splitlines()
"""Cases that together run every line and meet every bound that some case does, each as ``KIND RELEASE NAME``."""
_RANDOM = "*"
in_parts = pytest.mark.parametrize(("version", "part"), [(v, (n, 3)) for v in ("1.13", "1.14") for n in range(3)])


@cache
def recorded(file: str) -> dict[str, str]:
    """Return the lines of a file by their names; decoding them all takes longer than trying a sample."""
    with lzma.open(HERE / f"{file}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return {line.split('"', 4)[3]: line for line in lines}


def cases(kind: str, version: str, part: tuple[int, int]) -> list[Any]:
    """Return cases of a release: what 1.14 answers otherwise, and what it was asked besides, has its own file."""
    files = [recorded(kind), *([recorded(f"{kind}-1.14")] if version == "1.14" else [])]
    every = list(dict.fromkeys(name for file in files for name in file))
    names = [name for name in every if IS_WHOLE or f"{kind} {version} {name}" in _CHOSEN]
    first, step = part
    told = [[json.loads(file[name]) for file in files if name in file] for name in names[first::step]]
    return [{**one[0], **one[-1], "version": version} for one in told]


def asked(case: dict[str, Any]) -> kplan.Planner:
    options = dict(case["options"])
    now = options.pop("now")
    karpenter = kplan.Karpenter(instance_types=case["instanceTypes"], options=options, version=case["version"])
    return planner_of(case["objects"], autoscaler=karpenter, now=now)


def provisioned(case: dict[str, Any]) -> dict[str, Any]:
    """Return what pending pods get, without what becomes of nodes, which takes four times as long to find."""
    base = asked(case)
    assert isinstance(base.followed, KarpenterAutoscaler)
    return provisioning_answer(base.followed._prepared(PreparedCluster(base.objects, base.session, base.now)))


def decided(case: dict[str, Any]) -> dict[str, Any]:
    detail = asked(case).nodes(full=True).to_dict()["detail"]
    assert isinstance(detail, dict)
    assert detail["version"] == case["version"]
    return detail


def claim(node: dict[str, Any]) -> dict[str, Any]:
    """Return a claim without what is drawn at random, and with its amounts as numbers."""
    launch = node.get("launch", {})
    optional = ("taints", "startupTaints", "expireAfter", "terminationGracePeriod", "cheapest")
    return {
        **{name: node[name] for name in ("nodePool", "pods", "requirements")},
        **{name: node.get(name) for name in optional},
        "instanceTypes": node.get("instanceTypes", []),
        "requests": {name: nanos for name, amount in node["requests"].items() if (nanos := parse(amount).nanos)},
        "labels": {key: value for key, value in node["labels"].items() if value != _RANDOM},
        "annotations": node.get("annotations", {}),
        "launch": {key: launch.get(key) for key in ("error", "instanceType", "price", "choices")},
        "createError": "createError" in node,
    }


def claims(answer: dict[str, Any], version: str) -> list[dict[str, Any]]:
    nodes = sorted(map(claim, answer["nodeClaims"]), key=lambda node: sorted(node["pods"]))
    if version != "1.13":  # of which only the set was recorded where the answer is that of 1.13
        nodes = [node | {"instanceTypes": sorted(node["instanceTypes"])} for node in nodes]
    return nodes


@in_parts
def test_pending_pods_get_the_nodes_that_karpenter_makes(version: str, part: tuple[int, int]) -> None:
    for case in cases("provisioning", version, part):
        made, expected = provisioned(case), case["expect"]

        assert claims(made, case["version"]) == claims(expected, case["version"])
        assert made["existing"] == expected["existing"]
        assert {pod: len(why) for pod, why in made["errors"].items()} == {
            pod: len(why) for pod, why in expected["errors"].items()
        }
        assert made.get("ignored", {}).keys() == expected.get("ignored", {}).keys()
        for part in ("overlays", "static", "nodePoolEvents"):
            assert made.get(part) == expected.get(part)


def command(one: dict[str, Any]) -> dict[str, Any]:
    replacements = [claim(node) | {"annotations": None} for node in one["replacements"]]
    return {**one, "replacements": sorted(replacements, key=str)}


def commands(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted((command(one) for one in outcome["commands"]), key=lambda one: str(one["candidates"]))


@in_parts
def test_nodes_go_and_stay_as_with_karpenter(version: str, part: tuple[int, int]) -> None:
    for case in cases("disruption", version, part):
        done, expected = decided(case)["disruption"], case["expect"]

        assert done["conditions"] == expected["conditions"]
        assert done["first"] == expected["first"]
        for name, outcome in expected["methods"].items():
            own = done["methods"][name]
            assert sorted(own["candidates"], key=str) == sorted(
                ({"node": one["node"], "cost": one["cost"]} for one in outcome["candidates"]), key=str
            )
            assert own["budgets"] == outcome["budgets"]
            assert commands(own) == commands(outcome)
            if "texts" not in case:
                assert events(own) == events(outcome)


def events(outcome: dict[str, Any]) -> dict[str, list[str]]:
    """Return the events about nodes, without those that a pool without instance types causes."""
    return {
        target: sorted(texts)
        for target, texts in outcome["events"].items()
        if not any(text.startswith("NoCompatibleInstanceTypes") for text in texts)
    }
