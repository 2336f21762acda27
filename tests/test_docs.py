"""Pages for people are run as they stand, and say all that there is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kplan.changes.sets import KINDS
from kplan.course.answers.verdict import CONDITIONS, DEFAULT_FAIL_ON
from kplan.program.main import app
from kplan.report.options import OutputFormat
from tests.cli.commands import invoke
from tests.sessions import PAGES, run_again, tried

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", tried(PAGES, metafunc.config, first=0), ids=lambda page: page.name)


def test_the_sessions_of_a_page_print_what_is_shown(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = page.read_text(encoding="utf-8")
    printed = run_again(shown, tmp_path, monkeypatch)
    if request.config.getoption("--update-docs"):
        page.write_text(printed, encoding="utf-8")
    else:
        assert shown == printed, f"{page.name} differs; pytest --update-docs tests/test_docs.py writes it anew"


def test_the_plugin_of_the_documentation_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {"__name__": "example"}
    for language, text in BLOCK.findall((DOCS / "plugins.md").read_text()):
        if language == "yaml":
            Path("scheduler.yaml").write_text(text)
        else:
            exec(compile(text, "plugins.md", "exec"), known)

    planner = known["planner"]
    said = capsys.readouterr().out.splitlines()
    assert said == [planner.place("shop/voucher-api").node, "scheduled"]
    assert [warning.code for warning in planner.warnings if warning.code == "UnknownPlugin"] == []
    scores = known["placement"].scores
    assert scores
    assert all(set(each.plugins) > {"TeamNodes"} for each in scores.values())


def test_the_manifests_for_dask_are_taken_and_fit() -> None:
    pods = json.loads(invoke("pods", "fixtures/dask.yaml", "--snapshot", "demo", "-o", "json").stdout)
    placed = invoke("place", "fixtures/dask.yaml", "-o", "json")
    assert pods["summary"]["refused"] == 0
    assert placed.exit_code == 0, placed.stderr
    assert json.loads(placed.stdout)["summary"] | {"pods": 5, "scheduled": 5} == json.loads(placed.stdout)["summary"]


def test_pages_are_short() -> None:
    n_lines = {page.name: len(page.read_text().splitlines()) for page in PAGES if page.name != "benchmarks.md"}
    assert {name: lines for name, lines in n_lines.items() if lines > 80} == {}


def test_every_kind_of_action_of_a_remedy_is_in_the_table() -> None:
    kinds = re.findall(r"^\| .* \| (`[^|]+`) \| \d", (DOCS / "remedy.md").read_text(), re.MULTILINE)
    assert {kind for row in kinds for kind in re.findall(r"`([a-z]+)`", row)} == {*KINDS}


def test_pictures_are_there_and_shown_and_small() -> None:
    shown = {
        path
        for page in PAGES
        for path in re.findall(r"^!\[[^\]]{20,}\]\((pictures/[a-z-]+\.png)\)$", page.read_text(), re.MULTILINE)
    }
    files = {f"pictures/{path.name}": path.stat().st_size for path in (DOCS / "pictures").iterdir()}

    assert shown == files.keys()
    assert max(files.values()) < 150_000
    assert sum(files.values()) < 1_500_000
    assert all((DOCS / path).read_bytes().startswith(b"\x89PNG\r\n") for path in files)


ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()


def test_the_first_shell_block_holds_the_two_commands() -> None:
    (shell, *_) = re.findall(r"^```(?:sh|shell|bash|console)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    commands = shell.splitlines()
    assert len(commands) == 2
    assert "--snapshot demo" in commands[0]
    assert commands[1].endswith("python -m pytest")


def test_the_readme_stays_short_and_names_the_six_questions() -> None:
    assert len(README.splitlines()) <= 100
    assert re.findall(r"^\| `kplan (\w+)", README, re.MULTILINE) == [
        "explain",
        "place",
        "plan",
        "drain",
        "remedy",
        "check",
    ]


def test_every_command_is_named_on_the_page_of_commands() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands
    names = {name for name, command in commands.items() if not command.hidden}
    assert set(re.findall(r"^\| \[?`kplan ([a-z]+)", COMMANDS, re.MULTILINE)) == names


def test_every_condition_of_fail_on_is_explained_on_the_page_of_commands() -> None:
    conditions, defaults = re.split(r"\| question \|", COMMANDS.split("| `--fail-on` |")[1])
    assert tuple(re.findall(r"^\| `([a-z-]+)` \| .{10,} \|$", conditions, re.MULTILINE)) == CONDITIONS
    assert {
        command: tuple(re.findall(r"`([a-z-]+)`", words))
        for command, words in re.findall(r"^\| `([a-z]+)` \| (.*) \|$", defaults, re.MULTILINE)
    } == DEFAULT_FAIL_ON


def test_every_format_is_named_on_the_page_of_commands() -> None:
    assert [output for output in OutputFormat if f"`{output}`" not in COMMANDS] == []
