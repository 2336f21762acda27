"""A DaemonSet's pod that finds no room is one of several that run."""

from tests.incidents.asking import answer, text


def test_the_nodes_on_which_the_others_run_are_counted() -> None:
    (change,) = answer("daemon-without-room", "plan", exit_code=1)["changes"]
    assert change["siblings"] == 3
    assert "DaemonSet mon/agent: 3 of 4 nodes" in text("daemon-without-room", "plan")


def test_with_runs_a_blocked_pod_is_blocked_and_nothing_else() -> None:
    shown = text("tight-budget", "drain", "w-1", "--runs", "20", "-o", "junit")
    assert 'type="Blocked"' in shown
    assert "placed in 0%" not in shown
    assert "pending in 0%" not in shown
