"""Values of options converted without Pydantic are what Typer makes of them."""

from enum import StrEnum
from functools import cache
from typing import Annotated, Any

import typer
import typer.main
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.core import TyperCommand

from kplan.cli.help import KplanCommand
from kplan.program.main import _USAGE


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
