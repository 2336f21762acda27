import json
from pathlib import Path

import pytest

from tests.cli.commands import invoke, printed, reports, told, written

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: hello}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return written(tmp_path / "pod.yaml", POD)


def test_standard_input(manifest: Path) -> None:
    found = printed("place", "-", "-o", "name", stdin=POD)
    assert found == printed("place", "-f", manifest, "-o", "name")


def test_replicas_and_namespace(web: Path) -> None:
    found = invoke("place", web, "-n", "shop", "--replicas", "3", "-o", "name")
    lines = found.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("shop/web-") for line in lines)


def test_manifests_come_before_named_pods(manifest: Path) -> None:
    lines = invoke("place", "shop/voucher-api", manifest, "-o", "name").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["default/hello", "shop/voucher-api"]


def test_documents_are_complete_when_explained_only() -> None:
    brief = told("place", "shop/voucher-api", "--top", "1")["placements"][0]
    whole = told("place", "shop/voucher-api", "--explain")["placements"][0]
    assert brief["feasibleCount"] == whole["feasibleCount"] == len(whole["feasibleNodes"]) == len(whole["scores"])
    assert brief["feasibleNodes"] == list(brief["scores"]) == [whole["node"]]
    assert len(whole["feasibleNodes"]) + len(whole["rejections"]) == 13
    assert set(brief["rejections"]) < set(whole["rejections"])
    assert brief["scoreDetails"] == {}
    assert whole["scoreDetails"].keys() == whole["scores"].keys()
    assert brief["rejectionSummary"][0]["nodes"] == whole["rejectionSummary"][0]["nodes"]


def test_warnings_go_to_standard_error_where_the_format_is_for_programs(tmp_path: Path) -> None:
    path = written(tmp_path / "pod.yaml", POD.replace("name: c,", "name: c, niceness: 3,"))
    for_programs = invoke("place", path, "-o", "json", "--validate", "warn")
    assert "UnknownField" in for_programs.stderr
    assert json.loads(for_programs.stdout)["warnings"][0]["code"] == "UnknownField"
    assert invoke("place", path, "-o", "json", "-q", "--validate", "warn").stderr == ""
    for_people = invoke("place", path, "--validate", "warn")
    assert "UnknownField" in for_people.stdout
    assert for_people.stderr == ""
    assert invoke("place", path, "--fail-on", "warning", "--validate", "warn").exit_code == 1


def test_verbose_says_what_was_read(manifest: Path) -> None:
    manifest.write_text(POD + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    found = invoke("place", manifest, "-v")
    assert "snapshot: demo: 13 nodes" in found.stderr
    assert "ConfigMap" in found.stdout


def test_hundreds_of_replicas_are_one_group(web: Path, tmp_path: Path) -> None:
    found = printed("place", web, "--replicas", "300", code=1)
    assert len(found.splitlines()) < 80
    assert found.startswith("Deployment default/web: 292 of 300 replicas find no free node: evicting batch/")
    both = reports(tmp_path, "place", web, "ml/fine-tune", "--replicas", "300", formats=("short", "json"), code=1)
    assert all(": 2 of 301 pods fit only by evicting 2 other pods, 291 fit nowhere" in text for text in both.values())


def test_pods_without_a_manifest() -> None:
    some = printed("place", "--requests", "cpu=2,memory=4Gi", "--replicas", "16", "-o", "short", code=1)
    assert some.startswith("Deployment default/requested: 14 of 16 replicas find no free node: ")
    gpu = ("place", "--requests", "nvidia.com/gpu=1", "--toleration", "nvidia.com/gpu")
    assert printed(*gpu, "-n", "ml", "-o", "name") == "ml/requested-0 gpu-b-1\n"
    assert printed(*gpu, "--selector", "pool=general", "-o", "name", code=1) == "default/requested-0 -\n"
