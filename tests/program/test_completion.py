import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kplan.program.completion import SCRIPTS
from tests.cli.commands import invoke, written

HERE = Path(__file__).parents[2] / "completions"


def test_the_files_are_the_scripts() -> None:
    assert {path.name: path.read_text() for path in HERE.iterdir()} == dict(SCRIPTS.values())


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put kplan on the path, and let no file here be offered."""
    code = "from kplan.program.start import run; run()"
    written(tmp_path / "kplan", f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n').chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))
    monkeypatch.delenv("KPLAN_SNAPSHOT", raising=False)
    monkeypatch.chdir(tmp_path)


def _complete(*words: str) -> list[str]:
    bash = shutil.which("bash")
    assert bash is not None
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kplan; printf "%s\\n" "${COMPREPLY[@]}"'
    found = subprocess.run(
        [bash, "-c", script, "bash", str(HERE / "kplan.bash"), *words], capture_output=True, text=True, check=True
    )
    return found.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kplan explain -s demo deployment shop/car", ["shop/cart"]),
        ("kplan place --fail", ["--fail-on"]),
        ("kplan config check --output = j", ["json", "junit"]),
        ("kplan config check --output =", ["table", "json", "yaml", "junit", "github", "sarif", "codequality"]),
        ("kplan plan --fail-on gated,p", ["gated,preemption", "gated,pdb-violation", "gated,pending"]),
        ("kplan place kp", ["kplan"]),  # the only file here
        ("kplan completion k", []),
    ],
)
def test_bash_completes_what_the_program_offers_and_files(line: str, expected: list[str]) -> None:
    assert _complete(*line.split()) == expected


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_a_shell_reads_what_the_command_prints(shell: str, check: str) -> None:
    name, text = SCRIPTS[shell]
    printed = invoke("completion", shell)
    assert (printed.exit_code, printed.stdout) == (0, text)
    if program := shutil.which(shell):
        subprocess.run([program, check, HERE / name], check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kplan plan --fail-on gated,p", ["gated,pdb-violation", "gated,pending", "gated,preemption"]),
        ("kplan plan --fail-on=gated,pe", ["--fail-on=gated,pending"]),
        ("kplan drain -s demo gpu-", ["gpu-a-1", "gpu-b-1"]),
        ("kplan place kp", ["kplan"]),
    ],
)
def test_fish_completes_what_the_program_offers_and_files(line: str, expected: list[str]) -> None:
    script = f"source {HERE / 'kplan.fish'}; complete -C '{line}'"
    found = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True).stdout
    assert sorted(row.split("\t")[0] for row in found.splitlines()) == expected
