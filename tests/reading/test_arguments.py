"""Arguments that programs pass."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import kplan
from kplan.errors import UsageError
from kplan.reading.arguments import checked_by, listed, plain, seconds_of
from tests.objects import deployment, node


class Spaces(msgspec.Struct, frozen=True, rename="camel"):
    max_nodes: int = 0
    weights: dict[str, float] = {}


class Parameters(msgspec.Struct):
    runs: int = 1
    names: tuple[str, ...] = ()
    spaces: Spaces = Spaces()
    times: tuple[float, ...] | None = None


@checked_by(Parameters)
def ask(names: Any, other: Any = "other", *, runs: Any = 5, spaces: Any = None, times: Any = (0,)) -> tuple[Any, ...]:
    return names, other, runs, spaces, times


@pytest.mark.parametrize(
    ("value", "builtins"),
    [
        (np.int64(3), 3), (np.float32(0.5), 0.5), (np.bool_(True), True), (np.array(["a", "b"]), ["a", "b"]),
        (Path("a/b"), "a/b"), ((1, [Path("c")]), [1, ["c"]]), ({"n": np.int64(3)}, {"n": 3}),
        (Spaces(max_nodes=2), {"maxNodes": 2, "weights": {}}),
        (None, None),
    ],
)  # fmt: skip
def test_values_of_other_libraries_are_those_of_python(value: Any, builtins: Any) -> None:
    assert plain(value, "ask") == builtins
    assert type(plain(value, "ask")) is type(builtins)


def test_arguments_are_read_by_their_types_and_others_passed_on() -> None:
    something = object()
    names, other, runs, spaces, _ = ask("a", something, runs=np.int64(3), spaces={"maxNodes": 4})
    assert (names, other, runs, spaces) == (("a",), something, 3, Spaces(max_nodes=4))
    assert ask(np.array(["a", "b"]))[0] == ("a", "b")


def test_none_stands_for_the_default_where_there_is_one() -> None:
    assert ask(["a"], runs=None)[2] == 5
    with pytest.raises(UsageError, match="ask: names: is missing"):
        ask(None)


def test_none_stays_where_it_is_a_value_of_its_own() -> None:
    assert [ask([], **times)[4] for times in ({}, {"times": None}, {"times": 3})] == [(0,), None, (3.0,)]


def test_all_problems_are_told_with_the_names_of_python() -> None:
    with pytest.raises(UsageError) as refusal:
        ask([3], runs="many", spaces={"maxNodes": 1.5, "weights": {"aB": "x"}})
    assert refusal.value.message.splitlines() == [
        'ask: runs: expected an integer, got "many"',
        "ask: names[0]: expected a string, got 3",
        "ask: spaces.max_nodes: expected an integer, got 1.5",
        "ask: spaces.weights['aB']: expected a number, got \"x\"",
    ]
    assert refusal.value.hint == "see help(kplan.Planner.ask)"


def test_arguments_that_no_parameter_takes_are_an_error_of_python() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'run'"):
        ask(["a"], run=3)


@pytest.mark.parametrize("single", ["web.yaml", Path("web.yaml"), {"kind": "Pod"}, 5])
def test_a_single_thing_is_a_list_of_one(single: Any) -> None:
    assert listed(single) == [single]


def test_several_things_stay_as_they_are() -> None:
    assert listed(("a", "b")) == listed(iter(["a", "b"])) == ["a", "b"]


def test_questions_take_a_single_pod_node_manifest_or_change(tmp_path: Path) -> None:
    demo = kplan.Planner(kplan.load_snapshot("demo"))
    path = tmp_path / "web.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n")

    assert [placement.pod.name for placement in demo.plan("shop/voucher-api").placements] == ["voucher-api"]
    assert [*demo.odds("shop/voucher-api", runs=2).counts] == ["shop/voucher-api"]
    assert demo.drain("gpu-a-1").steps == demo.drain(["gpu-a-1"]).steps
    assert demo.changed(cordon="gpu-a-1").objects.node_by_name["gpu-a-1"].spec.unschedulable
    for manifest in (str(path), path, deployment("web", 1)):
        assert [pod.origin.name for pod in demo.pods(manifest)] == ["web"]
        assert demo.roll_out(manifest).steps == demo.roll_out([manifest]).steps
    assert [node.metadata.name for node in kplan.load_snapshot(node("a", "8")).nodes] == ["a"]


@pytest.mark.parametrize("pod", [5, None])
def test_what_is_no_pod_and_no_manifest_is_an_error_of_kplan(pod: Any) -> None:
    demo = kplan.Planner(kplan.load_snapshot("demo"))
    for question in (demo.place, demo.pods, demo.roll_out, kplan.load_snapshot):
        with pytest.raises(kplan.KplanError):
            question(pod)


def test_an_empty_path_is_not_the_present_directory() -> None:
    demo = kplan.Planner(kplan.load_snapshot("demo"))
    for question in (demo.pods, demo.roll_out, kplan.load_snapshot, lambda path: demo.changed(with_=path)):
        with pytest.raises(kplan.UsageError, match="an empty path"):
            question("")


def test_days_of_thousands_of_digits_are_longer_than_a_year() -> None:
    assert seconds_of("366d", "--until") == 366 * 24 * 3600
    with pytest.raises(UsageError, match="longer than a year"):
        seconds_of("9" * 5_000 + "d", "--until")
