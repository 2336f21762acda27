"""Runs kplan's commands inside the tests' own process, which is quicker than a process each."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from kplan.program.main import app


def invoke(*args: str | Path, stdin: str | None = None, **environment: str | None) -> Result:
    """Run a command; the terminal's width does not count unless it is given."""
    env = {"KPLAN_SNAPSHOT": "demo", "COLUMNS": None, **environment}
    return CliRunner().invoke(app, [str(each) for each in args], input=stdin, env=env)


def refused(*args: str | Path, **environment: str) -> str:
    """Run a command that must end with exit code 2, and return what it says."""
    result = invoke(*args, **environment)
    assert result.exit_code == 2, result.stdout
    return result.stderr


def written(path: Path, text: str) -> Path:
    """Write a file, and return where it is."""
    path.write_text(text, encoding="utf-8")
    return path


def folder_of(path: Path, files: Mapping[str, str]) -> Path:
    """Write files, by their paths in a folder, and return where it is."""
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        written(path / name, text)
    return path


def committed(directory: Path) -> list[str]:
    """Make a directory a git repository with one commit, and return how git is called there."""
    git = ["git", "-C", str(directory), "-c", "user.name=n", "-c", "user.email=e"]
    for command in (["init", "-q", "--initial-branch=main"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    return git


def printed(*args: str | Path, code: int = 0, stdin: str | None = None, **environment: str) -> str:
    """Run a command that must end with an exit code, and return what it prints."""
    result = invoke(*args, stdin=stdin, **environment)
    assert result.exit_code == code, result.output
    return result.stdout


def told(*args: str | Path, **environment: str) -> Any:
    """Run a command, whatever its exit code, and return the document that it prints as JSON."""
    return json.loads(invoke(*args, "-o", "json", **environment).stdout)


def reports(
    folder: Path, *args: str | Path, formats: Iterable[str], code: int = 0, **environment: str
) -> dict[str, str]:
    """Run a command once that must end with an exit code, and return what it writes in several formats."""
    wanted = {name: folder / f"report.{name}" for name in formats}
    result = invoke(*args, *(f"--report={name}={path}" for name, path in wanted.items()), **environment)
    assert result.exit_code == code, result.output
    return {name: path.read_text(encoding="utf-8") for name, path in wanted.items()}


def listed(path: Path, *objects: Mapping[str, Any]) -> Path:
    """Write a file of objects, and return where it is."""
    return written(path, json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
