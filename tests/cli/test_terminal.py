"""What a terminal gets: colour where it is wanted, lines that fit, and the same words as a pipe."""

import os
import pty
import re
import subprocess

from tests.cli.commands import invoke
from tests.cli.processes import PROGRAM, kplan
from tests.cli.screens import read

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
QUESTION = ("place", "shop/flash-sale", "shop/voucher-api", "-s", "demo")


def on_terminal(*args: str, **environment: str) -> tuple[int, str]:
    """Run kplan with its standard output on a terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *args],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        env={**kept, "TERM": "xterm", "COLUMNS": "100", **environment},
    ) as process:
        os.close(theirs)
        parts = []
        while part := read(ours):
            parts.append(part)
    os.close(ours)
    return process.returncode, b"".join(parts).decode().replace("\r\n", "\n")


def _bare(text: str) -> list[str]:
    return [line.rstrip() for line in ESCAPE.sub("", text).splitlines()]


def test_colour_adds_nothing_but_colour() -> None:
    code, text = on_terminal(*QUESTION)
    piped = kplan(*QUESTION, COLUMNS="100")
    assert ESCAPE.search(text)
    assert (code, _bare(text)) == (piped.returncode, piped.stdout.splitlines())
    assert 70 < max(map(len, _bare(text))) <= 100


def test_a_dumb_terminal_gets_no_colour() -> None:
    _, text = on_terminal(*QUESTION, TERM="dumb", COLUMNS="132")
    assert "  shop/voucher-api" in text
    assert "\x1b" not in text
    assert 102 < max(map(len, text.splitlines())) <= 132


def test_colour_is_forced_through_a_pipe_but_not_against_no_color() -> None:
    assert ESCAPE.search(invoke(*QUESTION, FORCE_COLOR="1").stdout)
    assert not ESCAPE.search(invoke(*QUESTION, FORCE_COLOR="1", NO_COLOR="1").stdout)
    assert not ESCAPE.search(invoke(*QUESTION, "--no-color", FORCE_COLOR="1").stdout)
    assert not ESCAPE.search(invoke(*QUESTION, "-o", "json", FORCE_COLOR="1").stdout)
