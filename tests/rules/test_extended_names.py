import pytest

from kplan.rules.resources import is_extended


@pytest.mark.parametrize(
    ("name", "expected"),
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
def test_extended_resources_are_prefixed_and_not_of_kubernetes(name: str, expected: bool) -> None:
    assert is_extended(name) is expected
