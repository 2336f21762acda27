"""The Python of the pages for people, as files for a strict type checker: python -m tests.samples FOLDER."""

import re
import sys
from pathlib import Path

from tests.sessions import PAGES

_SAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SETUP = """
from typing import assert_type
import kplan
from kplan.documents.checks import ChecksReport
from kplan.documents.drains import DrainsReport
from kplan.documents.plan import PlanReport
from kplan.questions import Drain, InTurn

snapshot = kplan.load_snapshot("demo")
planner = kplan.Planner(snapshot)
drain = Drain(nodes=("spot-a-1",))
assert_type(planner.ask(drain), PlanReport)
assert_type(planner.ask(InTurn(question=drain)), DrainsReport)
assert_type(kplan.sweep(planner, [drain]), list[PlanReport])
assert_type(planner.check(), ChecksReport)
"""
"""What goes before samples that begin in the middle, and the types of what questions return."""


def write(folder: Path) -> None:
    """Write a file for each page that has samples."""
    folder.mkdir()
    for page in PAGES:
        if samples := _SAMPLE.findall(page.read_text(encoding="utf-8")):
            setup = "" if any("import kplan" in sample for sample in samples) else _SETUP
            (folder / f"sample_{page.stem}.py").write_text("\n".join([setup, *samples]), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
