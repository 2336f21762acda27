"""Where it does not matter which nodes pods go to, the answer is the one of the scheduler."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.capacity.headroom import count_more
from kplan.capacity.templates import own_workloads
from kplan.documents.drains import DrainOutcome
from kplan.questions.drain import Drain, InTurn, in_turn
from kplan.questions.drain.in_turn import drain_to_any
from tests.objects import (
    HOSTNAME,
    Object,
    affinity,
    budget,
    deployment,
    head,
    node,
    planner_of,
    pod,
    running,
    spread,
    stateful_set,
    with_ready,
)
from tests.recorded import examples

NAMES = [f"n{index}" for index in range(5)]
_CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
_ZONE = "topology.kubernetes.io/zone"
TRAITS: dict[str, Object] = {
    "plain": {},
    "spread": spread(HOSTNAME, app="web"),
    "apart": affinity("podAntiAffinity", HOSTNAME, app="web"),
    "tolerant": {"tolerations": [{"operator": "Exists"}]},
    "selective": {"nodeSelector": {_ZONE: "z0"}},
    "elsewhere": {"nodeSelector": {_ZONE: "z9"}},
    "gated": {"schedulingGates": [{"name": "wait"}]},
    "grouped": {"schedulingGroup": {"podGroupName": "none"}},
}


def _workload(name: str, replicas: int, cpu: str, trait: str, *, port: bool) -> Object:
    workload = deployment(name, replicas, cpu=cpu)
    spec = workload["spec"]["template"]["spec"]
    spec |= TRAITS[trait]
    if port:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return workload


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    sizes = st.sampled_from(["2", "4", "8"])
    objects = [
        node(name, draw(sizes), pods=draw(st.sampled_from(["2", "4", "110"])), **{_ZONE: f"z{index % 2}"})
        for index, name in enumerate(NAMES)
    ]
    for name in ("web", "api", "log"):
        workload = _workload(
            name,
            draw(st.integers(0, 6)),
            draw(st.sampled_from(["100m", "500m", "1500m"])),
            draw(st.sampled_from(["plain", "plain", "plain", *TRAITS])),
            port=draw(st.integers(0, 7)) == 0,
        )
        owned = running(workload, draw(st.permutations(NAMES)))
        objects += owned
        if draw(st.integers(0, 3)) == 0:  # it is about to be scaled and rolled
            owned[0]["spec"] = copy.deepcopy(owned[0]["spec"]) | {"replicas": draw(st.integers(0, 5))}
            owned[0]["spec"]["template"]["spec"]["containers"][0]["image"] = draw(st.sampled_from(["app:1", "app:2"]))
        if draw(st.booleans()):
            objects.append(budget(name, maxUnavailable=draw(st.integers(0, 2))))
    if draw(st.booleans()):
        objects.append(stateful_set("db", 2))
    return objects


def _outcomes(objects: list[Object], question: InTurn, profile: Object | None = None) -> tuple[DrainOutcome, ...]:
    config = None if profile is None else {**_CONFIG, "profiles": [profile]}
    planner = kplan.Planner(kplan.load_snapshot(objects), kplan.load_scheduler_config(config))
    return question.answer(planner).drains


def _scheduled(objects: list[Object], question: InTurn, profile: Object | None = None) -> tuple[DrainOutcome, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_turn, "drain_to_any", lambda *_: None)
        return _outcomes(objects, question, profile)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Count for each drain whether any node was good enough."""
    certain: list[bool] = []

    def noted(*asked: Any) -> Any:
        change = drain_to_any(*asked)
        certain.append(change is not None)
        return change

    monkeypatch.setattr(in_turn, "drain_to_any", noted)
    return certain


QUESTIONS = [
    InTurn(),
    InTurn(by="zone"),
    InTurn(question=Drain(nodes=(), how="one-by-one")),
    InTurn(question=Drain(nodes=(), how="lost")),
]


def test_drains_end_as_with_the_schedulers_own_nodes(counted: list[bool]) -> None:
    @examples(60)
    @given(clusters(), st.sampled_from(QUESTIONS))
    def holds(objects: list[Object], question: InTurn) -> None:
        assert _outcomes(objects, question) == _scheduled(objects, question)

    holds()
    assert any(counted)
    assert not all(counted)


@examples(40)
@given(clusters(), st.integers(1, 40))
def test_as_many_more_replicas_fit_whether_or_not_each_is_placed(objects: list[Object], limit: int) -> None:
    planner = planner_of(objects)
    for workload in own_workloads(planner):
        counted, placed = (
            count_more(planner, workload=workload, running=0, limit=limit, only_outcomes=by) for by in (True, False)
        )
        assert counted.fits == placed.fits


