"""Calls side by side, each in a process of its own, that ends when nobody waits for it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

import kplan
from kplan.errors import UsageError
from kplan.mcp import calls
from kplan.mcp.calls import Calls
from tests.mcp.raw import Server, children
from tests.recorded import sample

#: Takes hours, and what it does first takes minutes.
SLOW = ("many_runs", {"question": {"kind": "PlanQuestion", "timeline": {"runsFor": 30_000_000}}, "runs": 100_000})
needs_ps = pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc, where processes are looked at")


@contextmanager
def server(*options: str) -> Iterator[tuple[Server, Callable[[], list[int]]]]:
    """Yield a server, and a function that returns the processes of its calls."""
    with Server("--snapshot", "demo", *options) as running:
        (starter,) = children(running.process.pid)
        yield running, lambda: children(starter)


def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@needs_ps
def test_a_long_call_blocks_no_other_and_ends_when_it_is_cancelled_lost_or_at_the_end_of_input() -> None:
    with server() as (running, processes):
        running.call(7, *SLOW)
        _until(processes)
        running.call(8, "explain", {"names": ["ml/llm-eval"]})
        answer = running.receive()
        assert answer["id"] == 8
        assert "fits nowhere" in answer["result"]["content"][0]["text"]
        assert processes()

        running.send(None, "notifications/cancelled", {"requestId": 7})
        _until(lambda: not processes())

        running.call(9, *SLOW)
        _until(processes)
        for process in processes():
            os.kill(process, signal.SIGKILL)
        answer = running.receive()
        assert answer["result"]["isError"]
        assert "is gone" in answer["result"]["content"][0]["text"]

        running.call(10, *SLOW)
        _until(processes)
        left = [*children(running.process.pid), *processes()]
    assert not any(Path(f"/proc/{process}/cmdline").exists() for process in left)
    assert running.process.returncode == 0


@needs_ps
def test_a_call_ends_at_its_bound_with_a_word() -> None:
    with server("--timeout", "1") as (running, processes):
        text = running.ask(*SLOW)
        assert text.startswith("error: no answer within 1 s\nhint: ask about fewer pods or nodes")
        assert "--timeout" in text
        _until(lambda: not processes())


@needs_ps
@pytest.mark.parametrize("number", sample([signal.SIGKILL, signal.SIGTERM], 2))
def test_no_process_outlives_the_server(number: int) -> None:
    with server() as (running, processes):
        running.call(7, *SLOW)
        _until(processes)
        left = [*children(running.process.pid), *processes()]
        running.process.send_signal(number)
        _until(lambda: not any(Path(f"/proc/{process}/cmdline").exists() for process in left))


def test_processes_that_are_no_forks_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "start_method", lambda: multiprocessing.get_context("spawn"))
    running = Calls(kplan.Planner("demo"), 60)
    answer = anyio.run(running.answer, "explain", {"names": ["ml/llm-eval"]})
    running.close()
    assert answer.text.startswith("ml/llm-eval fits nowhere")


_OPENS = """
import sys
from kplan.mcp.calls import _open_nothing
sys.addaudithook(_open_nothing)
from pathlib import Path
import os, subprocess
import kplan.questions.drain.view  # what the program is made of
assert Path(kplan.__path__[0], "admission", "fields.json").read_bytes()
for opens in (
    lambda: open("/etc/hostname"),
    lambda: os.open("/etc/hostname", os.O_RDONLY),
    lambda: Path("written").write_text("x"),
    lambda: os.listdir("/"),
    lambda: next(Path("/").iterdir()),
    lambda: open(kplan.__path__[0] + "/../../secret"),
    lambda: subprocess.run(["true"]),
    lambda: os.system("true"),
    lambda: kplan.load_snapshot("/etc/hostname"),
):
    try:
        opens()
    except kplan.UsageError:
        continue
    sys.exit("opened")
"""


def test_the_process_of_a_call_opens_nothing(tmp_path: Path) -> None:
    """Whatever a question holds: this does not depend on what is known of its parameters."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(
        [sys.executable, "-B", "-c", _OPENS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_what_is_open_already_may_be_used() -> None:
    calls._open_nothing("open", (3, "r", 0))
    with pytest.raises(UsageError):
        calls._open_nothing("open", (b"/etc/passwd", "r", 0))
