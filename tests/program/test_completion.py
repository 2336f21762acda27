import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from kplan.program.completion import completion_files
from kplan.program.main import app
from tests.cli.commands import invoke, written

HERE = Path(__file__).parents[2] / "completions"


FILES = {"bash": "kplan.bash", "zsh": "_kplan", "fish": "kplan.fish"}


def test_the_files_are_what_the_commands_say(request: pytest.FixtureRequest) -> None:
    files = completion_files(typer.main.get_command(app))
    if request.config.getoption("--update-golden"):
        for name, text in files.items():
            (HERE / name).write_text(text)
    assert {path.name: path.read_text() for path in HERE.iterdir()} == files, "pytest --update-golden writes them anew"


def _complete(*words: str) -> list[str]:
    bash = shutil.which("bash")
    assert bash is not None
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kplan; printf "%s\\n" "${COMPREPLY[@]}"'
    found = subprocess.run(
        [bash, "-c", script, "bash", str(HERE / "kplan.bash"), *words], capture_output=True, text=True, check=True
    )
    return found.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_names_from_the_snapshot_on_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = written(
        tmp_path / "kplan", f'#!/bin/sh\nexec {sys.executable} -c "from kplan.program.start import run; run()" "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))
    monkeypatch.delenv("KPLAN_SNAPSHOT", raising=False)

    assert _complete("kplan", "drain", "-s", "demo", "gpu-") == ["gpu-a-1", "gpu-b-1"]
    assert _complete("kplan", "explain", "-s", "demo", "deployment/shop/car") == ["deployment/shop/cart"]
    assert _complete("kplan", "capacity", "-n", "shop", "-s", "demo", "deploy/ca") == ["deploy/cart"]
    assert _complete("kplan", "explain", "-s", "demo", "deployment", "shop/car") == ["shop/cart"]
    assert _complete("kplan", "explain", "-s", "demo", "-n", "shop", "deploy", "ca") == ["cart"]
    assert _complete("kplan", "drain", "-s", "demo", "--zone", "eu-west-1a") == ["eu-west-1a"]
    assert _complete("kplan", "drain", "gpu-") == []
    assert _complete("kplan", "completion", "f") == ["fish"]


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_a_shell_reads_what_the_command_prints(shell: str, check: str) -> None:
    printed = invoke("completion", shell)
    assert (printed.exit_code, printed.stdout) == (0, (HERE / FILES[shell]).read_text())
    if program := shutil.which(shell):
        subprocess.run([program, check, HERE / FILES[shell]], check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_choices() -> None:
    assert {"place", "preempt", "snapshot"} <= set(_complete("kplan", ""))
    assert _complete("kplan", "snapshot", "sh") == ["show"]
    assert _complete("kplan", "place", "--fail") == ["--fail-on"]
    assert {"table", "sarif"} <= set(_complete("kplan", "place", "-o", ""))
    assert _complete("kplan", "snapshot", "show", "-o", "y") == ["yaml"]
    assert _complete("kplan", "plan", "--fail-on", "uns") == ["unschedulable"]
    assert _complete("kplan", "schema", "Drain") == ["DrainsReport", "DrainQuestion"]
    assert _complete("kplan", "diff", "--fail-on", "") == ["regression", "warning", "none"]
    assert _complete("kplan", "config", "show", "-o", "") == ["table", "json", "yaml"]
    assert _complete("kplan", "config", "check", "--output", "=", "j") == ["json", "junit"]


def test_a_list_is_completed_after_its_last_comma_without_what_it_has() -> None:
    assert _complete("kplan", "plan", "--fail-on", "gated,p") == [
        "gated,preemption",
        "gated,pdb-violation",
        "gated,pending",
    ]
    assert "gated,pending,gated" not in _complete("kplan", "plan", "--fail-on", "gated,pending,")
    assert _complete("kplan", "remedy", "--only", "moves,un") == ["moves,uncordon"]
    assert _complete("kplan", "plan", "-o", "json,") == []
    assert ":value: _kplan_list compadd - regression warning none'" in (HERE / "_kplan").read_text()


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
