"""Which pods are meant by namespace and labels."""

import pytest

from tests.cli.commands import invoke, told


def names(*args: str) -> list[str]:
    found = invoke(*args, "-o", "name")
    assert found.exit_code in (0, 1), found.stderr
    return found.stdout.splitlines()


@pytest.mark.parametrize(
    ("options", "pods"),
    [
        ((), ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]),
        (("-A",), ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]),
        (("-n", "ml"), ["ml/fine-tune", "ml/llm-eval"]),
        (("-n", "ml", "-A"), ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]),
        (("-l", "app=flash-sale"), ["shop/flash-sale"]),
        (("-n", "ml", "-l", "app!=llm-eval"), ["ml/fine-tune"]),
        (("-l", "app=nobody"), []),
    ],
)
def test_preempt_looks_at_the_pending_pods_that_are_meant(options: tuple[str, ...], pods: list[str]) -> None:
    assert [line.split()[0] for line in names("preempt", *options)] == pods


def test_plan_works_off_the_pending_pods_that_are_meant() -> None:
    assert names("plan", "-n", "ml")[:2] == ["+ ml/fine-tune gpu-b-1", "! ml/llm-eval -"]
    assert names("plan", "--queue", "-l", "app in (flash-sale)") == ["shop/flash-sale"]
    assert names("plan", "-A", "--queue") == names("plan", "--queue")


def test_with_manifests_the_namespace_is_theirs() -> None:
    assert "! ml/llm-eval -" in names("plan", "fixtures/web.yaml", "-n", "shop")


def test_explain_takes_all_pods_that_are_meant() -> None:
    cart = names("explain", "-n", "shop", "-l", "app=cart")
    assert len(cart) == 6
    assert all(line.startswith("shop/cart-") for line in cart)
    assert len(names("explain", "-A", "-l", "app=cart")) == 6


def test_a_snapshot_counts_the_pods_that_are_meant() -> None:
    def counted(*options: str) -> tuple[int, float]:
        document = told("snapshot", "show", "demo", *options)
        return document["pods"]["total"], next(e["requested"] for e in document["resources"] if e["name"] == "cpu")

    everything, shop = counted(), counted("-n", "shop")
    assert counted("-n", "shop", "-A") == everything
    assert shop[0] < everything[0]
    assert shop[1] < everything[1]


def test_a_choice_beside_a_name_does_nothing() -> None:
    stderr = invoke("preempt", "ml/llm-eval", "-l", "x=y").stderr
    assert "--selector has no effect: the arguments name the pods" in stderr
