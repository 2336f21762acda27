"""Manifests of what runs in the demo cluster already."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.reading.positions import as_builtins
from kplan.report.registry import FORMATS
from tests.cli.commands import invoke, listed, told, written
from tests.objects import deployment, head, node, running
from tests.recorded import sample
from tests.schemas import assert_keeps_to_its_schema

FIXTURES = Path(__file__).parents[2] / "fixtures"
INFERENCE = "Deployment/ml/inference"
_OTHERS = ("ReplicaSet/", "Service/")
WRITTEN_BY_PEOPLE = sorted(key for key in kplan.load_snapshot("demo").whole if not key.startswith(_OTHERS))
"""The demo's workloads; its replica sets belong to deployments, and nobody applies them."""


def manifest(key: str = "Deployment/shop/storefront", **spec: Any) -> dict[str, Any]:
    """Return a workload of the demo cluster as somebody would have written it, with some other fields."""
    written: dict[str, Any] = as_builtins(kplan.load_snapshot("demo").whole[key])
    written.pop("status", None)
    written["metadata"] = {name: written["metadata"][name] for name in ("name", "namespace")}
    written["spec"] = {**written["spec"], **spec}
    return written


def place(tmp_path: Path, content: dict[str, Any], *args: str | Path, command: str = "place") -> Any:
    path = written(tmp_path / "changed.yaml", yaml.safe_dump(content))
    return invoke(command, path, *args)


def with_image(written: dict[str, Any]) -> dict[str, Any]:
    written["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/new:2"
    return written


@pytest.mark.parametrize("key", sample(WRITTEN_BY_PEOPLE, 8))
def test_what_says_nothing_new_places_nothing(tmp_path: Path, key: str) -> None:
    found = place(tmp_path, manifest(key))
    assert found.stdout.startswith(f"{key.replace('/', ' ', 1)} is unchanged: nothing to place\n"), found.output
    assert found.exit_code == 0


@pytest.mark.parametrize("key", sample(WRITTEN_BY_PEOPLE, 8))
def test_what_says_nothing_new_changes_nothing_about_the_queue(tmp_path: Path, key: str) -> None:
    found = place(tmp_path, manifest(key), "-o", "json", command="plan")
    document = json.loads(found.stdout)
    assert found.exit_code == 0, "what waited before fails nothing"
    assert {workload["change"] for workload in document["workloads"]} == {"none"}
    assert {change["causedBy"] for change in document["changes"]} == {"waiting"}


def test_an_image_is_rolled_within_what_may_be_missing(tmp_path: Path) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    found = place(tmp_path, with_image(manifest(INFERENCE, strategy=rolling)), "-o", "json")
    document = json.loads(found.stdout)
    assert_keeps_to_its_schema(document)
    workload = document["workloads"][0]
    assert (found.exit_code, workload["change"], workload["state"]) == (0, "rollout", "complete")


def test_what_may_not_be_changed_is_refused_in_the_words_of_the_api_server(tmp_path: Path) -> None:
    found = place(tmp_path, manifest(selector={"matchLabels": {"tier": "web"}}))

    assert found.exit_code == 1
    assert "field is immutable" in " ".join(found.stdout.split())
    was = written(tmp_path / "was.yaml", yaml.safe_dump(manifest()))
    changed = ("diff", tmp_path / "changed.yaml", "--against-manifests", was)
    compared = invoke(*changed, "--fail-on", "regression")
    assert compared.exit_code == 1
    first, _, rest = " ".join(compared.stdout.split()).partition(" Before: ")
    assert first.startswith("Refused now: Deployment shop/storefront: ")
    assert first.endswith(": field is immutable")
    assert rest.endswith("regression: refused now: Deployment shop/storefront")
    assert invoke(*changed, "-o", "name").stdout == "refused Deployment/shop/storefront\n"


def full_quota(tmp_path: Path, namespace: str = "ml") -> Path:
    quota = head("ResourceQuota", name="full", namespace=namespace) | {"spec": {"hard": {"pods": "0"}}}
    return listed(tmp_path / "quota.json", quota)


def test_pods_that_a_quota_refuses_fail_the_job_on_the_line_of_their_workload(tmp_path: Path) -> None:
    more = manifest(INFERENCE, replicas=9)
    github, junit, table = (
        place(tmp_path, more, "--with", full_quota(tmp_path), "-o", output) for output in ("github", "junit", "table")
    )
    assert github.exit_code == junit.exit_code == 1
    assert github.stdout.startswith(f"::error file={tmp_path / 'changed.yaml'},line=")
    assert "exceeded quota: full" in github.stdout.splitlines()[0]
    assert 'failures="1"' in junit.stdout
    assert table.stdout.startswith("Deployment ml/inference is stuck, 3 of 9 ready: pods ")


def test_runs_in_which_a_quota_refuses_all_pods_name_the_workload(tmp_path: Path) -> None:
    cluster = written(
        tmp_path / "cluster.yaml", yaml.safe_dump_all([node("n0", "8"), *running(deployment("web", 1), ["n0"])])
    )
    more = deployment("web", 3)

    table, junit, names = (
        place(tmp_path, more, "--with", full_quota(tmp_path, "default"), "--runs", "3", "-s", cluster, "-o", output)
        for output in ("table", "junit", "name")
    )

    assert table.exit_code == 1
    assert table.stdout.startswith("Deployment default/web is incomplete in all 3 runs: ")
    assert "exceeded quota: full" in " ".join(table.stdout.split())
    assert 'failures="1"' in junit.stdout
    assert names.stdout == "Deployment/default/web complete 0\n"


def test_never_rolls_nothing_and_always_rolls_what_is_the_same(tmp_path: Path) -> None:
    changed, same = with_image(manifest(INFERENCE)), manifest(INFERENCE)
    assert place(tmp_path, changed, "--rollout", "never").stdout.startswith(
        "Deployment ml/inference is unchanged: nothing to place"
    )
    assert place(tmp_path, same, "--rollout", "always").stdout.startswith("Deployment ml/inference is rolled out: ")


def autoscaled(tmp_path: Path, *, is_scaled: bool = True) -> Path:
    """Write the demo cluster's storefront scaled by an autoscaler, as somebody applied it with three replicas."""
    storefront = manifest(replicas=7)
    last = manifest(replicas=3)
    storefront["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(last, indent=None)
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "storefront"}
    scaler = head("HorizontalPodAutoscaler", name="storefront", namespace="shop") | {
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 10}
    }
    large = node("n1", "64", "256Gi", labels={"topology.kubernetes.io/zone": "a"})
    priority = head("PriorityClass", name="standard") | {"value": 10}
    return listed(tmp_path / "cluster.json", large, priority, storefront, *([scaler] if is_scaled else []))


