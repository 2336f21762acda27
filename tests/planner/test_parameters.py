"""Whatever a program passes to the planner is answered, or refused by an error of kplan; and answers travel."""

import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kplan
from kplan.diagnosis.explanation import Shown
from kplan.planner.planner import Parameters
from kplan.questions import Drain
from tests.objects import deployment, head, node, planner_of, pod

OF_OBJECTS = {"checks", "manifests", "pod", "pods", "question", "templates"}
"""Parameters with readers of their own."""

WEB = deployment("web", 1)

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "ask": ((Drain(nodes=("a",)),), {}), "capacity": (([WEB],), {"limit": 2}), "changed": ((), {}),
    "check": ((), {}), "drain": ((["a"],), {}), "drain_in_turn": ((["a"],), {}),
    "explain": ((["default/waits"],), {}), "headroom": (([WEB],), {"limit": 2}), "nodes": ((), {}),
    "odds": ((["default/waits"],), {"runs": 2}), "place": (("default/waits",), {}),
    "plan": ((["default/waits"],), {}), "plan_queue": ((), {}), "pods": (([WEB],), {}), "remedy": ((), {}),
    "roll_out": (([WEB],), {}), "run_queue": ((), {}), "shrink": ((), {}),
    "timeline": (([{"at": 0, "apply": [WEB]}],), {}),
}  # fmt: skip
"""Sound arguments for each method."""

NUMBERS = [-3, 0, 10**30, 1.5, float("nan"), True, np.int64(3), np.array([1.5])]
CIRCLE: list[Any] = []
CIRCLE.append({"kind": CIRCLE})
HOSTILE = [*NUMBERS, None, "abc", "\0", Path("/is/not/there"), object(), [], [None], [[3]], {"a": 1}, b"x", CIRCLE]

WAITS = pod("waits", cpu="100m")


@pytest.fixture(scope="module")
def planner() -> kplan.Planner:
    return planner_of(node("a", "8"), node("b", "8"), WAITS)


def methods() -> list[str]:
    return [name for name in vars(kplan.Planner) if not name.startswith("_")]


def test_every_question_of_the_planner_is_tried() -> None:
    assert sorted(methods()) == sorted(CALLS)


@pytest.mark.parametrize("method", methods())
def test_every_parameter_has_a_type(method: str) -> None:
    names = set(inspect.signature(getattr(kplan.Planner, method)).parameters) - {"self"}
    assert names <= {*Parameters.__struct_fields__, *OF_OBJECTS}


