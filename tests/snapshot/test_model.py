from kplan.facts import MissingKind
from kplan.snapshot.model import missing_warning


def test_missing_kinds_are_warnings_with_the_blind_plugins() -> None:
    missing = (MissingKind("csinodes", "forbidden", ("NodeVolumeLimits",)), MissingKind("jobs", "forbidden"))

    warnings = list(map(missing_warning, missing))

    assert [(each.code, each.object, each.message) for each in warnings] == [
        ("MissingKind", "csinodes", "not all could be read (forbidden); blind without them: NodeVolumeLimits"),
        ("MissingKind", "jobs", "not all could be read (forbidden)"),
    ]
