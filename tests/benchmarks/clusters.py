"""Made-up clusters for the benchmarks: the same objects for the same arguments."""

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import objects
from tests.objects import HOSTNAME, Object

ZONE = "topology.kubernetes.io/zone"


def node(index: int, *, cpu: str = "32", memory: str = "128Gi", pods: str = "110") -> Object:
    """Return a node in one of three zones."""
    return objects.node(f"node-{index:05d}", cpu, memory, pods, labels={ZONE: f"zone-{index % 3}"})


def pod(name: str, *, memory: str = "512Mi", node_name: str | None = None, spec: Any = None, **fields: Any) -> Object:
    """Return a pod, running when it has a node; further fields are those of `tests.objects.pod`."""
    made = objects.pod(name, node_name, **{"cpu": "200m", **fields, **(spec or {})})
    made["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    if node_name:
        made["status"]["startTime"] = "2026-01-01T00:00:00Z"
    return made


def cluster(n_nodes: int, n_pods: int) -> list[Object]:
    """Return nodes, and running pods of fifty applications spread evenly over them."""
    draw = random.Random(1)  # the same cluster every time
    made = [node(index) for index in range(n_nodes)]
    made += [
        pod(
            f"run-{index:06d}",
            cpu=draw.choice(["100m", "500m", "1"]),
            memory=draw.choice(["256Mi", "1Gi", "2Gi"]),
            labels={"app": f"app-{index % 50}"},
            node_name=f"node-{index % n_nodes:05d}",
        )
        for index in range(n_pods)
    ]
    return made


def preferred(weight: int, app: str, key: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}


HARD, SOFT = objects.spread(ZONE, app="new"), objects.spread(HOSTNAME, "ScheduleAnyway", app="new")
KINDS: Mapping[str, Object] = {
    "plain requests": {},
    "topology spread (zone hard, host soft)": {
        "topologySpreadConstraints": HARD["topologySpreadConstraints"] + SOFT["topologySpreadConstraints"]
    },
    "required anti-affinity by host": objects.affinity("podAntiAffinity", HOSTNAME, app="new"),
    "preferred affinity and anti-affinity": {
        "affinity": {"podAntiAffinity": preferred(100, "new", HOSTNAME), "podAffinity": preferred(50, "app-7", ZONE)}
    },
}
"""The kinds of incoming pods for which the project has set itself goals: name -> what the pod spec adds."""
