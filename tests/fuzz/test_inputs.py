"""The tool that tries hostile inputs finds what it is for, and finds nothing in a few inputs."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from kplan.api.kinds import KINDS
from kplan.catalogue import QUESTIONS
from tests.cli.commands import invoke
from tests.fuzz import documents, inputs
from tests.fuzz.objects import Maker


def test_a_seed_makes_the_same_objects_of_all_kinds_again() -> None:
    first, second = (Maker(random.Random("x")).objects() for _ in range(2))
    assert json.dumps(first) == json.dumps(second)
    kinds = {Maker(random.Random(number)).object(kind)["kind"] for number, kind in enumerate(KINDS)}
    assert kinds == {kind.name for kind in KINDS}


@pytest.mark.parametrize("seed", range(4))
def test_a_few_inputs_lead_to_no_finding(seed: int, tmp_path: Path) -> None:
    assert inputs.finding(f"few-{seed}", tmp_path) == ""


def test_questions_of_all_kinds_are_made() -> None:
    missing = set(QUESTIONS)
    for number in range(300):
        missing.discard(documents.question(Maker(random.Random(number)))["kind"])
        if not missing:
            break
    assert missing == set()


def test_an_api_server_serves_the_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Result] = []

    def kept(*words: str, **environment: str) -> Result:
        answers.append(invoke(*words, **environment))
        return answers[-1]

    monkeypatch.setattr(inputs, "invoke", kept)
    monkeypatch.setattr(inputs, "LIVE_SHARE", 1)
    monkeypatch.setattr(inputs, "COMMANDS", [["plan"]])
    found = [inputs.finding(f"live-{number}", tmp_path) for number in range(3)]

    assert found == ["", "", ""]
    assert any(answer.exit_code in (0, 1) for answer in answers)


def test_odd_values_stand_in_reports() -> None:
    maker, content = Maker(random.Random("x")), {"a": [{"b": number, "c": "d"} for number in range(100)]}
    assert documents.mutated(maker, content, 0) == content
    assert documents.mutated(maker, content, 0.05) != content


def test_a_crash_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crashed:
        exit_code, stdout, stderr = 1, "", "internal error: ZeroDivisionError"

    monkeypatch.setattr(inputs, "invoke", lambda *_, **__: Crashed)

    assert "internal error" in inputs.finding("x", tmp_path)


def test_an_input_that_takes_too_long_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: Any, **__: Any) -> None:
        while True:
            sum(range(1000))

    monkeypatch.setattr(inputs, "invoke", endless)
    monkeypatch.setattr(inputs, "MOST_SECONDS", 0.05)

    assert "of CPU" in inputs.finding("x", tmp_path)
