"""A minor of Kubernetes is described by how it differs from another."""

import pytest

import kplan
from kplan.config import releases
from kplan.config.loading import default_configuration
from kplan.config.releases import Gate, minors
from tests.objects import node, pod

V1_38 = minors.V1_36.but(
    minor="1.38",
    source="v1.38.0",
    gates={"DRAExtendedResource": Gate(is_on=False, stage="Beta")},
    texts={"untolerated_taint": "node(s) had the taint {key} that nobody tolerates"},
    rules={"rejects_too_large_for_good": False},
)


@pytest.fixture
def _with_1_38(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minors, "RELEASES", (*minors.RELEASES, V1_38))


@pytest.mark.usefixtures("_with_1_38")
def test_a_minor_has_a_gate_a_text_and_a_rule_of_its_own() -> None:
    tainted = node("tainted")
    tainted["spec"]["taints"] = [{"key": "moon", "value": "full", "effect": "NoSchedule"}]
    snapshot = kplan.load_snapshot([tainted, node("small", "1"), pod("large", cpu="8", priority=5)])

    newest, before = kplan.Planner(snapshot, kubernetes="1.38"), kplan.Planner(snapshot, kubernetes="1.36")

    assert releases.known_minors()[-1] == newest.release.minor == "1.38"
    assert not newest.release.is_on("DRAExtendedResource")
    assert before.release.is_on("DRAExtendedResource")
    assert newest.config == default_configuration(newest.release)
    placement = newest.place("default/large")
    assert placement.rejections["tainted"].reasons == ("node(s) had the taint moon that nobody tolerates",)
    assert placement.rejections["small"].code == "Unschedulable"
    placement = before.place("default/large")
    assert placement.rejections["tainted"].reasons == ("node(s) had untolerated taint(s)",)
    assert placement.rejections["small"].code == "UnschedulableAndUnresolvable"
