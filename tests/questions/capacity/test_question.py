"""Questions about room, as values."""

import pytest

import kplan
from kplan.questions.capacity import Capacity, Headroom
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.objects import deployment, node, planner_of

DEMO = kplan.Planner("demo")


@pytest.mark.parametrize("name", ["Deployment/shop/cart", "deploy/shop/cart", "deployments.apps/shop/cart"])
@pytest.mark.parametrize("kind", [Capacity, Headroom])
def test_workloads_are_named_as_for_the_command(kind: type[Capacity | Headroom], name: str) -> None:
    answers = [kind(workloads=(text,)).answer(DEMO).to_dict() for text in (name, "Deployment/shop/cart")]
    for document in answers:
        del document["generatedAt"]
    assert answers[0] == answers[1]


def test_a_workload_without_a_namespace_is_in_that_of_the_question() -> None:
    assert Capacity(workloads=("deploy/cart",), namespace="shop").answer(DEMO).nodes


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shop/cart", "neither a manifest nor a workload"),
        ("deploy/cart", "no Deployment default/cart"),
        ("cart", "neither a manifest nor a workload"),
        ("DaemonSet/kube-system/kube-proxy", "one pod per node"),
        ("Rollout/shop/cart", "neither a pod nor a workload"),
    ],
)
def test_what_is_no_workload_with_replicas_is_refused(name: str, words: str) -> None:
    with pytest.raises(kplan.KplanError, match=words):
        Capacity(workloads=(name,)).answer(DEMO)


def test_of_many_workloads_those_with_the_least_room_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kplan.questions.capacity.view._MOST_ROWS", 2)
    planner = planner_of(node("a"), [deployment(name, 1, cpu=cpu) for name, cpu in zip("abcd", "4123", strict=True)])
    text = render(planner.ask(Headroom()), "table", ReportOptions())
    assert [word for word in text.split() if "/" in word] == ["Deployment/default/a", "Deployment/default/d"]
    assert "and 2 more with at least as much room" in text
