import json
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import invoke, written

HEAD = {"apiVersion": "kplan/v1"}
DRAIN = {**HEAD, "kind": "DrainQuestion", "nodes": ["gpu-a-1"]}
PLAN = {**HEAD, "kind": "PlanQuestion"}
PODS = {**HEAD, "kind": "PodsQuestion", "manifests": [str(Path(__file__).parents[2] / "fixtures" / "web.yaml")]}


@pytest.fixture
def ask(tmp_path: Path):
    def run(*questions: object, options: tuple[str, ...] = ()):
        path = written(tmp_path / "questions.yaml", yaml.safe_dump_all(questions))
        return invoke("ask", path, "--snapshot", "demo", *options)

    return run


def test_one_question_is_answered_as_by_its_command(ask) -> None:
    asked = ask(DRAIN)
    drained = invoke("drain", "gpu-a-1", "--snapshot", "demo")
    assert asked.stdout.splitlines()[0] == drained.stdout.splitlines()[0]
    assert asked.exit_code == drained.exit_code


def test_several_questions_are_a_list_in_json_and_the_worst_exit_code_counts(ask) -> None:
    asked = ask(PLAN, DRAIN, options=("-o", "json", "--fail-on", "unschedulable"))
    document = json.loads(asked.stdout)
    assert [answer["kind"] for answer in document["items"]] == ["PlanReport", "PlanReport"]
    assert asked.exit_code == max(answer["verdict"]["exitCode"] for answer in document["items"]) == 1
    assert ask(PLAN, DRAIN, options=("-o", "json", "--exit-zero")).exit_code == 0


def test_several_questions_are_printed_one_after_the_other(ask) -> None:
    asked = ask(PODS, DRAIN, options=("-o", "name"))
    assert asked.stdout.startswith("pod/shop/web-0\n")
    assert asked.stdout.count("\n") > 4


@pytest.mark.parametrize(
    ("questions", "name", "words"),
    [((PLAN, DRAIN), "sarif", "the file holds several"), ((PODS,), "html", "pods have no format html")],
)
def test_a_format_that_the_questions_do_not_have_is_refused(ask, questions, name: str, words: str) -> None:
    asked = ask(*questions, options=("-o", name))
    assert asked.exit_code == 2
    assert words in asked.stderr


def test_all_problems_of_a_file_are_told_with_their_lines(ask) -> None:
    asked = ask({**DRAIN, "node": 1}, {**PLAN, "rollout": "maybe"})
    assert asked.exit_code == 2
    assert "$.node: unknown field" in asked.stderr
    assert "document 2" in asked.stderr
    assert "$.rollout" in asked.stderr


def test_fields_that_do_not_go_together_are_named_as_in_the_document(ask) -> None:
    asked = ask({**PLAN, "onlyThese": True, "timeline": {}})
    assert asked.stderr.startswith("error: timeline and onlyThese do not go together\n")
