"""Sweeps: whoever answers, the answers are those of the questions asked one by one."""

import json
import os
import pickle
import signal
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.errors import KplanError, NotFoundError, UsageError
from kplan.planner.planner import Planner
from kplan.sweeps import in_parts
from tests.cli.commands import invoke
from tests.recorded import sample


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner("demo")


@pytest.fixture(scope="module")
def questions(planner: Planner) -> list[Any]:
    pods = ("shop/voucher-api", "ml/llm-eval", "shop/flash-sale") * 2
    return [methodcaller("drain", ["gpu-a-1"]), *(methodcaller("place", pod) for pod in pods)]


@pytest.fixture(scope="module")
def expected(planner: Planner, questions: list[Any]) -> list[Any]:
    return plain(planner, questions)


def timeless(answers: list[Any]) -> list[Any]:
    """Return answers without the moment at which they were made."""
    return [{**answer, "generatedAt": ""} if isinstance(answer, dict) else answer for answer in answers]


def plain(planner: Planner, questions: list[Any]) -> list[Any]:
    return timeless([question(planner).to_dict() for question in questions])


def die_once(planner: Planner, marker: str) -> str:
    """Take the first process that is asked along."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "lived"


def die(planner: Planner) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """A question that kills whoever answers it first."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __call__(self, planner: Planner) -> str:
        return die_once(planner, self.marker)


@pytest.mark.parametrize("workers", sample([1, None, 2], 3, 2))
def test_a_sweep_equals_its_questions_asked_one_by_one(
    planner: Planner, questions: list[Any], expected: list[Any], workers: int
) -> None:
    reports: list[tuple[int, int]] = []
    answers = kplan.sweep(planner, questions, workers=workers, progress=lambda *done: reports.append(done))
    assert timeless(answers) == expected
    assert reports == sorted(reports)
    assert reports[-1] == (len(questions), len(questions))


def test_the_first_question_that_cannot_be_answered_is_told(planner: Planner) -> None:
    questions = [methodcaller("place", "shop/voucher-api"), methodcaller("drain", ["genral-a-1"])]
    questions += [methodcaller("drain", ["nowhere"])] * 20
    for workers in (1, 2):
        with pytest.raises(NotFoundError, match="genral-a-1") as caught:
            kplan.sweep(planner, questions, workers=workers)
        assert "general-a-1" in caught.value.hint


def test_questions_of_a_process_that_is_lost_are_asked_again(planner: Planner, tmp_path: Path) -> None:
    place = methodcaller("place", "shop/voucher-api")
    [expected] = plain(planner, [place])
    answers = kplan.sweep(planner, [place, Dying(str(tmp_path / "died")), place], workers=2)
    assert timeless(answers) == [expected, "lived", expected]


def test_processes_that_keep_getting_lost_are_an_error(planner: Planner) -> None:
    with pytest.raises(KplanError, match="keep getting lost"):
        kplan.sweep(planner, [die], workers=2)


def test_a_planner_that_is_sent_answers_as_the_one_that_was_left(planner: Planner, questions: list[Any]) -> None:
    changed = planner.changed(cordon=["general-a-*"])
    unpickled = pickle.loads(pickle.dumps(changed))
    assert unpickled.context() == changed.context()
    assert plain(unpickled, questions[:3]) == plain(changed, questions[:3])


def test_no_questions_have_no_answers(planner: Planner) -> None:
    assert kplan.sweep(planner, [], workers=2) == []


def test_parts_hold_all_questions_in_order() -> None:
    assert [number for part in in_parts(range(100), 3) for number in part] == list(range(100))
    assert in_parts([], 2) == []


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 10_000}, {"workers": 2, "dask": "tcp://127.0.0.1:1"}])
def test_workers_that_make_no_sense_are_refused(planner: Planner, options: Any) -> None:
    with pytest.raises(UsageError):
        kplan.sweep(planner, [], **options)


def test_draining_each_node_gives_the_same_report_with_any_number_of_processes() -> None:
    alone = report("drain", "--each", "--workers", "1")
    assert report("drain", "--each", "--workers", "2") == alone


@pytest.mark.parametrize("question", [["place", "shop/voucher-api", "ml/llm-eval"], ["plan"], ["drain", "general-b-1"]])
def test_runs_give_the_same_report_with_any_number_of_processes(
    question: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = (*question, "--runs", "8", "--sampling", "as-configured")
    alone = report(*runs, "--workers", "1")
    monkeypatch.setattr("kplan.course.odds.runs._ALONE", 0)
    monkeypatch.setattr("kplan.course.odds.runs._ALONE_AT_MOST", 0)
    assert report(*runs, "--workers", "2") == alone


@pytest.mark.parametrize(
    "args", [["drain", "--each", "--workers", "2", "--dask", "x"], ["drain", "--each", "--runs", "2"]]
)
def test_options_that_contradict_each_other_are_refused(args: list[str]) -> None:
    failed = invoke(*args)
    assert failed.exit_code == 2
    assert "hint: " in failed.stderr


def report(*args: str) -> Any:
    found = json.loads(invoke(*args, "--exit-zero", "-o", "json").stdout)
    del found["generatedAt"]
    return found


def test_questions_that_take_long_are_left_to_processes(
    planner: Planner, questions: list[Any], expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kplan.sweeps._TRIAL_SECONDS", 0)
    monkeypatch.setattr("kplan.sweeps._MIN_SECONDS_LEFT", 0)
    monkeypatch.setattr("kplan.sweeps._cores", lambda: 2)
    answers = kplan.sweep(planner, [*questions, who_answers], workers=None)
    assert timeless(answers[:-1]) == expected
    assert answers[-1] != os.getpid()


def who_answers(planner: Planner) -> int:
    return os.getpid()
