"""The table of the API's fields."""

import kubernetes

from kplan.admission import fields
from tests.admission import generate_fields


def test_the_shipped_table_is_what_the_generator_makes_of_the_api_description() -> None:
    major = f"{generate_fields.MAJOR}."
    assert kubernetes.__version__.startswith(major), "write the table again: python tests/admission/generate_fields.py"
    assert generate_fields.TARGET.read_text() == generate_fields.text()


def test_fields_that_are_newer_than_1_36_are_not_known() -> None:
    assert "containers" in fields.fields_of("V1PodSpec")
    assert "evictionResponders" not in fields.fields_of("V1PodSpec")


def test_kinds_are_known_by_version_and_name() -> None:
    assert fields.kind_named("apps/v1", "Deployment") == ("V1Deployment", "deployments", True)
    assert fields.kind_named("apps/v1beta1", "Deployment") is None
    assert fields.nearest_kind("extensions/v1beta1", "Deployment") == ("apps/v1", "Deployment")
    assert fields.nearest_kind("v1", "Pods") == ("v1", "Pod")


def test_misspelt_fields_have_a_nearest_name() -> None:
    assert fields.nearest("V1Container", "resource") == "resources"
    assert fields.nearest("V1Container", "xyzzy") == ""
