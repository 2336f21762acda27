"""Decoding as strictly as an API server does it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.admission import decoding
from kplan.admission.decoding import decode_object, time_problem
from tests.admission import generate_fields


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


_LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f'as "{_LAYOUT}": cannot parse "" as "2006"'),
        ("2024", f'as "{_LAYOUT}": cannot parse "" as "-"'),
        ("2024-01-01 00:00:00Z", f'as "{_LAYOUT}": cannot parse " 00:00:00Z" as "T"'),
        ("2024-13-01T00:00:00Z", "month out of range"),
        ("2023-02-29T00:00:00Z", "day out of range"),
        ("2100-02-29T00:00:00Z", "day out of range"),
        ("2024-01-01T24:00:00Z", "hour out of range"),
        ("2024-01-01T00:00:00+25:00", "time zone offset hour out of range"),
        ("2024-01-01T00:00:00Zx", 'extra text: "x"'),
    ],
)
def test_bad_ones_are_told_in_its_words(text: str, problem: str) -> None:
    assert time_problem(text).startswith(f'parsing time "{text}"')
    assert time_problem(text).endswith(problem)


def test_leap_days_are_days() -> None:
    assert not any(map(time_problem, ("2024-02-29T00:00:00Z", "2000-02-29T00:00:00Z")))


def test_the_shipped_table_is_what_the_generator_makes_of_the_api_description() -> None:
    import kubernetes  # as much as a tenth of what all processes that collect tests import

    major = f"{generate_fields.MAJOR}."
    assert kubernetes.__version__.startswith(major), "write the table again: python tests/admission/generate_fields.py"
    assert generate_fields.TARGET.read_text() == generate_fields.text()


def test_fields_that_are_newer_than_1_36_are_not_known() -> None:
    assert "containers" in decoding.fields_of("V1PodSpec")
    assert "evictionResponders" not in decoding.fields_of("V1PodSpec")
