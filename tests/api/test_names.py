"""Names and values of labels, and names that resemble one another, with care for the time that it takes."""

import difflib

import pytest

from kplan.api import names
from kplan.api.names import dns_label_problems, dns_subdomain_problems, label_key_problems, label_value_problems

CHARACTERS = "regex used for validation is '"


@pytest.mark.parametrize(
    "key", ["a", "app.kubernetes.io/name", "A_b-c.d", "x" * 63, "1.2.3/4", "a" * 63 + "." + "b" * 63 + "/c"]
)
def test_names_that_labels_may_have(key: str) -> None:
    assert label_key_problems(key) == ()


@pytest.mark.parametrize(
    ("key", "start"),
    [
        ("", "name part must be non-empty"),
        ("/a", "prefix part must be non-empty"),
        ("Upper.example/a", "prefix part a lowercase RFC 1123 subdomain"),
        ("a/b/c", "a valid label key must consist of"),
        ("x" * 64, "name part must be no more than 63 bytes"),
        ("a" * 254 + "/b", "prefix part must be no more than 253 bytes"),
        *((key, "name part must consist of") for key in ("-a", "a\n", "a-", "a b", "é", "\udcff")),
    ],
)
def test_names_that_labels_may_not_have(key: str, start: str) -> None:
    assert label_key_problems(key)[0].startswith(start)


@pytest.mark.parametrize("key", ["a..b/c", "a/", "-a", "a/b/c"])
def test_names_with_characters_in_the_wrong_place(key: str) -> None:
    assert CHARACTERS in " ".join(label_key_problems(key))


@pytest.mark.parametrize(
    ("value", "start"),
    [
        *((value, None) for value in ("", "a", "a.b_C-1", "0" * 63)),
        ("x" * 64, "must be no more than 63 bytes"),
        *((value, "a valid label must be an empty string or consist of") for value in ("{{x}}", "-", "a ", ".", "a\n")),
    ],
)
def test_values_of_labels(value: str, start: str | None) -> None:
    problems = label_value_problems(value)
    assert (len(problems) == 1 and problems[0].startswith(start)) if start else problems == ()


def test_dns_names() -> None:
    assert dns_label_problems("web-1") == ()
    assert dns_label_problems("a.b") == ("must not contain dots",)
    assert dns_label_problems("Web")[0].startswith("a lowercase RFC 1123 label")
    assert dns_subdomain_problems("a.b-c") == ()
    assert dns_subdomain_problems("x" * 254)[0] == "must be no more than 253 bytes"


def test_the_most_similar_name_comes_first() -> None:
    assert names.nearest_texts("voucher", ["boucher", "vouchers", "cart"]) == ["vouchers", "boucher"]
    assert names.similarity("abc", "abc") == 1
    assert 0 < names.similarity("abcd", "abce") < 1


def test_long_texts_resemble_nothing_but_themselves() -> None:
    text = "a" * (names.LONGEST + 1)
    assert names.similarity(text, text) == 1
    assert names.similarity(text, text + "a") == 0
    assert names.nearest_texts(text, [text]) == []
    assert names.nearest_texts("a", [text]) == []


def test_of_very_many_names_only_the_first_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def close(_word: str, names: list[str], *_: object) -> list[str]:
        compared.append(len(names))
        return []

    monkeypatch.setattr(difflib, "get_close_matches", close)
    names.nearest_texts("x", ["y" * 100] * 50_000)

    assert compared == [10_000]
