"""A drain does what kubectl and the eviction API do, says what blocks it, and what would help."""

from typing import Any

from tests.incidents.asking import answer, text


def workload(document: dict[str, Any], name: str) -> dict[str, Any]:
    (wanted,) = (candidate for candidate in document["workloads"] if candidate["name"] == name)
    return wanted


def changes(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return kind and new value of what would help the first pod that is blocked."""
    remedies = document["obstacles"][0]["remedies"]
    return [(remedy["kind"], str(remedy["change"]["to"])) for remedy in remedies]


def test_a_pod_that_a_budget_keeps_is_blocked_and_not_moved() -> None:
    document = answer("tight-budget", "drain", "w-1", exit_code=1)
    assert workload(document, "gateway")["state"] == "blocked"
    assert workload(document, "gateway")["blocked"] == 1
    assert changes(document) == [("more-replicas", "2"), ("change-budget", "minAvailable: 2")]
    assert "complete" not in text("tight-budget", "drain", "w-1")


def test_a_pod_of_two_budgets_is_blocked_and_both_are_named() -> None:
    document = answer("two-budgets", "drain", "w-0", exit_code=1)
    assert workload(document, "front")["state"] == "blocked"
    assert [budget["name"] for budget in document["obstacles"][0]["budgets"]] == ["edge/edge", "edge/front"]


def test_of_two_workloads_the_blocked_one_stays() -> None:
    document = answer("single-replica-budget", "drain", "w-0", exit_code=1)
    assert {name: workload(document, name)["state"] for name in ("multi", "single")} == {
        "multi": "complete",
        "single": "blocked",
    }
    assert ("more-replicas", "2") in changes(document)


def test_drains_in_turn_name_the_budget() -> None:
    document = answer("single-replica-budget", "drain", "--each", exit_code=1)
    first = document["drains"][0]
    assert (first["name"], first["state"], first["budgets"]) == ("w-0", "blocked", ["edge/single"])
    assert "w-0 first: edge/single blocks it: budget edge/single requires 1 healthy pod and has 1" in text(
        "single-replica-budget", "drain", "--each"
    )


def test_one_healthy_pod_more_is_enough_for_one_that_crashes() -> None:
    document = answer("crash-loop", "drain", "w-0", exit_code=1)

    assert document["obstacles"][0]["ready"] is False
    assert (
        changes(document)
        == [
            ("change-budget", "unhealthyPodEvictionPolicy: AlwaysAllow"),
            ("more-replicas", "2"),
            ("change-budget", "maxUnavailable: 1"),
        ][: len(changes(document))]
    )
    assert len(changes(document)) >= 2
    assert answer("crash-loop-and-healthy", "drain", "w-0", exit_code=0)["blocked"] == {}
    assert answer("crash-loop-always-allow", "drain", "w-0", exit_code=0)["blocked"] == {}


def test_kubectl_evicts_nothing_from_a_node_with_a_pod_that_it_does_not_delete() -> None:
    document = answer("drain-needs-force", "drain", "a-1", exit_code=1)

    assert not [step for step in document["steps"] if step["event"] == "evicted"]
    assert document["refusedNodes"] == [
        {
            "node": "a-1",
            "pods": ["default/debug-shell", "shop/tmp-7d9f8b6c5d-q9rc7"],
            "stays": 4,
            "flags": ["--force", "--delete-emptydir-data"],
        }
    ]
    assert document["forced"]["placed"] == 2
    assert document["forced"]["gone"] == ["default/debug-shell"]
    assert document["forced"]["pending"] == ["db/pg-0"]


def test_with_the_flags_the_node_is_emptied_and_uncordoning_it_is_no_remedy() -> None:
    flags = ("--force", "--delete-emptydir-data")
    document = answer("drain-needs-force", "drain", "a-1", *flags, exit_code=1)
    assert document["refusedNodes"] == []
    assert "forced" not in document
    (placement,) = (one for one in document["placements"] if one["outcome"] != "Scheduled")
    assert placement["remedies"]
    assert not [remedy for remedy in placement["remedies"] if remedy["kind"] == "uncordon"]
