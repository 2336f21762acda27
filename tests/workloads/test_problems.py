"""Problems of manifests."""

import pytest

from kplan.workloads.foreign import is_foreign, unknown_kind


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("monitoring.coreos.com/v1", "ServiceMonitor"), ("skaffold/v3", "Config"), ("example.com/v1", "Deployment")],
)
def test_custom_kinds_and_those_of_other_tools_are_foreign(api_version: str, kind: str) -> None:
    assert is_foreign(api_version, kind)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("app/v1", "Deployment"), ("v1", "Pods"), ("extensions/v1beta1", "Deployment"), ("apps/v1beta1", "Deployment")],
)
def test_what_is_like_a_group_of_kubernetes_was_meant_to_be_it(api_version: str, kind: str) -> None:
    assert not is_foreign(api_version, kind)


def test_an_unknown_kind_names_the_one_that_was_probably_meant() -> None:
    problem = unknown_kind("app/v1", "Deployment")
    assert 'no matches for kind "Deployment" in version "app/v1"' in str(problem)
    assert "apps/v1" in problem.hint
