"""The completion scripts, which ask ``kubectl_complete-kplan`` what to offer."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kplan.program
from tests.cli.commands import invoke, written

HERE = Path(kplan.program.__file__).parent / "completions"
FILES = {"bash": "kplan.bash", "zsh": "_kplan", "fish": "kplan.fish"}


@pytest.fixture(autouse=True)
def completer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from kplan.program.start import complete_for_kubectl; complete_for_kubectl()"
    program = tmp_path / "kubectl_complete-kplan"
    written(program, f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n').chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[2]))
    monkeypatch.delenv("KPLAN_SNAPSHOT", raising=False)


def _complete(*words: str) -> list[str]:
    bash = shutil.which("bash")
    assert bash is not None
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kplan; printf "%s\\n" "${COMPREPLY[@]}"'
    found = subprocess.run(
        [bash, "-c", script, "bash", str(HERE / "kplan.bash"), "kplan", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("drain -s demo gpu-", "gpu-a-1 gpu-b-1"),
        ("explain -s demo deployment shop/car", "shop/cart"),
        ("explain -s demo -n shop deploy ca", "cart"),
        ("drain gpu-", ""),
        ("completion f", "fish"),
        ("snapshot sh", "show"),
        ("place --fail", "--fail-on"),
        ("snapshot show -o y", "yaml"),
        ("config check --output = j", "json junit"),  # as bash takes --output=j apart
        ("plan --fail-on gated,p", "gated,preemption gated,pdb-violation gated,pending"),
        ("place --snapshot tests/program/test_compl", "tests/program/test_completion.py"),
        ("place --report = junit = tests/program/test_compl", "tests/program/test_completion.py"),
    ],
)
def test_bash_completes_what_stands_before_the_cursor(line: str, offered: str) -> None:
    assert _complete(*line.split(" ")) == offered.split()


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_a_shell_reads_what_the_command_prints(shell: str, check: str) -> None:
    printed = invoke("completion", shell)
    assert (printed.exit_code, printed.stdout) == (0, (HERE / FILES[shell]).read_text())
    if program := shutil.which(shell):
        subprocess.run([program, check, HERE / FILES[shell]], check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_a_list_after_its_last_comma() -> None:
    line = "kplan plan --fail-on gated,p"
    script = f"source {HERE / 'kplan.fish'}; complete -C '{line}'"
    found = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True).stdout
    assert sorted(row.split("\t")[0] for row in found.splitlines()) == [
        "gated,pdb-violation",
        "gated,pending",
        "gated,preemption",
    ]
