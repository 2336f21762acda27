"""`kplan diff`: saved reports, and one question asked twice."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import committed, invoke, listed, refused, reports, told, written
from tests.objects import deployment, head, node, running

CHANGE = ("--cordon", "general-a-*")
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n"
    "spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
)


def report(*args: str | Path) -> Any:
    result = invoke("diff", *args, "-o", "json")
    assert result.exit_code in (0, 1), result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "question",
    [
        ("drain", "--each", "--by", "zone"),
        ("plan", "--queue"),
        ("place", "shop/voucher-api", "--runs", "20"),
        ("drain", "spot-b-1", "--runs", "4"),
    ],
    ids=" ".join,
)
def test_saved_reports_of_other_kinds_are_compared_in_every_format(question: tuple[str, ...], tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    for path, more in ((before, ()), (after, ("--cordon", "*", "--scale", "deployment/shop/cart=7"))):
        path.write_text(invoke(*question, *more, "--exit-zero", "-o", "json").stdout, encoding="utf-8")

    assert "Nothing differs" in invoke("diff", before, before).stdout
    facts = report(before, after)["facts"]
    assert facts
    worse = [each["about"] or "all pods" for each in facts if each["worse"]]
    formats = ("table", "markdown", "html", "name", "yaml", "junit", "github", "sarif")
    texts = reports(tmp_path, "diff", before, after, "--fail-on", "regression", formats=formats, code=bool(worse))
    assert [name for name, text in texts.items() if any(one not in text for one in worse[:1])] in ([], ["name"])


def test_less_room_of_many_workloads_is_counted(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    for path, more in ((before, ()), (after, CHANGE)):
        path.write_text(invoke("capacity", "--headroom", *more, "-o", "json").stdout, encoding="utf-8")
    n_fewer = len(report(before, after)["capacity"])
    assert n_fewer > 1
    assert invoke("diff", before, after).stdout.startswith(f"Fewer fit of {n_fewer} workloads\n")
    assert invoke("diff", after, before).stdout.startswith(f"More fit of {n_fewer} workloads\n")


def test_the_pending_pods_are_asked_about_where_nothing_is_named() -> None:
    found = report("--without", "node/general-c-1")
    assert found["before"]["kind"] == found["after"]["kind"] == "PlanReport"
    assert found["before"]["snapshot"].get("changes") is None
    assert [each["change"] for each in found["after"]["snapshot"]["changes"]] == ["without"]
    assert "shop/flash-sale" in {each["pod"] for each in found["pods"]}


def test_one_question_is_asked_of_two_snapshots_versions_and_configurations(tmp_path: Path) -> None:
    config = written(
        tmp_path / "config.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: default-scheduler\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n"
        "      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}\n",
    )

    assert report("--against", "demo")["pods"] == []
    assert report("--against-version", "1.34")["after"]["scheduler"]["kubernetesVersion"] == "1.34"
    found = report("shop/voucher-api", "--against-config", config)
    assert found["after"]["scheduler"]["configSource"] == str(config)
    assert [cause["plugin"] for each in found["pods"] for cause in each["why"]][:1] == ["NodeResourcesFit"]


def test_manifests_of_two_directories_and_of_a_revision_are_compared(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for directory, cpu in ((small, "100m"), (large, "900")):
        directory.mkdir()
        (directory / "p.yaml").write_text(POD.format(cpu=cpu), encoding="utf-8")
    committed(small)

    assert [each["difference"] for each in report(small, large)["pods"]] == ["newly-pending"]
    assert report("git:HEAD", small)["pods"] == []
    (small / "p.yaml").write_text(POD.format(cpu="900"), encoding="utf-8")
    assert [each["difference"] for each in report("git:HEAD", small)["pods"]] == ["newly-pending"]
    assert [each["difference"] for each in report("git:HEAD", small / "p.yaml")["pods"]] == ["newly-pending"]
    assert "git:no-such" in refused("diff", "git:no-such", small)


def test_what_follows_against_counts_as_before_whether_path_or_revision(tmp_path: Path) -> None:
    deploy, older = tmp_path / "deploy", tmp_path / "older"
    for directory in (deploy, older):
        directory.mkdir()
        (directory / "p.yaml").write_text(POD.format(cpu="100m"), encoding="utf-8")
    committed(deploy)
    (deploy / "p.yaml").write_text(POD.format(cpu="900"), encoding="utf-8")

    for option, base in (
        ("--against-manifests", "git:HEAD"),
        ("--against", "git:HEAD"),
        ("--against-manifests", older),
    ):
        [row] = report(deploy, option, base)["workloads"]
        assert (row["difference"], row["after"]["placed"]) == ("newly-pending", 0)
    lone = written(tmp_path / "lone.json", json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))
    found = report(older, "--snapshot", "demo", "--against", lone)
    assert (found["before"]["snapshot"]["nodes"], found["after"]["snapshot"]["nodes"]) == (1, 13)


WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: basket
  namespace: shop
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: basket}}}}
  template:
    metadata: {{labels: {{app: basket}}}}
    spec:
      containers:
      - name: c
        image: i
        resources:
          requests:
            cpu: {cpu}
"""


