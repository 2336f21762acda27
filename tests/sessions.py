"""Sessions in Markdown: commands with what they print, run again as they stand.

A session is a ``text`` block that begins with ``$ kplan``. Everything up to the next ``$`` is what the command prints
on standard output at 100 columns; a last line ``…`` says that the rest is left out. Commands of one page
are run one after another in a folder of their own that has the repository's ``fixtures``. A ``python`` block that a
``text`` block follows is an example with what it prints; the examples of a page follow each other, too.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kplan.program.main import app
from tests.recorded import sample

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
CUT = "…"
_BLOCK = re.compile(r"^```text\n(\$ kplan .*?)^```$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n((?!\$).*?)^```$", re.MULTILINE | re.DOTALL)
_ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1", "KPLAN_SNAPSHOT": None, "KUBECONFIG": None, "FORCE_COLOR": None}


def tried(pages: Sequence[Path], config: pytest.Config, *, first: int) -> Sequence[Path]:
    """Return pages to run again: one of three, or all where tests are named, or pages are written anew."""
    is_whole = config.args != config.getini("testpaths") or config.option.update_golden or config.option.update_docs
    return pages if is_whole else sample(pages, 3, first)


def run_again(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a page with what its commands print now."""
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(folder)
    text = _BLOCK.sub(lambda block: f"```text\n{_session(block[1])}```", text)
    known: dict[str, Any] = {"__name__": "example"}
    return _EXAMPLE.sub(lambda block: f"```python\n{block[1]}```\n\n```text\n{_printed(block[1], known)}```", text)


def commands_of(text: str) -> list[str]:
    """Return the commands of the sessions of a page."""
    return [command for block in _BLOCK.findall(text) for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE)]


def _printed(example: str, known: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, "example", "exec"), known)
    return out.getvalue()


def _session(text: str) -> str:
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    told = [f"$ {command}\n{_output(command, shown)}" for command, shown in zip(parts[1::2], parts[2::2], strict=True)]
    return "\n".join(told)


def _output(command: str, shown: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "kplan", command
    found = CliRunner().invoke(app, arguments, env=_ENVIRONMENT)
    assert found.exit_code in (0, 1), f"{command}: {found.output}"
    lines = found.stdout.rstrip("\n").splitlines()
    before = shown.rstrip("\n").splitlines()
    if before and before[-1] == CUT:
        lines = [*lines[: len(before) - 1], CUT]
    return "".join(f"{line}\n" for line in lines)
