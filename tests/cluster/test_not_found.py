"""Hints for names that do not exist."""

import pytest

from kplan.cluster.workload_pods import did_you_mean

KNOWN = ["shop/voucher-api", "shop/cart-0", "data/redis-0", "node-a"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shop/cart-1", "did you mean shop/cart-0?"),
        ("shop/nosuch", ""),
        ("shop/redis-0", "did you mean data/redis-0?"),
        ("dta/redis-1", "did you mean data/redis-0?"),
        ("node-b", "did you mean node-a?"),
    ],
)
def test_a_namespace_that_two_names_share_does_not_make_them_alike(name: str, hint: str) -> None:
    assert did_you_mean([name], KNOWN) == hint