def a_pull_request(directory: Path) -> Path:
    """Write a repository whose change asks for too much, beside a fault that was there before."""
    deploy = directory / "deploy"
    deploy.mkdir()
    (deploy / "old.yaml").write_text(POD.format(cpu="500"), encoding="utf-8")
    (deploy / "web.yaml").write_text(WEB.format(replicas=2, cpu="100m"), encoding="utf-8")
    committed(directory)
    (deploy / "web.yaml").write_text(WEB.format(replicas=4, cpu="60"), encoding="utf-8")
    return deploy


def test_a_reviewer_reads_one_annotation_a_workload_on_its_line_and_no_old_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pull_request(tmp_path)
    monkeypatch.chdir(tmp_path)
    question = ("diff", "deploy", "--against-manifests", "git:HEAD", "--fail-on", "regression")

    texts = reports(tmp_path, *question, formats=("github", "sarif", "table"), code=1)
    annotations = texts["github"].splitlines()
    assert len(annotations) == 2
    assert annotations[0].startswith("::error file=deploy/web.yaml,line=17,title=kplan%3A Deployment shop/basket")
    assert "pending now: all 4 pods, before 0 of 2" in annotations[0]
    assert "it requests 60 cpu" in annotations[0]
    [result] = json.loads(texts["sarif"])["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 17}
    assert "default/p" not in texts["table"]


def test_a_reviewer_reads_what_the_change_costs_and_why_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pull_request(tmp_path)
    monkeypatch.chdir(tmp_path)
    question = ("diff", "deploy", "--against-manifests", "git:HEAD", "--fail-on", "regression")

    job = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": "abc"}
    text = invoke(*question, "-o", "markdown", **job).stdout
    assert text.startswith("## Pending now: all 4 pods of Deployment shop/basket")
    assert "pending now: all 4 pods of Deployment shop/basket" in text.splitlines()[-1]
    [row] = [
        each
        for each in text.splitlines()
        if "[Deployment shop/basket](https://github.com/o/r/blob/abc/deploy/web.yaml" in each
    ]
    assert "it requests 60 cpu" in row
    cost = next(each for each in report(*question[1:])["costs"] if each["resource"] == "cpu")
    assert (cost["requestsBefore"], cost["requestsAfter"]) == ("500200m", "740")
    assert cost["freeBefore"] != cost["freeAfter"]


def test_what_a_revision_does_not_have_is_new(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing to deploy", encoding="utf-8")
    committed(tmp_path)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/web.yaml").write_text(WEB.format(replicas=2, cpu="60"), encoding="utf-8")
    [row] = report(tmp_path / "deploy", "--against-manifests", "git:HEAD", "--fail-on", "regression")["workloads"]
    assert (row["workload"], row["difference"], row["before"]) == ("Deployment/shop/basket", "appeared", None)


def test_a_fault_in_the_manifests_of_a_revision_is_named_by_it(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(POD.format(cpu="lots"), encoding="utf-8")
    committed(tmp_path)
    (tmp_path / "p.yaml").write_text(POD.format(cpu="1"), encoding="utf-8")
    assert f"git:HEAD:{tmp_path}/p.yaml" in refused("diff", tmp_path, "--against-manifests", "git:HEAD")


def test_the_page_of_a_difference_has_its_picture_its_command_and_says_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pull_request(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["/usr/bin/kplan", "diff", "deploy", "--against-manifests", "git:HEAD"])
    page = invoke("diff", "deploy", "--against-manifests", "git:HEAD", "-o", "html").stdout
    assert '<div class="verdict failed">' in page
    assert "<figcaption>At the end of the second</figcaption>" in page
    assert "<dt>Command</dt><dd>kplan diff deploy --against-manifests git:HEAD</dd>" in page


def test_nothing_that_is_read_away_from_a_terminal_tells_what_to_type_there(tmp_path: Path) -> None:
    deploy = a_pull_request(tmp_path)
    for code, *command in (
        (1, "place", deploy),
        (1, "plan", deploy),
        (0, "capacity", "--headroom"),
        (1, "drain", "--each"),
    ):
        texts = reports(tmp_path, *command, formats=("html", "markdown"), code=code)
        assert not [name for name, text in texts.items() if "shows all)" in text or "--explain shows" in text]
    why = [line for line in invoke("place", deploy, "-o", "markdown").stdout.splitlines() if "| Deployment" in line]
    assert "it requests 60 cpu" in why[0]


def test_a_workload_that_no_manifest_has_any_more_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cart = Path("fixtures/cart.yaml").read_text(encoding="utf-8")
    deploy = a_pull_request(tmp_path)
    (deploy / "cart.yaml").write_text(cart, encoding="utf-8")
    committed(tmp_path)
    (deploy / "cart.yaml").unlink()
    monkeypatch.chdir(tmp_path)
    warnings = report("deploy", "--against-manifests", "git:HEAD")["warnings"]

    [gone] = [warning for warning in warnings if warning["code"] == "NotInManifests"]
    assert gone["object"] == "Deployment/shop/cart"
    assert "its 6 pods run on, unless the apply prunes" in gone["message"]


def test_an_overlay_is_built_at_the_revision_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, overlay = tmp_path / "bin", tmp_path / "repository/overlays/prod"
    programs.mkdir()
    overlay.mkdir(parents=True)
    (programs / "kustomize").write_text('#!/bin/sh\ncat "$2/../../base/p.yaml"\n', encoding="utf-8")
    (programs / "kustomize").chmod(0o755)
    (overlay / "kustomization.yaml").write_text("resources: [../../base]\n", encoding="utf-8")
    base = tmp_path / "repository/base"
    base.mkdir()
    (base / "p.yaml").write_text(POD.format(cpu="100m"), encoding="utf-8")
    committed(tmp_path / "repository")
    (base / "p.yaml").write_text(POD.format(cpu="500"), encoding="utf-8")
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    question = ("-k", overlay, "--against-manifests", "git:HEAD")

    [row] = report(*question)["workloads"]
    assert (row["difference"], row["before"]["placed"], row["after"]["placed"]) == ("newly-pending", 1, 0)
    assert "kplan-" not in invoke("diff", *question).stderr
    assert "no such directory" in refused("diff", "-k", tmp_path / "none", "--against-manifests", "git:HEAD")


def test_a_file_that_is_deleted_takes_its_workload_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy = a_pull_request(tmp_path)
    (deploy / "cart.yaml").write_text(Path("fixtures/cart.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    git = committed(tmp_path)
    subprocess.run([*git, "rm", "-q", "deploy/cart.yaml"], check=True)
    (deploy / "values.yaml").write_text("replicas: 3\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # As git diff --name-only lists them.
    found = report("deploy/cart.yaml", "deploy/values.yaml", "--against-manifests", "git:HEAD")

    row = next(row for row in found["workloads"] if row["workload"] == "Deployment/shop/cart")
    assert (row["difference"], row["before"]["pods"], row["after"]) == ("disappeared", 6, None)
    assert not any(warning["code"] == "NotInManifests" for warning in found["warnings"])
    subprocess.run([*git, "rm", "-rqf", "deploy"], check=True)
    gone = report("deploy/cart.yaml", "deploy/web.yaml", "--against", "git:HEAD")["workloads"]
    assert {"Deployment/shop/cart", "Deployment/shop/basket"} <= {row["workload"] for row in gone}
    assert "is not in that revision" in refused("diff", "deploy/none.yaml", "--against", "git:HEAD")


def written_on(path: Path, replicas: int, cpu: str, priority: str = "") -> Path:
    """Write a Deployment that runs in the cluster of `crowded`, with other numbers."""
    text = WEB.format(replicas=replicas, cpu=cpu).replace("shop", "default")
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        text.replace("spec:\n      containers", f"spec:\n      {priority}\n      containers"), encoding="utf-8"
    )
    return path


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """Write a cluster in which a Deployment runs with three pods on the only node, and return its file."""
    high = head("PriorityClass", name="high") | {"value": 1000}
    live = running(deployment("basket", 3, image="i", cpu="1"), ["n"] * 3)
    return listed(tmp_path / "cluster.json", node("n", "8", "16Gi", "20"), high, *live)


def test_replicas_are_counted_and_not_the_pods_of_a_rollout_beside_them(crowded: Path, tmp_path: Path) -> None:
    before = written_on(tmp_path / "before" / "web.yaml", 3, "1").parent
    after = written_on(tmp_path / "after" / "web.yaml", 3, "90").parent
    [row] = report(before, after, "-s", crowded)["workloads"]
    assert (row["before"]["pods"], row["after"]["pods"], row["after"]["placed"]) == (3, 3, 2)
    assert "1 of 3 pods of Deployment default/basket" in invoke("diff", before, after, "-s", crowded).stdout
    written_on(after / "web.yaml", 5, "1")
    assert "scaled 3 -> 5" in invoke("diff", before, after, "-s", crowded).stdout


def test_what_another_change_evicts_or_leaves_no_room_for_is_told_with_its_reason(
    crowded: Path, tmp_path: Path
) -> None:
    before = written_on(tmp_path / "before" / "web.yaml", 3, "1").parent
    after = written_on(tmp_path / "after" / "web.yaml", 3, "1").parent
    for name, replicas, priority in (("big", 12, "priorityClassName: high"), ("new", 2, "nodeSelector: {disk: nvme}")):
        file = written_on(after / f"{name}.yaml", replicas, "500m", priority)
        file.write_text(file.read_text(encoding="utf-8").replace("basket", name), encoding="utf-8")
    question = ("diff", before, after, "-s", crowded)

    rows = {row["workload"]: row for row in report(*question[1:])["workloads"]}
    new, basket = rows["Deployment/default/new"], rows["Deployment/default/basket"]
    assert (new["after"]["pods"], new["after"]["placed"]) == (2, 0)
    assert "disk=nvme" in new["decision"]["diagnosis"]
    assert basket["evictedFor"] == {"Deployment/default/big": 1}
    annotations = invoke(*question, "-o", "github").stdout.splitlines()
    assert [line.split()[0] for line in annotations] == ["::warning", "::warning", "::notice", "::notice"]
    assert "1 pod evicted for Deployment default/big" in annotations[0] + annotations[1]

    comment = invoke("diff", before, after, "-s", crowded, "-o", "markdown").stdout
    assert comment.count("<details>") == comment.count("</details>")
    plan = told("plan", after, "-s", crowded)
    assert {f"Deployment/default/{one['name']}": one["pending"] for one in plan["workloads"]} == {
        key: row["after"]["pods"] - row["after"]["placed"] for key, row in rows.items()
    }


def test_gitlab_reads_one_issue_a_workload(crowded: Path, tmp_path: Path) -> None:
    before = written_on(tmp_path / "before" / "web.yaml", 3, "1").parent
    after = written_on(tmp_path / "after" / "web.yaml", 3, "90").parent
    [issue] = json.loads(invoke("diff", before, after, "-s", crowded, "-o", "codequality").stdout)

    assert (issue["check_name"], issue["severity"], issue["location"]["lines"]) == (
        "NewlyPending",
        "minor",
        {"begin": 18},
    )
    assert issue["location"]["path"].endswith("after/web.yaml")
    failing = ("--fail-on", "regression", "-o", "codequality")
    [issue] = json.loads(invoke("diff", before, after, "-s", crowded, *failing).stdout)
    assert issue["severity"] == "major"
