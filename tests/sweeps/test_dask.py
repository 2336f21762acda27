"""Sweeps on a real Dask cluster, of which a worker dies."""

import logging
import os
import signal
from collections.abc import Iterator
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.cli.flags import SweepFlags
from kplan.errors import KplanError, NotFoundError, UsageError
from kplan.planner.planner import Planner
from kplan.questions import Drain
from kplan.sweeps import ask_all
from tests.cli.commands import refused
from tests.sweeps.test_sweep import Dying, plain, timeless

# Dask leaves sockets and event loops to the garbage collector when a worker dies.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster.scheduler_address


def test_a_sweep_survives_the_loss_of_a_worker_with_the_same_answers(address: str, tmp_path: Path) -> None:
    planner = Planner("demo")
    questions = [methodcaller("place", pod) for pod in ("shop/voucher-api", "ml/llm-eval", "shop/flash-sale")]
    reports: list[tuple[int, int]] = []
    middle = len(questions) // 2

    answers = kplan.sweep(
        planner,
        [*questions[:middle], Dying(str(tmp_path / "died")), *questions[middle:]],
        dask=address,
        progress=lambda *done: reports.append(done),
    )

    assert (tmp_path / "died").exists()
    assert answers.pop(middle) == "lived"
    assert timeless(answers) == plain(planner, questions)
    assert reports[-1] == (len(questions) + 1, len(questions) + 1)
    with pytest.raises(NotFoundError, match="nowhere"):
        kplan.sweep(planner, [questions[0], methodcaller("drain", ["nowhere"])], dask=address)


class DyingAtSetup(Planner):
    """Ends the first worker that gets it."""

    marker = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt_once, (self.marker, super().__reduce__())


def _rebuilt_once(marker: str, pickled: tuple[Any, ...]) -> Any:
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return pickled[0](*pickled[1])


def test_a_worker_that_is_lost_while_it_is_set_up_is_replaced(address: str, tmp_path: Path) -> None:
    planner = DyingAtSetup(kplan.load_snapshot("demo"))
    planner.marker = str(tmp_path / "died")
    questions = [methodcaller("place", "shop/voucher-api")] * 3
    answers = kplan.sweep(planner, questions, dask=address)
    assert Path(planner.marker).exists()
    assert timeless(answers) == plain(Planner("demo"), questions)


def test_workers_that_are_lost_before_they_are_asked_are_replaced(address: str) -> None:
    """The scheduler does not know yet that they are gone."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(address, set_as_default=False) as client:
        processes = client.run(os.getpid)
    for process in processes.values():
        os.kill(process, signal.SIGKILL)
    planner = Planner("demo")
    questions = [methodcaller("place", "shop/voucher-api")]

    assert timeless(kplan.sweep(planner, questions, dask=address)) == plain(planner, questions)


def test_another_version_on_the_workers_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner("demo")
    monkeypatch.setattr(kplan, "__version__", "0.0.0")
    with pytest.raises(UsageError, match=r"has kplan .*, here it is 0\.0\.0"):
        kplan.sweep(planner, [methodcaller("place", "shop/voucher-api")], dask=address)


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kplan.sweeps._CONNECT_SECONDS", 0.2)
    planner = Planner("demo")
    with pytest.raises(UsageError, match="no Dask cluster at"):
        kplan.sweep(planner, [methodcaller("place", "shop/voucher-api")], dask="tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    ("command", "address"),
    [
        (("plan",), "nonsense"),
        (("plan", "--runs", "9"), "tcp://10.0.0.1"),
        (("check",), "tcp://no host:1"),
        (("drain", "--each"), ":8786"),
    ],
)
def test_what_is_no_address_is_refused_whatever_is_asked(
    command: tuple[str, ...], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kplan.sweeps._CONNECT_SECONDS", 0.2)
    assert f"--dask {address}: is no address" in refused(*command, "--dask", address)
    if len(command) > 1 or command[0] == "check":
        assert "no Dask cluster at tcp://[::1]:9: " in refused(*command, "--dask", "tcp://[::1]:9")


def test_a_cluster_that_is_lost_on_the_way_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr("kplan.sweeps._ask_workers", lost)
    planner = Planner("demo")

    with pytest.raises(KplanError, match=f"the Dask cluster at {address} is gone: Timed out") as told:
        kplan.sweep(planner, [methodcaller("place", "shop/voucher-api")], dask=address)
    assert "scheduler" in told.value.hint


def test_dask_logs_nothing_to_standard_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def chatty(*_: object, **__: object) -> list[int]:
        logging.getLogger("distributed.client").error("Failed to reconnect to scheduler")
        return []

    monkeypatch.setattr("kplan.sweeps.ask_all", chatty)
    SweepFlags(dask="tcp://127.0.0.1:9").ask_all(Planner("demo"), [])

    assert caplog.records == []
    logging.getLogger("distributed.client").error("as before")
    assert len(caplog.records) == 1


def test_runs_are_carried_out_by_a_dask_cluster_with_the_same_report(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = Planner("demo")
    alone = planner.odds(Drain(nodes=("general-b-2",)), runs=3)
    monkeypatch.setattr("kplan.course.odds.runs._ALONE", 0)
    monkeypatch.setattr("kplan.course.odds.runs._ALONE_AT_MOST", 0)
    there = planner.odds(Drain(nodes=("general-b-2",)), runs=3, ask_all=partial(ask_all, planner, dask=address))
    assert there == alone
    assert {**there.to_dict(), "generatedAt": ""} == {**alone.to_dict(), "generatedAt": ""}
