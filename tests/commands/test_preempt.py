import json

from tests.cli.commands import invoke, printed


def test_without_arguments_every_pod_that_fits_nowhere() -> None:
    found = invoke("preempt", "-o", "json")
    document = json.loads(found.stdout)
    assert found.exit_code == 1
    assert document["kind"] == "PreemptionReport"
    pods = [f"{each['pod']['namespace']}/{each['pod']['name']}" for each in document["placements"]]
    assert pods == ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]
    assert document["verdict"]["because"] == ["ml/llm-eval: Unschedulable"]
    assert document["aftermath"] is None


def test_a_pod_that_gets_in_is_no_failure() -> None:
    assert invoke("preempt", "ml/fine-tune").exit_code == 0
    assert invoke("preempt", "ml/fine-tune", "--fail-on", "preemption").exit_code == 1
    assert invoke("preempt", "ml/llm-eval").exit_code == 1


def test_tables_follow_the_victims_unless_told_not_to() -> None:
    assert "Where the victims go" in invoke("preempt", "ml/fine-tune").stdout
    assert "Where the victims go" not in invoke("preempt", "ml/fine-tune", "--no-follow").stdout
    followed = json.loads(invoke("preempt", "ml/fine-tune", "--follow", "-o", "json").stdout)["aftermath"]
    assert [(each["by"], each["from"]) for each in followed] == [("ml/fine-tune", "gpu-b-1")]


def test_settling_tries_the_pod_again() -> None:
    placements = json.loads(invoke("preempt", "ml/fine-tune", "--settle-preemption", "-o", "json").stdout)["placements"]
    assert [(each["outcome"], each["node"]) for each in placements] == [
        ("Unschedulable", None),
        ("Scheduled", "gpu-b-1"),
    ]


def test_victims_are_told_with_what_their_eviction_frees() -> None:
    document = json.loads(invoke("preempt", "ml/fine-tune", "--explain", "-o", "json").stdout)
    preemption = document["placements"][0]["preemption"]
    victim = preemption["victims"][0]
    assert victim["frees"]["nvidia.com/gpu"] == {"amount": "2", "percent": 50}
    assert victim["terminationGracePeriodSeconds"] == 300
    candidates = preemption["candidates"]
    assert {node: each["lostBy"] for node, each in candidates.items()} == {
        "gpu-b-1": None,
        "gpu-a-1": "latest-start-time",
    }
    assert candidates["gpu-b-1"]["reprieve"][-1]["kept"] is False
    assert sum(group["nodes"] for group in preemption["notHelpful"]) >= 11
    assert "2 nvidia.com/gpu (50%)" in invoke("preempt", "ml/fine-tune", "--explain").stdout


def test_nothing_to_evict() -> None:
    found = printed("preempt", "shop/voucher-api")
    assert found.startswith("shop/voucher-api -> general-a-2")


def test_pipelines_name_the_victims_of_a_pod_that_gets_in() -> None:
    lines = invoke("preempt", "-o", "github").stdout.splitlines()
    assert any("(preemption)::evicts ml/train-ranking-cmm2h on gpu-b-1" in line for line in lines)
    assert sum(line.startswith("::error") for line in lines) == 1
    failing = invoke("preempt", "ml/fine-tune", "--fail-on", "preemption", "-o", "github").stdout
    assert failing.startswith("::error title=kplan%3A ml/fine-tune (preemption)::Preemption on gpu-b-1; evicts ml/")


def test_the_page_draws_the_cluster_before_and_after_the_evictions() -> None:
    page = invoke("preempt", "-o", "html").stdout
    before, after = page.split('<figure class="cluster">')[1:]
    assert "1 leaving" in before
    assert "1 leaving" not in after
    assert "1 new" in after
    assert '<figure class="cluster">' not in invoke("preempt", "--no-follow", "-o", "html").stdout
    assert "cluster" not in json.loads(invoke("preempt", "--follow", "-o", "json").stdout)
