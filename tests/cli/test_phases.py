"""What people are told while they wait, and when they do not wait any longer."""

import time

import pytest

import kplan
from kplan.cli import messages as phases
from kplan.cli.cluster import _progress_bar
from kplan.cli.messages import announced_when_slow, busy, counted, noted_when_interrupted, shows_progress
from tests.cli.commands import invoke


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_PATIENCE_SECONDS", 0.01)


def test_what_is_slow_says_so(impatient: None, capsys: pytest.CaptureFixture[str]) -> None:
    with announced_when_slow("reading prod"):
        time.sleep(0.2)
    with announced_when_slow("reading prod quietly", quiet=True):
        time.sleep(0.1)
    assert capsys.readouterr().err == "reading prod\n"


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with announced_when_slow("reading prod"), busy("deciding"):
        pass
    assert capsys.readouterr().err == ""


def _count_on(terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be busy for a while, on a terminal of some kind."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", terminal)
    with busy("counting") as tell:
        time.sleep(0.1)
        tell("5 fit so far")
        time.sleep(0.3)


def test_a_terminal_sees_how_far_it_is(
    impatient: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _count_on("xterm", monkeypatch)
    assert "counting: 5 fit so far" in capsys.readouterr().err


def test_a_dumb_terminal_whose_lines_stay_sees_nothing(
    impatient: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _count_on("dumb", monkeypatch)
    with _progress_bar(shown=shows_progress(quiet=False)):
        pass
    assert capsys.readouterr().err == ""


def test_answers_tell_how_many_pods_are_decided_about() -> None:
    planner = kplan.Planner(kplan.load_snapshot("demo"))
    told: list[tuple[int, int | None]] = []
    planner.on_progress = lambda done, of: told.append((done, of))
    planner.plan(["shop/voucher-api", "ml/llm-eval", "ml/fine-tune"])
    assert told == [(1, 3), (2, 3), (3, 3)]
    told.clear()
    change = planner.drain(["general-a-1"])
    assert told == [(number, None) for number in range(1, len(change.steps) + 1)]


def test_what_is_counted_is_shown_while_it_lasts(
    impatient: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    planner = kplan.Planner(kplan.load_snapshot("demo"))

    with counted("deciding", planner):
        assert planner.on_progress is not None
        time.sleep(0.1)
        planner.on_progress(3, 1200)
        time.sleep(0.3)

    assert "deciding: 3 of 1,200 pods" in capsys.readouterr().err
    assert planner.on_progress is None


def test_the_innermost_work_is_what_an_interrupt_names() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, noted_when_interrupted("all"), noted_when_interrupted("a part"):
        raise KeyboardInterrupt
    assert caught.value.__notes__ == ["a part"]


def test_an_interrupt_says_what_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kplan.course.in_order.place_in_order", interrupted)
    found = invoke("place", "shop/voucher-api")

    assert (found.exit_code, found.stdout) == (130, "")
    assert found.stderr == "interrupted while deciding where pods go\n"
