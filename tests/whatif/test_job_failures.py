from typing import Any

import pytest

import kplan
from tests.simulation.clusters import Object, node
from tests.simulation.test_jobs import FAIL_JOB, IGNORE, job, pods_of, policy


def left(without: str, workload: Object) -> list[tuple[str, str]]:
    """Name the pods and their nodes when all has settled without a node or a pod of the three."""
    objects = [node("n0"), node("n1"), workload, *pods_of(workload, "n0", "n0", "n1")]
    settled = kplan.Planner(kplan.load_snapshot(objects)).changed(without=[without], settle=True)
    return sorted((pod.metadata.name, pod.spec.node_name) for pod in settled.snapshot.pods)


AGAIN = [("work-0-again1", "n1"), ("work-1-again1", "n1"), ("work-2", "n1")]


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"backoffLimit": 2}, AGAIN),
        ({"backoffLimit": 1}, []),
        ({"backoffLimit": 0, **policy(IGNORE)}, AGAIN),
        ({"backoffLimit": 9, **policy(FAIL_JOB)}, []),
        ({"backoffLimit": None, "completionMode": "Indexed", "backoffLimitPerIndex": 0}, [("work-2", "n1")]),
        ({"backoffLimit": None, "completionMode": "Indexed", "backoffLimitPerIndex": 1}, AGAIN),
    ],
)
def test_pods_that_are_lost_with_their_nodes_count_as_failures(
    spec: dict[str, Any], pods: list[tuple[str, str]]
) -> None:
    assert left("node/n0", job(**spec)) == pods


def test_a_deleted_pod_counts_as_a_failure_that_no_policy_for_disruptions_ignores() -> None:
    assert left("pod/default/work-0", job(backoffLimit=0, **policy(IGNORE))) == []
    assert len(left("pod/default/work-0", job(backoffLimit=1))) == 3
