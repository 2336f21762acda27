from __future__ import annotations

import pytest

from kplan.api.names import (
    dns_label_problems,
    dns_subdomain_problems,
    label_key_problems,
    label_value_problems,
)


@pytest.mark.parametrize("key", ["a", "app.kubernetes.io/name", "A_b-c.d", "x" * 63])
def test_good_keys(key: str) -> None:
    assert label_key_problems(key) == ()


@pytest.mark.parametrize(
    ("key", "start"),
    [
        ("", "name part must be non-empty"),
        ("/a", "prefix part must be non-empty"),
        ("Upper.example/a", "prefix part a lowercase RFC 1123 subdomain"),
        ("a/b/c", "a valid label key must consist of"),
        ("x" * 64, "name part must be no more than 63 bytes"),
        ("-a", "name part must consist of"),
        ("a\n", "name part must consist of"),
    ],
)
def test_bad_keys(key: str, start: str) -> None:
    assert label_key_problems(key)[0].startswith(start)


def test_values_may_be_empty_but_not_long_or_odd() -> None:
    assert label_value_problems("") == ()
    assert label_value_problems("a.b_C-1") == ()
    assert label_value_problems("x" * 64) == ("must be no more than 63 bytes",)
    assert label_value_problems("{{x}}")[0].startswith("a valid label must be an empty string or consist of")


def test_dns_names() -> None:
    assert dns_label_problems("web-1") == ()
    assert dns_label_problems("a.b") == ("must not contain dots",)
    assert dns_label_problems("Web")[0].startswith("a lowercase RFC 1123 label")
    assert dns_subdomain_problems("a.b-c") == ()
    assert dns_subdomain_problems("x" * 254)[0] == "must be no more than 253 bytes"
