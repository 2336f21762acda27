import json

from tests.cli.commands import invoke, told


def test_without_arguments_every_pod_that_fits_nowhere() -> None:
    found = invoke("preempt", "-o", "json")
    document = json.loads(found.stdout)
    assert found.exit_code == 1
    assert document["kind"] == "PreemptionReport"
    pods = [f"{each['pod']['namespace']}/{each['pod']['name']}" for each in document["placements"]]
    assert pods == ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]
    assert document["verdict"]["because"] == ["ml/llm-eval: Unschedulable"]
    assert document["aftermath"] is None


def test_tables_follow_the_victims_unless_told_not_to() -> None:
    assert "Where the victims go" in invoke("preempt", "ml/fine-tune").stdout
    assert "Where the victims go" not in invoke("preempt", "ml/fine-tune", "--no-follow").stdout
    followed = told("preempt", "ml/fine-tune", "--follow")["aftermath"]
    assert [(each["by"], each["from"]) for each in followed] == [("ml/fine-tune", "gpu-b-1")]


def test_settling_tries_the_pod_again() -> None:
    placements = told("preempt", "ml/fine-tune", "--settle-preemption")["placements"]
    assert [(each["outcome"], each["node"]) for each in placements] == [
        ("Unschedulable", None),
        ("Scheduled", "gpu-b-1"),
    ]


def test_victims_are_told_with_what_their_eviction_frees() -> None:
    document = told("preempt", "ml/fine-tune", "--explain")
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


def test_pipelines_name_the_victims_of_a_pod_that_gets_in() -> None:
    lines = invoke("preempt", "-o", "github").stdout.splitlines()
    assert any("(preemption)::evicts ml/train-ranking-cmm2h on gpu-b-1" in line for line in lines)
    assert sum(line.startswith("::error") for line in lines) == 1
    failing = invoke("preempt", "ml/fine-tune", "--fail-on", "preemption", "-o", "github").stdout
    assert failing.startswith("::error title=kplan%3A ml/fine-tune (preemption)::Preemption on gpu-b-1; evicts ml/")
