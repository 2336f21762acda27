"""Runs kplan's commands inside the tests' own process, which is quicker than a process each."""

from pathlib import Path

from typer.testing import CliRunner, Result

from kplan.program.main import app


def invoke(*args: str | Path, stdin: str | None = None, **environment: str) -> Result:
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


def printed(*args: str | Path, code: int = 0, **environment: str) -> str:
    """Run a command that must end with an exit code, and return what it prints."""
    result = invoke(*args, **environment)
    assert result.exit_code == code, result.output
    return result.stdout
