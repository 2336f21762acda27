"""When pods that take time count as available, for the controller that waits for them."""

import pytest

from kplan.documents.change import StepEvent
from tests.objects import daemon_set, node, owned_pod, planner_of, stateful_set


def _daemons(*, surge: bool, image: str = "app:1") -> dict[str, object]:
    strategy = {"maxSurge": 1, "maxUnavailable": 0} if surge else {"maxUnavailable": 1}
    found = daemon_set("log", image, **strategy)
    found["spec"]["minReadySeconds"] = 2
    return found


def _pod(on: str) -> dict[str, object]:
    return owned_pod(daemon_set("log"), f"log-{on}", on, **{"controller-revision-hash": "old"})


# On a real control plane of v1.36.2 it took 3.02 seconds, five times of five, where the old pod stayed until then.
@pytest.mark.parametrize(("surge", "least", "most"), [(True, 3.0, 3.1), (False, 1.9, 2.1)])
def test_a_daemon_set_looks_a_second_late_at_a_new_pod_beside_an_old_one(
    surge: bool, least: float, most: float
) -> None:
    nodes = ["n0", "n1"]
    planner = planner_of(*map(node, nodes), _daemons(surge=surge), *map(_pod, nodes))
    change = [{"at": 0, "apply": [_daemons(surge=surge, image="app:2")]}]
    steps = planner.timeline(change, start={"*": 9}, stop={"*": 8}).steps
    ready = next(step for step in steps if step.event is StepEvent.READY)
    later = next(step for step in steps if step.event is StepEvent.TERMINATING and step.step > ready.step)
    assert isinstance(ready.at, float)
    assert isinstance(later.at, float)
    assert least <= later.at - ready.at <= most


@pytest.mark.parametrize(("seconds", "bound_at"), [((500, 0), [0.0, 30.0]), ((100, 200), [0.0, 209.0])])
def test_other_min_ready_seconds_count_for_pods_that_are_ready_already(
    seconds: tuple[int, int], bound_at: list[float]
) -> None:
    first, second = stateful_set("db", 2), stateful_set("db", 2)
    first["spec"]["minReadySeconds"], second["spec"]["minReadySeconds"] = seconds
    changes = [{"at": 0, "apply": [first]}, {"at": 30, "apply": [second]}]
    steps = planner_of(node("n0")).timeline(changes, start={"*": 9}, until=600).steps
    bound = [step.at for step in steps if step.event is StepEvent.BOUND]
    assert bound == pytest.approx(bound_at, abs=1)
