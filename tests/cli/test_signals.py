"""What ends kplan from outside, at any moment."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kplan.cli.process import Ended, exit_code
from tests.cli.processes import PROGRAM
from tests.mcp.raw import children
from tests.recorded import IS_WHOLE, sample

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def _start(*args: str, **options: object) -> subprocess.Popen[bytes]:
    env = {**os.environ, "KPLAN_SNAPSHOT": "demo"}
    return subprocess.Popen([*PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **options)


def test_a_signal_has_the_exit_code_that_shells_give_it() -> None:
    assert {number: exit_code(Ended(number)) for number in CODES} == CODES
    assert exit_code(KeyboardInterrupt()) == 130


@pytest.mark.parametrize("number", sample([*CODES], 3))
def test_a_signal_at_any_moment_shows_no_traceback(number: signal.Signals) -> None:
    moments = random.Random(number)
    for _ in range(5 if IS_WHOLE else 1):
        with _start("plan") as process:
            # Before that Python itself starts, and has not come to kplan yet.
            time.sleep(0.15 + moments.random())
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        assert b"Traceback" not in errors
        assert b"internal error" not in errors
        # It may have come to its end, or into the moment before kplan runs.
        assert process.returncode in (CODES[number], 1, -number), errors


LOST = """
import os, signal, weakref
from kplan.cli import process
process.end_at_once()
process.end_in_order()
kept = weakref.ref(type("Gone", (), {})(), lambda _: os.kill(os.getpid(), signal.SIGTERM))
"""


def test_a_signal_during_a_callback_that_raises_nothing_ends_the_program_as_well() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (143, b"interrupted\n")


def test_a_signal_that_the_parent_ignores_stays_ignored(tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    os.mkfifo(tmp_path / "pipe")
    with _start("place", str(tmp_path / "pipe"), preexec_fn=ignore) as process:
        with (tmp_path / "pipe").open("wb") as pipe:
            process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            pipe.write(b"# nothing\n")
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, b"interrupted" in errors) == (2, False)


WAITING = """
import pathlib, sys, time
from kplan.cli import process
process.end_at_once()
import kplan
def wait(planner):
    pathlib.Path(sys.argv[1], str(time.monotonic_ns())).touch()
    time.sleep(60)
process.end_in_order()
try:
    kplan.sweep(kplan.Planner(kplan.load_snapshot("demo")), [wait] * 40, workers=2)
except KeyboardInterrupt as interrupt:
    sys.exit(process.exit_code(interrupt))
"""


@pytest.mark.parametrize("number", sample([*CODES], 3, 1))
def test_a_signal_to_the_program_alone_ends_its_workers(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITING, str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = children(process.pid)
        try:
            assert len(workers) >= 2
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
        finally:
            if process.poll() is None:  # or the test would wait for it
                os.killpg(process.pid, signal.SIGKILL)

    assert (process.returncode, errors) == (CODES[number], b"")
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.parametrize("number", sample([*CODES], 3, 2))
def test_a_signal_leaves_no_half_written_file(number: signal.Signals, tmp_path: Path) -> None:
    target = tmp_path / "directory" / "demo.yaml"
    target.parent.mkdir()
    moments = random.Random(number)
    for _ in range(4 if IS_WHOLE else 1):
        with _start("snapshot", "save", str(target)) as process:
            time.sleep(0.4 + moments.random() / 2)
            process.send_signal(number)
            process.communicate(timeout=60)
        assert {path.name for path in target.parent.iterdir()} <= {"demo.yaml"}
