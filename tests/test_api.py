"""The public face: every name is there, and asking for none of them costs nothing."""

import doctest
import subprocess
import sys

import pytest

import kplan
from kplan import errors


def test_every_public_name_can_be_had() -> None:
    assert sorted(kplan.__all__) == kplan.__all__
    assert all(getattr(kplan, name) is not None for name in kplan.__all__)
    assert set(kplan.__all__) <= set(dir(kplan))


def test_every_error_is_public_and_a_kplan_error() -> None:
    assert set(errors.__all__) <= set(kplan.__all__)
    for name in set(errors.__all__) - {"Problem"}:
        assert issubclass(getattr(kplan, name), kplan.KplanError)


def test_the_example_in_the_package_is_true() -> None:
    assert doctest.testmod(kplan).failed == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = kplan.nonsense


def test_importing_kplan_loads_nothing_heavy() -> None:
    script = "import sys, kplan; print(sorted({'numpy', 'msgspec', 'yaml', 'kubernetes', 'typer'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_problems_say_where_they_are() -> None:
    problem = kplan.Problem("expected a string", path="pod.yaml", document=2, json_path="$.spec", hint="quote it")
    error = kplan.ManifestError([problem, kplan.Problem("empty")])

    assert str(problem) == "pod.yaml (document 2): $.spec: expected a string"
    assert str(error) == "pod.yaml (document 2): $.spec: expected a string\nempty"
    assert error.hint == "quote it"
    assert error.problems == (problem, kplan.Problem("empty"))
