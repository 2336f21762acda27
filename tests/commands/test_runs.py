"""`--runs`, `--ties`, `--kubernetes-version` and `--feature-gates` on the command line."""

import json
from pathlib import Path

import msgspec
import yaml

import kplan
from tests.cli.commands import invoke, told
from tests.objects import head


def test_drain_tells_how_often_each_outcome_comes() -> None:
    found = invoke("drain", "general-b-1", "--runs", "6", "-o", "json")
    document = json.loads(found.stdout)
    assert (document["kind"], document["command"], found.exit_code) == ("OddsReport", "drain", 1)
    assert {each["pod"] for each in document["pods"] if each["blocked"]["share"]} == {
        each["object"] for each in document["verdict"]["counted"] if each["rule"].startswith("Blocked")
    }
    table = invoke("drain", "general-b-1", "--runs", "6").stdout
    assert "blocked" in table
    assert "cannot be evicted" in " ".join(table.split())


def test_manifests_of_what_runs_already_are_changes_in_every_run(tmp_path: Path) -> None:
    unchanged, scaled = tmp_path / "unchanged.yaml", tmp_path / "scaled.yaml"
    live = next(each for each in kplan.load_snapshot("demo").deployments if each.metadata.name == "cart")
    manifest = head("Deployment", name="cart", namespace="shop") | {"spec": msgspec.to_builtins(live.spec)}
    unchanged.write_text(yaml.safe_dump(manifest))
    manifest["spec"]["replicas"] = live.spec.replicas + 2
    scaled.write_text(yaml.safe_dump(manifest))

    for command in ("place", "plan"):
        nothing = invoke(command, unchanged, "--runs", "5", "--validate", "ignore")
        more = told(command, scaled, "--runs", "5", "--validate", "ignore")

        assert ("No pod moves in any run." in nothing.stdout) == (command == "place"), "plan tells of those that wait"
        assert "shop/cart-" not in nothing.stdout
        assert nothing.exit_code == 0
        assert (more["command"], [each["workload"] for each in more["workloads"]][:1]) == (
            command,
            ["Deployment/shop/cart"],
        )
        assert len([each for each in more["pods"] if each["workload"] == "Deployment/shop/cart"]) == 2


def test_a_report_names_the_release_and_the_gates() -> None:
    args = ("place", "shop/voucher-api", "--kubernetes-version", "1.34", "--feature-gates", "PodLevelResources=false")
    scheduler = told(*args)["scheduler"]
    assert scheduler["kubernetesVersion"] == "1.34"
    assert scheduler["featureGates"] == {"PodLevelResources": False}
    assert "Scheduler: v1.34, PodLevelResources=false, configuration default" in invoke(*args, "-o", "wide").stdout
