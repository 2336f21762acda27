"""What an API server refuses in PodGroups, and defaults of a LimitRange; of other policies tests/answers tells."""

from typing import Any

import pytest

from kplan.admission.validation.policies import limit_range_errors, pod_group_errors


def errors(**spec: Any) -> list[str]:
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    group = {"metadata": {"name": "train", "namespace": "default"}, "spec": {**policy, **spec}}
    return [str(error) for error in pod_group_errors(group, "")]


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 2}}},
         'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}},
         "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"),
        ({"schedulingConstraints": {"topology": [{"key": "a"}, {}]}},
         "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"),
        ({"schedulingConstraints": {"topology": [{}]}}, "spec.schedulingConstraints.topology[0].key: Required value"),
        ({"disruptionMode": "All"}, 'spec.disruptionMode: Unsupported value: "All"'),
        ({"resourceClaims": [{"name": "c"}]},
         'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_the_words_of_the_api_server(spec: dict[str, Any], start: str) -> None:
    (error,) = errors(**spec)
    assert error.startswith(start)


def test_the_minimum_of_containers_is_a_default_request() -> None:
    limit = {"type": "Container", "min": {"pods": "1"}}
    found = limit_range_errors({"metadata": {"name": "a", "namespace": "b"}, "spec": {"limits": [limit]}}, "")
    assert [str(error).partition(":")[0] for error in found] == [
        f"spec.limits[0].{part}[pods]" for part in ("min", "defaultRequest")
    ]
