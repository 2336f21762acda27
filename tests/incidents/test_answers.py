"""What is asked about whole clusters is answered as the one who is on call needs it.

A change answers for what it brings about, and not for pods that were pending before; what depends on a draw says so;
missing replicas are named wherever one asks about their workload; and Python gets what the command prints.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import kplan
from tests.cli.commands import invoke, reports
from tests.incidents.asking import HERE, answer, cluster, manifest, text

BUMP = ("--against-manifests", manifest("web-image-bump"), "--fail-on", "regression")


def test_an_image_bump_is_no_regression() -> None:
    document = answer("image-bump", "diff", manifest("web-before"), *BUMP, exit_code=0)
    assert {pod["pod"].rpartition("-")[0] for pod in document["pods"]} == {"shop/shopfront-nlhjzs75bc"}
    assert document["victimsAdded"] == []


def test_the_same_manifests_differ_in_nothing() -> None:
    same = ("--against-manifests", manifest("web-before"), "--fail-on", "regression")
    assert answer("image-bump", "diff", manifest("web-before"), *same, exit_code=0)["pods"] == []


@pytest.mark.parametrize("args", [("drain", "general-a-1"), ("plan", manifest("web-image-bump"))])
def test_pods_that_waited_before_are_told_apart(args: tuple[str, ...]) -> None:
    document = answer("image-bump", *args)
    causes = {change["pod"]: change["causedBy"] for change in document["changes"]}
    waiting = [pod for pod, cause in causes.items() if cause == "waiting"]
    assert "change" in causes.values()
    assert "shop/flash-sale" in waiting
    assert not [line for line in document["verdict"]["because"] if any(pod in line for pod in waiting)]


def test_the_nodes_on_which_the_others_run_are_counted() -> None:
    (change,) = answer("daemon-without-room", "plan", exit_code=1)["changes"]
    assert change["siblings"] == 3
    assert "DaemonSet mon/agent: 3 of 4 nodes" in text("daemon-without-room", "plan")


def test_with_runs_a_blocked_pod_is_blocked_and_nothing_else() -> None:
    shown = text("tight-budget", "drain", "w-1", "--runs", "20", "-o", "junit")
    assert 'type="Blocked"' in shown
    assert "placed in 0%" not in shown
    assert "pending in 0%" not in shown


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without its time, its file, places in files, and how many pods a command lists."""
    placements = [
        {
            **{key: value for key, value in placement.items() if key != "atFault"},
            "pod": {key: value for key, value in placement["pod"].items() if key != "from"},
        }
        for placement in document["placements"]
    ]
    workloads = [{key: value for key, value in workload.items() if key != "from"} for workload in document["workloads"]]
    rest = {key: value for key, value in document.items() if key not in ("generatedAt", "snapshot", "maxListed")}
    return {**rest, "placements": placements, "workloads": workloads}


@pytest.mark.parametrize(
    ("name", "node"),
    [("drain-needs-force", "a-1"), ("crash-loop", "w-0"), ("tie-decides", "a-0"), ("image-bump", "general-a-1")],
)
def test_a_drain_is_the_document_of_the_command(name: str, node: str) -> None:
    asked = kplan.Planner(kplan.load_snapshot(cluster(name))).drain([node]).to_dict()
    assert plain(asked) == plain(answer(name, "drain", node))


def test_a_roll_out_is_the_document_of_the_command() -> None:
    planner = kplan.Planner(kplan.load_snapshot(cluster("no-room-to-surge")))
    asked = planner.roll_out([manifest("surge")]).to_dict()
    assert plain(asked) == plain(answer("no-room-to-surge", "plan", manifest("surge")))


def test_a_queue_is_the_document_of_the_command() -> None:
    planner = kplan.Planner(kplan.load_snapshot(cluster("quota")))
    assert plain(planner.plan_queue().to_dict()) == plain(answer("quota", "plan"))


def test_whether_a_pod_finds_a_place_is_luck() -> None:
    luck = answer("tie-decides", "drain", "a-0")["luck"]
    assert [*luck["pending"]] == ["shop/zk-0"]
    assert 3 <= luck["pending"]["shop/zk-0"] <= 10
    assert luck["fails"] == luck["pending"]["shop/zk-0"]
    assert "Depends on luck" in text("tie-decides", "drain", "a-0")


def test_an_answer_that_no_draw_changes_does_not_speak_of_luck() -> None:
    assert "luck" not in answer("single-replica-budget", "drain", "w-1")
    assert "luck" not in answer("drain-needs-force", "drain", "a-1")


DEPLOY = HERE / "manifests" / "deploy"


@pytest.mark.parametrize("command", ["place", "plan"])
def test_a_rollout_is_told_in_every_format(command: str, tmp_path: Path) -> None:
    formats = ("table", "wide", "json", "yaml", "markdown", "junit", "github", "sarif", "html")
    files = DEPLOY / "base", DEPLOY / "rollout.yaml"
    shown = reports(tmp_path, command, *files, "--fail-on", "warning", formats=formats, code=1)
    assert json.loads(shown["json"])["verdict"]["exitCode"] == 1
    hint = "--as-deployment Rollout"
    assert [name for name, text in shown.items() if hint not in " ".join(text.split())] == []


def test_the_pods_of_a_rollout_can_be_placed() -> None:
    result = invoke("place", DEPLOY / "rollout.yaml", "--as-deployment", "Rollout")
    assert "Deployment shop/canary: 4 of 5 replicas" in result.stdout


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


SURGE = manifest("surge")


def test_old_pods_that_serve_are_ready() -> None:
    (workload,) = answer("no-room-to-surge", "plan", SURGE, exit_code=1)["workloads"]
    assert (workload["state"], workload["desired"], workload["ready"], workload["updated"]) == ("stuck", 3, 3, 1)


def test_the_rollout_may_do_with_a_pod_less() -> None:
    (placement,) = answer("no-room-to-surge", "plan", SURGE, exit_code=1)["placements"]
    first = placement["remedies"][0]
    assert first["kind"] == "allow-unavailable"
    assert (first["change"]["from"], first["change"]["to"]) == ("maxUnavailable: 0", "maxUnavailable: 1")
    assert first["checked"]
    assert "set maxUnavailable: 1 in the rollout of Deployment shop/jvm" in text("no-room-to-surge", "plan", SURGE)
