from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kplan.cli.completion import completion_files

HERE = Path(__file__).parents[2] / "completions"


@pytest.mark.parametrize("name", sorted(completion_files()))
def test_the_files_are_what_the_commands_say(name: str, request: pytest.FixtureRequest) -> None:
    text = completion_files()[name]
    if request.config.getoption("--update-golden"):
        HERE.mkdir(exist_ok=True)
        (HERE / name).write_text(text)
    assert (HERE / name).read_text() == text, "pytest --update-golden writes it anew"


def _complete(*words: str) -> list[str]:
    bash = shutil.which("bash")
    assert bash is not None
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kplan; printf "%s\\n" "${COMPREPLY[@]}"'
    found = subprocess.run(
        [bash, "-c", script, "bash", str(HERE / "kplan.bash"), *words], capture_output=True, text=True, check=True
    )
    return found.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_choices() -> None:
    assert {"place", "preempt", "snapshot"} <= set(_complete("kplan", ""))
    assert _complete("kplan", "snapshot", "sh") == ["show"]
    assert _complete("kplan", "place", "--fail") == ["--fail-on"]
    assert {"table", "sarif"} <= set(_complete("kplan", "place", "-o", ""))
    assert _complete("kplan", "snapshot", "show", "-o", "y") == ["yaml"]
