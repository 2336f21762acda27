"""Every command that can reach a cluster, driven against a server that keeps what it was asked: nothing but GET."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from kplan.program.main import app
from tests.objects import head
from tests.recorded import sample

from .conftest import Start

POD = head("Pod", name="new", namespace="shop") | {
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}
}

#: Command to the arguments that make it work on the recorded cluster; POD stands for a manifest, QUESTION for one.
ARGUMENTS: dict[str, list[str]] = {
    "ask": ["QUESTION"], "capacity": ["POD"], "check": [], "diff": ["--against", "demo"], "drain": ["node-a2"],
    "explain": ["batch/pending-missing-pvc"], "mcp": [], "nodes": ["--autoscaler", "karpenter"], "place": ["POD"],
    "plan": [], "pods": ["POD"], "preempt": [],
    "remedy": ["batch/pending-no-match", "--only", "nodes"],
    "snapshot check": [],
    "snapshot groups": [],
    "snapshot save": ["saved.json"],
    "snapshot show": [],
    "snapshot types": [],
}  # fmt: skip


def live_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the commands that take a kubeconfig, whatever they are called."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from live_commands(command, (*path, name))
        elif any("--kubeconfig" in getattr(parameter, "opts", ()) for parameter in command.params):
            yield " ".join((*path, name))


LIVE = sorted(live_commands(get_command(app)))


def test_the_commands_that_reach_a_cluster_are_known_here() -> None:
    assert set(LIVE) <= ARGUMENTS.keys()
    assert {"snapshot save", "snapshot show", "snapshot check", "place"} <= set(LIVE)


@pytest.mark.parametrize("command", sample(LIVE, 8))
def test_a_command_asks_with_get_and_with_nothing_else(
    command: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "question.json").write_text('{"apiVersion": "kplan/v1", "kind": "PlanQuestion"}')
    api, options = start()
    files = {"POD": "pod.json", "QUESTION": "question.json"}
    arguments = [files.get(argument, argument) for argument in ARGUMENTS[command]]

    result = CliRunner().invoke(app, [*command.split(), *arguments, "--kubeconfig", options.kubeconfig])

    assert result.exit_code in {0, 1}, result.output
    assert "/api/v1/nodes" in api.paths
    assert {request.method for request in api.requests} == {"GET"}
