from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from kplan import snapshot as snapshot_room
from kplan.admission.defaults import default_pod
from kplan.admission.validation.pods import pod_errors
from kplan.api.core import Pod, requests_of
from kplan.api.labels import selector_from
from kplan.api.quantity import milli_value, value
from kplan.reading.items import read_items
from kplan.snapshot import Snapshot, load_snapshot


@pytest.fixture(scope="module")
def demo() -> Snapshot:
    return load_snapshot("demo")


def running(demo: Snapshot) -> list[Pod]:
    return [pod for pod in demo.pods if pod.spec.node_name and pod.status.phase == "Running"]


def test_it_is_as_large_as_promised(demo: Snapshot) -> None:
    assert len(demo.nodes) == 13
    assert len({node.metadata.labels["topology.kubernetes.io/zone"] for node in demo.nodes}) == 3
    assert 75 <= len(running(demo)) <= 90
    assert demo.warnings == ()
    assert demo.skipped == {}
    assert demo.source == "demo"


def test_nothing_in_it_would_be_refused(demo: Snapshot) -> None:
    whole = {pod.metadata.name: default_pod(msgspec.json.decode(msgspec.json.encode(pod))) for pod in demo.pods}
    for pod in whole.values():
        pod["metadata"].pop("ownerReferences", None)  # owners have no uids in the demo, since scheduling asks for none
    assert {name: errors for name, pod in whole.items() if (errors := list(pod_errors(pod)))} == {}


def test_no_node_holds_more_than_it_has(demo: Snapshot) -> None:
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in running(demo):
        for name, amount in requests_of(pod.spec).items():
            used[pod.spec.node_name][name] += amount.nanos
    for node in demo.nodes:
        for name, nanos in used[node.metadata.name].items():
            assert nanos <= milli_value(node.status.allocatable[name]) * 10**6, (node.metadata.name, name)


def test_budgets_count_what_is_there(demo: Snapshot) -> None:
    items = read_items(Path(snapshot_room.__file__).with_name("demo.json"), [])
    written = [item.value() for item in items if item.kind == "PodDisruptionBudget"]
    status_of = {budget["metadata"]["name"]: budget["status"] for budget in written}
    allowed = {}
    for budget in demo.pod_disruption_budgets:
        selector = selector_from(budget.spec.selector)
        matching = [
            pod
            for pod in running(demo)
            if pod.metadata.namespace == budget.metadata.namespace and selector.matches(pod.metadata.labels)
        ]
        status = status_of[budget.metadata.name]
        assert len(matching) == status["currentHealthy"], budget.metadata.name
        assert budget.status.disruptions_allowed == status["currentHealthy"] - status["desiredHealthy"]
        allowed[budget.metadata.name] = budget.status.disruptions_allowed
    assert 0 in allowed.values()
    assert any(allowed.values())


def test_owners_exist(demo: Snapshot) -> None:
    owners = {
        (kind, obj.metadata.namespace, obj.metadata.name)
        for kind, objects in (
            ("ReplicaSet", demo.replica_sets),
            ("StatefulSet", demo.stateful_sets),
            ("DaemonSet", demo.daemon_sets),
            ("Job", demo.jobs),
        )
        for obj in objects
    }
    for pod in running(demo):
        (owner,) = pod.metadata.owner_references
        assert (owner.kind, pod.metadata.namespace, owner.name) in owners


def test_there_is_something_special_of_every_sort(demo: Snapshot) -> None:
    taints = {taint.key for node in demo.nodes for taint in node.spec.taints}
    assert {"nvidia.com/gpu", "dedicated", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"} <= taints
    assert sum(node.spec.unschedulable for node in demo.nodes) == 1
    assert sum(value(node.status.allocatable.get("nvidia.com/gpu", 0)) for node in demo.nodes) == 8
    waiting = {pod.metadata.name: pod for pod in demo.pods if not pod.spec.node_name}
    assert set(waiting) == {"voucher-api", "flash-sale", "fine-tune", "llm-eval", "nightly-export"}
    assert waiting["nightly-export"].spec.scheduling_gates


def test_pods_of_daemon_sets_are_bound_to_their_nodes_as_their_controller_does_it(demo: Snapshot) -> None:
    pods = [pod for pod in running(demo) if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)]
    assert pods
    for pod in pods:
        required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        (field,) = required.node_selector_terms[0].match_fields
        assert (field.key, field.operator, list(field.values)) == ("metadata.name", "In", [pod.spec.node_name])
