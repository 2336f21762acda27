"""Replicas that a quota keeps away are named wherever one asks about their workload."""

import pytest

from tests.incidents.asking import answer, manifest, text

WEB = manifest("quota-web")


@pytest.mark.parametrize("args", [("plan", WEB), ("place", WEB), ("explain", "deploy/team-a/web"), ("plan",)])
def test_missing_replicas_are_told_in_the_words_of_the_quota(args: tuple[str, ...]) -> None:
    (warning,) = (one for one in answer("quota", *args)["warnings"] if one["code"] == "MissingReplicas")
    assert warning["object"] == "Deployment/team-a/web"
    assert warning["message"].startswith("2 of 6 replicas are missing")
    assert "exceeded quota: team-a, requested: requests.cpu=500m" in warning["message"]
    assert "2 of 6 replicas are missing" in text("quota", *args)


def test_missing_replicas_fail_where_warnings_do() -> None:
    answer("quota", "plan", exit_code=1)
    for args in (("plan", WEB), ("plan",), ("explain", "deploy/team-a/web")):
        answer("quota", *args, "--fail-on", "warning", exit_code=1)


def test_a_check_names_the_workloads_that_lack_pods() -> None:
    checks = answer("quota", "check", exit_code=1)["checks"]
    ((finding,),) = (one["findings"] for one in checks if one["name"].startswith("every workload"))
    assert finding["name"] == "Deployment/team-a/web"
    assert finding["message"].startswith("2 of 6 replicas are missing: ResourceQuota team-a/team-a requests.cpu 2 of 2")


def test_a_workload_with_all_its_replicas_has_no_such_warning() -> None:
    document = answer("crumbs", "plan")
    assert not [warning for warning in document["warnings"] if warning["code"] == "MissingReplicas"]