Case = tuple[list[Object], InTurn, Object | None]


def _nodes(n: int, **labels: str) -> list[Object]:
    return [node(name, "8", **labels) for name in NAMES[:n]]


def _invalid_preference() -> Case:
    preference = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["not a label value"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}]}
    workload = deployment("web", 1)
    workload["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": preferred}
    return [*_nodes(3), *running(workload, ["n0"])], InTurn(), None


def _score_without_its_state() -> Case:
    profile = {"plugins": {"preScore": {"disabled": [{"name": "TaintToleration"}]}}}
    return [*_nodes(3), *running(deployment("web", 1), ["n0"])], InTurn(), profile


def _evicted_once_more() -> Case:
    """A pod that its budget does not protect as it is not ready goes to the cordoned node that is next."""
    workload = deployment("web", 1)
    workload["spec"]["template"]["spec"] |= TRAITS["tolerant"]
    *owners, evicted = running(workload, ["n0"])
    protected = budget("web", minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    nodes = [node("n0", "8", **{_ZONE: "z0"}), node("n1", "64", **{_ZONE: "z0"}), node("n2", "8", **{_ZONE: "z1"})]
    return [*nodes, *owners, with_ready(evicted, "False"), protected], InTurn(by="zone"), None


def _room_for_pods_that_name_their_node() -> Case:
    bound = running(deployment("api", 1), ["n0"])
    for owner in bound[:2]:
        owner["spec"] = copy.deepcopy(owner["spec"])
        owner["spec"]["template"]["spec"]["nodeName"] = "n1"
    nodes = [node("n0", "8"), node("n1", "8", pods="1"), node("n2", "8", pods="0")]
    return [*nodes, *bound, *running(deployment("web", 1), ["n0"])], InTurn(), None


def _room_for_fewer_pods_than_go() -> Case:
    nodes = [node("n0", "8"), node("n1", "8", pods="4")]
    return (
        [*nodes, *running(deployment("web", 3), ["n0"] * 3), *running(deployment("api", 2), ["n1"] * 2)],
        InTurn(),
        None,
    )


def _new_replica_set_that_is_spread_by_default() -> Case:
    constraint = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    by_default = {"defaultingType": "List", "defaultConstraints": [constraint]}
    owner, replica_set, placed = running(deployment("web", 1), ["n0"])
    owner["spec"] = copy.deepcopy(owner["spec"])
    owner["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"
    replica_set["spec"] = {**replica_set["spec"], "replicas": 0}
    nodes = [node("n0", "8", **{_ZONE: "z0"}), node("n1", "8"), node("n2", "8")]
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": by_default}]}
    return [*nodes, owner, replica_set, placed], InTurn(), profile


_VOLUME_FILTERS = {"multiPoint": "VolumeBinding", "filter": "NodeVolumeLimits"}


def _claim_of_another_zone() -> Case:
    """Only what rejects nodes for their zone tells the pods apart."""
    objects = [node("n0", "8", **{_ZONE: "z0"}), node("n1", "8", **{_ZONE: "z0"})]
    owner = {"apiVersion": "example.com/v1", "controller": True, "kind": "Store", "name": "db", "uid": "s"}
    for claim, labels in (("a", {}), ("b", {_ZONE: "z9"})):
        bound = {"volumeName": claim, "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        source = {"csi": {"driver": "d", "volumeHandle": claim}, "accessModes": ["ReadWriteMany"]}
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        user = pod(claim, "n0", cpu=None, labels={"app": "db"}, volumes=volumes)
        user["metadata"]["ownerReferences"] = [owner]
        objects += [
            user,
            head("PersistentVolume", name=claim, labels=labels) | {"spec": {**source, "capacity": {"storage": "1Gi"}}},
            head("PersistentVolumeClaim", name=claim, namespace="default") | {"spec": bound},
        ]
    off = {point: {"disabled": [{"name": name}]} for point, name in _VOLUME_FILTERS.items()}
    return objects, InTurn(), {"plugins": off}


@pytest.mark.parametrize(
    "case",
    [
        _invalid_preference,
        _score_without_its_state,
        _evicted_once_more,
        _room_for_pods_that_name_their_node,
        _room_for_fewer_pods_than_go,
        _new_replica_set_that_is_spread_by_default,
        _claim_of_another_zone,
    ],
)
def test_the_scheduler_decides_where_more_than_room_matters(case: Callable[[], Case]) -> None:
    outcomes = _outcomes(*case())
    assert outcomes == _scheduled(*case())
    assert outcomes[0].state != "drainable"
