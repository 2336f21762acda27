"""Pending pods that get new nodes a second, as Karpenter decides them: 100 instance types, one pool, no nodes yet."""

import random
import time
from collections.abc import Callable
from typing import Any

import clusters  # noqa: F401 - which finds the tests

import kplan
from kplan.api.time import to_micros
from kplan.autoscaling.karpenter.catalogue import read_catalogue
from kplan.autoscaling.karpenter.options import NEWEST, read_options
from kplan.autoscaling.karpenter.prepared import Prepared
from tests.objects import HOSTNAME, Object, affinity, head, spread

NOW = "2026-01-15T12:00:00Z"
#: Karpenter 1.13's own code in one process, two cores: pods a second of CPU time.
KARPENTER = {
    ("like pods", 500): 6_513,
    ("like pods", 2_000): 8_436,
    ("like pods", 5_000): 6_656,
    ("distinct pods", 500): 5_096,
    ("distinct pods", 2_000): 3_422,
    ("distinct pods", 5_000): 1_500,
    ("constrained pods", 500): 2_256,
    ("constrained pods", 2_000): 2_719,
}


def instance_types() -> list[Object]:
    """Return 100 instance types of three families, in three zones, on demand and spot."""
    ratios = {"c": 2, "s": 4, "m": 8}
    return [
        {
            "name": f"{family}{generation}-{cpus}x",
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"cpu": str(cpus), "memory": f"{cpus * ratio}Gi", "pods": "110"},
            "offerings": [
                {"zone": zone, "capacityType": capacity_type, "price": round(cpus * (0.04 + 0.004 * ratio) * share, 6)}
                for zone in ("a", "b", "c")
                for capacity_type, share in (("on-demand", 1 + generation / 100), ("spot", 0.4 + generation / 100))
            ],
        }
        for family, ratio in ratios.items()
        for generation in (5, 6, 7, 8)
        for cpus in (1, 2, 4, 8, 16, 32, 48, 64, 96)
    ][:100]


def pool() -> Object:
    """Return a node pool that allows all of them."""
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    conditions = [{"type": name, "status": "True"} for name in ("ValidationSucceeded", "NodeClassReady", "Ready")]
    spec = {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}}
    return head("NodePool", name="default") | {"spec": spec, "status": {"conditions": conditions}}


def pod(number: int, cpu: int, memory: int, **spec: Any) -> Object:
    """Return a pending pod; cpu in thousandths, memory in MiB."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return head("Pod", name=f"p{number}", namespace="default", uid=f"u{number}", labels=_labels(number)) | {
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **spec},
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def _labels(number: int) -> dict[str, str]:
    return {"app": f"a{number % 50}"}


def _constrained(number: int, chance: random.Random) -> Object:
    labels = _labels(number)
    rules = spread("topology.kubernetes.io/zone", **labels)
    if number % 2:
        rules |= affinity("podAntiAffinity", HOSTNAME, **labels)
    return pod(number, chance.randint(50, 4_000), chance.randint(64, 8_192), **rules)


KINDS: dict[str, Callable[[int, random.Random], Object]] = {
    "like pods": lambda number, _: pod(number, 100, 256),
    "distinct pods": lambda number, chance: pod(number, chance.randint(50, 4_000), chance.randint(64, 8_192)),
    "constrained pods": _constrained,
}


def rate(kind: str, count: int) -> float:
    """Return pods a second of CPU time."""
    chance = random.Random(1)
    snapshot = kplan.load_snapshot([pool(), *(KINDS[kind](number, chance) for number in range(count))])
    entries, options = read_catalogue(instance_types()), read_options({})
    started = time.process_time()
    provisioned = Prepared(snapshot, entries, options, to_micros(NOW), NEWEST).provisioned
    seconds = time.process_time() - started
    assert not provisioned.errors
    return count / seconds
