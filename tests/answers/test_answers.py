"""Whole answers that were read and held to be right, in every word, with how to write them anew.

A page is a text with sessions: a line ``$ kplan …``, then what it prints, standard error after standard output, and the
exit code if that is not 0. A line that begins with ``===`` says what comes next. The commands of a page run one after
another in a folder with the files of ``inputs`` and the repository's ``fixtures``. To add an answer write a line with
its command and run ``pytest --update-golden tests/answers``; then read the answer and hold it against what Kubernetes
does, as no other test may do that. On the page of colours the escape character is written ``\\e``.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from kplan.version import __version__
from tests.cli.commands import invoke
from tests.sessions import tried

HERE = Path(__file__).parent
_PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "FORCE_COLOR": "", "KUBECONFIG": "none"}
_COLOURED = {"COLUMNS": "80", "NO_COLOR": None, "FORCE_COLOR": "1", "KUBECONFIG": "none"}
_SESSION = re.compile(r"^\$ kplan (.*)\n(?:(?!\$ kplan|===).*\n)*", re.MULTILINE)
_VARIABLE = re.compile(
    r"(?<=generatedAt\": \")[^\"]*|(?<=generatedAt: ')[^']*|(?<=timestamp=\")[^\"]*|"
    rf"(?<=Report\"}} )\d{{10}}|(?<=with the report of )[\d:TZ-]+|{re.escape(__version__)}"
)
"""What differs from one run or release to the next."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    pages = tried(sorted(HERE.glob("*.txt")), metafunc.config, first=1)
    metafunc.parametrize("page", pages, ids=lambda page: page.stem)


def test_answers_are_those_that_were_read(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (*(HERE / "inputs").iterdir(), HERE.parents[1] / "fixtures"):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    shown = page.read_text(encoding="utf-8")
    environment = _COLOURED if page.stem == "colour" else _PLAIN
    printed = _SESSION.sub(lambda session: _session(session[1], environment), shown)
    if request.config.getoption("--update-golden"):
        page.write_text(printed, encoding="utf-8")
    else:
        assert printed.splitlines() == shown.splitlines()


def _session(command: str, environment: Mapping[str, str | None]) -> str:
    result = invoke(*shlex.split(command), **environment)
    ending = [f"exit code {result.exit_code}"] if result.exit_code else []
    told = _VARIABLE.sub("…", result.stdout + result.stderr).replace("\x1b", r"\e").rstrip("\n")
    return "".join(f"{line.rstrip()}\n" for line in [f"$ kplan {command}", *told.split("\n"), *ending, ""])
