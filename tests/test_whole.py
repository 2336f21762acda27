from pathlib import Path
from types import SimpleNamespace

import pytest

import kplan
from kplan.errors import UsageError
from tests import whole


def test_what_is_told_counts_but_for_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()

    def told(note: object) -> list[str]:
        return whole._told([note], folder)

    same = [told(UsageError(f"{path}: no file", hint="look")) for path in (folder / "a" / "b", folder / "c-0")]
    assert same == [['"UsageError"\n"…: no file"\n"look"']] * 2
    assert told(UsageError(f"{folder}: no file")) != same[0]
    assert told(ValueError("what others say")) == told(kplan.Planner("demo")) == []


def test_another_answer_than_the_one_that_was_read_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = SimpleNamespace(
        getoption=lambda name: str(tmp_path) if name == "--whole" else False,
        _tmp_path_factory=SimpleNamespace(getbasetemp=lambda: tmp_path),
    )
    case = SimpleNamespace(nodeid="tests/a.py::test_b", function=None, funcargs={}, config=config)
    monkeypatch.setattr(whole, "_golden", lambda: {"tests/a.py::test_b": {"-": "another"}})
    with pytest.raises(AssertionError, match="what the test is told differs"), whole.held(case):
        kplan.Planner("demo").place("shop/voucher-api")
    (shown,) = tmp_path.iterdir()
    assert '"name":"voucher-api"' in shown.read_text(encoding="utf-8")
    case.nodeid = "tests/a.py::test_new"
    with whole.held(case):
        kplan.Planner("demo").place("shop/voucher-api")
