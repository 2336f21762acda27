"""The pages below docs/ are run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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
