import pytest

from kplan.report.options import Repository
from kplan.report.words import as_argument


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web.yaml", "apps/web.yaml"),
        ("./deploy/../web.yaml", "apps/web.yaml"),
        ("../web.yaml", "web.yaml"),
        ("/repo/web.yaml", "web.yaml"),
        ("../../web.yaml", "/web.yaml"),
        ("/elsewhere/web.yaml", "/elsewhere/web.yaml"),
        ("standard input", ""),
        ("-", ""),
        ("overlay (kustomize)", ""),
        ("", ""),
    ],
)
def test_files_are_named_as_the_repository_has_them(name: str, expected: str):
    assert Repository("/repo/apps", "/repo").file(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web.yaml", "web.yaml"),
        ("my web.yaml", "'my web.yaml'"),
        ("standard input", "-"),
        ("over lay (kubectl)", "-k 'over lay'"),
    ],
)
def test_manifests_can_be_given_again(name: str, expected: str):
    assert as_argument(name) == expected
