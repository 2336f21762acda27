from pathlib import Path

import pytest
from msgspec.structs import replace

import kplan
from kplan.config.releases import Release, known_minors, nearest, newest, reference, release_of, releases, with_gates
from kplan.errors import UsageError


@pytest.mark.parametrize(
    ("version", "minor", "patch"),
    [
        ("1.36", "1.36", None),
        ("v1.36.2", "1.36", 2),
        ("v1.34.1-gke.1829001", "1.34", 1),
        ("1.33+", "1.33", None),
        ("v1.35.0-alpha.1", "1.35", 0),
        ("v1.36.2+k3s1", "1.36", 2),
    ],
)
def test_any_vendors_version_is_read(version: str, minor: str, patch: int | None) -> None:
    release = release_of(version)
    assert (release.minor, release.patch) == (minor, patch)
    assert nearest(version) == release


@pytest.mark.parametrize("version", ["", "latest", "v2.0.0", "1", "1.x", "1.34.1.2", "1.99999999999", "1.34 "])
def test_what_is_no_version_is_refused_with_those_that_are_known(version: str) -> None:
    with pytest.raises(UsageError) as caught:
        release_of(version)
    assert "1.33, 1.34, 1.35, 1.36" in caught.value.hint


@pytest.mark.parametrize(
    ("version", "release"),
    [("v1.30.4", release_of("1.33")), ("v1.99.0", newest()), (None, reference()), ("v2", reference())],
)
def test_a_server_that_is_not_known_is_taken_as_the_nearest(version: str | None, release: Release) -> None:
    assert nearest(version) == release


def test_a_version_that_is_not_known_is_not_silently_another() -> None:
    with pytest.raises(UsageError, match=r"Kubernetes 1\.32 is not supported"):
        release_of("1.32")


def test_releases_come_oldest_first() -> None:
    assert known_minors() == ("1.33", "1.34", "1.35", "1.36", "1.37")
    assert reference().minor == "1.36"
    assert newest() is releases()[-1]
    assert all(release.source.startswith(f"v{release.minor}.") for release in releases())


def test_every_plugin_of_a_profile_is_in_its_tree_and_its_gates_exist() -> None:
    for release in releases():
        assert {name for name, _ in release.profile} == set(release.implements)
        assert set(release.plugin_gates.values()) <= {*release.gates, *release.merged_gates}, release.minor
        assert {*release.merged_gates.values()} <= set(release.gates)
        assert all(gate.is_on for gate in release.gates.values() if gate.is_locked)


def test_the_taint_lost_its_name_in_the_second_patch_of_1_34() -> None:
    named = "node(s) had untolerated taint {{{key}: {value}}}"
    texts = {version: release_of(version).texts.untolerated_taint for version in ("1.33.13", "1.34.0", "1.34.1")}
    assert set(texts.values()) == {named}
    assert {release_of(version).texts.untolerated_taint for version in ("1.34.2", "1.34", "1.35.0", "1.36")} == {
        "node(s) had untolerated taint(s)"
    }


def test_ports_of_sidecars_count_from_the_sixth_patch_of_1_33_on() -> None:
    versions = ("1.33.0", "1.33.5", "1.33.6", "1.33", "1.34.0", "1.36")
    counts = [release_of(version).rules.counts_ports_of_sidecars for version in versions]
    assert counts == [False, False, True, True, True, True]
    assert release_of("1.33.5") != release_of("1.33.6")


def test_patch_releases_are_told_apart_even_where_they_decide_alike() -> None:
    assert release_of("1.34.2") == release_of("1.34.2")
    assert len({release_of("1.34.1"), release_of("1.34.2"), release_of("1.34.9"), release_of("1.34")}) == 4


def test_a_planner_names_its_own_servers_patch_whoever_asked_before() -> None:
    versions = ["1.36.1", "1.36.2", "1.36", "1.36.1"]
    planners = [kplan.Planner(kplan.load_snapshot([]), kubernetes=version) for version in versions]
    assert [planner.release.version for planner in planners] == versions


def test_which_minors_there_are_stands_in_one_place() -> None:
    package = Path(kplan.__file__).parent
    named = [path for path in package.rglob("*.py") if "1.36" in path.read_text()]
    # The cluster-autoscaler's releases are numbered like those of Kubernetes.
    own = package / "autoscaling" / "cluster_autoscaler"
    assert {path.parent for path in named} - {own} == {package / "config" / "releases"}


def test_1_37_follows_its_release_notes_and_says_so() -> None:
    release = release_of("1.37")
    on = {name for name in release.gates if release.is_on(name) and not release_of("1.36").is_on(name)}
    assert on == {"DRADeviceTaintRules", "MaxUnavailableStatefulSet", "StorageCapacityScoring", "VolumeLimitScaling"}
    (warning,) = kplan.Planner(kplan.load_snapshot([]), kubernetes="1.37").warnings
    assert "not compared with its own code" in warning.message
    assert kplan.Planner(kplan.load_snapshot([])).warnings == ()


def test_a_newer_minor_is_the_newest_known_one_with_words_about_what_differs() -> None:
    newer = release_of("1.38")
    assert (newer.minor, newer.stands_for) == ("1.37", 38)
    assert newer != release_of("1.37")
    messages = [warning.message for warning in kplan.Planner(kplan.load_snapshot([]), kubernetes="1.38").warnings]
    assert any("1.38 is decided as 1.37" in text and "PodSchedulingReadiness" in text for text in messages)


def test_gates_that_became_part_of_another_follow_it() -> None:
    release = replace(release_of("1.37"), switched={"GenericWorkload": True})
    assert release.is_on("GangScheduling")
    assert release.is_on("WorkloadAwarePreemption")
    assert "GangScheduling" in dict(release.default_plugins)
    with pytest.raises(UsageError, match="GangScheduling is a part of GenericWorkload"):
        with_gates(release_of("1.37"), {"GangScheduling": True})
