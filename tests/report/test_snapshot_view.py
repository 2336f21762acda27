import pytest

from kplan.documents.files import ResourceTotal
from kplan.facts import MissingKind
from kplan.report.snapshot_view import overview_report, render_overview
from kplan.report.snapshot_view import render_snapshot_check as render_check
from kplan.report.snapshot_view import snapshot_check as check_report
from kplan.snapshot import load_snapshot
from kplan.snapshot.model import Snapshot
from tests.objects import node, pod

MISSING = Snapshot(
    missing=(MissingKind("pods", "forbidden", ("NodePorts",)),), server_version="v1.34.0", source="live:x"
)


@pytest.mark.parametrize("snapshot", [load_snapshot("demo"), Snapshot(), MISSING], ids=["demo", "empty", "missing"])
def test_every_snapshot_can_be_shown(snapshot: Snapshot) -> None:
    overview, check = render_overview(overview_report(snapshot)), render_check(check_report(snapshot))
    assert overview.startswith(f"Snapshot {snapshot.source}\n")
    assert check.startswith(f"{snapshot.source}: ")
    assert not any(line != line.rstrip() for line in overview.splitlines())


def test_what_is_missing_stands_in_the_overview_with_the_blind_plugins() -> None:
    text = render_overview(overview_report(MISSING))
    assert "pods: forbidden; NodePorts decides without it" in text
    assert "v1.34.0 (kplan decides as v1.34.0)" in text


def test_terminated_pods_and_pods_elsewhere_ask_for_nothing() -> None:
    failed = pod("b", "n") | {"status": {"phase": "Failed"}}
    (cpu, *_) = overview_report(load_snapshot([node("n", "2500m"), pod("a", "n"), failed, pod("c", "gone")])).resources
    assert cpu == ResourceTotal(name="cpu", allocatable=2.5, requested=1)
