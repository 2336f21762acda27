"""Replicas placed many at a time end where those placed one after the other do."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import kplan
from kplan.capacity.counting import fill, fill_at_once, fill_from, is_local
from kplan.capacity.replicas import Template
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.objects import decode_pod
from tests.effects.test_queue_plan import node, pod

HOST = "kubernetes.io/hostname"
APART = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}]
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": APART[0]}]}
SHAPES: list[dict[str, Any]] = [
    {},
    {"tolerations": [{"operator": "Exists"}]},
    {"affinity": {"podAntiAffinity": PREFERRED}},
    {"priority": 7},
    {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": APART}}},
    {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ]
    },
]
LOCAL = SHAPES[:5]


def web(cpu: str, shape: dict[str, Any]) -> PodInfo:
    made = pod("web", cpu, **shape)
    made["metadata"]["labels"] = {"app": "web"}
    return PodInfo(decode_pod(made))


def planner(cpus: list[int], running: list[int]) -> kplan.Planner:
    objects = [node(f"n{i}", str(cpu)) for i, cpu in enumerate(cpus)]
    objects[0]["spec"] = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    objects += [pod(f"p{i}", "700m", node_name=f"n{at % len(cpus)}") for i, at in enumerate(running)]
    return kplan.Planner(kplan.load_snapshot(objects))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), max_size=6),
    st.sampled_from(["0", "300m", "1", "2500m"]),
    st.sampled_from(SHAPES),
    st.sampled_from([None, 1, 3, 100]),
)
def test_the_same_as_one_after_the_other(
    cpus: list[int], running: list[int], cpu: str, shape: dict[str, Any], limit: int | None
) -> None:
    base, template = planner(cpus, running), Template("web", (web(cpu, shape),))
    plain = fill(base.fork(), [template], limit=limit)
    session, quick = fill_from(base.session, [template], limit=limit)

    assert (quick.placed, quick.counts, quick.stopped_template) == (plain.placed, plain.counts, plain.stopped_template)
    assert (quick.stop is None) == (plain.stop is None)
    if quick.stop is not None and plain.stop is not None:
        assert quick.stop.message == plain.stop.message
        assert session.cluster.pod_count.sum() == len(running) + quick.total


def test_only_where_no_filter_looks_beyond_its_node() -> None:
    base = planner([4, 4], [])

    assert [is_local(base.fork(), web("1", shape)) for shape in SHAPES] == [True] * len(LOCAL) + [False] * 2
    assert fill_at_once(base.fork(), web("1", LOCAL[0]), None) == {1: 4}
    assert fill_at_once(base.fork(), web("1", SHAPES[-1]), None) is None


def test_not_where_draws_or_a_limit_decide_who_comes_first() -> None:
    snapshot = planner([4, 4, 4], []).snapshot
    drawing = kplan.Planner(snapshot, seed=1)

    assert fill_at_once(drawing.fork(), web("1", {}), None) is None
    assert fill_at_once(kplan.Planner(snapshot).fork(), web("1", {}), 7) is None
    assert fill_at_once(kplan.Planner(snapshot).fork(), web("1", {}), 8) == {1: 4, 2: 4}
    assert fill_at_once(kplan.Planner(snapshot).fork(), web("9", {}), None) is None