def test_the_live_number_stands_where_an_autoscaler_owns_it_and_the_manifest_names_none(tmp_path: Path) -> None:
    written = manifest()
    del written["spec"]["replicas"]
    found = place(tmp_path, written, "-s", str(autoscaled(tmp_path)), "-o", "json", command="plan")
    document = json.loads(found.stdout)
    assert document["workloads"][0]["desired"] == 7
    assert [each["code"] for each in document["warnings"]] == ["AutoscaledReplicas"]


def test_without_an_autoscaler_a_number_that_is_named_no_more_falls_back_to_one(tmp_path: Path) -> None:
    written = manifest()
    del written["spec"]["replicas"]
    cluster = autoscaled(tmp_path, is_scaled=False)
    document = json.loads(place(tmp_path, written, "-s", str(cluster), "-o", "json", command="plan").stdout)
    assert document["workloads"][0]["desired"] == 1
    assert document["warnings"] == []


def test_every_format_says_that_an_autoscaler_will_set_a_number_back(tmp_path: Path) -> None:
    reports = [word for output in FORMATS for word in ("--report", f"{output}={tmp_path / output}")]
    found = place(tmp_path, manifest(replicas=5), "-s", str(autoscaled(tmp_path)), *reports)
    for output in set(FORMATS) - {"name", "short", "openmetrics"}:
        flat = " ".join(((tmp_path / output).read_text() + found.stderr).replace("%2C", ",").split())
        assert "autoscaler storefront (2-10) will set them back" in flat, output


def chart(tmp_path: Path, cpu: str, replicas: int = 2) -> tuple[Path, Path, Path]:
    """Write a cluster of three nodes, a workload that it has and a new one, and the new one alone."""
    nodes = [node(f"n-{zone}", str(2 + number)) for number, zone in enumerate("abc")]
    old, new = deployment("old", 0), deployment("new", replicas, cpu=cpu)
    for one in (old, new):
        one["metadata"] = {"name": one["metadata"]["name"], "namespace": "shop"}
    cluster = listed(tmp_path / "cluster.json", *nodes, head("Namespace", name="shop"), old)
    both = written(tmp_path / "chart.yaml", yaml.safe_dump_all([old, new]))
    return cluster, both, written(tmp_path / "new.yaml", yaml.safe_dump_all([new]))


def test_what_is_new_in_a_chart_is_explained_as_if_it_came_alone(tmp_path: Path) -> None:
    cluster, both, alone = chart(tmp_path, cpu="1")

    mixed = told("place", both, "-s", cluster)
    plain = told("place", alone, "-s", cluster)

    def facts(document: dict[str, Any]) -> list[dict[str, Any]]:
        return [{key: item for key, item in each.items() if key != "pod"} for each in document["placements"]]

    assert [each["change"] for each in mixed["workloads"]] == ["none", "new"]
    assert facts(mixed) == facts(plain)
    assert facts(plain)[0]["scores"]
    assert [each["pod"]["from"]["document"] for each in mixed["placements"]] == [2, 2]


