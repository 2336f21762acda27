"""What the README and the page of all commands say holds; test_docs.py runs their sessions, as those of docs/."""

import re
from pathlib import Path
from typing import Any

import typer.main

from kplan.course.answers.verdict import CONDITIONS, DEFAULT_FAIL_ON
from kplan.program.main import app
from kplan.report.options import OutputFormat

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()


def test_the_first_shell_block_holds_the_two_commands() -> None:
    (shell, *_) = re.findall(r"^```(?:sh|shell|bash|console)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    commands = shell.splitlines()
    assert len(commands) == 2
    assert "--snapshot demo" in commands[0]
    assert commands[1].endswith("python -m pytest")


def test_the_readme_stays_short_and_names_the_six_questions() -> None:
    assert len(README.splitlines()) <= 100
    assert re.findall(r"^\| `kplan (\w+)", README, re.MULTILINE) == [
        "explain",
        "place",
        "plan",
        "drain",
        "remedy",
        "check",
    ]


def test_every_command_is_named_on_the_page_of_commands() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands
    names = {name for name, command in commands.items() if not command.hidden}
    assert set(re.findall(r"^\| \[?`kplan ([a-z]+)", COMMANDS, re.MULTILINE)) == names


def test_every_condition_of_fail_on_is_explained_on_the_page_of_commands() -> None:
    conditions, defaults = re.split(r"\| question \|", COMMANDS.split("| `--fail-on` |")[1])
    assert tuple(re.findall(r"^\| `([a-z-]+)` \| .{10,} \|$", conditions, re.MULTILINE)) == CONDITIONS
    assert {
        command: tuple(re.findall(r"`([a-z-]+)`", words))
        for command, words in re.findall(r"^\| `([a-z]+)` \| (.*) \|$", defaults, re.MULTILINE)
    } == DEFAULT_FAIL_ON


def test_every_format_is_named_on_the_page_of_commands() -> None:
    assert [output for output in OutputFormat if f"`{output}`" not in COMMANDS] == []
