"""Commands of kplan as processes of their own, and what they take."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """One process."""

    seconds: float  #: on the clock
    cpu_seconds: float  #: of the processor, with those of its own processes
    megabytes: float  #: memory at most


def run_kplan(words: Sequence[str], directory: Path, codes: Sequence[int] = (0,)) -> tuple[Run, str]:
    """Run a command in a directory, and return what it takes and what it prints; `codes` are its exit codes."""
    began = time.perf_counter()
    # Compiled once, as an installed package is, and not into the checkout.
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory / "compiled")}
    command = [sys.executable, "-c", "from kplan.program.start import run; run()", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=directory, env={**os.environ, **compiled}
    ) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    assert process.returncode in codes, f"{words}: exit code {process.returncode}: {answer}"
    return Run(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), answer
