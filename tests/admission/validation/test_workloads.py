"""What is invalid in workloads, in upstream's words."""

import copy
from typing import Any

import pytest

from kplan.admission.decoding import kind_named
from kplan.admission.judge import invalid_words, judge
from kplan.admission.validation.jobs import schedule_problem

Object = dict[str, Any]
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
ONCE = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}


def errors_of(kind: str, **spec: Any) -> list[str]:
    if kind in ("Job", "CronJob"):
        api_version, base = "batch/v1", {"template": ONCE}
    else:
        api_version, base = "apps/v1", {"selector": {"matchLabels": {"app": "w"}}, "template": TEMPLATE}
    job = {**base, **spec.pop("job", {})}
    whole = {"schedule": "@daily", "jobTemplate": {"spec": job}, **spec} if kind == "CronJob" else {**base, **spec}
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": copy.deepcopy(whole)}
    api_kind = kind_named(api_version, kind)
    assert api_kind is not None
    judged = judge(obj, api_kind, kind, "default")
    assert judged.faults == ()
    return [str(error) for error in judged.errors]


KINDS = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_one_is_valid(kind: str) -> None:
    assert errors_of(kind) == []


WRONG: dict[str, list[tuple[Object, str]]] = {
    "Deployment": [
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ({"strategy": {"type": "Now"}}, 'spec.strategy: Unsupported value: {"Type":"Now","RollingUpdate"'),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            ("spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"),
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
            ('spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'),
        ),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": "150%"}}},
            'maxUnavailable: Invalid value: "150%": must not be greater than 100%',
        ),
        ({"strategy": {"rollingUpdate": {"maxSurge": "lots"}}}, "a valid percent string must be a numeric"),
        ({"progressDeadlineSeconds": 1, "minReadySeconds": 1}, "must be greater than minReadySeconds"),
        ({"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
    ],
    "ReplicaSet": [
        ({"selector": {"matchLabels": {"app": "x"}}}, "`selector` does not match template `labels`"),
    ],
    "StatefulSet": [
        ({"podManagementPolicy": "Random"}, "must be 'OrderedReady' or 'Parallel'"),
        ({"updateStrategy": {"type": "Now"}}, "must be 'RollingUpdate' or 'OnDelete'"),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        ({"serviceName": "A"}, 'spec.serviceName: Invalid value: "A"'),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start: Invalid value: -1"),
        (
            {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]},
            ("spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"),
        ),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Lose"}},
            'whenScaled: Unsupported value: "Lose": supported values: "Retain", "Delete"',
        ),
    ],
    "DaemonSet": [
        (
            {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
            (
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when"
                " maxUnavailable is non-"
            ),
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
            ("spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"),
        ),
    ],
    "Job": [
        ({"template": TEMPLATE}, 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "'),
        (
            {"completionMode": "Indexed", "completions": 1, "parallelism": 100_001},
            ("spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is"),
        ),
        (
            {"manualSelector": True, "selector": {"matchLabels": {"app": "w"}}},
            ("spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"),
        ),
        (
            {"completionMode": "Indexed", "parallelism": 2},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        ({"backoffLimitPerIndex": 1}, "requires indexed completion mode"),
        ({"maxFailedIndexes": 1}, "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"),
        ({"managedBy": "me"}, 'must be a domain-prefixed path (such as "acme.io/foo")'),
        ({"selector": {"matchLabels": {"a": "b"}}}, "`selector` not auto-generated"),
        ({"podReplacementPolicy": "Soon"}, 'spec.podReplacementPolicy: Unsupported value: "Soon"'),
        ({"podFailurePolicy": {"rules": [{}]}}, "specifying one of OnExitCodes and OnPodConditions is required"),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}},
            (
                "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0"
                " for the In operator"
            ),
        ),
        ({"successPolicy": {"rules": []}}, "requires indexed completion mode"),
        (
            {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "2-1"}]}},
            "error parsing succeededIndexes: non-increasing order, previous: 2, current: 1",
        ),
        (
            {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "5"}]}},
            'error parsing succeededIndexes: too large index: "5"',
        ),
    ],
    "CronJob": [
        ({"schedule": ""}, "spec.schedule: Required value"),
        ({"schedule": "TZ=UTC * * * * *"}, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        ({"timeZone": "Mars/Base"}, 'spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base'),
        ({"timeZone": "local"}, "timeZone must be an explicit time zone"),
        ({"concurrencyPolicy": "Never"}, 'spec.concurrencyPolicy: Unsupported value: "Never"'),
        ({"job": {"selector": {}}}, "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be"),
        ({"job": {"template": TEMPLATE}}, "spec.jobTemplate.spec.template.spec.restartPolicy: Required value"),
    ],
}


@pytest.mark.parametrize(("kind", "spec", "expected"), [(kind, *row) for kind, rows in WRONG.items() for row in rows])
def test_what_is_invalid_is_told(kind: str, spec: Object, expected: str) -> None:
    assert expected in "\n".join(errors_of(kind, **spec))


def test_the_words_of_the_whole_answer() -> None:
    api_kind = kind_named("apps/v1", "Deployment")
    assert api_kind is not None
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": TEMPLATE}}
    judged = judge(obj, api_kind, "Deployment", "default")

    assert invalid_words("Deployment", "apps", "w", judged.errors) == (
        'Deployment.apps "w" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value:'
        ' {"app":"w"}: `selector` does not match template `labels`]'
    )


@pytest.mark.parametrize(
    "schedule", ["* * * * *", "*/5 0-6,12 1 jan-DEC mon", "@hourly", "@every 1h30m", "0 0 ? * 6", "TZ=UTC 1 2 3 4 5"]
)
def test_good_schedules(schedule: str) -> None:
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("sometimes", "expected exactly 5 fields, found 1: [sometimes]"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every day", 'failed to parse duration @every day: time: invalid duration "day"'),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 5-2", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ],
)
def test_bad_schedules(schedule: str, problem: str) -> None:
    assert schedule_problem(schedule) == problem


def test_retention_policies_are_told_in_the_order_of_the_type_and_not_of_the_manifest() -> None:
    policy = {"whenScaled": "Never", "whenDeleted": "Soon"}
    at = "spec.persistentVolumeClaimRetentionPolicy"

    errors = errors_of("StatefulSet", persistentVolumeClaimRetentionPolicy=policy)

    assert [error.partition(":")[0] for error in errors] == [f"{at}.whenDeleted", f"{at}.whenScaled"]
