"""Options declared as the help shows them, and groups of groups of them."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from kplan.cli.flags import OutputFlags, SavedOutputFlags, with_flags
from kplan.cli.options import argument, option


@pytest.mark.parametrize(
    ("spelled", "names", "metavar"),
    [
        ("--force", ("--force",), None),
        ("--output -o FORMAT", ("--output", "-o"), "FORMAT"),
        ("--recreate/--no-recreate", ("--recreate/--no-recreate",), None),
    ],
)
def test_an_option_is_spelled_as_in_the_help(spelled: str, names: tuple[str, ...], metavar: str | None) -> None:
    info = option(spelled, "What it does.", panel="More", min=1)
    assert ((info.default, *info.param_decls), info.metavar, info.help, info.rich_help_panel, info.min) == (
        names,
        metavar,
        "What it does.",
        "More",
        1,
    )


@dataclass(frozen=True)
class Size:
    panel: ClassVar[str] = "Sizes"

    width: Annotated[int, option("--width N", "How wide.")] = 3


@dataclass(frozen=True)
class Looks:
    size: Size
    output: SavedOutputFlags


def test_a_command_gets_a_group_of_groups_from_single_options() -> None:
    seen: list[Any] = []
    program = typer.Typer(rich_markup_mode=None)

    @program.command()
    @with_flags
    def draw(name: Annotated[str, argument("NAME", "Whom.")], *, looks: Looks) -> None:
        seen.extend([name, looks.size, looks.output.reports()])

    done = CliRunner().invoke(program, ["a", "--width", "5", "--save", "x.json", "--report", "html=x.html"])
    assert done.exit_code == 0, done.output
    assert seen == ["a", Size(5), ["html=x.html", "json=x.json"]]


def test_without_save_only_the_named_reports_are_written() -> None:
    assert OutputFlags(report=["html=x.html"]).reports() == ["html=x.html"]
    assert SavedOutputFlags().reports() == []
