"""What would help a pod group that waits: each remedy lets the whole group run when it is carried out."""

from typing import Any

import pytest
from msgspec import UNSET

from kplan.api.core import Pod
from kplan.changes import remedy as r
from kplan.documents.placement import GroupPlan
from kplan.remedies import trials
from kplan.rules.pod_info import PodInfo
from tests.objects import head, node, pod
from tests.plugins.test_gang_scheduling import group, member, planner


def waiting(*objects: dict[str, Any], **gates: bool) -> GroupPlan:
    (told,) = planner(*objects, **gates).plan_queue().report().groups or ()
    return told


def remedies(*objects: dict[str, Any], **gates: bool) -> dict[str, r.Remedy]:
    return {remedy.__struct_config__.tag: remedy for remedy in waiting(*objects, **gates).remedies}


def running(name: str, cpu: str, where: str, **spec: Any) -> dict[str, Any]:
    return pod(name, cpu=cpu, nodeName=where, **spec)


def owned(name: str, cpu: str, where: str) -> dict[str, Any]:
    made = running(name, cpu, where)
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    ]
    return made


def test_as_few_nodes_are_added_as_the_whole_group_needs() -> None:
    pods = [member(name, "2") for name in ("x", "y", "z")]
    offered = remedies(node("a", cpu="2"), group("gang", 3), *pods)["add-nodes"]
    assert isinstance(offered, r.AddNodes)
    assert (offered.change.nodes, offered.change.like) == (2, "a")
    assert offered.helps == r.Helped(3, 3)


def test_min_count_is_lowered_to_what_fits_and_told_as_a_start_with_fewer_pods() -> None:
    pods = [member(name, "2") for name in ("x", "y", "z")]
    told = waiting(node("a", cpu="2"), node("b", cpu="2"), group("gang", 3), *pods)
    last = told.remedies[-1]
    assert isinstance(last, r.LowerMinCount)
    assert (last.change.old, last.change.to, last.helps) == (3, 2, r.Helped(2, 3))
    assert all(remedy.helps and remedy.helps.pods == 3 for remedy in told.remedies[:-1])


def test_only_the_member_that_is_too_big_asks_for_less() -> None:
    pods = [member("x", "1"), member("big", "4")]
    offered = remedies(node("a", cpu="2"), node("b", cpu="2"), group("gang", 2), *pods)["lower-request"]
    assert isinstance(offered, r.LowerRequest)
    assert (offered.change.to, offered.members, offered.helps) == ("2", ("default/big",), r.Helped(2, 2))


def test_the_nodes_that_are_needed_are_uncordoned_together() -> None:
    cordoned = [node(name, cpu="2") | {"spec": {"unschedulable": True}} for name in ("b", "c", "d")]
    pods = [member(name, "2") for name in ("x", "y", "z")]
    offered = remedies(node("a", cpu="2"), *cordoned, group("gang", 3), *pods)["uncordon"]
    assert isinstance(offered, r.Uncordon)
    assert [offered.change.node, *(other.node for other in offered.also or ())] == ["b", "c"]


def test_pods_in_the_way_move_only_where_they_fit_once_the_group_runs() -> None:
    pods = [member(name, "2") for name in ("x", "y")]
    nodes = (node("a", cpu="2"), node("b", cpu="2"), node("small", cpu="1"))
    offered = remedies(*nodes, group("gang", 2), owned("web-1", "1", "a"), *pods)["move-pod"]
    assert isinstance(offered, r.MovePod)
    assert (offered.change.pod, offered.change.goes_to, offered.also) == ("default/web-1", "small", UNSET)
    assert "move-pod" not in remedies(*nodes[:2], group("gang", 2), owned("web-1", "1", "a"), *pods)


def test_the_pods_that_a_gang_lacks_are_created() -> None:
    offered = remedies(node("a", cpu="4"), group("gang", 3), member("x"))
    added = offered["add-members"]
    assert isinstance(added, r.AddMembers)
    assert (added.change.pods, added.helps) == (2, r.Helped(3, 3))
    assert "add-nodes" not in offered


