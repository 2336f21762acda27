"""A rollout that cannot surge says so, and what would let it go on."""

from tests.incidents.asking import answer, manifest, text

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
