"""Help: options in groups, and examples that do what they say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kplan.cli.help import examples_of
from kplan.cli.main import app
from tests.cli.commands import invoke
from tests.cli.test_place import WEB

NEEDS_A_CLUSTER = ("kplan snapshot save",)
SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    nested = getattr(command, "commands", None)
    if nested is None:
        yield " ".join(path), command
    for name, each in (nested or {}).items():
        if each.hidden:
            continue
        yield from commands(each, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
EXAMPLES = [example for command in COMMANDS.values() for example, _ in examples_of(command.epilog or "")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_two_or_three_examples_of_its_own(name: str) -> None:
    examples = examples_of(COMMANDS[name].epilog or "")

    assert len(examples) in (2, 3)
    assert all(purpose for _, purpose in examples)
    assert all(example.startswith(f"kplan {name}") for example, _ in examples)


@pytest.mark.parametrize("example", [each for each in EXAMPLES if not each.startswith(NEEDS_A_CLUSTER)])
def test_an_example_does_what_it_says(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KPLAN_SNAPSHOT", "demo")
    (tmp_path / "web.yaml").write_text(WEB)
    (tmp_path / "scheduler.yaml").write_text(SCHEDULER)
    (tmp_path / "cluster.json.gz").write_bytes(_demo())
    if "plan.json" in example:
        invoke("plan", "--save", "plan.json")
    if "before.json" in example:
        invoke("plan", "--save", "before.json")
        invoke("plan", "--save", "after.json")

    found = invoke(*shlex.split(example)[1:])

    assert found.exit_code in (0, 1), found.stderr
    assert found.stdout


def _demo() -> bytes:
    from kplan.snapshot import load_snapshot
    from kplan.snapshot.save import encode_snapshot

    return encode_snapshot(load_snapshot("demo"), "cluster.json.gz")


def test_shared_options_stand_in_groups_after_those_of_the_command() -> None:
    text = invoke("plan", "--help").stdout
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]

    assert headings[:2] == ["Arguments:", "Options:"]
    assert {"Manifests:", "Cluster:", "Scheduler:", "Output:", "Messages:"} <= set(headings)
    assert headings[-1] == "Examples:"
    assert text.index("--max-rounds") < text.index("--kubeconfig")
    assert max(map(len, text.splitlines())) <= 80
