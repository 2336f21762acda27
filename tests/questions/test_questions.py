"""Every question is a value: it travels, and gives the answer of the command that asks the same."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest

import kplan
from kplan.catalogue import QUESTIONS
from kplan.changes.values import DrainOptions
from kplan.course.clock import Clock
from kplan.errors import InputError, UsageError
from kplan.questions import Capacity, Drain, Explain, InTurn, Nodes, Place, Pods, Shrink
from kplan.questions.base import Question, question_type
from kplan.questions.reading import QUESTION_KINDS, checked, question_of, read_questions, schema_text
from tests.cli.commands import invoke
from tests.cli.test_answer import SAME
from tests.objects import head
from tests.recorded import sample
from tests.schemas import assert_keeps_to_its_schema

FIXTURES = Path(__file__).parents[2] / "fixtures"
WEB = str(FIXTURES / "web.yaml")
POD = head("Pod", name="p") | {
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
}

ASKED = [*(row[0] for row in SAME if row[0] is not None), Pods((WEB,)), Shrink()]


@pytest.mark.parametrize("question", ASKED, ids=str)
def test_a_question_travels_as_pickle_and_as_document(question: Question) -> None:
    assert pickle.loads(pickle.dumps(question)) == question
    document = json.loads(json.dumps(question.to_dict()))
    assert question_of(document) == (question, [])
    assert_keeps_to_its_schema(document)


@pytest.mark.parametrize("kind", sample([*QUESTION_KINDS], 3))
def test_the_schema_of_a_question_is_one(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text(kind)))


def test_every_kind_is_that_of_its_struct() -> None:
    assert {kind: question_type(kind).__struct_config__.tag for kind in QUESTIONS} == {kind: kind for kind in QUESTIONS}
    assert set(QUESTION_KINDS) == set(QUESTIONS)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Place(), "nothing to place"),
        (Drain(()), "no node to drain"),
        (InTurn(question=Drain((), how="rolling")), "each does not go with rolling or replace"),
        (Explain(()), "nothing to explain"),
        (Capacity(()), "nothing to count"),
        (Pods(()), "no manifest given"),
    ],
)
def test_a_question_about_nothing_is_refused(demo: kplan.Planner, question: Question, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        demo.ask(question)


@pytest.mark.parametrize(
    ("question", "command", "words"),
    [
        (Drain(("n",), surge=1), ["--surge", "1"], "{surge} needs {timeline} and {replace}"),
        (Drain(("n",), how="replace", profile="gke", surge=1, timeout=5),
         ["--profile", "gke", "--surge", "1", "--timeout", "5s"], "{timeout}, {surge} and {profile} need {timeline}"),
        (Drain(("n",), how="lost", surge=1, max_unavailable=2, timeout=5),
         ["--lost", "--surge", "1", "--max-unavailable", "2", "--timeout", "5s"],
         "{surge} and {max_unavailable} do not go with {lost}; {timeout} needs {timeline}"),
        (InTurn(question=Drain(("n",), how="replace", profile="gke")), ["--each", "--profile", "gke"],
         "{each} does not go with {profile}"),
        (Drain(("n",), timeline=Clock(), max_unavailable=1), ["--timeline", "--max-unavailable", "1"],
         "{max_unavailable} needs {rolling} or {replace}"),
        (Drain(("n",), how="rolling", timeline=Clock(), surge=1), ["--timeline", "--rolling", "--surge", "1"],
         "{surge} needs {replace}"),
        (Drain(("n",), how="one-by-one", timeline=Clock()), ["--timeline", "--one-by-one"],
         "{timeline} and {one_by_one} do not go together"),
        (InTurn(question=Drain(("n",), how="rolling", timeline=Clock())), ["--timeline", "--each", "--rolling"],
         "{each} does not go with {rolling} or {replace}"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_in_the_same_words_by_the_question_and_its_command(
    demo: kplan.Planner, question: Question, command: list[str], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        demo.ask(question)
    names = re.findall(r"{(\w+)}", words)
    assert refused.value.message == words.format(**{name: name for name in names})
    options = {name: f"--{name.replace('_', '-')}" for name in names}
    told = invoke("drain", "n", *command, "--snapshot", "demo").stderr
    assert words.format(**options) in told.replace("\n  ", " ")


def test_two_ways_to_empty_nodes_are_refused(demo: kplan.Planner) -> None:
    with pytest.raises(UsageError, match="lost and one_by_one are two ways to empty nodes"):
        demo.drain(["general-a-1"], lost=True, one_by_one=True)


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ([], ["$: not a question"]),
        ({"kind": "DrainQuestion", "nodes": []}, ["$.apiVersion: is not kplan/v1"]),
        ({"apiVersion": "kplan/v1", "kind": "DrainQuestions", "nodes": []},
         ["$.kind: is not a kind of question (did you mean DrainQuestion?)"]),
        ({"apiVersion": "kplan/v1", "kind": "ManyRunsQuestion",
          "question": {"kind": "DrainQuestion", "nodes": "n1", "options": {"forse": True}}, "runs": "5"},
         ["$.question.options.forse: unknown field (did you mean force?)", "$.question.nodes: expected a list",
          "$.runs: expected an integer"]),
        ({"apiVersion": "kplan/v1", "kind": "InTurnQuestion", "question": {"kind": "PlaceQuestion", "pods": []}},
         ["$.question.kind: expected one of DrainQuestion"]),
        ({"apiVersion": "kplan/v1", "kind": "InTurnQuestion", "question": {"nodez": []}},
         ["$.question.nodez: unknown field (did you mean nodes?)", "$.question.nodes: is missing"]),
        ({"apiVersion": "kplan/v1", "kind": "PlaceQuestion", "manifests": ["web.yaml"], "replicas": -3},
         ["$.replicas: expected an integer from 0 up, got -3"]),
    ],
)  # fmt: skip
def test_all_problems_of_a_document_are_told(document: Any, problems: list[str]) -> None:
    question, wrong = question_of(document)
    assert question is None
    told = [f"{problem.json_path}: {problem.message} ({problem.hint})" for problem in wrong]
    assert len(told) == len(problems)
    for text, start in zip(told, problems, strict=True):
        assert text.startswith(start)


def test_a_file_that_holds_no_question_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    with pytest.raises(InputError, match="no question"):
        read_questions(str(tmp_path / "empty.yaml"))


def test_a_pod_object_can_be_part_of_a_question(demo: kplan.Planner) -> None:
    answer = demo.ask(Place(pods=(POD,))).to_dict()
    assert [placement["outcome"] for placement in answer["placements"]] == ["Scheduled"]


def test_an_unknown_way_to_empty_nodes_is_refused_with_the_one_that_is_meant() -> None:
    question = Drain(nodes=("general-a-1",), how="roling")
    with pytest.raises(kplan.UsageError, match="how: 'roling' is not a way to empty nodes") as refusal:
        question.answer(kplan.Planner("demo"))
    assert refusal.value.hint == "did you mean rolling?"


@pytest.mark.parametrize(
    ("question", "problems"),
    [
        (Drain(nodes="n"), ['Drain: nodes: expected a list, got "n"']),
        (Place(manifests=("web.yaml",), replicas=-3, run_cron_jobs=1),
         ["Place: replicas: expected an integer from 0 up, got -3",
          "Place: run_cron_jobs: expected true or false, got 1"]),
        (InTurn(question=Drain(nodes=(3,))), ["InTurn: question.nodes[0]: expected a string, got 3"]),
        (InTurn(question=Place()), ["InTurn: question.kind: expected one of DrainQuestion"]),
        (Drain(nodes=("general-a-1",), options=DrainOptions(grace_period=-3)),
         ["Drain: options.grace_period: expected an integer from 0 to 31622400, got -3"]),
    ],
)  # fmt: skip
def test_a_question_built_in_python_is_read_as_its_document_would_be(
    demo: kplan.Planner, question: Question, problems: list[str]
) -> None:
    with pytest.raises(kplan.UsageError) as refusal:
        demo.ask(question)
    assert refusal.value.message.splitlines() == problems
    assert refusal.value.hint == f"see help(kplan.questions.{type(question).__name__})"


def test_a_question_takes_lists_arrays_paths_and_none_for_defaults(demo: kplan.Planner, tmp_path: Path) -> None:
    (tmp_path / "web.json").write_bytes(msgspec.json.encode(POD))
    drains = [Drain(nodes=nodes) for nodes in (("gpu-a-1",), ["gpu-a-1"], np.array(["gpu-a-1"]))]
    places = [Place(pods=(POD,)), Place(manifests=[tmp_path / "web.json"], namespace=None)]
    first, *others = (msgspec.to_builtins(demo.ask(drain).steps) for drain in drains)
    assert all(steps == first for steps in others)
    assert len({demo.ask(place).placements[0].node for place in places}) == 1


def test_none_stays_where_a_question_means_something_by_it() -> None:
    question = checked(Nodes(loops=None, namespace=None, full=None))
    assert question == Nodes(loops=None)


def test_a_question_that_holds_itself_is_refused(demo: kplan.Planner) -> None:
    endless: dict[str, Any] = {}
    endless["spec"] = endless
    with pytest.raises(kplan.UsageError, match="Place: nested too deeply"):
        demo.ask(Place(pods=(endless,)))
