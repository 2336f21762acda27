"""Runs kplan as its users do."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from kplan.program.start import run; run()"]


def kplan(*args: str | Path, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run kplan in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in ("KPLAN_SNAPSHOT", "COLUMNS", "NO_COLOR")}
    found = subprocess.run(
        [*PROGRAM, *map(str, args)], input=stdin, capture_output=True, check=False, env={**kept, **environment}
    )
    return subprocess.CompletedProcess(found.args, found.returncode, found.stdout.decode(), found.stderr.decode())
