"""What a toleration may mean is looked up, not searched for among all taints."""

import pytest

from kplan.api.affinity import Taint, Tolerations
from tests.objects import node, planner_of, pod


def _look_ups(monkeypatch: pytest.MonkeyPatch, n_taints: int) -> int:
    """Explain a pod with as many tolerations as its nodes have taints, and count how often one is looked up."""
    asked: list[Taint] = []
    tolerate = Tolerations.tolerate

    def counted(self: Tolerations, taint: Taint) -> bool:
        asked.append(taint)
        return tolerate(self, taint)

    monkeypatch.setattr(Tolerations, "tolerate", counted)
    tainted = node("a")
    tainted["spec"]["taints"] = [{"key": f"q{i}", "value": "v", "effect": "NoSchedule"} for i in range(n_taints)]
    tolerations = [{"key": f"k{i}", "value": "v", "effect": "NoSchedule"} for i in range(n_taints)]
    planner = planner_of(tainted, pod("p", cpu="1", tolerations=tolerations))
    planner.plan(["default/p"]).report()
    monkeypatch.undo()
    return len(asked)


def test_twice_the_taints_and_tolerations_cost_twice_the_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = _look_ups(monkeypatch, 100), _look_ups(monkeypatch, 400)
    assert 0 < many <= 5 * few
