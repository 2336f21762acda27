"""Where it does not matter which nodes pods go to, the answer is the one of the scheduler."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kplan
from kplan.documents.drains import DrainOutcome
from kplan.effects.drains import drain_to_any
from kplan.questions.drain.question import Drain
from kplan.questions.in_turn import drains
from kplan.questions.in_turn.question import InTurn
from tests.simulation.clusters import Object, budget, deployment, node, running, stateful_set

NAMES = [f"n{index}" for index in range(5)]
_ZONE = "topology.kubernetes.io/zone"
_SELECTOR = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
TRAITS: dict[str, Object] = {
    "plain": {},
    "spread": {"topologySpreadConstraints": [{**_SELECTOR, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
    "apart": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_SELECTOR]}}},
    "tolerant": {"tolerations": [{"operator": "Exists"}]},
    "selective": {"nodeSelector": {_ZONE: "z0"}},
    "elsewhere": {"nodeSelector": {_ZONE: "z9"}},
    "gated": {"schedulingGates": [{"name": "wait"}]},
    "grouped": {"schedulingGroup": {"podGroupName": "none"}},
}


def _workload(name: str, replicas: int, cpu: str, trait: str, *, port: bool) -> Object:
    workload = deployment(name, replicas)
    spec = workload["spec"]["template"]["spec"]
    spec |= TRAITS[trait]
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpu
    if port:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return workload


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    sizes = st.sampled_from(["2", "4", "8"])
    objects = [
        node(name, draw(sizes), draw(st.sampled_from(["2", "4", "110"])), **{_ZONE: f"z{index % 2}"})
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


def _outcomes(objects: list[Object], question: InTurn) -> tuple[DrainOutcome, ...]:
    return question.answer(kplan.Planner(kplan.load_snapshot(objects))).drains


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Count for each drain whether any node was good enough."""
    certain: list[bool] = []

    def noted(*asked: Any) -> Any:
        change = drain_to_any(*asked)
        certain.append(change is not None)
        return change

    monkeypatch.setattr(drains, "drain_to_any", noted)
    return certain


QUESTIONS = [
    InTurn(),
    InTurn(by="zone"),
    InTurn(question=Drain(nodes=(), how="one-by-one")),
    InTurn(question=Drain(nodes=(), how="lost")),
]


def test_drains_end_as_with_the_schedulers_own_nodes(counted: list[bool]) -> None:
    @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], database=None)
    @given(clusters(), st.sampled_from(QUESTIONS))
    def holds(objects: list[Object], question: InTurn) -> None:
        found = _outcomes(objects, question)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drains, "drain_to_any", lambda *_: None)
            assert found == _outcomes(objects, question)

    holds()
    assert any(counted)
    assert not all(counted)
