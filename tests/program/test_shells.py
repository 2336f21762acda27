"""Real shells, in a terminal of their own, with names that a shell could take for commands."""

import json
import os
import pty
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from tests.cli.commands import invoke
from tests.recorded import sample

HERE = Path(__file__).parents[2] / "completions"

#: Names of which each, read as anything but text, makes the file ``ran``.
TRAPS = [
    "sound$(touch ran)", "node-of-trust`touch ran`", "$(touch ran)", "`touch ran`", "${x:=$(touch ran)}",
    "x$(touch${IFS}ran)", "a;touch ran", "a|touch ran", "a\ntouch ran\n", "'$(touch ran)'", '"$(touch ran)"',
    "<(touch ran)", "(touch ran)", "$[$(touch ran)0]", "x[$(touch ran)]", "*", "~root", "--help",
    "\x1b[201~touch ran\r", "a\ttouch ran",
]  # fmt: skip

START = {
    "bash": ([], f"bind 'set show-all-if-ambiguous on'; bind 'set bell-style none'; source {HERE}/kplan.bash"),
    "zsh": (
        ["-f", "-i"],
        f"fpath=({HERE} $fpath); autoload -Uz compinit; compinit -u -d $HOME/dump; zstyle ':completion:*' menu no",
    ),
    "fish": (["--no-config", "-i"], f"source {HERE}/kplan.fish"),
}


class Terminal:
    """A shell in a pseudo-terminal."""

    def __init__(self, shell: str, home: Path, more: str = "") -> None:
        program = shutil.which(shell)
        assert program is not None
        options, start = START[shell]
        if shell == "bash":
            options = ["--norc", "--noprofile", "-i"]
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.chdir(home)
            path = f"{home / 'bin'}:{os.environ['PATH']}"
            kept = {"PATH": path, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "> "}
            kept |= {"PYTHONPATH": str(HERE.parent), "XDG_RUNTIME_DIR": str(home)}
            os.execve(program, [shell, *options], kept)
        (home / "started").unlink(missing_ok=True)
        self.type(f"{start}\n{more}\n")
        self.type("touch started\n")
        self.until((home / "started").exists)
        self.see(0.1)

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def see(self, seconds: float, expected: str = "") -> str:
        """Return what is printed until the expected text, or until nothing more comes for so long."""
        printed = ""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and select.select([self._file], [], [], seconds)[0]:
            try:
                printed += os.read(self._file, 1 << 16).decode("utf-8", "replace")
            except OSError:
                break
            if expected and expected in printed:
                break
        return printed

    def until(self, is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not is_true():
            self.see(0.05)
            assert time.monotonic() < deadline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._file)


def _needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path


def _program(home: Path, text: str, name: str = "kplan") -> None:
    path = home / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("shell", sample([*START], 3, 2))
def test_what_the_program_offers_is_text_to_the_shell_whatever_stands_in_it(shell: str, home: Path) -> None:
    _needs(shell)
    (home / "names").write_text("".join(f"{trap}\n" for trap in TRAPS) + "node-of-trust\n")
    _program(home, f"#!/bin/sh\ncat '{home}/names'\ntouch '{home}/asked'\n")
    for words in ("drain ", "place --scale ", "drain '", 'drain "', "drain $", "explain -s '$(touch ran)' "):
        (home / "asked").unlink(missing_ok=True)
        with Terminal(shell, home) as terminal:
            terminal.type(f"kplan {words}\t\t")
            if words.endswith(" "):
                terminal.until((home / "asked").exists)
            terminal.see(0.3)
            assert not (home / "ran").exists(), words
    with Terminal(shell, home) as terminal:
        terminal.type("kplan drain node-of-t\t")
        assert "node-of-trust" in terminal.see(8.0, "node-of-trust")
    assert not (home / "ran").exists()


@pytest.mark.parametrize("shell", sample([*START], 3))
def test_names_of_a_snapshot_and_a_kubeconfig_run_nothing(shell: str, home: Path) -> None:
    _needs(shell)
    run = f'{sys.executable} -c "from kplan.program.start import run; run()" "$@"'
    _program(home, f"#!/bin/sh\nexport KUBECONFIG={home}/config\n{run}\n")
    (home / "cluster.json").write_text(_cluster())
    (home / "config").write_text(_kubeconfig())
    questions = {"drain -s cluster.json ": "so", "plan -s cluster.json --without ": "jo", "plan --context ": "so"}
    for words, start in questions.items():
        with Terminal(shell, home) as terminal:
            terminal.type(f"kplan {words}{start}\t")
            assert "sound" in terminal.see(20.0, "sound"), words
    assert not (home / "ran").exists()


KUBECTL = {
    "bash": "source /usr/share/bash-completion/bash_completion; source <(kubectl completion bash)",
    "zsh": "source <(kubectl completion zsh)",
    "fish": "kubectl completion fish | source",
}


@pytest.mark.parametrize("shell", sample([*START], 3, 1))
def test_names_run_nothing_where_kubectl_completes_its_plugin(shell: str, home: Path) -> None:
    _needs(shell)
    _needs("kubectl")
    if shell == "bash" and not Path("/usr/share/bash-completion/bash_completion").exists():
        pytest.skip("needs bash-completion")
    (home / "cluster.json").write_text(_cluster())
    (home / "config").write_text(_kubeconfig())
    for name, function in (("kubectl-kplan", "run_as_plugin"), ("kubectl_complete-kplan", "complete_for_kubectl")):
        code = f"from kplan.program.start import {function}; {function}()"
        _program(home, f"#!/bin/sh\nexport KUBECONFIG={home}/config\nexec {sys.executable} -c '{code}' \"$@\"\n", name)
    lines = ("drain -s cluster.json so", "plan --context so", "explain -s cluster.json sound/so")
    for words in sample(lines, 3, first=[*START].index(shell)):
        with Terminal(shell, home, KUBECTL[shell]) as terminal:
            terminal.type(f"kubectl kplan {words}\t")
            assert "sound" in terminal.see(20.0, "sound"), words
    assert not (home / "ran").exists()


def _cluster() -> str:
    names = [*TRAPS, "sound"]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": name}} for name in names]
    jobs = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": name}} for name in names]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods, *jobs]})


def _kubeconfig() -> str:
    return json.dumps({"contexts": [{"name": name, "context": {"cluster": "c"}} for name in [*TRAPS, "sound"]]})


@pytest.mark.parametrize("kind", ["nodes", "pods", "workloads", "namespaces"])
def test_only_valid_names_are_offered(kind: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(_cluster())
    expected = {"pods": "sound/sound", "workloads": "job/sound/sound"}.get(kind, "sound")
    assert invoke("names", kind, "--snapshot", tmp_path / "cluster.json").stdout.split("\n") == [expected, ""]


def test_contexts_that_a_shell_could_misread_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(_kubeconfig())
    assert invoke("names", "contexts", KUBECONFIG=str(tmp_path / "config")).stdout.split("\n") == ["sound", ""]


def test_contexts_as_clouds_call_them_are_offered(tmp_path: Path) -> None:
    names = [
        "admin@prod",
        "arn:aws:eks:eu-west-1:1234:cluster/a",
        "default/api-x-example-com:6443/kube:admin",
        "gke_p_europe-west1-b_c",
    ]
    (tmp_path / "config").write_text(json.dumps({"contexts": [{"name": name, "context": {}} for name in names]}))
    assert invoke("names", "contexts", KUBECONFIG=str(tmp_path / "config")).stdout.split() == names
