from __future__ import annotations

import pytest

from kplan.config.names import is_extended_resource_name, label_value_errors, qualified_name_errors


@pytest.mark.parametrize(
    "name", ["a", "A-1_b.c", "example.com/a", "x" * 63, "1.2.3/4", "a" * 63 + "." + "b" * 63 + "/c"]
)
def test_names_that_labels_may_have(name: str) -> None:
    assert qualified_name_errors(name) == []


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("/a", ["prefix part must be non-empty"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
    ],
)
def test_names_that_labels_may_not_have(name: str, errors: list[str]) -> None:
    assert qualified_name_errors(name) == errors


@pytest.mark.parametrize("name", ["-a", "a-", "a b", "é", "a/b/c", "Example.com/a", "a..b/c", "a/", "a\n"])
def test_names_with_characters_in_the_wrong_place(name: str) -> None:
    assert "regex used for validation is '" in " ".join(qualified_name_errors(name))


@pytest.mark.parametrize("value", ["", "a", "a.b_c-d", "0" * 63])
def test_values_that_labels_may_have(value: str) -> None:
    assert label_value_errors(value) == []


@pytest.mark.parametrize("value", ["-", "a ", "x" * 64, ".", "a\n"])
def test_values_that_labels_may_not_have(value: str) -> None:
    assert len(label_value_errors(value)) == 1


@pytest.mark.parametrize(
    ("name", "is_extended"),
    [
        ("example.com/foo", True),
        ("nvidia.com/gpu", True),
        ("cpu", False),
        ("kubernetes.io/foo", False),
        ("my.kubernetes.io/foo", False),
        ("requests.example.com/foo", False),
        ("example.com/", False),
        ("a/b/c", False),
    ],
)
def test_extended_resources_are_prefixed_and_not_of_kubernetes(name: str, is_extended: bool) -> None:
    assert is_extended_resource_name(name) is is_extended
