import pytest

from kplan.cli import cluster as module
from kplan.cli.cluster import ClusterFlags, open_cluster
from kplan.cli.messages import warn_of
from kplan.errors import KubeconfigError
from kplan.snapshot import load_snapshot
from kplan.snapshot.model import Snapshot, Warning  # noqa: A004 - the contract's word
from tests.cli.commands import refused


def test_namespaces_come_one_by_one_or_with_commas() -> None:
    assert ClusterFlags(namespaces=["shop, data", "shop", ""]).live().namespaces == ("shop", "data")


def test_flags_arrive_where_they_belong() -> None:
    options = ClusterFlags(as_user="jane", as_group=["devs"], request_timeout="0", context="prod").live()
    assert (options.impersonate_user, options.impersonate_groups) == ("jane", ("devs",))
    assert (options.request_timeout, options.context) == (None, "prod")


def test_a_timeout_that_is_none_is_refused_where_a_live_cluster_would_be_read() -> None:
    assert "not a duration: 'soon'" in refused("plan", "--request-timeout", "soon", KPLAN_SNAPSHOT="")


def test_a_file_wins_over_a_live_cluster() -> None:
    assert open_cluster(ClusterFlags(kubeconfig="/no/such/config"), "demo").digest == load_snapshot("demo").digest


def test_without_a_file_the_cluster_is_asked() -> None:
    with pytest.raises(KubeconfigError, match="no such kubeconfig"):
        open_cluster(ClusterFlags(kubeconfig="/no/such/config"), "")


def test_warnings_go_to_standard_error_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = Snapshot(warnings=(Warning("MissingKind", "jobs", "forbidden"),))
    warn_of(snapshot.warnings)
    warn_of(snapshot.warnings, quiet=True)
    assert capsys.readouterr() == ("", "warning: jobs: forbidden\n")


def test_a_bar_shows_for_lists_of_several_pages_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rich draws on terminals only, and takes this variable for one."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    with module._progress_bar(shown=True) as progress:
        assert progress is not None
        progress("nodes", 12, 12)
        progress("pods", 500, None)
        progress("pods", 1000, 1200)
        progress("pods", 1200, 1200)

    out, err = capsys.readouterr()
    assert out == ""
    assert "reading pods" in err
    assert "nodes" not in err


def test_an_interrupt_says_standard_input_in_place_of_its_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kplan.snapshot.load.load_snapshot", interrupted)

    with pytest.raises(KeyboardInterrupt) as interrupt:
        open_cluster(ClusterFlags(), "-")
    assert interrupt.value.__notes__ == ["reading standard input"]
