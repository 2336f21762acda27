"""What the README says holds; its sessions are run with those of docs/ in test_docs.py."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import kplan
from kplan.answers.verdict import CONDITIONS
from kplan.program.main import app
from kplan.report.options import OutputFormat

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_first_shell_block_holds_the_two_commands() -> None:
    shell = next(body for language, body in BLOCKS if language in ("sh", "shell", "bash", "console"))
    commands = shell.splitlines()

    assert len(commands) == 2
    assert "--snapshot demo" in commands[0]
    assert commands[1].endswith("python -m pytest")


def test_every_command_is_named() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined] # it is a group
    names = {name for name, command in commands.items() if not command.hidden}

    assert {name for name in names if f"`kplan {name}" not in README} == set()


def test_every_condition_of_fail_on_is_named() -> None:
    assert [condition for condition in CONDITIONS if f"`{condition}`" not in README] == []


def test_every_format_is_named() -> None:
    assert [output for output in OutputFormat if f"`{output}`" not in README] == []


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = [body for language, body in BLOCKS if language == "python"]
    names: dict[str, object] = {}

    exec(example, names)

    assert isinstance(names["plan"], kplan.Plan)
