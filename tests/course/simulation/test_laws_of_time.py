"""What holds of every change with a clock, whatever the cluster and however long its pods take."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kplan.course.carried_out import CarriedOut
from kplan.course.manifest_course import APPLY_SECONDS
from kplan.documents.change import StepEvent
from tests.course.simulation.test_laws import NODES
from tests.course.simulation.test_laws import planner as cluster
from tests.objects import budget, daemon_set, deployment, running, stateful_set
from tests.recorded import examples

_QUICK = examples(30)
_seconds = st.integers(0, 20)
_KEY = "Deployment/default/web"


@st.composite
def _workloads(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a workload before and after a change of its image and size."""
    kind = draw(st.sampled_from(["rolling", "recreate", "ordered", "parallel", "daemons"]))
    sizes = [draw(st.integers(0, 6)) for _ in range(2)]
    strategy = {"maxSurge": draw(st.integers(0, 3)), "maxUnavailable": draw(st.integers(1, 3))}
    versions = []
    for size, image in zip(sizes, ("app:1", "app:2"), strict=True):
        if kind == "daemons":
            workload = daemon_set("web", image, maxUnavailable=strategy["maxUnavailable"])
        elif kind in ("ordered", "parallel"):
            workload = stateful_set("web", size, image)
            workload["spec"]["podManagementPolicy"] = "Parallel" if kind == "parallel" else "OrderedReady"
        else:
            workload = deployment("web", size, image, **strategy)
            if kind == "recreate":
                workload["spec"]["strategy"] = {"type": "Recreate"}
        versions.append(workload)
    return versions[0], versions[1]


def _course(plan: Any | CarriedOut) -> Counter[tuple[str, str, bool, bool]]:
    return Counter((pod.workload, pod.message, pod.new, pod.node is None) for pod in plan.after)


@_QUICK
@given(workloads=_workloads(), cpu=st.sampled_from(["1", "2", "64"]))
def test_without_durations_a_clock_changes_nothing(workloads: tuple[Any, Any], cpu: str) -> None:
    before, after = workloads
    planner = cluster(cpu=cpu)
    nothing = {"*": 0.0}

    # Which of equal pods goes first depends on their age, so both come in one change: one soon after the other.
    timed = planner.timeline([{"at": 5, "apply": [before, after]}], start=nothing, stop=nothing)

    plain = planner.roll_out([before, after])
    assert _course(timed) == _course(plain)
    old = {StepEvent.READY, StepEvent.GONE, StepEvent.TERMINATING}
    moved = [(step.event, step.pod, step.node) for step in timed.steps if step.event not in old]
    assert moved == [(step.event, step.pod, step.node) for step in plain.steps]
    assert {step.at for step in timed.steps} <= {5, 5 + APPLY_SECONDS}


@_QUICK
@given(workloads=_workloads(), start=_seconds, stop=_seconds, drained=st.booleans(), cpu=st.sampled_from(["2", "64"]))
def test_time_never_runs_back_and_every_pod_lives_in_order(
    workloads: tuple[Any, Any], start: int, stop: int, drained: bool, cpu: str
) -> None:
    before, after = workloads
    planner = cluster(budget("web", maxUnavailable=1), cpu=cpu)
    changes: list[dict[str, Any]] = [{"at": 0, "apply": [before]}, {"at": 30, "apply": [after]}]
    if drained:
        changes.append({"at": 33, "drain": ["n0"], "options": {"timeout": 60}})

    plan = planner.timeline(changes, start={"*": start}, stop={"*": stop}, until=600)

    times = [step.at for step in plan.steps]
    assert times == sorted(times)
    lives: dict[tuple[str, str], list[StepEvent]] = {}
    n_lives: Counter[str] = Counter()
    for step in plan.steps:
        if step.pod:
            n_lives[step.pod] += step.event is StepEvent.CREATED
            lives.setdefault((step.pod, str(n_lives[step.pod])), []).append(step.event)
    order = [StepEvent.CREATED, StepEvent.BOUND, StepEvent.READY, StepEvent.TERMINATING, StepEvent.GONE]
    for events in lives.values():
        told = [event for event in events if event in order]
        assert told == sorted(set(told), key=order.index)


@_QUICK
@given(
    replicas=st.integers(1, 8),
    surge=st.integers(0, 3),
    unavailable=st.integers(1, 3),
    start=_seconds,
    longer=st.integers(1, 20),
)
def test_longer_starts_never_end_the_rollout_of_a_deployment_with_room_earlier(
    replicas: int, surge: int, unavailable: int, start: int, longer: int
) -> None:
    strategy = {"maxSurge": surge, "maxUnavailable": unavailable}
    planner = cluster(*running(deployment("web", replicas, **strategy), NODES))
    rollout = [{"at": 0, "apply": [deployment("web", replicas, "app:2", **strategy)]}]
    ends = [planner.timeline(rollout, start={_KEY: s}, stop={"*": 2}).timeline.end for s in (start, start + longer)]
    assert ends[0] <= ends[1]


@_QUICK
@given(replicas=st.integers(1, 8), unavailable=st.integers(1, 3), start=_seconds, stop=_seconds)
def test_a_rollout_keeps_as_many_pods_ready_as_its_strategy_promises(
    replicas: int, unavailable: int, start: int, stop: int
) -> None:
    strategy = {"maxSurge": 1, "maxUnavailable": unavailable}
    planner = cluster(*running(deployment("web", replicas, **strategy), NODES))

    plan = planner.timeline(
        [{"at": 0, "apply": [deployment("web", replicas, "app:2", **strategy)]}], start={"*": start}, stop={"*": stop}
    )

    web = plan.timeline.workloads[_KEY]
    assert web.lowest_ready >= replicas - min(unavailable, replicas)
    assert web.ready_over_time[-1][1] == replicas
