"""Manifests held against a cluster, and what comes of it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.api.core import WorkloadCondition
from kplan.api.workloads import JobStatus
from kplan.course.simulation.updates import DIRECTIVES_GATE, RESOURCES_GATE, forbidden_changes
from kplan.snapshot.own_file import save_snapshot
from tests.objects import (
    Object,
    daemon_set,
    deployment,
    head,
    job,
    node,
    owned_by,
    planner_of,
    quota,
    running,
    stateful_set,
)

NODES = ["n1", "n2"]


def test_a_job_that_selects_its_pods_itself_has_only_its_own_labels() -> None:
    own = job("batch", manualSelector=True, selector={"matchLabels": {"app": "batch"}})
    simulation = planner_of(node("n1", "8")).roll_out([own]).simulation
    infos = simulation.session.cluster.pods.infos
    assert [dict(infos[row].labels) for row, pod in simulation.pods.items() if pod.is_new] == [{"app": "batch"}]


def lean_snapshot(tmp_path: Path) -> kplan.Planner:
    """Return a planner for a file that holds only what scheduling reads."""
    path = tmp_path / "lean.json"
    objects = [*map(node, NODES), *running(deployment("web", 2), NODES)]
    save_snapshot(kplan.load_snapshot(json.loads(json.dumps(objects))), path)
    return kplan.Planner(kplan.load_snapshot(path))


@pytest.mark.parametrize(
    ("rollout", "change", "n_made"), [("auto", "none", 0), ("always", "rollout", 2), ("never", "none", 0)]
)
def test_of_a_lean_snapshot_what_cannot_be_seen_is_rolled_only_when_asked(
    tmp_path: Path, rollout: Any, change: str, n_made: int
) -> None:
    written = deployment("web", 2)
    written["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "value": "blue"}]
    found = lean_snapshot(tmp_path).roll_out([written], rollout=rollout)
    (workload,) = found.workloads
    assert workload.change == change
    assert any("env" in path for path in workload.unseen)
    assert sum(step.event == "created" for step in found.steps) == n_made


def test_rolling_never_still_makes_the_replicas_that_are_missing(tmp_path: Path) -> None:
    found = lean_snapshot(tmp_path).roll_out([deployment("web", 3, image="app:2")], rollout="never")
    assert [workload.change for workload in found.workloads] == ["scale"]
    assert sum(step.event == "created" for step in found.steps) == 1
    assert not any(step.event == "deleted" for step in found.steps)


def test_going_back_to_what_was_before_keeps_the_pods_that_still_have_it() -> None:
    first, second = stateful_set("db", 3), stateful_set("db", 3, "app:2")
    first["spec"]["podManagementPolicy"] = second["spec"]["podManagementPolicy"] = "Parallel"
    second["spec"]["template"]["spec"]["nodeSelector"] = {"nowhere": "at-all"}
    planner = planner_of(node("n1", "8"), node("n2", "8"))

    change = planner.roll_out([first, second, first])

    deleted = [step.pod for step in change.steps if step.event == "deleted"]
    assert deleted == ["default/db-2", "default/db-2"]
    assert change.workloads[0].state == "complete"


@pytest.mark.parametrize(
    ("minor", "gates", "events"),
    [
        ("1.36", {}, []),
        ("1.37", {}, []),
        ("1.37", {"StatefulSetRecreateStrategy": True}, ["deleted"] * 3 + ["created", "created", "created"]),
    ],
)
def test_recreate_is_accepted_behind_its_gate_and_deletes_all_pods_first(
    minor: str, gates: dict[str, bool], events: list[str]
) -> None:
    first, second = stateful_set("db", 3), stateful_set("db", 3, "app:2")
    second["spec"]["updateStrategy"] = {"type": "Recreate"}
    asked = planner_of(node("n1", "8"), kubernetes=minor, feature_gates=gates)
    change = asked.roll_out([first, second])
    assert [str(step.event) for step in change.steps if step.event in ("deleted", "created")][3:] == events
    refused = [workload.refused for workload in change.workloads if workload.refused]
    assert [words.endswith("must be 'RollingUpdate' or 'OnDelete'") for words in refused] == [True] * (not events)


def test_a_controller_without_the_gate_takes_a_stored_recreate_for_a_rolling_update() -> None:
    live, wanted = stateful_set("db", 3), stateful_set("db", 3, "app:2")
    live["spec"]["updateStrategy"] = wanted["spec"]["updateStrategy"] = {"type": "Recreate"}
    gates = {"StatefulSetRecreateStrategy": True}
    stored = planner_of(node("n1", "8"), kubernetes="1.37", feature_gates=gates).roll_out([live])
    assert not stored.workloads[0].refused

    change = planner_of(node("n1", "8"), live, kubernetes="1.37").roll_out([wanted])

    assert not change.workloads[0].refused


def test_a_revision_that_no_pod_has_is_told_about() -> None:
    wanted = stateful_set("db", 3, "app:2")
    wanted["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    live = {**wanted, "status": {"currentRevision": "db-a", "updateRevision": "db-b"}}
    change = planner_of(node("n1", "8"), live).roll_out([wanted])
    assert [each.code for each in change.warnings] == ["UnknownRevision"]
    assert len(change.after) == 3


def test_objects_that_come_with_workloads_are_judged_by_quotas() -> None:
    claim = head("PersistentVolumeClaim", name="data", namespace="default") | {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    }
    base = planner_of(node("n1", "8"), quota("q", None, persistentvolumeclaims="0"))
    change = base.roll_out([claim, deployment("web", 1)])
    assert [(each.code, each.object) for each in change.warnings] == [("Refused", "PersistentVolumeClaim/default/data")]
    assert [each.node for each in change.after] == ["n1"]


def test_a_pod_that_stays_pending_can_be_asked_about() -> None:
    wanted = deployment("web", 1)
    wanted["spec"]["template"]["spec"]["nodeSelector"] = {"nowhere": "at-all"}
    change = planner_of(node("n1", "8"), node("n2", "8")).roll_out([wanted])
    (pod,) = change.after

    found = change.placement(f"{pod.namespace}/{pod.name}").to_dict()

    assert {name: each["plugin"] for name, each in found["rejections"].items()} == dict.fromkeys(NODES, "NodeAffinity")
    with pytest.raises(kplan.NotFoundError, match="no pod default/other stays pending"):
        change.placement("default/other")


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_pods_of_a_workload_that_the_snapshot_does_not_hold_are_taken_over(kind: str) -> None:
    owners = owned_by(f"{kind}/web", "u")
    pods = [
        {**each, "metadata": {**each["metadata"], "name": f"web-{index}", "ownerReferences": owners}}
        for index, each in enumerate(running(deployment("web", 2), NODES)[2:])
    ]
    made = {
        "ReplicaSet": {**deployment("web", 2), "kind": "ReplicaSet"},
        "StatefulSet": stateful_set("web", 2),
        "DaemonSet": daemon_set("web"),
        "Job": job("web", 2),
    }[kind]
    base = planner_of(*map(node, NODES), *pods)

    change = base.roll_out([made])

    assert [step.pod for step in change.steps if step.pod] == []
    assert [(each.name, each.workload) for each in change.after] == [
        (f"web-{index}", f"{kind}/default/web") for index in range(2)
    ]
    assert [each.code for each in change.warnings] == ["UnseenWorkload"]


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("podManagementPolicy", "OrderedReady"),
        ("revisionHistoryLimit", 10),
        ("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}),
    ],
)
@pytest.mark.parametrize("is_live", [True, False])
def test_a_default_that_one_of_two_objects_spells_out_is_no_change(field: str, default: object, is_live: bool) -> None:
    plain, spelt = stateful_set("db", 2), stateful_set("db", 3)
    spelt["spec"][field] = default
    live, wanted = (spelt, plain) if is_live else (plain, spelt)
    change = planner_of(node("n1", "8"), live).roll_out([wanted])
    assert [(workload.change, workload.refused) for workload in change.workloads] == [("scale", "")]


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"securityContext": {"allowPrivilegeEscalation": False}}, "rollout"),
        ({"securityContext": {}}, "rollout"),
        ({"stdin": False, "resources": {}, "env": [], "workingDir": ""}, "none"),
    ],
)
def test_an_empty_value_is_a_change_where_it_is_stored(fields: Object, change: str) -> None:
    live, wanted = deployment("web", 1), deployment("web", 1)
    wanted["spec"]["template"]["spec"]["containers"][0] |= fields
    found = planner_of(node("n1", "8"), live).roll_out([wanted])
    assert [workload.change for workload in found.workloads] == [change]


def _indexed_job() -> dict[str, Any]:
    return job("batch", 2, completions=4, completionMode="Indexed") | {"status": {"active": 2}}


@pytest.mark.parametrize(
    ("live", "path", "value", "is_refused"),
    [
        (deployment("web", 2), ("strategy",), {"type": "Recreate"}, False),
        (deployment("web", 2), ("selector",), {"matchLabels": {"app": "other"}}, True),
        (deployment("web", 2), ("replicas",), 3, False),
        (stateful_set("db", 2), ("updateStrategy",), {"type": "OnDelete"}, False),
        (stateful_set("db", 2), ("updateStrategy",), {"type": "OnDelete", "rollingUpdate": {"partition": 1}}, True),
        (stateful_set("db", 2), ("serviceName",), "other", True),
        (daemon_set("log"), ("selector",), {"matchLabels": {"app": "other"}}, True),
        (daemon_set("log"), ("updateStrategy",), {"type": "OnDelete"}, False),
        (_indexed_job(), ("parallelism",), 1, False),
        (_indexed_job(), ("suspend",), True, False),
        (_indexed_job(), ("completions",), 5, True),
        (_indexed_job(), ("backoffLimit",), 9, False),
        (_indexed_job(), ("template", "spec", "priorityClassName"), "high", True),
        (_indexed_job(), ("template", "spec", "nodeSelector"), {"disk": "ssd"}, True),
    ],
)
def test_an_update_is_judged_alike_in_what_kubectl_printed_and_in_what_kplan_saved(
    live: dict[str, Any], path: tuple[str, ...], value: Any, is_refused: bool, tmp_path: Path
) -> None:
    """The one holds every field and lists, the other only what scheduling reads, and structs."""
    live = live | {"metadata": live["metadata"] | {"uid": "of-a-server"}}
    written = json.loads(json.dumps(live))
    *above, last = path
    part = written["spec"]
    for step in above:
        part = part[step]
    part[last] = value
    whole = kplan.load_snapshot(json.loads(json.dumps([*map(node, NODES), live])))
    save_snapshot(whole, tmp_path / "saved.json")

    planners = [kplan.Planner(snapshot) for snapshot in (whole, kplan.load_snapshot(tmp_path / "saved.json"))]

    refused = [[(found.name, found.refused) for found in asked.roll_out([written]).workloads] for asked in planners]
    assert refused[0] == refused[1]
    assert bool(refused[0][0][1]) == is_refused


NEW = JobStatus()
STARTED = JobStatus(start_time="2026-01-01T00:00:00Z", active=2)
PAUSED = JobStatus(start_time="2026-01-01T00:00:00Z", conditions=(WorkloadCondition("Suspended", "True"),))
TEMPLATE = {
    "metadata": {"labels": {"app": "batch"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
    },
}


def everything(_gate: str) -> bool:
    return True


def nothing(_gate: str) -> bool:
    return False


def job_spec(**spec: Any) -> Object:
    return {"parallelism": 2, "completions": 2, "template": copy.deepcopy(TEMPLATE), **spec}


def with_pod(spec: Object, **fields: Any) -> Object:
    changed = copy.deepcopy(spec)
    changed["template"]["spec"].update(fields)
    return changed


def fields_of(errors: list[str]) -> list[str]:
    return [error.partition(":")[0] for error in errors]


MUTABLE: list[Object] = [
    {"parallelism": 5},
    {"activeDeadlineSeconds": 60},
    {"backoffLimit": 1},
    {"suspend": True},
    {"ttlSecondsAfterFinished": 60},
    {"maxFailedIndexes": 1},
    {"podReplacementPolicy": "Failed"},
]

IMMUTABLE: list[Object] = [
    {"completions": 3},
    {"selector": {"matchLabels": {"foo": "bar"}}},
    {"completionMode": "Indexed"},
    {"podFailurePolicy": {"rules": [{"action": "Ignore"}]}},
    {"backoffLimitPerIndex": 1},
    {"managedBy": "example.com/foo"},
    {"successPolicy": {"rules": [{"succeededCount": 1}]}},
]


@pytest.mark.parametrize("change", IMMUTABLE, ids=lambda change: next(iter(change)))
def test_a_job_may_not_become_another(change: Object) -> None:
    (field,) = change
    (error,) = forbidden_changes("Job", job_spec(), job_spec(**change), NEW, everything)
    assert error.startswith(f"spec.{field}: Invalid value: ")
    assert error.endswith(": field is immutable")


def test_an_immutable_selector_is_quoted_as_go_writes_it() -> None:
    other = {"matchExpressions": [{"operator": "Exists", "key": "k"}], "matchLabels": {"b": "2", "a": "1"}}
    (error,) = forbidden_changes("DaemonSet", {"selector": {}}, {"selector": other}, NEW, everything)
    assert '{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"k","operator":"Exists"}]}' in error


def test_an_indexed_job_grows_and_shrinks_as_a_whole() -> None:
    before = job_spec(completionMode="Indexed")
    same = job_spec(completionMode="Indexed", completions=4, parallelism=4)
    other = job_spec(completionMode="Indexed", completions=4, parallelism=3)
    assert forbidden_changes("Job", before, same, STARTED, everything) == []
    assert forbidden_changes("Job", before, other, STARTED, everything) == [
        "spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"
    ]


TERM = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
REQUIRED: Object = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
DIRECTIVES: list[Object] = [
    {"nodeSelector": {"a": "b"}},
    {"tolerations": [{"key": "a", "operator": "Exists"}]},
    {"schedulingGates": [{"name": "a"}]},
    {"affinity": {**TEMPLATE["spec"]["affinity"], "nodeAffinity": REQUIRED}},
]


@pytest.mark.parametrize("change", DIRECTIVES, ids=lambda change: next(iter(change)))
def test_where_pods_may_go_can_change_while_a_job_is_suspended(change: Object) -> None:
    before = job_spec(suspend=True)
    after = with_pod(before, **change)
    active = forbidden_changes("Job", job_spec(), with_pod(job_spec(), **change), NEW, everything)
    assert fields_of(active) == ["spec.template"]
    assert forbidden_changes("Job", before, after, NEW, nothing) == []
    assert forbidden_changes("Job", before, after, NEW, everything) == []
    assert forbidden_changes("Job", before, after, PAUSED, everything) == []
    assert fields_of(forbidden_changes("Job", before, after, PAUSED, nothing)) == ["spec.template"]
    assert fields_of(forbidden_changes("Job", before, after, STARTED, everything)) == ["spec.template"]


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_labels_and_annotations_change_with_them(part: str) -> None:
    before, after = job_spec(suspend=True), job_spec(suspend=True)
    after["template"] = {**after["template"], "metadata": {part: {"app": "job", "rank": "high"}}}
    assert forbidden_changes("Job", before, after, NEW, nothing) == []
    assert fields_of(forbidden_changes("Job", before, after, STARTED, nothing)) == ["spec.template"]


def test_other_affinity_and_other_images_stay_even_then() -> None:
    before = job_spec(suspend=True)
    for change in ({"affinity": None}, {"restartPolicy": "OnFailure"}):
        after = with_pod(before, **change)
        assert fields_of(forbidden_changes("Job", before, after, NEW, nothing)) == ["spec.template"]
        assert fields_of(forbidden_changes("Job", before, after, NEW, everything)) == ["spec.template.spec"]


def test_what_containers_ask_for_can_change_while_a_job_is_suspended() -> None:
    before, after = job_spec(suspend=True), job_spec(suspend=True)
    after["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    renamed = copy.deepcopy(after)
    renamed["template"]["spec"]["containers"][0]["name"] = "other"
    assert forbidden_changes("Job", before, after, NEW, lambda gate: gate == RESOURCES_GATE) == []
    other_gate = forbidden_changes("Job", before, after, NEW, lambda gate: gate == DIRECTIVES_GATE)
    assert fields_of(other_gate) == ["spec.template"]
    assert fields_of(forbidden_changes("Job", before, renamed, NEW, everything)) == ["spec.template.spec"]


def _term(*values: str) -> Object:
    expressions = [{"key": "a", "operator": "In", "values": [value]} for value in values]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


GATES = {"schedulingGates": [{"name": "a"}]}
TOLERATION = {"key": "a"}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ({}, {"containers": [{"name": "c", "image": "app:2"}]}, []),
        ({}, {"containers": [{"name": "c", "image": "app:1", "ports": [{"containerPort": 80}]}]}, ["spec"]),
        (GATES, {}, []),
        (GATES, {"schedulingGates": [{"name": "a"}, {"name": "b"}]}, ["spec.schedulingGates[1].name"]),
        ({}, {"nodeSelector": {"a": "b"}}, ["spec"]),
        ({"activeDeadlineSeconds": 9}, {"activeDeadlineSeconds": 10}, ["spec.activeDeadlineSeconds"]),
        ({"activeDeadlineSeconds": 9}, {}, ["spec.activeDeadlineSeconds"]),
        ({"tolerations": [TOLERATION, {"key": "node.kubernetes.io/not-ready"}]}, {"tolerations": [TOLERATION]}, []),
        ({}, {"terminationGracePeriodSeconds": 1}, ["spec"]),
        ({"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}, []),
        (GATES, {"nodeSelector": {"a": "b"}, "affinity": _term("b")}, []),
        ({**GATES, "nodeSelector": {"a": "b"}}, {**GATES, "nodeSelector": {"c": "d"}}, ["spec.nodeSelector"]),
        ({**GATES, "affinity": _term("b")}, {**GATES, "affinity": _term("b", "c")}, []),
        ({**GATES, "affinity": _term("b")}, {**GATES, "affinity": _term("c")}, [f"{TERMS}[0]"]),
        ({**GATES, "affinity": _term("b")}, GATES, [TERMS]),
        (GATES, {**GATES, "affinity": {"podAffinity": {}}, "hostname": "h"}, ["spec"]),
    ],
)
def test_of_a_pod_its_images_may_change_and_of_a_gated_one_its_nodes(
    before: Object, after: Object, fields: list[str]
) -> None:
    old, new = ({"containers": [{"name": "c", "image": "app:1"}], **spec} for spec in (before, after))
    assert fields_of(forbidden_changes("Pod", old, new, None, everything)) == fields