def test_no_more_pods_are_made_than_decisions_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def counted(pod: Pod) -> PodInfo:
        nonlocal made
        made += 1
        assert made <= trials.MOST_DECISIONS
        return PodInfo(pod)

    monkeypatch.setattr(trials, "PodInfo", counted)
    offered = remedies(node("a", cpu="2"), group("gang", 2**31 - 1), member("x", "1"))

    assert set(offered) == {"lower-min-count"}


def test_gates_are_removed_from_all_members() -> None:
    gated = [member(name, schedulingGates=[{"name": "quota"}]) for name in ("x", "y")]
    offered = remedies(node("a", cpu="4"), group("gang", 2), *gated)["remove-gates"]
    assert isinstance(offered, r.RemoveGates)
    assert (offered.change.gates, offered.helps) == (("quota",), r.Helped(2, 2))


def test_a_higher_class_evicts_for_the_whole_group_within_budgets() -> None:
    classes = [head("PriorityClass", name=name) | {"value": value} for name, value in (("high", 100), ("mid", 10))]
    victims = [running(name, "2", name[-1], priority=1) for name in ("old-a", "old-b")]
    pods = [member(name, "2") for name in ("x", "y")]
    objects = (node("a", cpu="2"), node("b", cpu="2"), group("gang", 2), *classes, *victims, *pods)
    raised = remedies(*objects, WorkloadAwarePreemption=True)["raise-priority"]

    assert isinstance(raised, r.RaisePriority)
    assert (raised.change.priority_class, raised.change.group) == ("mid", "default/gang")
    assert set(raised.change.evicts) == {"default/old-a", "default/old-b"}
    assert raised.helps == r.Helped(2, 2)


def test_a_group_that_does_not_exist_is_named_or_created() -> None:
    offered = remedies(node("a", cpu="4"), group("gang", 1), member("x", of="gnag"))
    assert set(offered) == {"correct-name", "create"}
    assert not any(remedy.checked for remedy in offered.values())


def test_a_group_that_runs_has_no_remedies() -> None:
    assert waiting(node("a", cpu="4"), group("gang", 2), member("x"), member("y")).remedies == ()


def test_a_gang_that_looks_for_pods_in_the_wrong_namespace_is_first_told_the_right_one() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "redis"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    redis = running("redis", "1", "a")
    redis["metadata"] |= {"namespace": "data", "labels": {"app": "redis"}}
    pods = [member(name, "1") for name in ("x", "y")]
    for one in pods:
        one["spec"]["affinity"] = affinity

    first, *others = remedies(node("a", cpu="4"), group("gang", 2), redis, *pods).items()

    assert first[0] == "search-namespace"
    assert first[1].helps == r.Helped(2, 2)
    assert "relax" in dict(others)


def test_every_change_has_a_size() -> None:
    of_rollouts_and_drains = {r.MoreReplicas, r.ChangeBudget}
    sized = {*r.RemedyBase.__subclasses__(), *r.RemedyOf.__subclasses__()} - {r.RemedyOf, r.Together}
    assert {*r.WEIGHTS} == sized - of_rollouts_and_drains


def test_a_group_need_not_stay_in_one_rack() -> None:
    nodes = [node(name, cpu="2") for name in ("a", "b")]
    for one, rack in zip(nodes, ("r1", "r2"), strict=True):
        one["metadata"]["labels"]["rack"] = rack
    gang = group("gang", 2, schedulingConstraints={"topology": [{"key": "rack"}]})
    pods = [member(name, "2") for name in ("x", "y")]
    offered = remedies(*nodes, gang, *pods, TopologyAwareWorkloadScheduling=True)

    dropped = offered["drop-topology"]
    assert isinstance(dropped, r.DropTopology)
    assert (dropped.change.key, dropped.helps) == ("rack", r.Helped(2, 2))
