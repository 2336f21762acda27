import json
from pathlib import Path

import pytest

from tests.cli.commands import invoke, printed, refused, told, written
from tests.cli.processes import kplan

QUEUE = ["shop/flash-sale", "shop/voucher-api", "ml/fine-tune", "ml/llm-eval"]
CHANGES = [
    "+ shop/flash-sale general-c-1", "+ shop/voucher-api general-a-2", "+ ml/fine-tune gpu-b-1", "! ml/llm-eval -",
    "! batch/nightly-export -", "~ batch/report-daily-4swkz spot-a-1", "! ml/train-ranking-cmm2h -",
    "~ batch/report-hourly-tklxq spot-a-1",
]  # fmt: skip


def test_the_whole_queue_through_a_real_process() -> None:
    found = kplan("plan", "-s", "demo")
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout.startswith("ml/llm-eval stays pending (and 2 other pods too): none of 13 nodes is large enough")
    assert "; 8 pods: 3 placed, 2 moved, 3 stay pending; " in " ".join(found.stdout.split())
    assert "  ~  batch/report-daily-4swkz   general-c-1  spot-a-1     evicted for shop/flash-sale\n" in found.stdout
    assert "Utilisation, before -> after: cpu 58% -> 62%" in found.stdout
    assert "Largest request that still fits: 1450m cpu" in found.stdout
    assert found.stdout.splitlines()[-1].startswith("Verdict: failed (exit code 1): unschedulable: ")


def failing(*args: str | Path) -> list[str]:
    """Return what makes a plan fail."""
    result = invoke("plan", *args, "-o", "json")
    document = json.loads(result.stdout)
    assert result.exit_code == document["verdict"]["exitCode"] == bool(document["verdict"]["counted"])
    return [event["object"] for event in document["verdict"]["counted"]]


def test_beside_manifests_pods_that_were_pending_before_count_only_when_asked_for(web: Path) -> None:
    pending = ["ml/llm-eval", "batch/nightly-export", "ml/train-ranking-cmm2h"]

    assert failing(web) == []
    assert sorted(failing(web, "--fail-on", "pending")) == sorted(pending)
    assert sorted(failing(web, "--fail-on", "unschedulable,gated,pending")) == sorted(pending)
    assert failing("--fail-on", "pending") == pending
    assert failing() == ["ml/llm-eval", "ml/train-ranking-cmm2h"]
    assert failing("ml/llm-eval") == ["ml/llm-eval"]
    many = failing(web, "--replicas", "40")
    assert any(name.startswith("default/web-") for name in many)
    assert "ml/llm-eval" not in many


def test_beside_manifests_pods_that_were_pending_before_count_in_runs_only_when_asked_for(web: Path) -> None:
    assert failing(web, "--runs", "2") == []
    pending = ["batch/nightly-export", "ml/llm-eval", "ml/train-ranking-cmm2h"]
    assert sorted(failing(web, "--runs", "2", "--fail-on", "pending")) == pending
    assert sorted(failing("--runs", "2")) == pending[1:]


def test_pods_that_stay_pending_count_for_every_command_that_is_asked_to() -> None:
    for command in ("place", "preempt", "explain"):
        assert invoke(command, "ml/llm-eval", "--fail-on", "pending").exit_code == 1
        assert invoke(command, "ml/fine-tune", "--fail-on", "pending").exit_code == (0 if command == "preempt" else 1)


def test_the_queue_in_order_with_those_that_are_kept_out() -> None:
    assert invoke("plan", "--queue", "-o", "name").stdout.splitlines() == QUEUE
    found = printed("plan", "--queue")
    assert "     1  shop/flash-sale       Active  priority 100000, created 2026-02-26T09:02:00Z" in found
    assert "     -  batch/nightly-export  Gated   waiting for scheduling gates" in found
    assert invoke("plan", "--queue", "--fail-on", "gated").exit_code == 1


def test_pods_of_manifests_join_the_queue_or_are_alone_in_it(web: Path) -> None:
    together = invoke("plan", web, "-o", "name").stdout.splitlines()
    alone = invoke("plan", web, "-o", "name", "--only-given")
    assert sum("default/web-" in line for line in together) == 2
    assert len(together) == len(CHANGES) + 2
    assert alone.exit_code == 0
    assert [line[:14] for line in alone.stdout.splitlines()] == ["+ default/web-"] * 2


@pytest.mark.parametrize("options", [(), ("--timeline",), ("--only-given",)])
def test_a_pod_that_is_named_comes_first(options: tuple[str, ...]) -> None:
    named = printed("plan", "shop/flash-sale", *options, "-o", "short")
    assert named.startswith("shop/flash-sale -> general-c-1 by evicting batch/report-daily-4swkz; ")


def test_victims_may_be_gone_and_rounds_limited() -> None:
    assert "- batch/report-daily-4swkz -" in invoke("plan", "--no-recreate", "-o", "name").stdout.splitlines()
    assert told("plan", "--max-rounds", "1")["summary"]["rounds"] == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1, 2]", "apiVersion is not kplan/v1"),
        ('{"apiVersion": "kplan/v1", "kind": "Pod"}', 'cannot print a document of kind "Pod"'),
        ('{"apiVersion": "kplan/v1", "kind": "PlanReport", "formatVersion": "2.0"}', 'format version "2.0" is not 1.x'),
        ('{"apiVersion": "kplan/v1", "kind": "PlanReport", "formatVersion": "1.0"}', "$.snapshot: is missing"),
        ("{", "the JSON ends before it is complete"),
    ],
)
def test_what_is_no_report_is_said(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path / "odd.json", text)
    assert problem in refused("show", path)


def test_a_report_that_lacks_its_parts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    document = told("plan")
    del document["changes"]
    path.write_text(json.dumps(document))
    assert "$.changes: is missing" in refused("show", path)
    path.write_text(json.dumps(document | {"changes": [1]}))
    assert "$.changes[0]: expected an object, got 1" in invoke("show", path).stderr


def test_show_reads_standard_input_and_yaml(tmp_path: Path) -> None:
    path = written(tmp_path / "plan.yaml", invoke("plan", "-o", "yaml").stdout)
    shown = invoke("show", path, "-o", "name").stdout
    assert shown.splitlines() == CHANGES
    assert kplan("show", "-", "-o", "name", stdin=path.read_bytes()).stdout == shown
