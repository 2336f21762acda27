"""The names that shells complete."""

import pytest

from tests.cli.commands import invoke


@pytest.mark.parametrize(
    ("kind", "one"),
    [
        ("nodes", "gpu-a-1"), ("namespaces", "shop"), ("pods", "shop/voucher-api"),
        ("workloads", "deployment/shop/cart"), ("workloads", "deploy/shop/cart"), ("zones", "eu-west-1a"),
        ("pools", "general"),
    ],
)  # fmt: skip
def test_names_come_from_the_snapshot(kind: str, one: str) -> None:
    found = invoke("names", kind).stdout.splitlines()
    assert one in found
    assert found == sorted(set(found))


@pytest.mark.parametrize(("kind", "one"), [("pods", "voucher-api"), ("workloads", "deploy/cart")])
def test_names_in_a_namespace_that_the_command_line_has_come_without_it(kind: str, one: str) -> None:
    found = invoke("names", kind, "--namespace", "shop").stdout.splitlines()
    assert one in found
    assert not [name for name in found if "ml" in name.split("/")]
    assert invoke("names", "nodes", "--namespace", "shop").stdout == invoke("names", "nodes").stdout


@pytest.mark.parametrize("snapshot", ["/no/such/file", "", "-"])
def test_who_completes_is_never_told_what_is_wrong_nor_waits(snapshot: str) -> None:
    found = invoke("names", "pods", KPLAN_SNAPSHOT=snapshot)
    assert (found.exit_code, found.output) == (0, "")


def test_the_command_is_not_listed() -> None:
    assert " names " not in invoke("--help").stdout
