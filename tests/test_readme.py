"""What the README shows is what the program prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import kplan
from kplan.cli.main import app
from kplan.planner.verdict import CONDITIONS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SESSIONS = [body for language, body in BLOCKS if language == "text" and body.startswith("$ ")]


def runs(session: str) -> list[tuple[str, str]]:
    """Return (command, output) pairs of a session."""
    parts = re.split(r"^\$ (.*)\n", session, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def as_program(command: str) -> list[str]:
    program, *arguments = shlex.split(command)
    assert program == "kplan"
    return [sys.executable, "-c", "from kplan.cli.main import run; run()", *arguments]


@pytest.mark.parametrize(("command", "shown"), [run for session in SESSIONS for run in runs(session)])
def test_a_session_prints_what_is_shown(command: str, shown: str) -> None:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    environment.pop("KPLAN_SNAPSHOT", None)
    found = subprocess.run(as_program(command), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert found.stdout.rstrip("\n") == shown.rstrip("\n")
    assert found.returncode in (0, 1), found.stderr


def test_the_first_shell_block_holds_the_two_commands() -> None:
    shell = next(body for language, body in BLOCKS if language in ("sh", "shell", "bash", "console"))
    commands = shell.splitlines()

    assert len(commands) == 2
    assert "--snapshot demo" in commands[0]
    assert commands[1].endswith("python -m pytest")


def test_every_command_is_named() -> None:
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}

    assert {name for name in names if name and f"`kplan {name}" not in README} == set()


def test_every_condition_of_fail_on_is_named() -> None:
    assert [condition for condition in CONDITIONS if f"`{condition}`" not in README] == []


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = [body for language, body in BLOCKS if language == "python"]
    names: dict[str, object] = {}

    exec(example, names)

    assert isinstance(names["plan"], kplan.Plan)
