"""What the API server does not take while manifests are applied, and what stands then."""

import copy
from typing import Any

import pytest

from kplan.course.carried_out import CarriedOut
from kplan.course.report import change_report
from kplan.course.simulation.timers import OF_SYNCS_OF_JOBS, FailedSyncs
from kplan.documents.change import Change, StepEvent, WorkloadChange, WorkloadState
from tests.objects import Object, deployment, head, node, planner_of, pod, quota, running, stateful_set

NODES = [node("n0", "8"), node("n1", "8")]
BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}


def namespace(name: str = "default", **labels: str) -> Object:
    return head("Namespace", name=name, labels=labels)


def with_pod(workload: Object, **fields: Any) -> Object:
    changed = copy.deepcopy(workload)
    changed["spec"]["template"]["spec"].update(fields)
    return changed


def roll_out(cluster: list[Object], *manifests: Object) -> CarriedOut:
    return planner_of(cluster).roll_out(list(manifests))


def only(change: CarriedOut) -> WorkloadChange:
    (found,) = change.workloads
    return found


INVALID = {"containers": [{"name": "c", "image": "app:1", "ports": [{"containerPort": 70000}]}]}
WORDS = (
    'Deployment.apps "web" is invalid: spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 70000:'
    " must be between 1 and 65535, inclusive"
)


def test_a_new_object_is_validated() -> None:
    change = roll_out(NODES, with_pod(deployment("web", 2), **INVALID))
    assert [(step.event, step.because) for step in change.steps] == [(StepEvent.REFUSED, WORDS)]
    assert (only(change).refused, change.after) == (WORDS, ())


def test_an_update_is_validated_as_it_is_merged_and_moves_nothing() -> None:
    web = deployment("web", 2)
    change = roll_out([*NODES, *running(web, ["n0", "n1"])], with_pod(web, **INVALID))
    assert [step.event for step in change.steps] == [StepEvent.REFUSED]
    assert only(change).refused == WORDS
    assert len(change.after) == 2


