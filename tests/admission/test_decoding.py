"""Decoding as strictly as an API server does it."""

from typing import Any

import kubernetes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.admission import decoding
from kplan.admission.decoding import decode_object, time_problem
from tests.admission import generate_fields
from tests.objects import head


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def test_what_is_not_written_is_left_out() -> None:
    spec = {
        "containers": [
            {"name": "c", "args": [], "tty": False, "stdin": None, "securityContext": {"privileged": False}}
        ],
        "nodeName": "",
        "priority": 0,
        "volumes": None,
    }
    assert decode_object(pod(**spec), "V1Pod").content["spec"] == {
        "containers": [{"name": "c", "securityContext": {"privileged": False}, "resources": {}}],
        "priority": 0,
    }


def test_quantities_become_canonical() -> None:
    decoded = decode_object(pod(overhead={"cpu": 0.5, "memory": "1024Mi", "a": "1e9", "b": "0.10"}), "V1Pod")

    assert decoded.content["spec"]["overhead"] == {"cpu": "500m", "memory": "1Gi", "a": "1e9", "b": "100m"}


anything: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, 0, -1, 1 << 40, 0.5, "", "x", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "spec", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["containers", "affinity", "overhead", "tolerations", "os"]), anything))
def test_what_decodes_decodes_again_to_the_same(spec: dict[str, Any]) -> None:
    once = decode_object(pod(**spec), "V1Pod")
    again = decode_object(once.content, "V1Pod")

    assert again.faults == []
    if all(fault.is_strict for fault in once.faults):
        assert again.content == once.content


def test_amounts_of_autoscalers_may_be_numbers() -> None:
    target = {"type": "AverageValue", "averageValue": 50}
    metrics = [{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": target}}]
    scaler = head("HorizontalPodAutoscaler", name="s") | {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": metrics}
    }

    assert not decode_object(scaler, "V2HorizontalPodAutoscaler").faults


_LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    "text",
    ["2024-02-29T23:59:59Z", "2024-01-01T0:00:00Z", "2024-01-01T00:00:00.123456+24:60", "0000-12-31T00:00:00-00:30"],
)
def test_good_times_are_read(text: str) -> None:
    assert time_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f'as "{_LAYOUT}": cannot parse "" as "2006"'),
        ("2024", f'as "{_LAYOUT}": cannot parse "" as "-"'),
        ("2024-01-01 00:00:00Z", f'as "{_LAYOUT}": cannot parse " 00:00:00Z" as "T"'),
        ("2024-13-01T00:00:00Z", "month out of range"),
        ("2023-02-29T00:00:00Z", "day out of range"),
        ("2024-01-01T24:00:00Z", "hour out of range"),
        ("2024-01-01T00:00:00+25:00", "time zone offset hour out of range"),
        ("2024-01-01T00:00:00Zx", 'extra text: "x"'),
    ],
)
def test_bad_ones_are_told_in_its_words(text: str, problem: str) -> None:
    assert time_problem(text).startswith(f'parsing time "{text}"')
    assert time_problem(text).endswith(problem)


def test_the_shipped_table_is_what_the_generator_makes_of_the_api_description() -> None:
    major = f"{generate_fields.MAJOR}."
    assert kubernetes.__version__.startswith(major), "write the table again: python tests/admission/generate_fields.py"
    assert generate_fields.TARGET.read_text() == generate_fields.text()


def test_fields_that_are_newer_than_1_36_are_not_known() -> None:
    assert "containers" in decoding.fields_of("V1PodSpec")
    assert "evictionResponders" not in decoding.fields_of("V1PodSpec")


def test_kinds_are_known_by_version_and_name() -> None:
    assert decoding.kind_named("apps/v1", "Deployment") == ("V1Deployment", "deployments", True)
    assert decoding.kind_named("apps/v1beta1", "Deployment") is None
    assert decoding.nearest_kind("extensions/v1beta1", "Deployment") == ("apps/v1", "Deployment")
    assert decoding.nearest_kind("v1", "Pods") == ("v1", "Pod")


def test_misspelt_fields_have_a_nearest_name() -> None:
    decoded = decoding.decode_object({"name": "c", "resource": {}, "xyzzy": 1}, "V1Container")

    assert [(fault.path, fault.hint) for fault in decoded.faults] == [("resource", "resources"), ("xyzzy", "")]
