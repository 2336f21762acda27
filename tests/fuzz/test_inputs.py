"""The tool that tries hostile inputs finds what it is for, and finds nothing in a few inputs."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kplan.api.kinds import KINDS
from tests.fuzz import inputs
from tests.fuzz.objects import Maker


def test_a_seed_makes_the_same_objects_of_all_kinds_again() -> None:
    first, second = (Maker(random.Random("x")).objects() for _ in range(2))

    assert json.dumps(first) == json.dumps(second)
    kinds = {Maker(random.Random(number)).object(kind)["kind"] for number, kind in enumerate(KINDS)}
    assert kinds == {kind.name for kind in KINDS}


@pytest.mark.parametrize("seed", range(4))
def test_a_few_inputs_lead_to_no_finding(seed: int, tmp_path: Path) -> None:
    assert inputs.finding(f"few-{seed}", tmp_path) == ""


def test_a_crash_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crashed:
        exit_code, stdout, stderr = 1, "", "internal error: ZeroDivisionError"

    monkeypatch.setattr(inputs, "invoke", lambda *_: Crashed)

    assert "internal error" in inputs.finding("x", tmp_path)


def test_an_input_that_takes_too_long_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: Any) -> None:
        while True:
            sum(range(1000))

    monkeypatch.setattr(inputs, "invoke", endless)
    monkeypatch.setattr(inputs, "MOST_SECONDS", 0.05)

    assert "of CPU" in inputs.finding("x", tmp_path)
