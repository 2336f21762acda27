"""Runs kplan in a colour pseudo-terminal and returns what a person would see there.

All commands run one after another in one process, whose standard output and error are the terminal. What a command
answers is worked out once, and shown at each of the widths that are asked for.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_ENDS = "\x1e"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_HIDDEN = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CI", "KPLAN_SNAPSHOT", "KUBECONFIG")


#: Commands that are to be pasted stay whole: a terminal folds them, and gives them back in one piece.
_TO_PASTE = re.compile(r" +(kubectl |before=\$\(kubectl |until \[ \$\(kubectl )")


class Screen(NamedTuple):
    """What a command wrote to a terminal."""

    command: str
    width: int
    lines: list[str]  #: without control sequences
    has_colour: bool

    def faults(self) -> list[str]:
        """Return what a person would stumble over."""
        told = [
            f"{self.command}: {len(line)} wide: {line}"
            for line in self.lines
            if (len(line) > self.width and not _TO_PASTE.match(line)) or line.startswith("Traceback ")
        ]
        pairs = zip(self.lines, self.lines[1:], strict=False)
        if any(not first.strip() and not second.strip() for first, second in pairs):
            told.append(f"{self.command}: two blank lines in a row")
        if len([line for line in self.lines if line.strip()]) < 2:
            told.append(f"{self.command}: only {self.lines}")
        return told


def screens(commands: Sequence[tuple[int, Sequence[str]]], folder: Path, **environment: str) -> list[Screen]:
    """Run commands in a folder, and return what each shows on a terminal of its width."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    with subprocess.Popen(
        [sys.executable, __file__, json.dumps(commands)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**kept, "TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
    ):
        os.close(theirs)
        parts = []
        while part := read(ours):
            parts.append(part)
    os.close(ours)
    *texts, rest = b"".join(parts).decode().replace("\r\n", "\n").split(_ENDS)
    assert len(texts) == len(commands), rest
    return [
        Screen(" ".join(words), width, _lines(text), _ESCAPE.search(text) is not None)
        for (width, words), text in zip(commands, texts, strict=True)
    ]


def _lines(text: str) -> list[str]:
    """Return the lines that stay: progress is written over."""
    return [line.rpartition("\r")[2] for line in _ESCAPE.sub("", text).removesuffix("\n").split("\n")]


def read(terminal: int) -> bytes:
    """Return what was written to a terminal; nothing when the other side is closed."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux says so
        return b""


def _run(commands: Sequence[tuple[int, Sequence[str]]]) -> None:
    from kplan.cli import answer
    from kplan.program.main import app

    answered, answers = answer.answered, dict[str, Any]()

    def answered_once(*args: Any) -> Any:
        key = f"{words} {args[0]}"
        if key not in answers:
            answers[key] = answered(*args)
        return answers[key]

    answer.answered = answered_once
    for width, words in commands:
        fcntl.ioctl(sys.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        with contextlib.suppress(SystemExit):
            app(words, prog_name="kplan")
        sys.stdout.write(_ENDS)
        sys.stdout.flush()


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
