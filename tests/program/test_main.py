import subprocess
import sys

import pytest
import typer

from kplan.program.main import _COMMANDS, app
from tests.cli.commands import invoke, printed, refused

HEAVY = {"numpy", "kubernetes", "msgspec", "rich", "yaml", "urllib3", "pydantic"}

COMMANDS = {f"kplan.commands.{name}" for name in ("place", "drain", "snapshot", "config")}


def after(asked: str, *args: str) -> tuple[str, str]:
    """Run the program, and return what it prints and what Python then says of something."""
    script = (
        f"import sys; sys.argv = ['kplan', *{args!r}]\n"
        "from kplan.program.start import run\n"
        "try: run()\n"
        f"finally: print({asked}, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return found.stdout, found.stderr


PLACE = ("place", "shop/voucher-api", "--snapshot", "demo")


def test_help_loads_nothing_heavy() -> None:
    printed, loaded = after(f"sorted({(HEAVY | COMMANDS)!r} & set(sys.modules))", "--help")
    assert "place" in printed
    assert loaded == "[]\n"


_OF_OTHERS = """
kplan.course.simulation kplan.capacity.counting kplan.remedies.ways kplan.questions.drain.in_turn
kplan.cel.expression kplan.commands.plan kplan.commands.drain kplan.course.carry_out kplan.course.queue_course
kplan.course.odds.of_changes kplan.documents.diff kplan.documents.capacity kplan.course.answers.utilisation
calendar rich kubernetes pydantic
"""
UNASKED = set(_OF_OTHERS.split())

FOR_MANIFESTS = {"yaml", "secrets", "kplan.course.odds.runs", "kplan.cluster.field_lines", "kplan.documents.plan"}


@pytest.mark.parametrize(
    ("named", "unasked"), [("shop/voucher-api", UNASKED | FOR_MANIFESTS), ("fixtures/web.yaml", UNASKED)]
)
def test_placing_loads_nothing_that_other_questions_need(named: str, unasked: set[str]) -> None:
    asked = ("place", named, "--top", "9", "--snapshot", "demo")
    printed, loaded = after(f"sorted({unasked!r} & set(sys.modules))", *asked)
    assert "general-a-2" in printed
    assert loaded == "[]\n"


def test_placing_a_pod_loads_few_modules_and_others_when_they_are_used() -> None:
    count = "sum(name.partition('.')[0] == 'kplan' for name in sys.modules)"
    put_off = "pickle", "numpy._typing", "typing_extensions", "difflib", "numpy.linalg"
    kinds = f"{{type(sys.modules[name]).__name__ for name in {put_off}}}"
    known = '__import__("importlib.util").util.find_spec(pickle.__spec__.name), difflib.get_close_matches("", [])'
    solved = "pickle.dumps(7), numpy.linalg.norm(1), numpy.linalg.inv([[2]]), numpy.roots([1, -2])"
    used = f"eval('{known}, {solved}, numpy.typing.NBitBase, typing_extensions.Buffer', {{**sys.modules}})"
    n_modules, before, after_use = after(f"{count}, {kinds}, {used} and '', {kinds}", *PLACE)[1].split()
    assert int(n_modules) <= 200
    assert (before, after_use) == ("{'Later'}", "{'module'}")


def test_tables_need_no_digest() -> None:
    for output, needs_digest in (("table", False), ("json", True)):
        assert after("'hashlib' in sys.modules", *PLACE, "-o", output)[1] == f"{needs_digest}\n"


def test_version() -> None:
    found = printed("--version")
    assert found.startswith("kplan 0.")


def test_schema_lists_kinds_and_prints_one() -> None:
    assert "PlacementReport" in invoke("schema").stdout.splitlines()
    assert '"title": "PlacementReport"' in invoke("schema", "PlacementReport").stdout
    assert "choose from" in refused("schema", "Zebra")


def test_no_summary_in_the_list_of_commands_is_cut_off() -> None:
    for command in ((), ("snapshot",), ("config",)):
        assert "..." not in invoke(*command, "--help").stdout.partition("\n\n")[2]


def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with_or_says_in_short() -> None:
    listed = typer.main.get_command(app).commands
    for name, entry in _COMMANDS.items():
        assert entry.short_help == ("" if listed[name].hidden else listed[name].get_short_help_str(limit=200)), name
