"""The public face: every name is there, and asking for none of them costs nothing."""

import doctest
import subprocess
import sys
from operator import methodcaller
from pathlib import Path

import pytest
from msgspec.structs import replace

import kplan
from kplan import errors
from kplan.questions import Check, Checks, Drain, Explain, InTurn, Place, Remedy


def test_every_public_name_can_be_had() -> None:
    assert sorted(kplan.__all__) == kplan.__all__
    assert all(getattr(kplan, name) is not None for name in kplan.__all__)
    assert dir(kplan) == kplan.__all__


PLACE, DRAIN = Place(pods=("shop/voucher-api",)), Drain(nodes=("gpu-a-1",))


def test_methods_ask_the_questions_of_their_names(demo: kplan.Planner) -> None:
    pairs = [
        (demo.explain(["ml/fine-tune"]), Explain(names=("ml/fine-tune",))),
        (demo.remedy(["ml/fine-tune"], without=["moves"]), Remedy(pods=("ml/fine-tune",), without=("moves",))),
        (demo.check(), Checks()),
    ]
    for answer, question in pairs:
        assert replace(answer, generated_at="") == replace(demo.ask(question), generated_at="")


def test_checks_are_read_from_a_file_or_taken_as_values(demo: kplan.Planner, tmp_path: Path) -> None:
    file = tmp_path / "checks.yaml"
    file.write_text("apiVersion: kplan/v1\nkind: Checks\nchecks: [{name: drains, drain: {each: zone}}]\n")
    [read], [value] = demo.check(file).checks, demo.check([Check("drains", InTurn(by="zone"))]).checks
    assert read == value


def test_a_sweep_takes_questions_and_gives_their_documents(demo: kplan.Planner) -> None:
    answers = kplan.sweep(demo, [PLACE, DRAIN, methodcaller("place", "shop/voucher-api")], workers=2)
    assert [replace(answer, generated_at="") for answer in answers[:2]] == [
        replace(demo.ask(question), generated_at="") for question in (PLACE, DRAIN)
    ]
    assert answers[2] == demo.place("shop/voucher-api").to_dict()


def test_answers_are_rows_with_the_same_columns_and_tables_in_notebooks(demo: kplan.Planner) -> None:
    plan = demo.plan(["shop/voucher-api", "ml/fine-tune"])
    rows, drained = plan.rows(), demo.drain(["gpu-a-1"])

    assert [(row["pod.name"], row["node"]) for row in rows] == [("voucher-api", "general-a-2"), ("fine-tune", None)]
    assert len({tuple(row) for row in rows}) == 1
    assert [row["name"] for row in drained.rows("after")] == [pod.name for pod in drained.report().after]
    assert demo.remedy(only=["nodes"]).rows()[0]["like"] == "gpu-a-1"
    with pytest.raises(kplan.UsageError, match="PlacementReport has no list 'nothing'"):
        plan.rows("nothing")
    for answer in (plan, drained, demo.ask(PLACE)):
        assert answer._repr_html_().count("<tr>") == 1 + len(answer.rows())
        assert str(answer) == answer.to_dict()["sentence"]


def test_a_notebook_shows_text_of_others_as_text() -> None:
    pod = {"metadata": {"name": "<b>\x1b"}, "spec": {"containers": [{"name": "c"}]}}
    shown = kplan.Planner("demo").plan([pod])._repr_html_()
    assert "&lt;b&gt;\\x1b" in shown
    assert "<b>" not in shown


def test_every_error_is_public_and_a_kplan_error() -> None:
    public = {name for name, one in vars(errors).items() if isinstance(one, type) and one.__module__ == errors.__name__}
    assert public <= set(kplan.__all__)
    for name in public - {"Problem"}:
        assert issubclass(getattr(kplan, name), kplan.KplanError)


def test_the_example_in_the_package_is_true() -> None:
    assert doctest.testmod(kplan).failed == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = kplan.nonsense


def test_importing_kplan_loads_nothing_heavy() -> None:
    script = "import sys, kplan; print(sorted({'numpy', 'msgspec', 'yaml', 'kubernetes', 'typer'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_problems_say_where_they_are() -> None:
    problem = kplan.Problem("expected a string", path="pod.yaml", document=2, json_path="$.spec", hint="quote it")
    error = kplan.ManifestError([problem, kplan.Problem("empty")])
    assert str(problem) == "pod.yaml (document 2): $.spec: expected a string"
    assert str(error) == "pod.yaml (document 2): $.spec: expected a string\nempty"
    assert error.hint == "quote it"
    assert error.problems == (problem, kplan.Problem("empty"))
