import subprocess
import sys

import pytest
import typer

from kplan.program.main import _COMMANDS, app
from tests.cli.commands import invoke, printed, refused

HEAVY = {"numpy", "kubernetes", "msgspec", "rich", "yaml", "urllib3", "pydantic"}

COMMANDS = {
    "kplan.commands.place",
    "kplan.commands.drain",
    "kplan.commands.snapshot",
    "kplan.commands.config",
}


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['kplan', '--help']\n"
        "from kplan.program.start import run\n"
        "try: run()\n"
        f"finally: print(sorted({(HEAVY | COMMANDS)!r} & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "place" in found.stdout
    assert found.stderr == "[]\n"


UNASKED = {
    "kplan.course.simulation",
    "kplan.capacity.counting",
    "kplan.remedies.ways",
    "kplan.questions.in_turn.drains",
    "kplan.cel.expression",
    "kplan.commands.plan",
    "kplan.commands.drain",
    "kplan.course.carry_out",
    "kplan.course.queue_course",
    "kplan.course.odds.of_changes",
    "kplan.documents.diff",
    "kplan.documents.capacity",
    "kplan.course.answers.utilisation",
    "calendar",
    "rich",
    "kubernetes",
    "pydantic",
}

FOR_MANIFESTS = {
    "yaml",
    "secrets",
    "kplan.course.odds.runs",
    "kplan.cluster.field_lines",
    "kplan.documents.plan",
}


@pytest.mark.parametrize(
    ("named", "unasked"), [("shop/voucher-api", UNASKED | FOR_MANIFESTS), ("fixtures/web.yaml", UNASKED)]
)
def test_placing_loads_nothing_that_other_questions_need(named: str, unasked: set[str]) -> None:
    script = (
        f"import sys; sys.argv = ['kplan', 'place', {named!r}, '--snapshot', 'demo']\n"
        "from kplan.program.start import run\n"
        "try: run()\n"
        f"finally: print(sorted({unasked!r} & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "general-a-2" in found.stdout
    assert found.stderr == "[]\n"


def test_placing_a_pod_loads_few_modules() -> None:
    script = (
        "import sys; sys.argv = ['kplan', 'place', 'shop/voucher-api', '--snapshot', 'demo']\n"
        "from kplan.program.start import run\n"
        "try: run()\n"
        "finally: print(sum(name.partition('.')[0] == 'kplan' for name in sys.modules), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(found.stderr) <= 200


def test_tables_need_no_digest() -> None:
    for output, needs_digest in (("table", False), ("json", True)):
        script = (
            f"import sys; sys.argv = ['kplan', 'place', 'shop/voucher-api', '--snapshot', 'demo', '-o', {output!r}]\n"
            "from kplan.program.start import run\n"
            "try: run()\n"
            "finally: print('hashlib' in sys.modules, file=sys.stderr)"
        )
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert found.stderr == f"{needs_digest}\n"


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
