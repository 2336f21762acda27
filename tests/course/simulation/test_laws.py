"""What holds of every rollout and every drain, whatever the cluster."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.course.answers.drains import NODE_NOT_REACHED
from kplan.course.carried_out import CarriedOut
from kplan.documents.change import Change, Step, StepEvent, WorkloadState
from tests.objects import budget, daemon_set, deployment, node, planner_of, running, stateful_set
from tests.recorded import examples

NODES = ["n0", "n1", "n2", "n3"]
_QUICK = examples(40)
_amounts = st.one_of(st.integers(0, 3), st.sampled_from(["0%", "25%", "50%", "100%"]))


def planner(*objects: dict[str, Any], cpu: str = "64") -> kplan.Planner:
    return planner_of(*(node(name, cpu) for name in NODES), *objects)


def _share(amount: int | str, of: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    share = int(amount.rstrip("%")) * of
    return -(-share // 100) if up else share // 100


def _counts(change: CarriedOut, before: int, workload: str) -> Iterator[tuple[int, int]]:
    """Yield after each step how many pods a workload has, and how many of them are bound."""
    pods = bound = before
    for step in change.steps:
        if step.workload != workload or not step.pod:
            continue
        if step.event is StepEvent.CREATED:
            pods += 1
        elif step.event is StepEvent.BOUND:
            bound += 1
        elif step.event in (StepEvent.DELETED, StepEvent.EVICTED):
            pods -= 1
            bound -= step.node is not None
        yield pods, bound


def _moves(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.pod]


@_QUICK
@given(before=st.integers(1, 12), after=st.integers(0, 12), unavailable=_amounts, surge=_amounts)
def test_a_rollout_with_room_completes_within_what_its_strategy_allows(
    before: int, after: int, unavailable: int | str, surge: int | str
) -> None:
    strategy = {"maxUnavailable": unavailable, "maxSurge": surge}
    may_miss, more = _share(unavailable, after, up=False), _share(surge, after, up=True)
    if may_miss == more == 0:
        may_miss = 1
        if not isinstance(unavailable, str) or not isinstance(surge, str) or unavailable == "0%":
            strategy = {"maxUnavailable": 1, "maxSurge": surge}
    base = planner(*running(deployment("web", before, **strategy), NODES))

    change = base.roll_out([deployment("web", after, "app:2", **strategy)])

    web = change.workloads[0]
    assert (web.state, web.change) == (WorkloadState.COMPLETE, Change.ROLLOUT)
    assert [each.new for each in change.after if each.workload == "Deployment/default/web"] == [True] * after
    for pods, bound in _counts(change, before, "Deployment/default/web"):
        assert bound >= min(before, after - may_miss)
        assert pods <= max(before, after + more)


@st.composite
def _workloads(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a workload of any kind that is rolled; its strategy is drawn as well."""
    kind = draw(st.sampled_from(["rolling", "recreate", "ordered", "parallel", "daemons"]))
    if kind == "recreate":
        found = deployment("web", draw(st.integers(0, 8)))
        found["spec"]["strategy"] = {"type": "Recreate"}
    elif kind == "rolling":
        found = deployment(
            "web", draw(st.integers(0, 8)), maxSurge=draw(_amounts), maxUnavailable=draw(st.integers(1, 3))
        )
    elif kind == "daemons":
        surge = draw(st.sampled_from([0, 1, 2, "50%"]))
        unavailable = draw(st.sampled_from([1, 2, "50%"])) if surge == 0 else 0
        found = daemon_set("web", maxSurge=surge, maxUnavailable=unavailable)
    else:
        found = stateful_set("web", draw(st.integers(0, 6)))
        found["spec"]["podManagementPolicy"] = "Parallel" if kind == "parallel" else "OrderedReady"
        found["spec"]["ordinals"] = {"start": draw(st.integers(0, 3))}
        partition = {"rollingUpdate": {"partition": draw(st.integers(0, 4))}}
        types = st.sampled_from([{"type": "OnDelete"}, {"type": "RollingUpdate", **partition}])
        found["spec"]["updateStrategy"] = draw(types)
    return found


def _changed(workload: dict[str, Any], replicas: int | None, image: str) -> dict[str, Any]:
    changed = copy.deepcopy(workload)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = image
    if replicas is not None and workload["kind"] != "DaemonSet":
        changed["spec"]["replicas"] = replicas
    return changed


def _images(change: CarriedOut) -> dict[str, str]:
    """Return the image of each pod at rest, all of which must have found room."""
    infos = change.simulation.session.cluster.pods.infos
    assert all(pod.node for pod in change.simulation.pods.values())
    return {pod.name: infos[row].pod.spec.containers[0].image for row, pod in change.simulation.pods.items()}