def test_a_table_tells_the_workloads_first_and_then_why_the_first_new_pod_goes_where_it_goes(tmp_path: Path) -> None:
    cluster, both, _ = chart(tmp_path, cpu="1")
    lines = invoke("place", both, "-s", cluster).stdout.splitlines()
    assert lines[0] == "1 unchanged, 1 new: 2 of 2 pods placed"
    told = next(index for index, each in enumerate(lines) if "(the first of 2) -> n-c" in each)
    assert lines[told + 1].startswith("  3 of 3 nodes can take it. n-c wins with")


def test_the_first_line_counts_the_pods_of_the_manifests_apart_from_those_that_move_beside_them() -> None:
    lines = invoke("place", FIXTURES / "cart.yaml", "-s", "demo").stdout.splitlines()
    waiting = "pods that waited before: 3 placed, 1 moved, 1 left pending; pods of nodes that are not well: 1 moved"
    assert " ".join(map(str.strip, lines[:2])) == f"Deployment shop/cart is rolled out: 6 of 6 pods placed; {waiting}"


def test_of_a_workload_that_only_gets_smaller_the_first_line_counts_who_goes(tmp_path: Path) -> None:
    first = place(tmp_path, manifest("StatefulSet/data/postgres", replicas=1), command="plan").stdout.splitlines()[0]
    assert first.startswith("StatefulSet data/postgres is scaled: 2 pods not replaced; ")


def test_why_a_stuck_workload_waits_is_told_once_with_the_pod_that_it_waits_for() -> None:
    text = invoke("place", FIXTURES / "cart.yaml", "-s", "demo").stdout
    assert "stuck after" not in text
    assert text.count("ml/train-ranking-cmm2h fits nowhere") == 1


def test_a_new_pod_that_stays_pending_says_from_which_document_it_comes(tmp_path: Path) -> None:
    cluster, both, _ = chart(tmp_path, cpu="64")
    found = invoke("place", both, "-s", cluster, "-o", "json")
    document = json.loads(found.stdout)
    assert (found.exit_code, document["workloads"][1]["state"]) == (1, "stuck")
    origin = document["placements"][0]["pod"]["from"]
    assert both.read_text().splitlines()[origin.pop("line") - 1].strip() == "name: new"
    assert origin == {"file": str(both), "document": 2, "kind": "Deployment", "name": "new"}


def test_a_change_of_many_pods_lists_some_and_counts_the_others(tmp_path: Path) -> None:
    cluster, both, _ = chart(tmp_path, cpu="2", replicas=9)

    found = invoke("place", both, "-s", cluster, "-o", "json", "--max-listed", "3")

    document = json.loads(found.stdout)
    assert_keeps_to_its_schema(document)
    assert (len(document["changes"]), document["maxListed"]) == (3, 3)
    assert [document["placements"][each["attempt"]]["node"] for each in document["changes"]] == [
        each["to"] for each in document["changes"]
    ]
    (others,) = [each for each in document["unlisted"] if each["outcome"] == "Unschedulable"]
    assert others["workload"] == "Deployment/shop/new"
    assert 3 + sum(each["pods"] for each in document["unlisted"]) == 9
    assert document["summary"]["pending"] == 5
    assert len(document["verdict"]["because"]) + document["verdict"]["more"] == 5
    assert "4 more of Deployment shop/new" in invoke("place", both, "-s", cluster, "--max-listed", "4").stdout


CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: nightly}]}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: shop}
spec: {containers: [{name: c, image: one}]}
"""


@pytest.mark.parametrize(("options", "pods"), [([], ["one"]), (["--run-cronjobs"], ["nightly-0", "one"])])
def test_a_cron_job_of_a_chart_runs_only_when_asked(tmp_path: Path, options: list[str], pods: list[str]) -> None:
    path = written(tmp_path / "chart.yaml", CRON_JOB)
    found = told("place", path, *options)
    assert sorted(each["pod"]["name"] for each in found["placements"]) == pods
    assert [each["object"] for each in found["warnings"] if each["code"] == "NotStarted"] == (
        [] if options else ["CronJob/shop/nightly"]
    )


def test_with_explain_rolled_pods_are_explained_as_new_ones_are(tmp_path: Path) -> None:
    plain = place(tmp_path, with_image(manifest()))
    explained = place(tmp_path, with_image(manifest()), "--explain")
    assert "nodes can take it" not in plain.stdout
    assert "nodes can take it" in explained.stdout
