import pytest

from kplan.config.releases import parse_gates, release_of, releases, with_gates
from kplan.errors import UsageError


def test_gates_are_read_as_kube_scheduler_reads_them() -> None:
    assert parse_gates("A=true, B=F,C=1,,") == {"A": True, "B": False, "C": True}
    assert parse_gates("A=true,A=false") == {"A": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A", "missing bool value for A"),
        ("A=", "invalid value of A="),
        ("A=yes", "invalid value of A=yes"),
        ("=true", "missing bool value"),
    ],
)
def test_what_is_no_gate_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_gates(text)


def test_a_gate_that_is_set_is_set() -> None:
    gates = {"NodeDeclaredFeatures": False, "InPlacePodLevelResourcesVerticalScaling": False}
    release = with_gates(release_of("1.36"), gates)
    assert not release.is_on("NodeDeclaredFeatures")
    assert "NodeDeclaredFeatures" not in dict(release.default_plugins)
    assert release != release_of("1.36")


def test_a_plugin_comes_with_its_gate() -> None:
    off = release_of("1.33")
    on = with_gates(off, {"DynamicResourceAllocation": True})
    assert "DynamicResources" not in dict(off.default_plugins)
    assert [name for name, _ in on.default_plugins].index("DynamicResources") == 14


@pytest.mark.parametrize(
    ("minor", "gate", "is_on", "message", "hint"),
    [
        ("1.36", "DRAAdminAccess", False, "gate DRAAdminAccess to false, feature is locked to true", ""),
        ("1.36", "NodeDeclaredFeature", True, "no feature gate", "did you mean NodeDeclaredFeatures"),
        ("1.33", "NodeDeclaredFeatures", True, "in Kubernetes 1.33", ""),
    ],
)
def test_a_gate_that_cannot_be_set_is_refused_by_name(
    minor: str, gate: str, is_on: bool, message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        with_gates(release_of(minor), {gate: is_on})
    assert hint in caught.value.hint


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    assert with_gates(release_of("1.36"), {"DRAAdminAccess": True}).is_on("DRAAdminAccess")


def test_a_gate_that_needs_another_is_refused_without_it() -> None:
    with pytest.raises(UsageError, match=r"depends on features that are disabled: \[NodeDeclaredFeatures\]"):
        with_gates(release_of("1.36"), {"NodeDeclaredFeatures": False})
    with_gates(release_of("1.34"), {"DynamicResourceAllocation": False})


def test_needs_are_met_by_default() -> None:
    for release in releases():
        for gate, others in release.needs.items():
            assert set(others) <= set(release.gates)
            assert not release.is_on(gate) or all(map(release.is_on, others))
