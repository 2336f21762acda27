"""Pods that are being deleted when a change begins: they were told to go, and count as gone."""

import copy

import pytest

from tests.objects import Object, deployment, node, owned_pod, planner_of, running, stateful_set

NODES = ["n0", "n1"]


def leaving(pod: Object, name: str) -> Object:
    found = copy.deepcopy(pod)
    found["metadata"].update(name=name, uid=name, deletionTimestamp="2026-01-01T00:01:00Z")
    return found


def cluster(cpu: str = "8") -> list[Object]:
    web = running(deployment("web", 3), NODES)
    return [*(node(name, cpu) for name in NODES), *web, leaving(web[-1], "web-h1-old")]


def test_scaled_on_paper_they_are_still_there() -> None:
    base = planner_of(cluster()).changed(scale=["deployment/web=4"])
    assert "default/web-h1-old" in base.objects.pod_by_key
    assert len(base.objects.pods) == 5


def test_scaled_on_paper_a_pod_of_the_same_name_takes_their_place() -> None:
    wanted = stateful_set("db", 2)
    pod = leaving(owned_pod(wanted, "db-1", "n0"), "db-1")
    old = pod["metadata"]["uid"] = "old"
    wanted["spec"]["podManagementPolicy"] = "Parallel"
    base = planner_of(node("n0", "8"), wanted, pod).changed(scale=["statefulset/db=3"])
    assert sorted(each.metadata.name for each in base.objects.pods) == ["db-0", "db-1", "db-2"]
    assert base.objects.pod_by_key["default/db-1"].metadata.uid != old


@pytest.mark.parametrize(("grace", "gone"), [(5, 0.5), (60, 4.5)])
@pytest.mark.parametrize("own", ["terminationGracePeriodSeconds", "deletionGracePeriodSeconds"])
def test_they_are_gone_when_they_have_stopped_or_their_grace_period_is_over(grace: int, gone: float, own: str) -> None:
    *_, pod = objects = running(deployment("web", 1), ["n0"])
    pod["metadata"]["deletionTimestamp"] = f"2026-01-01T00:{grace // 60:02}:{grace % 60:02}Z"
    pod["spec"]["terminationGracePeriodSeconds"] = 1
    pod["metadata" if own[0] == "d" else "spec"][own] = grace
    planner = planner_of(node("n0", "8"), *objects)
    # In seconds from the present, which is later than when they were told to go.
    steps = planner.timeline([{"at": 0}], stop={"*": 9}).steps
    assert [step.at for step in steps if step.event == "gone"] == [pytest.approx(gone, abs=0.1)]
