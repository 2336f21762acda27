"""What an object says after a manifest was applied to it."""

from typing import Any

import pytest

import kplan
from kplan.workloads.merging import REPLACES, merged, removals, unseen_fields, without_dropped
from tests.objects import Object, head

LIVE: dict[str, Any] = {
    "replicas": 3,
    "template": {
        "metadata": {"labels": {"app": "web"}, "annotations": {"restartedAt": "then"}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [
                {
                    "name": "c",
                    "image": "web:1",
                    "imagePullPolicy": "IfNotPresent",
                    "resources": {"requests": {"cpu": "400m", "memory": "1Gi"}},
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "args": ["a", "b"],
                }
            ],
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        },
    },
}


def _manifest(**container: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "c", **container}]}}}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"replicas": 3},
        _manifest(image="web:1"),
        _manifest(resources={"requests": {"cpu": 0.4, "memory": "1024Mi"}}),
        _manifest(ports=[{"containerPort": 80}]),
        _manifest(args=["a", "b"], env=[], command=None),
        {"template": {"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}], "hostNetwork": False}}},
        {"template": {"metadata": {"labels": {"app": "web"}}}},
    ],
)
def test_what_the_live_object_says_already_is_nothing_new(wanted: dict[str, Any]) -> None:
    assert merged(LIVE, wanted) == LIVE


def test_a_field_that_differs_is_taken_over_and_the_rest_stays() -> None:
    found = merged(LIVE, _manifest(image="web:2"))
    container = found["template"]["spec"]["containers"][0]
    assert container == {**LIVE["template"]["spec"]["containers"][0], "image": "web:2"}
    assert LIVE["template"]["spec"]["containers"][0]["image"] == "web:1"


@pytest.mark.parametrize(
    "wanted",
    [
        {"template": {"spec": {"tolerations": []}}},
        {"template": {"spec": {"nodeSelector": {"pool": "x"}}}},
        {"template": {"spec": {"restartPolicy": None}}},
        _manifest(args=["a"]),
        _manifest(env=[{"name": "A", "value": "1"}]),
        _manifest(resources={"requests": {"cpu": "401m"}}),
    ],
)
def test_what_is_added_changed_or_taken_away_is_new(wanted: dict[str, Any]) -> None:
    assert merged(LIVE, wanted) != LIVE


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {"nodeSelector": {"disk": "ssd", "node-role.kubernetes.io/gpu": ""}}),
        ({}, {"securityContext": {"runAsNonRoot": False, "seccompProfile": {}}}),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]},
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
        ),
    ],
)
def test_empty_entries_of_maps_are_set_and_lists_without_names_replaced(live: Object, wanted: Object) -> None:
    assert merged(live, wanted) == wanted


def test_elements_with_names_are_merged_by_them() -> None:
    live = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    assert merged(live, {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}) == {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    }
    assert merged({"args": ["a"]}, {"args": ["a", "b"]}) == {"args": ["a", "b"]}
    assert merged({"env": ["A", {}]}, {"env": [{"name": "A"}]}) == {"env": [{"name": "A"}]}


@pytest.mark.parametrize(
    ("live", "applied", "wanted"),
    [("abc", "ba", "bac"), ("xab", "ab", "xab"), ("axb", "ab", "axb"), ("ab", "cab", "cab"), ("ab", "c", "cab")],
)
def test_elements_come_in_the_order_in_which_they_are_applied(live: str, applied: str, wanted: str) -> None:
    found = merged({"env": [{"name": name} for name in live]}, {"env": [{"name": name} for name in applied]})
    assert "".join(item["name"] for item in found["env"]) == wanted


def test_a_spread_that_is_no_longer_required_takes_the_place_of_that_which_was() -> None:
    hard, soft = ({"topologyKey": "zone", "whenUnsatisfiable": when} for when in ("DoNotSchedule", "ScheduleAnyway"))
    field = "topologySpreadConstraints"
    assert merged({field: [hard | {"maxSkew": 2}]}, {field: [soft]}) == {field: [soft | {"maxSkew": 2}]}
    assert merged({field: [hard]}, {field: [hard, soft]}) == {field: [hard, soft]}


def test_elements_are_deleted_and_lists_replaced_where_a_patch_says_so() -> None:
    live = {"env": [{"name": "A", "value": "1"}, {"name": "B"}], "ports": [{"containerPort": 80}]}
    patch = {"env": [{"$patch": "delete", "name": "A"}, {"name": "C"}], "ports": [REPLACES, {"containerPort": 81}]}
    assert merged(live, patch) == {"env": [{"name": "C"}, {"name": "B"}], "ports": [{"containerPort": 81}]}
    assert removals(patch) == {"env": patch["env"][:1], "ports": patch["ports"]}
    assert unseen_fields(patch, {"env": [{"name": "A"}, {"name": "C"}], "ports": [{}, {"containerPort": 81}]}) == []


def test_a_strategy_and_a_volume_source_keep_nothing_of_the_ones_before() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}
    assert merged({"strategy": rolling}, {"strategy": {"type": "Recreate"}}) == {"strategy": {"type": "Recreate"}}
    assert merged({"strategy": rolling}, {"strategy": {"type": "RollingUpdate"}}) == {"strategy": rolling}
    disk, claim = {"name": "d", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}
    assert merged({"volumes": [disk]}, {"volumes": [claim]}) == {"volumes": [claim]}


def test_what_was_applied_last_and_is_wanted_no_more_goes() -> None:
    live = {"a": 1, "b": {"c": 2, "d": 3}, "env": [{"name": "A"}, {"name": "B"}], "filled": True}
    last = {"a": 1, "b": {"c": 2}, "env": [{"name": "A"}, {"name": "B"}]}
    wanted = {"b": {"e": 5}, "env": [{"name": "B"}]}
    assert without_dropped(live, last, wanted) == {"b": {"d": 3}, "env": [{"name": "B"}], "filled": True}


def test_fields_that_were_not_read_are_named() -> None:
    wanted = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A"}], "args": []}]}}}
    seen = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    assert unseen_fields(wanted, seen) == ["template.spec.containers[0].env"]


def test_a_cron_job_among_changes_is_left_to_its_schedule_and_said_so() -> None:
    cron_job = head("CronJob", name="nightly", namespace="shop") | {
        "spec": {
            "schedule": "0 3 * * *",
            "jobTemplate": {
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
            },
        }
    }
    change = kplan.Planner("demo").roll_out([cron_job])

    assert change.steps == []
    assert [(each.code, each.object) for each in change.warnings] == [("NotStarted", "CronJob/shop/nightly")]
