"""Options that do nothing are told, and passed over."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke, written

PLACE = ("place", "shop/voucher-api")
LINES = {
    "a kubeconfig and a snapshot": (
        (*PLACE, "-s", "demo", "--kubeconfig", "/no/such"), "--kubeconfig", "the cluster is read from demo",
    ),
    "a context and a snapshot": (
        (*PLACE, "-s", "demo", "--context", "prod"), "--context", "the cluster is read from demo",
    ),
    "a timeout and a snapshot": ((*PLACE, "--request-timeout", "3s"), "--request-timeout", "read from demo"),
    "a user and a file": (("snapshot", "show", "demo", "--as", "jane"), "--as", "the cluster is read from demo"),
    "workers for one question": ((*PLACE, "--workers", "2"), "--workers", "there is only one question, --runs would"),
    "workers for one drain": (("drain", "spot-b-1", "--workers", "2"), "--workers", "--runs or --each or --by would"),
    "Dask for one question": (("plan", "--dask", "tcp://no:1"), "--dask", "there is only one question"),
    "a seed without draws": ((*PLACE, "--ties", "name", "--seed", "3"), "--seed", "--ties name draws nothing"),
    "a start without sampling": ((*PLACE, "--start-index", "3"), "--start-index", "every node is evaluated"),
    "some of all nodes": ((*PLACE, "--all-nodes", "--top", "3"), "--top", "--all-nodes shows all"),
    "rounds of nothing": (("plan", "--queue", "--max-rounds", "3"), "--max-rounds", "--queue tries no pod"),
    "the queue beside a rollout": (("plan", "fixtures/cart.yaml", "--only-given"), "--only-given", "a workload runs"),
    "extenders without extenders": ((*PLACE, "--extenders", "call"), "--extenders call", "has no extenders"),
    "an autoscaler for headroom": (
        ("capacity", "--headroom", "--autoscaler", "cluster-autoscaler"), "--autoscaler",
        "--headroom counts on the present nodes",
    ),
    "a mix of one": (
        ("capacity", "fixtures/web.yaml", "--mix", "3"), "--mix", "a mix needs a number for each workload",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("args", "option", "because"), LINES.values(), ids=LINES)
def test_an_option_without_effect_is_told_with_why(args: tuple[str, ...], option: str, because: str) -> None:
    found = invoke(*args, "-o", "json")
    (line,) = [line for line in found.stderr.splitlines() if "has no effect" in line]
    assert line.startswith(f"warning: {option} has no effect: ")
    assert because in line
    assert found.stdout


def test_the_answer_is_that_without_the_option() -> None:
    assert invoke(*PLACE, "--ties", "name", "--seed", "3").stdout == invoke(*PLACE, "--ties", "name").stdout


def test_nothing_is_told_where_nothing_is_to_be_told_and_of_what_does_something() -> None:
    assert "no effect" not in invoke(*PLACE, "--start-index", "3", "-q").stderr
    useful = ("--start-index", "3", "--sampling", "as-configured", "--seed", "3", "--top", "2")
    assert "no effect" not in invoke(*PLACE, *useful).stderr


def test_workers_of_a_command_that_always_asks_much_do_something(tmp_path: Path) -> None:
    checks = written(tmp_path / "checks.yaml", "apiVersion: kplan/v1\nkind: Checks\nchecks: [{budgets: all}]\n")
    assert "no effect" not in invoke("check", checks, "--workers", "2").stderr


def test_an_environment_tells_of_no_option() -> None:
    assert "no effect" not in invoke(*PLACE, KUBECONFIG="/no/such").stderr


@pytest.mark.parametrize("option", ["--context", "--kubeconfig", "--cluster"])
def test_a_cluster_on_the_command_line_and_a_snapshot_in_the_environment_contradict_each_other(option: str) -> None:
    found = invoke(*PLACE, option, "prod", KPLAN_SNAPSHOT="demo")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.splitlines() == [
        f"error: {option} names a live cluster, and KPLAN_SNAPSHOT a file: demo",
        f"hint: unset KPLAN_SNAPSHOT to ask the cluster, or leave {option} out to ask the file",
    ]
