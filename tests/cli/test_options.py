"""Options declared as the help shows them, groups of groups of them, and those of the clock."""

import re
from typing import Annotated, Any, Literal

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from kplan.cli.flags import OutputFlags, SavedOutputFlags
from kplan.cli.options import Fields, Flags, argument, option, with_flags
from kplan.reading.arguments import Option
from tests.cli.commands import invoke


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


class Size(Flags, panel="Sizes"):
    width: Annotated[int, option("--width N", "How wide.")] = 3


class Looks(Flags):
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
    assert [seen[0], seen[1].width, seen[2]] == ["a", 5, ["html=x.html", "json=x.json"]]


def test_without_save_only_the_named_reports_are_written() -> None:
    assert OutputFlags(report=["html=x.html"]).reports() == ["html=x.html"]
    assert SavedOutputFlags().reports() == []


class Stir(msgspec.Struct, frozen=True):
    """How to stir.

    Attributes
    ----------
    clockwise : to the right
    """

    clockwise: Annotated[bool, Option()] = True


class Cook(msgspec.Struct, frozen=True):
    """A meal.

    Attributes
    ----------
    dishes : what to cook
    how : over which heat
    hours, spice : how long, or how hot
    minutes : for so many minutes
    """

    dishes: Annotated[tuple[str, ...], Option("--dish NAME")] = ()
    how: Annotated[Literal["low", "high"], Option()] = "low"
    minutes: Annotated[Annotated[int, msgspec.Meta(ge=1, le=90)] | None, Option("N", more=True)] = None
    spice: Annotated[tuple[int, ...], Option("N:M", read=lambda text: tuple(map(int, text.split(":"))))] = (1,)
    hours: float = 1.0
    stirring: Stir = Stir()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Cook()),
        (["--dish", "a", "--dish", "b", "--how", "high"], Cook(dishes=("a", "b"), how="high")),
        (["--minutes", "5", "--spice", "2:3", "--no-clockwise"], Cook(minutes=5, spice=(2, 3), stirring=Stir(False))),
    ],
)
def test_options_are_made_from_the_fields_of_a_question(words: list[str], expected: Cook) -> None:
    seen: list[Cook] = []
    program = typer.Typer(rich_markup_mode=None)

    @program.command()
    @with_flags
    def cook(*, settings: Annotated[Fields, Cook]) -> None:
        seen.append(Cook(**settings))

    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output
    assert seen == [expected]
    assert CliRunner().invoke(program, ["--minutes", "91"]).exit_code == 2
    assert CliRunner().invoke(program, ["--how", "raw"]).exit_code == 2
    text = CliRunner().invoke(program, ["--help"]).output
    assert re.search(r"--dish NAME +What to cook\.", text)
    assert re.search(r"--clockwise / --no-clockwise +To the right\.", text)
    assert "--hours" not in text


def test_durations_are_those_that_were_given_and_the_report_says_so() -> None:
    shown = invoke("place", "--timeline", "fixtures/web.yaml", "--start", "deployment/shop/web=7s", "--stop", "3s")
    assert "shop/web-" not in shown.stderr
    assert "start 7 s (given), stop 3 s (given)" in shown.stdout


def test_too_few_ready_pods_fail_where_that_is_asked_for() -> None:
    drain = ("drain", "--timeline", "spot-a-1", "--timeout", "1m", "--fail-on", "unavailable")
    assert invoke(*drain).exit_code == invoke(*drain, "--min-ready", "100%").exit_code - 1 == 0
    assert "Unavailable" in invoke(*drain, "--min-ready", "100%", "-o", "junit").stdout


def test_a_duration_of_a_workload_that_does_not_move_is_told_to_have_no_effect() -> None:
    result = invoke("place", "--timeline", "fixtures/web.yaml", "--start", "deployment/shop/no-such=7s")
    assert "no pod of Deployment/shop/no-such comes, goes or ends" in result.stderr.replace("\n  ", " ")
