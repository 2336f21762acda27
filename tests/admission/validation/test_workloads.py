"""What is invalid in workloads, in upstream's words."""

import copy
from typing import Any

from kplan.admission.decoding import kind_named
from kplan.admission.judge import invalid_words, judge

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


def test_the_words_of_the_whole_answer() -> None:
    api_kind = kind_named("apps/v1", "Deployment")
    assert api_kind is not None
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": TEMPLATE}}
    judged = judge(obj, api_kind, "Deployment", "default")

    assert invalid_words("Deployment", "apps", "w", judged.errors) == (
        'Deployment.apps "w" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value:'
        ' {"app":"w"}: `selector` does not match template `labels`]'
    )


def test_retention_policies_are_told_in_the_order_of_the_type_and_not_of_the_manifest() -> None:
    policy = {"whenScaled": "Never", "whenDeleted": "Soon"}
    at = "spec.persistentVolumeClaimRetentionPolicy"

    errors = errors_of("StatefulSet", persistentVolumeClaimRetentionPolicy=policy)

    assert [error.partition(":")[0] for error in errors] == [f"{at}.whenDeleted", f"{at}.whenScaled"]
