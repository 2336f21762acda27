from __future__ import annotations

import pytest

from kplan.snapshot.knowledge import knowledge_warnings, parse_minor, version_note
from kplan.snapshot.model import MissingKind, Snapshot


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        ("v1.36.2", 36),
        ("v1.34.1-gke.1829001", 34),
        ("1.33+", 33),
        ("v1.36.0-alpha.1", 36),
        ("v2.0.0", None),
        ("", None),
    ],
)
def test_the_minor_number_is_read_from_any_vendor(version: str, minor: int | None) -> None:
    assert parse_minor(version) == minor


@pytest.mark.parametrize("version", ["v1.36.0", "v1.36.2+k3s1", "v1.36.2-eks-1234"])
def test_the_modelled_version_needs_no_words(version: str) -> None:
    assert version_note(version) == ""


def test_an_older_server_lacks_what_came_later() -> None:
    note = version_note("v1.35.1")

    assert "kplan decides as kube-scheduler v1.36" in note
    assert "NodeDeclaredFeatures (v1.36)" in note
    assert "(v1.35)" not in note


def test_a_newer_server_may_have_what_nobody_knows_here() -> None:
    assert "v1.37 and later" in version_note("v1.37.0")


def test_a_version_that_is_none_is_said_as_it_is() -> None:
    assert version_note("v2.1") == "the server is v2.1, and kplan decides as kube-scheduler v1.36"


def test_missing_kinds_are_warnings_with_the_blind_plugins() -> None:
    missing = (MissingKind("csinodes", "forbidden", ("NodeVolumeLimits",)), MissingKind("jobs", "forbidden"))

    warnings = list(knowledge_warnings(Snapshot(missing=missing)))

    assert [(each.code, each.object, each.message) for each in warnings] == [
        ("MissingKind", "csinodes", "not all could be read (forbidden); blind without them: NodeVolumeLimits"),
        ("MissingKind", "jobs", "not all could be read (forbidden)"),
    ]
