import pytest

from kplan.api.names import dns_label_problems, dns_subdomain_problems, label_key_problems, label_value_problems


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


@pytest.mark.parametrize(
    "name", ["a", "A-1_b.c", "example.com/a", "x" * 63, "1.2.3/4", "a" * 63 + "." + "b" * 63 + "/c"]
)
def test_names_that_labels_may_have(name: str) -> None:
    assert label_key_problems(name) == ()


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("/a", ["prefix part must be non-empty"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
    ],
)
def test_names_that_labels_may_not_have(name: str, errors: list[str]) -> None:
    assert list(label_key_problems(name)) == errors


@pytest.mark.parametrize("name", ["-a", "a-", "a b", "é", "a/b/c", "Example.com/a", "a..b/c", "a/", "a\n"])
def test_names_with_characters_in_the_wrong_place(name: str) -> None:
    assert "regex used for validation is '" in " ".join(label_key_problems(name))


@pytest.mark.parametrize("value", ["", "a", "a.b_c-d", "0" * 63])
def test_values_that_labels_may_have(value: str) -> None:
    assert label_value_problems(value) == ()


@pytest.mark.parametrize("value", ["-", "a ", "x" * 64, ".", "a\n"])
def test_values_that_labels_may_not_have(value: str) -> None:
    assert len(label_value_problems(value)) == 1
