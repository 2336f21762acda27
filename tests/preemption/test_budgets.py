"""Which units of pods exceed what disruption budgets allow, when a whole group preempts."""

import kplan
from kplan.preemption.dry_run import AllowedDisruptions
from tests.objects import head, node, pod


def violating(allowed: dict[str, int], *units: str) -> list[bool]:
    """Return what `violating_units` says of units; ``ab,b`` is a pod of budgets a and b, and another one of b."""
    names = [(unit, index, letters) for unit in units for index, letters in enumerate(unit.split(","))]
    pods = []
    for number, (_, _, letters) in enumerate(names):
        made = pod(f"p{number}", cpu="1", nodeName="a")
        made["metadata"]["labels"] = {"some": "label"} | dict.fromkeys(letters, "yes")
        pods.append(made)
    budgets = [
        head("PodDisruptionBudget", name=name, namespace="default")
        | {"spec": {"selector": {"matchLabels": {name: "yes"}}}, "status": {"disruptionsAllowed": number}}
        for name, number in allowed.items()
    ]
    session = kplan.Planner(kplan.load_snapshot([node("a"), *budgets, *pods])).session
    rows = iter(session.find(f"default/p{number}") for number in range(len(names)))
    grouped = [[row for _ in unit.split(",") if (row := next(rows)) is not None] for unit in units]
    return AllowedDisruptions(session.listers.pod_disruption_budgets).violating_units(session.cluster.pods, grouped)


def test_a_unit_violates_with_the_first_pod_that_is_one_too_many() -> None:
    assert violating({"a": 1}, "a", "a", "a") == [False, True, True]
    assert violating({"a": 2}, "a,a", "a") == [False, True]
    assert violating({"a": 0}, "b", "a") == [False, True]


def test_pods_after_the_one_that_violates_use_up_no_budget() -> None:
    assert violating({"a": 0, "b": 1}, "a,b", "b") == [True, False]


def test_budgets_after_the_one_that_is_exceeded_do_not_count_the_pod() -> None:
    assert violating({"a": 0, "b": 1}, "ab", "b") == [True, False]
    assert violating({"a": 1, "b": 1}, "ab", "b") == [False, True]
