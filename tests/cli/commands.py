"""Runs kplan's commands inside the tests' own process, which is quicker than a process each."""

from pathlib import Path

from typer.testing import CliRunner, Result

from kplan.program.main import app


def invoke(*args: str | Path, stdin: str | None = None, **environment: str) -> Result:
    """Run a command; the terminal's width does not count unless it is given."""
    env = {"KPLAN_SNAPSHOT": "demo", "COLUMNS": None, **environment}
    return CliRunner().invoke(app, [str(each) for each in args], input=stdin, env=env)