def _wanted_images(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Say from the manifests alone which images the pods have in the end."""
    spec = after["spec"]
    was, new = (each["spec"]["template"]["spec"]["containers"][0]["image"] for each in (before, after))
    n = spec.get("replicas", len(NODES))
    if after["kind"] != "StatefulSet":
        return [new] * n
    if spec["updateStrategy"]["type"] == "OnDelete":
        return [was if index < before["spec"]["replicas"] else new for index in range(n)]
    partition = spec["updateStrategy"]["rollingUpdate"]["partition"]
    return [was if index < partition else new for index in range(n)]


@_QUICK
@given(workload=_workloads(), replicas=st.one_of(st.none(), st.integers(0, 8)))
def test_with_room_every_workload_ends_with_exactly_the_pods_it_wants(
    workload: dict[str, Any], replicas: int | None
) -> None:
    changed = _changed(workload, replicas, "app:2")

    change = planner().roll_out([workload, changed])

    images = _images(change)
    if workload["kind"] == "StatefulSet":
        start = workload["spec"]["ordinals"]["start"]
        names = [f"web-{start + index}" for index in range(changed["spec"]["replicas"])]
        assert sorted(images) == sorted(names)
        assert [images[name] for name in names] == _wanted_images(workload, changed)
    else:
        assert sorted(images.values()) == _wanted_images(workload, changed)


@_QUICK
@given(
    workload=_workloads(),
    replicas=st.one_of(st.none(), st.integers(0, 8)),
    image=st.sampled_from(["app:1", "app:2"]),
    cpu=st.sampled_from(["1", "2", "64"]),
)
def test_a_change_that_is_applied_twice_moves_nothing_the_second_time(
    workload: dict[str, Any], replicas: int | None, image: str, cpu: str
) -> None:
    base, changed = planner(cpu=cpu), _changed(workload, replicas, image)
    once, twice = base.roll_out([workload, changed]), base.roll_out([workload, changed, changed])
    assert _moves(list(twice.steps)) == _moves(list(once.steps))
    assert twice.after == once.after


@_QUICK
@given(surge=st.sampled_from([0, 1, 2, "50%"]), unavailable=st.sampled_from([1, 2, 3, "50%"]))
def test_a_daemon_set_is_rolled_within_what_its_strategy_allows(surge: int | str, unavailable: int | str) -> None:
    may_miss = _share(unavailable, len(NODES), up=True) if surge == 0 else 0
    first = daemon_set("web", maxSurge=surge, maxUnavailable=unavailable if surge == 0 else 0)
    base = planner()
    n_before = len(base.roll_out([first]).steps)

    change = base.roll_out([first, _changed(first, None, "app:2")])

    counts = list(_counts(change, 0, "DaemonSet/default/web"))[n_before:]
    assert counts
    for pods, bound in counts:
        assert len(NODES) - may_miss <= bound
        assert pods <= len(NODES) + _share(surge, len(NODES), up=True)


@_QUICK
@given(replicas=st.integers(1, 6), policy=st.sampled_from(["OrderedReady", "Parallel"]))
def test_of_a_stateful_set_one_pod_at_a_time_is_missing(replicas: int, policy: str) -> None:
    first = stateful_set("web", replicas)
    first["spec"]["podManagementPolicy"] = policy
    base = planner()
    n_before = sum(bool(step.pod) for step in base.roll_out([first]).steps)

    change = base.roll_out([first, _changed(first, None, "app:2")])

    counts = list(_counts(change, 0, "StatefulSet/default/web"))[n_before:]
    assert len(counts) == 3 * replicas
    assert all(bound >= replicas - 1 and pods <= replicas for pods, bound in counts)


_budgets = st.one_of(
    st.builds(lambda n: {"minAvailable": n}, st.integers(0, 8)),
    st.builds(lambda n: {"maxUnavailable": n}, st.integers(0, 8)),
    st.builds(lambda n: {"minAvailable": n}, st.sampled_from(["0%", "30%", "50%", "100%"])),
    st.builds(lambda n: {"maxUnavailable": n}, st.sampled_from(["0%", "30%", "50%", "100%"])),
)


def _must_stay(spec: dict[str, Any], n: int) -> int:
    ((field, amount),) = spec.items()
    share = _share(amount, n, up=True)
    return share if field == "minAvailable" else max(n - share, 0)


@_QUICK
@given(
    webs=st.integers(1, 8),
    spec=_budgets,
    drained=st.lists(st.sampled_from(NODES), min_size=1, unique=True),
    way=st.sampled_from([{}, {"one_by_one": True}, {"rolling": True}, {"replace": True}]),
    cpu=st.sampled_from(["1", "2", "64"]),
)
def test_a_drain_never_breaks_a_budget(
    webs: int, spec: dict[str, Any], drained: list[str], way: dict[str, bool], cpu: str
) -> None:
    base = planner(*running(deployment("web", webs), NODES), budget("web", **spec), cpu=cpu)

    change = base.drain(drained, **way)

    for _, bound in _counts(change, webs, "Deployment/default/web"):
        assert bound >= min(_must_stay(spec, webs), webs)
    assert all("disruption budget" in words for words in change.blocked.values())
    if "rolling" not in way and "replace" not in way:
        not_reached = {each.object for each in change.warnings if each.code == NODE_NOT_REACHED}
        reached = [node for node in drained if f"Node/{node}" not in not_reached]
        stays = [each for each in change.after if each.node in reached]
        assert {f"{each.namespace}/{each.name}" for each in stays} == set(change.blocked)
