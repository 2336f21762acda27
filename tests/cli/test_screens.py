"""What a person sees: every command of the README, of docs/ and of the help, on terminals of several widths."""

import re
import shlex
from pathlib import Path

from tests.cli.screens import screens
from tests.cli.test_help import COMMANDS
from tests.recorded import sample
from tests.sessions import PAGES, ROOT, commands_of

WIDTHS = (60, 80, 120, 200)
HELP = [
    [*name.split(), option] for name in ("", *COMMANDS, "snapshot", "config") for option in ("--help", "--help-all")
]
FOR_PROGRAMS = re.compile(r" (-o|--output)[ =](?!wide|table)|kplan pods ")
MORE = (
    "preempt --explain -s demo", "plan -s demo --runs 20", "drain --each -s demo", "drain spot-a-1 -s demo",
    "capacity --headroom -s demo", "snapshot show demo", "config show", "place shop/checkout --snapshot demo",
    "place web.yml --snapshot demo", "place --snapshot nowhere/in/this/directory/is/a/cluster.json.gz shop/cart",
    "plan --snapshot demo --explian", "nodes -s demo", "nodes -s demo --node-groups fixtures/node-groups.yaml -o wide",
    "nodes -s fixtures/karpenter/cluster.yaml --instance-types fixtures/karpenter/instance-types.yaml",
    "remedy -s demo", "drain spot-a-1 spot-b-1 --runbook --timeline -s demo",
    "drain general-c-1 spot-a-1 general-b-1 -s demo", "drain general-a-1 --replace --timeline -s demo",
    "plan --timeline -s demo", "place fixtures/gang-job.yaml -s fixtures/gang.yaml", "snapshot groups demo",
    "explain ml/llm-eval -s demo -o wide", "diff --cordon general-a-1 -s demo -o wide",
)  # fmt: skip


def test_a_person_sees_whole_lines_and_no_gaps(tmp_path: Path) -> None:
    """By default, one of twelve commands is tried at one of the widths; commands take turns."""
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    commands = [command for page in PAGES for command in commands_of(page.read_text(encoding="utf-8"))]
    sessions = [shlex.split(command)[1:] for command in commands if not FOR_PROGRAMS.search(command)]
    everything = [*sessions, *(command.split() for command in MORE), *HELP]
    pairs = [(width, command) for command in everything for width in WIDTHS]
    shown = screens(sample(pairs, 12 * len(WIDTHS) + 1), tmp_path)
    assert len(sessions) > 25
    assert "\n".join(fault for screen in shown for fault in screen.faults()) == ""
    assert sum(screen.has_colour for screen in shown) > len(shown) / 3