@pytest.mark.parametrize("method", methods())
def test_whatever_is_passed_is_answered_or_refused(planner: kplan.Planner, method: str) -> None:
    ask = getattr(planner, method)
    args, sound = CALLS[method]
    for index, (name, parameter) in enumerate(inspect.signature(ask).parameters.items()):
        for value in HOSTILE:
            passed = ([*args], {**sound, name: value})
            if parameter.kind is not parameter.KEYWORD_ONLY:
                passed = ([*args[:index], value, *args[index + 1 :]], sound)
            try:
                ask(*passed[0], **passed[1])
            except kplan.KplanError:
                continue


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("capacity", {"templates": [WEB], "wanted": -3}, "capacity: wanted: expected an integer from 0 up, got -3"),
        ("capacity", {"templates": []}, "nothing to count"),
        ("odds", {"pods": [], "runs": 0}, "odds: runs: expected an integer from 1 to 1000000, got 0"),
        ("odds", {"pods": [], "runs": 10**6 + 1}, "odds: runs: expected an integer from 1 to 1000000, got 1000001"),
        ("plan_queue", {"max_rounds": 0}, "plan_queue: max_rounds: expected an integer from 1 up, got 0"),
        ("drain", {"nodes": ["a"], "lost": "no"}, 'drain: lost: expected true or false, got "no"'),
        ("roll_out", {"manifests": [WEB], "rollout": "allways"}, "roll_out: rollout: expected one of"),
        ("timeline", {"changes": [], "until": -1}, "timeline: until: expected a number from 0 to 31622400, got -1"),
        ("run_queue", {"waves": ["default/waits"]}, r'run_queue: waves\[0\]: expected a list, got "default/waits"'),
        ("ask", {"question": "Drain"}, "'Drain' is not a question"),
        ("ask", {"question": Drain(nodes=("a",)), "fail_on": "pendin"}, r"ask: fail_on\[0\]: expected one of"),
        ("load_scheduler_config", {"feature_gates": ["A"]}, "load_scheduler_config: feature_gates: expected an object"),
        ("load_scheduler_config", {"source": CIRCLE[0]}, "load_scheduler_config: nested too deeply"),
        ("sweep", {"planner": "demo", "questions": []}, "sweep: str is no planner"),
        ("sweep", {"planner": planner_of(), "questions": 5}, "5 is not a question"),
        ("sweep", {"planner": planner_of(), "questions": [], "workers": "2"}, "sweep: workers: expected an integer"),
    ],
)
def test_a_refusal_names_the_parameter_and_what_was_expected(
    planner: kplan.Planner, method: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(kplan.UsageError, match=message):
        (getattr(planner, method, None) or getattr(kplan, method))(**parameters)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kubernetes": 1.34}, "Planner: kubernetes: expected a string, got 1.34"),
        ({"start_index": -1, "ties": "odd"}, "Planner: start_index: expected an integer from 0 up, got -1"),
        ({"seed": 2.5}, "Planner: seed: expected an integer, got 2.5"),
        ({"config": "scheduler.yaml"}, "'scheduler.yaml' is no scheduler configuration"),
        ({"plugins": ["MyPlugin"]}, "'MyPlugin' is no plugin"),
    ],
)
def test_a_planner_refuses_settings_of_a_wrong_type(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(kplan.UsageError) as refusal:
        planner_of(node("a", "8"), **settings)
    assert refusal.value.message.startswith(message)


def test_an_autoscaler_of_a_wrong_type_and_a_configuration_that_is_no_file_are_refused() -> None:
    with pytest.raises(kplan.UsageError, match="'karpenter' is no autoscaler"):
        planner_of(node("a", "8"), autoscaler="karpenter").nodes()
    with pytest.raises(kplan.UsageError, match="3 is no configuration"):
        kplan.load_scheduler_config(3)


def as_document(answer: Any) -> Any:
    if isinstance(answer, list | kplan.Planner):
        return answer if isinstance(answer, list) else answer.snapshot.nodes
    return {**answer.to_dict(), "generatedAt": ""}


@pytest.mark.parametrize("method", methods())
def test_every_answer_travels_as_a_pickle(planner: kplan.Planner, method: str) -> None:
    groups = kplan.ClusterAutoscaler(node_groups=[{"name": "g", "minSize": 0, "maxSize": 9, "nodes": ["a", "b"]}])
    asked = kplan.Planner(planner.snapshot, autoscaler=groups) if method == "nodes" else planner
    args, parameters = CALLS[method]
    answer = getattr(asked, method)(*args, **parameters)

    travelled = pickle.loads(pickle.dumps(answer))

    assert type(travelled) is type(answer)
    assert as_document(travelled) == as_document(answer)
    assert pickle.dumps(travelled)


def test_an_answer_travels_as_the_question_that_was_asked_whatever_became_of_its_arguments() -> None:
    planner = planner_of(node("a", "8"), node("b", "8"))
    web = head("Pod", name="web", namespace="default") | {"spec": {"containers": [{"name": "c", "image": "app:1"}]}}
    nodes = ["a"]
    plan, drained = planner.plan((web,)), planner.drain(nodes)
    web["metadata"]["name"] = "other"
    nodes.append("b")

    assert [placement.pod.name for placement in pickle.loads(pickle.dumps(plan)).placements] == ["web"]
    assert as_document(pickle.loads(pickle.dumps(drained))) == as_document(drained)


@pytest.mark.parametrize("pod", ["ml/fine-tune", "shop/voucher-api", "batch/nightly-export"])
def test_a_placement_that_travelled_tells_all_that_it_told_before(pod: str) -> None:
    placement = kplan.Planner("demo").place(pod)
    travelled = pickle.loads(pickle.dumps(placement))
    assert travelled == placement
    assert travelled.victims == placement.victims
    for nodes in (None, Shown(top=1), ["general-a-1", "gpu-a-1"]):
        assert travelled.to_dict(nodes) == placement.to_dict(nodes)
