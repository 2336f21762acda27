"""Help: options in groups, and examples that do what they say."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.core import TyperCommand

from kplan.cli.help import KplanCommand, examples_of
from kplan.program.main import _USAGE, app
from kplan.snapshot import load_snapshot
from kplan.snapshot.own_file import encode_snapshot
from tests.cli.commands import invoke
from tests.commands.conftest import WEB
from tests.recorded import sample


class Fruit(StrEnum):
    """Choices, one of which is called otherwise than its value."""

    APPLE = "apple"
    PEAR = "a pear"


Option = Annotated[list[str] | None, typer.Option("--many")]


@cache
def command(cls: type[TyperCommand]) -> Any:
    app = typer.Typer(add_completion=False)

    @app.command(cls=cls)
    def run(
        what: list[str] | None = None,
        *,
        many: Option = None,
        fruit: Fruit = Fruit.PEAR,
        other: Fruit | None = None,
        number: Annotated[int, typer.Option(min=1, max=9)] = 3,
        text: str = "some",
        flag: bool = False,
    ) -> None: ...

    return typer.main.get_command(app)


def parsed(cls: type[TyperCommand], args: list[str]) -> object:
    """Return what a command is given for these arguments, or what is said to be wrong with them."""
    try:
        return command(cls).make_context("run", list(args)).params
    except _USAGE as error:
        return str(error), getattr(error, "message", "")


WORDS = ["", "x", "apple", "APPLE", "a pear", "pear", "0", "1", "9", "10", "-1", "é", "true"]
OPTIONS = ["--many", "--fruit", "--other", "--number", "--text", "--what"]


TYPED = st.tuples(st.sampled_from(OPTIONS), st.sampled_from(WORDS)) | st.just(("--flag",))


@settings(deadline=None)
@given(st.lists(TYPED, max_size=4))
def test_values_are_converted_as_typer_does_it(options: list[tuple[str, ...]]) -> None:
    args = [word for option in options for word in option]
    quick, typers = parsed(KplanCommand, args), parsed(TyperCommand, args)
    if isinstance(quick, tuple) and str(quick[1]).startswith("expected a whole number from 1 to 9, got"):
        # Typer says it in Pydantic's words.
        assert isinstance(typers, tuple)
        assert str(typers[1]).startswith("Input should be ")
    else:
        assert quick == typers


#: The second waits for an agent; tests/mcp talks to it.
NEEDS_A_CLUSTER = ("kplan snapshot save", "kplan mcp")
GROUPS = "nodeGroups: [{name: spot, maxSize: 6, nodes: {selector: {pool: spot}}}]\n"
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
def test_every_command_has_two_to_four_examples_of_its_own(name: str) -> None:
    examples = examples_of(COMMANDS[name].epilog or "")
    assert len(examples) in (2, 3, 4)
    assert all(purpose for _, purpose in examples)
    assert all(example.startswith(f"kplan {name}") for example, _ in examples)


@pytest.mark.parametrize("example", sample([each for each in EXAMPLES if not each.startswith(NEEDS_A_CLUSTER)], 10))
def test_an_example_does_what_it_says(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KPLAN_SNAPSHOT", "demo")
    (tmp_path / "web.yaml").write_text(WEB)
    (tmp_path / "scheduler.yaml").write_text(SCHEDULER)
    question = "apiVersion: kplan/v1\nkind: DrainQuestion\nnodes: [general-a-1]\n"
    (tmp_path / "question.yaml").write_text(question)
    (tmp_path / "questions.yaml").write_text(f"{question}---\n{question}")
    for name in ("cluster.json.gz", "a.json", "b.json"):
        if name in example:
            (tmp_path / name).write_bytes(encode_snapshot(load_snapshot("demo"), name))
    (tmp_path / "groups.yaml").write_text(GROUPS)
    (tmp_path / "checks.yaml").write_text("apiVersion: kplan/v1\nkind: Checks\nchecks: [{surge: all}]\n")
    for name in ("instance-types.json", "spot-prices.json"):
        shutil.copy(Path(__file__).parents[2] / "fixtures" / "karpenter" / name, tmp_path)
    if "monday.json" in example:
        (tmp_path / "monday.json").write_text(invoke("check", "checks.yaml", "-o", "json").stdout)
    if "plan.json" in example:
        invoke("plan", "--save", "plan.json")
    if "before.json" in example:
        invoke("plan", "--save", "before.json")
        invoke("plan", "--save", "after.json")

    found = invoke(*shlex.split(example)[1:])

    assert found.exit_code in (0, 1), found.stderr
    assert found.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_a_screen_with_examples_before_options(name: str) -> None:
    text = invoke(*name.split(), "--help", COLUMNS="80").stdout
    lines = text.splitlines()
    assert text.lstrip().startswith(f"Usage: kplan {name} [")
    assert len(lines) <= 24
    assert " ".join(COMMANDS[name].help.partition("\n\n")[0].split()) in " ".join(text.split())
    assert lines.index("Examples:") < lines.index("Options:")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith(("schema", "completion"))])
def test_the_whole_help_has_every_option(name: str) -> None:
    whole = invoke(*name.split(), "--help-all", COLUMNS="80").stdout
    options = [max(parameter.opts, key=len) for parameter in COMMANDS[name].params if parameter.opts[0][0] == "-"]
    assert [option for option in options if f"{option} " not in whole and f"{option}\n" not in whole] == []
    assert max(map(len, whole.splitlines())) <= 80


def test_options_stand_in_the_same_groups_in_the_same_order_everywhere() -> None:
    groups = ["Options:", "More options:", "Pods:", "Manifests:", "Cluster:", "What if:", "Scheduler:", "Output:"]
    for name in ("place", "plan", "preempt", "capacity", "drain", "explain", "diff", "pods"):
        lines = invoke(name, "--help-all").stdout.splitlines()
        places = [lines.index(group) for group in groups if group in lines]
        assert places == sorted(places), name
        assert lines.index("Examples:") < lines.index("Options:")


def test_the_short_help_says_how_to_see_the_rest() -> None:
    text = invoke("plan", "--help").stdout
    assert "--max-rounds" not in text
    assert re.search(r"kplan plan --help-all shows all \d\d options", text)
    assert "--max-rounds" in invoke("plan", "--help-all").stdout
    assert invoke("snapshot", "--help-all").stdout == invoke("snapshot", "--help").stdout


def test_the_commonest_commands_are_listed_first() -> None:
    lines = invoke("--help", COLUMNS="80").stdout.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Commands:", "More:", "Options:"]
    first = lines[lines.index("Commands:") + 1 : lines.index("More:") - 1]
    assert [line.split()[0] for line in first] == ["explain", "place", "plan", "drain", "remedy", "check"]
