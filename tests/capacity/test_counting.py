"""How many replicas fit, where, and what would have to be added; placed at once as one after the other."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.api.labels import HOSTNAME, ZONE
from kplan.capacity.additions import least_number
from kplan.capacity.counting import fill, fill_from
from kplan.capacity.measure import without_nodes_and_pods
from kplan.capacity.templates import Template
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.load import decode_pod
from tests.objects import Object, deployment, node, planner_of, pod
from tests.recorded import examples

WEB = {"matchLabels": {"app": "web"}}
APART = [{"topologyKey": HOSTNAME, "labelSelector": WEB}]
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": APART[0]}]}


def web(cpu: str = "1", **spec: Any) -> Object:
    made = pod("web", cpu=cpu, **spec)
    made["metadata"]["labels"] = {"app": "web"}
    return made


def spread(key: str, selector: Object = WEB) -> Object:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def zoned(name: str, zone: str, cpu: str = "4") -> Object:
    made = node(name, cpu)
    made["metadata"]["labels"][ZONE] = zone
    return made


def template(made: Object | str, name: str = "web", share: int = 1, **spec: Any) -> Template:
    """Return a template of a pod, or of one that requests so much CPU."""
    return Template(name, (PodInfo(decode_pod(pod(name, cpu=made, **spec) if isinstance(made, str) else made)),), share)


def test_the_pod_limit_of_a_node_stops_pods_that_ask_for_nothing() -> None:
    capacity = planner_of(node("a", pods="10")).capacity([template("0")])
    assert capacity.fit.total == 10
    assert capacity.stop is not None
    assert "Too many pods" in capacity.stop.message


def test_shares_may_be_far_larger_than_what_fits() -> None:
    mix = [template("1", share=900_000_000), template("1", "other")]
    assert fill(planner_of(node("a")).fork(), mix, limit=3).counts == [3, 0]


def test_counts_the_room_that_lower_priorities_give_up() -> None:
    objects = [node("a"), pod("low", cpu="3", on="a")]
    urgent = template("1", priority=5)
    assert planner_of(*objects).capacity([urgent]).fit.total == 1
    capacity = planner_of(*objects).capacity([urgent], preempt=True)
    assert capacity.fit.total == 4
    assert capacity.to_dict()["victims"] == ["default/low"]


def test_nodes_can_be_left_out() -> None:
    snapshot = kplan.load_snapshot([node("a"), node("b")])
    assert kplan.Planner(without_nodes_and_pods(snapshot, ["a"])).capacity([template("1")]).per_node() == {
        "b": {"web": 4}
    }


def test_fails_when_fewer_fit_than_wanted_or_somebody_has_to_go() -> None:
    objects = [node("a"), pod("low", cpu="3", on="a")]
    assert planner_of(*objects).capacity([template("1")], wanted=9).verdict().because == ("1 of 9 replicas fit",)
    evicting = planner_of(*objects).capacity([template("1", priority=5)], wanted=4, preempt=True)
    assert evicting.verdict().because == ("1 pod would be evicted",)
    assert evicting.verdict(("unschedulable",)).because == ()
    counting = planner_of(*objects).capacity([template("1", priority=5)], preempt=True)
    assert (len(counting.fit.evicted), counting.verdict().fail_on, counting.verdict().because) == (1, ("none",), ())


def test_the_least_number_of_nodes_is_found_whatever_the_guess() -> None:
    for wanted in range(11, 40):
        for guess in (1, 2, 7, 50):
            assert least_number(lambda n: 10 + 3 * n, 10, wanted, guess) == -(-(wanted - 10) // 3)


def test_spreading_over_zones_needs_nodes_in_each() -> None:
    spreading = template(web("2", **spread(ZONE)))
    capacity = planner_of(zoned("a", "one"), zoned("b", "two")).capacity([spreading], wanted=6)
    assert capacity.fit.total == 4
    nodes_by_shapes = {
        tuple(shape.like for shape in addition.shapes): addition.nodes for addition in capacity.additions
    }
    assert nodes_by_shapes == {("a",): None, ("b",): None, ("a", "b"): 1}


SHAPES: list[dict[str, Any]] = [
    {},
    {"tolerations": [{"operator": "Exists"}]},
    {"affinity": {"podAntiAffinity": PREFERRED}},
    {"priority": 7},
    {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": APART}}},
    spread(HOSTNAME, {}),
]


def crowded(cpus: list[int], running: list[int]) -> kplan.Planner:
    objects = [node(f"n{i}", str(cpu)) for i, cpu in enumerate(cpus)]
    objects[0]["spec"] = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    objects += [pod(f"p{i}", cpu="700m", on=f"n{at % len(cpus)}") for i, at in enumerate(running)]
    return planner_of(objects)


@examples(60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), max_size=6),
    st.sampled_from(["0", "300m", "1", "2500m"]),
    st.sampled_from(SHAPES),
    st.sampled_from([None, 1, 3, 100]),
)
def test_many_at_a_time_end_where_those_placed_one_after_the_other_do(
    cpus: list[int], running: list[int], cpu: str, shape: dict[str, Any], limit: int | None
) -> None:
    base, counted = crowded(cpus, running), template(web(cpu, **shape))
    plain = fill(base.fork(), [counted], limit=limit)
    session, quick = fill_from(base.session, [counted], limit=limit)

    assert (quick.placed, quick.counts, quick.stopped_template) == (plain.placed, plain.counts, plain.stopped_template)
    assert (quick.stop is None) == (plain.stop is None)
    if quick.stop is not None and plain.stop is not None:
        assert quick.stop.message == plain.stop.message
        assert session.cluster.pod_count.sum() == len(running) + quick.total


def test_nodes_of_manifests_are_shapes_like_others_and_left_out_where_one_is_tried_alone() -> None:
    tainted = node("a", "4") | {"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}}
    planner = planner_of(tainted, now="2026-01-15T12:00:00Z")
    report = planner.capacity([node("b", "4"), deployment("web", 1, cpu="1")], wanted=9).report()
    assert [(one.shapes[0].like, one.nodes) for one in report.to_add] == [("b", 2)]


def test_a_resumed_count_goes_on_with_whose_turn_it_is() -> None:
    session, told, both = planner_of(node("a")).fork(), list[int](), [template("1"), template("1", "db")]
    first = fill(session, both, limit=1)
    assert fill(session, both, progress=told.append, since=first).counts == [2, 2]
    assert told == [2]