def test_all_that_is_wrong_with_an_update_is_told_with_what_may_not_change() -> None:
    web = deployment("web", 2)
    changed = with_pod(web, **INVALID)
    changed["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    refused = only(roll_out([*NODES, *running(web, ["n0", "n1"])], changed)).refused
    assert "must be between 1 and 65535" in refused
    assert "field is immutable" in refused
    assert refused.startswith('Deployment.apps "web" is invalid: [')


def test_what_was_wrong_before_is_not_held_against_an_update() -> None:
    web = with_pod(deployment("web", 2), **INVALID)
    changed = copy.deepcopy(web)
    changed["spec"]["replicas"] = 3
    change = roll_out([*NODES, *running(web, ["n0", "n1"])], changed)
    assert only(change).refused == ""
    assert only(change).change is Change.SCALE


def test_pods_that_security_forbids_hold_up_a_rollout() -> None:
    web = deployment("web", 2)
    cluster = [*NODES, namespace(**BASELINE), *running(web, ["n0", "n1"])]
    found = only(roll_out(cluster, with_pod(web, hostNetwork=True)))
    assert found.state is WorkloadState.STUCK
    assert 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in found.because


def test_pods_that_stand_alone_are_looked_at_as_well() -> None:
    change = roll_out(NODES, head("Pod", name="p") | {"spec": {"containers": [{"name": "c"}]}})
    assert only(change).refused == 'Pod "p" is invalid: spec.containers[0].image: Required value'
    assert [step.event for step in change.steps] == [StepEvent.REFUSED]


def test_an_object_in_a_namespace_that_is_not_there_is_refused() -> None:
    web = deployment("web", 2)
    web["metadata"]["namespace"] = "nowhere"
    assert only(roll_out([*NODES, namespace()], web)).refused == 'namespaces "nowhere" not found'


def test_quotas_count_replica_sets_that_deployments_make() -> None:
    one = quota("q", None, **{"count/replicasets.apps": "1"})
    change = roll_out([*NODES, one], deployment("first", 1), deployment("second", 1))
    assert [each.state for each in change.workloads] == [WorkloadState.COMPLETE, WorkloadState.STUCK]
    assert change.workloads[1].because.startswith('replicasets.apps "second-')
    assert "is forbidden: exceeded quota: q, requested: count/replicasets.apps=1" in change.workloads[1].because
    assert sum(step.event is StepEvent.REFUSED for step in change.steps) == 1


def test_pods_that_are_forbidden_fail_the_verdict() -> None:
    base = planner_of(*NODES, namespace(**BASELINE))
    change = base.roll_out([with_pod(deployment("web", 2), hostPID=True)])
    report = change_report(change)
    assert report.verdict.exit_code == 1
    assert report.verdict.because == ("Deployment/default/web: Refused",)


def test_policies_are_those_of_the_release_that_is_decided_as() -> None:
    web = deployment("web", 1)
    web["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = {"httpGet": {"host": "10.0.0.1", "port": 80}}
    older, newer = (planner_of(NODES, namespace(**BASELINE), kubernetes=version) for version in ("1.33", "1.34"))
    assert (older.roll_out([web]).workloads[0].because, older.pods([web])[0].refusal) == ("", "")
    assert "probe or lifecycle host" in newer.roll_out([web]).workloads[0].because
    assert "probe or lifecycle host" in newer.pods([web])[0].refusal


def test_what_holds_a_workload_up_is_a_step_once() -> None:
    web = with_pod(deployment("web", 2), nodeSelector={"nowhere": "at-all"})
    change = roll_out(NODES, web, web)
    stuck = [step for step in change.steps if step.event is StepEvent.STUCK]
    assert [(step.workload, step.pod) for step in stuck] == [("Deployment/default/web", only(change).pod)]
    assert stuck[0].because == only(change).because != ""


def test_a_drain_says_which_workloads_it_leaves_without_their_pods() -> None:
    small = [node("n0", "1"), node("n1", "1")]
    base = planner_of(*small, *running(deployment("web", 4), ["n0", "n1"]))
    for change in (base.drain(["n0"]), base.drain(["n0"], lost=True), base.drain(["n0"], rolling=True)):
        stuck = [step.workload for step in change.steps if step.event is StepEvent.STUCK]
        assert stuck == [one.key for one in change.workloads if one.state is WorkloadState.STUCK]
    assert [step.event for step in base.drain(["n0"]).steps][-1] is StepEvent.STUCK


def test_a_name_that_somebody_else_has_given_is_taken() -> None:
    change = roll_out([*NODES, pod("db-1", "n0")], stateful_set("db", 3))
    assert [(each.name, each.workload) for each in change.after] == [
        ("db-0", "StatefulSet/default/db"),
        ("db-1", "Pod/default/db-1"),
    ]
    assert (only(change).state, only(change).because) == (WorkloadState.STUCK, 'pods "db-1" already exists')


@pytest.mark.parametrize(
    ("applied", "n_taken"), [(deployment("web", 1), 1), (quota("few", None, pods="4"), 1), (quota("few", pods="5"), 2)]
)
def test_a_workload_that_a_quota_kept_short_before_takes_what_comes_free(applied: Object, n_taken: int) -> None:
    web, short = deployment("web", 2), deployment("short", 3)
    absent = ("short-h1-001", "short-h1-002")
    there = [obj for obj in running(short, ["n0"]) if obj["metadata"]["name"] not in absent]
    cluster = [*NODES, quota("few", "3", pods="3"), *running(web, ["n0", "n1"]), *there]
    change = roll_out(cluster, applied)
    workloads = [pod.workload for pod in change.after if pod.new]
    assert workloads == ["Deployment/default/short"] * n_taken


@pytest.mark.parametrize(
    ("n", "now", "expected"), [(1, 0.0, 0.005), (2, 0.0, 0.01), (3, 0.02, 0.06), (40, 0.0, 1000.0)]
)
def test_each_failure_doubles_the_wait_of_a_controller(n: int, now: float, expected: float) -> None:
    assert FailedSyncs(n, 0.0).until(now).following == pytest.approx(expected)
    assert FailedSyncs(n, 0.0, OF_SYNCS_OF_JOBS).until(now).following == min(2 ** (n - 1), 60)
