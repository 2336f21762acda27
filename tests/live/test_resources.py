import pytest

from kplan.api.kinds import KINDS
from kplan.errors import UsageError
from kplan.live import RESOURCES, LiveOptions, cluster_role, parse_timeout
from kplan.live.collect import collect

from .server import Cluster
from .test_discovery import OPTIONAL, Direct


def granted() -> set[tuple[str, str]]:
    return {
        (group, plural)
        for rule in cluster_role()["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }


def asked(path: str) -> tuple[str, str] | None:
    """Group and resource of a list's path; None for discovery and the version."""
    parts = path.strip("/").split("/")
    if "namespaces" in parts[:-2]:  # a list of one namespace
        where = parts.index("namespaces")
        parts[where : where + 2] = []
    if parts[0] == "api" and len(parts) == 3:
        return "", parts[2]
    return (parts[1], parts[3]) if parts[0] == "apis" and len(parts) == 4 else None


def test_the_role_grants_what_the_collector_asks_for_and_no_more() -> None:
    direct = Direct(Cluster())
    collect(direct, LiveOptions(), source="test")
    asked_for = {resource for path in direct.paths if (resource := asked(path))}
    assert asked_for == {resource for resource in granted() if resource[1] not in OPTIONAL}


def test_the_role_only_reads_and_opens_no_secrets_and_only_config_maps_of_the_cluster_autoscaler() -> None:
    rules, plurals = cluster_role()["rules"], {plural for _, plural in granted()}

    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert plurals.isdisjoint({"secrets", "configmaps", "*"})
    assert not any("/" in plural for plural in plurals)
    assert [rule for rule in rules if "resourceNames" in rule] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["cluster-autoscaler-priority-expander", "cluster-autoscaler-status"],
            "verbs": ["get"],
        }
    ]


def test_every_kind_of_a_snapshot_is_collected_and_the_role_takes_another_name() -> None:
    assert {resource.kind for resource in RESOURCES} == set(KINDS)
    assert cluster_role("reader")["metadata"] == {"name": "reader"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("1m30s", 90.0), ("45", 45.0), ("2h", 7200.0), ("500ms", 0.5), (" 1.5m ", 90.0), ("0s", None),
     ("0", None), (".5s", 0.5)],
)  # fmt: skip
def test_durations_read_as_for_kubectl_and_zero_is_no_limit(text: str, seconds: float | None) -> None:
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 s", "5x", "s"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration") as caught:
        parse_timeout(text)
    assert "30s" in caught.value.hint
