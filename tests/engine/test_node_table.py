"""Nodes as columns say what the nodes say."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.api.core import Node
from kplan.api.decode import convert
from kplan.engine import node_table
from kplan.engine.node_table import ABSENT, ImageIndex, NodeTable
from kplan.framework.cycle import schedule_pod
from kplan.rules.nodes import UNSCHEDULABLE_TAINT
from tests.objects import HOSTNAME, node, pod, spread
from tests.recorded import examples

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"

TAINTS = [{"key": key, "effect": effect} for key in ("a", "b") for effect in ("NoSchedule", "PreferNoSchedule")]


AMOUNTS = {
    "cpu": ["1500m", "2"],
    "memory": ["1Gi", "1.5"],
    "pods": ["3", 5],
    "example.com/gpu": ["2"],
    "unheard-of": ["7"],
}


def _body(draw):
    labels = [key for key in (ZONE, REGION, OLD_ZONE, OLD_REGION, "disk") if draw.random() < 0.4]
    offered = [name for name in AMOUNTS if draw.random() < 0.5]
    return {
        "labels": {key: draw.choice(["x", "y", ""]) for key in labels},
        "spec": {"taints": draw.sample(TAINTS, draw.randint(0, 2)), "unschedulable": draw.random() < 0.5},
        "status": {"allocatable": {name: draw.choice(AMOUNTS[name]) for name in offered}},
    }


_draw = random.Random(1)
BODIES = st.sampled_from([_body(_draw) for _ in range(60)])


@st.composite
def nodes(draw):
    """Some nodes, in any order."""
    bodies = draw(st.lists(BODIES, max_size=7))
    return [
        {"metadata": {"name": f"n{number}", "labels": body["labels"]}, "spec": body["spec"], "status": body["status"]}
        for number, body in draw(st.permutations(list(enumerate(bodies))))
    ]


def table_of(made):
    return NodeTable([convert(each, Node) for each in made])


def by_name(made):
    return sorted(made, key=lambda each: each["metadata"]["name"])


@examples(60)
@given(nodes())
def test_columns_say_what_the_nodes_say_in_the_order_of_their_names(made):
    table, ordered = table_of(made), by_name(made)
    amounts = {"1500m": 1500, "2": 2000, "1Gi": 2**30, "1.5": 2, "3": 3, 5: 5, 0: 0}
    offered = [each["status"]["allocatable"] for each in ordered]

    assert len(table) == len(made)
    assert table.names == [each["metadata"]["name"] for each in ordered]
    assert [table.row_of[name] for name in table.names] == list(range(len(made)))
    assert table.unschedulable.tolist() == [each["spec"]["unschedulable"] for each in ordered]
    assert table.allowed_pods.tolist() == [amounts[each.get("pods", 0)] for each in offered]
    assert table.allocatable("cpu").tolist() == [amounts[each.get("cpu", 0)] for each in offered]
    assert table.allocatable("memory").tolist() == [amounts[each.get("memory", 0)] for each in offered]
    assert table.allocatable("example.com/gpu").tolist() == [2 * ("example.com/gpu" in each) for each in offered]
    assert table.resources == {name for each in offered for name in each} - {"pods", "unheard-of"}


@examples(60)
@given(nodes(), st.sampled_from([ZONE, "disk", "nowhere"]))
def test_a_label_column_gives_every_node_its_value_back(made, key):
    table, ordered = table_of(made), by_name(made)
    column = table.label(key)
    values = [each["metadata"]["labels"].get(key) for each in ordered]

    assert [None if code == ABSENT else column.values[code] for code in column.codes] == values
    assert len(set(column.values)) == len(column.values)
    assert column.present.tolist() == [value is not None for value in values]
    assert [(*column.values, None)[slot] for slot in column.slots] == values
    assert {value: column.values[code] for value, code in column.code_of.items()} == dict(
        zip(column.values, column.values, strict=True)
    )
    assert table.label(key) is column


@examples(60)
@given(nodes())
def test_taint_sets_are_shared_by_nodes_that_have_the_same(made):
    table, ordered = table_of(made), by_name(made)
    keys = [[(taint.key, taint.effect) for taint in table.taint_sets[code]] for code in table.taint_codes]
    assert keys == [[(taint["key"], taint["effect"]) for taint in each["spec"]["taints"]] for each in ordered]
    assert len({tuple(map(str, taints)) for taints in table.taint_sets}) == len(table.taint_sets)


def zone_by_zone(made):
    """Fill a tree of zones node by node, then take one of each zone in turn until all are taken."""
    tree = {}
    for each in by_name(made):
        labels = each["metadata"]["labels"]
        zone = labels[OLD_ZONE] if OLD_ZONE in labels else labels.get(ZONE, "")
        region = labels[OLD_REGION] if OLD_REGION in labels else labels.get(REGION, "")
        tree.setdefault((region, zone), []).append(each["metadata"]["name"])
    taken = []
    while any(tree.values()):
        taken += [zone.pop(0) for zone in tree.values() if zone]
    return taken


@examples(120)
@given(nodes())
def test_the_zone_order_takes_a_node_of_each_zone_in_turn(made):
    table = table_of(made)
    assert [table.names[row] for row in table.zone_order] == zone_by_zone(made)


def test_derived_values_are_made_once_and_the_unused_are_forgotten(monkeypatch):
    monkeypatch.setattr(node_table, "MAX_DERIVED", 2)
    table = table_of([])
    made = []

    def ask(key):
        return table.derived(key, lambda: made.append(key) or key.upper())

    assert [ask(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]


def test_a_node_that_is_uncordoned_loses_the_taint_of_cordoned_nodes_and_no_other():
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    spec = {"unschedulable": True, "taints": [TAINTS[0], cordoned]}
    table = table_of([{"metadata": {"name": name}, "spec": spec, "status": {}} for name in ("a", "b")])

    open_again = table.with_schedulable([1], schedulable=True)

    fresh = NodeTable(open_again.nodes)
    assert [[taint.key for taint in node.spec.taints] for node in fresh.nodes] == [["a", cordoned["key"]], ["a"]]
    for row in range(2):
        taints = open_again.taint_sets[open_again.taint_codes[row]]
        assert taints == fresh.taint_sets[fresh.taint_codes[row]]
    assert open_again.unschedulable.tolist() == [True, False]


@pytest.mark.parametrize(("is_absent", "outcome"), [(True, "Scheduled"), (False, "Unschedulable")])
def test_a_node_that_is_absent_forms_no_domain(is_absent: bool, outcome: str) -> None:
    web = {"labels": {"app": "web"}, **spread(HOSTNAME, app="web")}
    tainted = node("n2", taints=[{"key": "a", "effect": "NoSchedule"}])
    objects = [node("n1"), tainted, pod("running", "n1", **web), pod("web", **web)]
    planner = kplan.Planner(kplan.load_snapshot(objects))
    session = planner.session.fork()
    session.cluster.nodes = session.cluster.nodes.with_absent(np.asarray([False, is_absent]))

    row = session.find("default/web")
    assert row is not None
    assert schedule_pod(session, row, looks_for_victims=False).outcome.value == outcome


def test_other_taints_on_a_node_share_its_columns() -> None:
    table = kplan.Planner(kplan.load_snapshot([node("n1"), node("n2")])).session.cluster.nodes
    order = table.zone_order
    taints = table.with_taints(1, (UNSCHEDULABLE_TAINT,))
    assert taints.names is table.names
    assert taints.zone_order is order
    assert taints.taint_codes.tolist() == [0, 1]
    assert taints.with_taints(1, ()).taint_codes.tolist() == table.taint_codes.tolist() == [0, 0]


def with_images(**images):
    return NodeTable(
        [
            convert(
                {
                    "metadata": {"name": name},
                    "status": {"images": [{"names": names, "sizeBytes": size} for size, names in listed]},
                },
                Node,
            )
            for name, listed in images.items()
        ]
    )


def test_an_image_is_found_by_each_of_its_names_with_the_size_that_the_first_node_gives():
    nodes = with_images(b=[(7, ["app:1", "app@sha"])], a=[(5, ["app:1"]), (5, ["app:1"])], c=[(9, ["db:1"])])
    index = ImageIndex.of(nodes)

    assert {name: index.rows(name).tolist() for name in ("app:1", "app@sha", "db:1", "none")} == {
        "app:1": [0, 1],
        "app@sha": [1],
        "db:1": [2],
        "none": [],
    }
    assert (index.size("app:1"), index.size("app@sha"), index.size("db:1")) == (5, 7, 9)
    assert ImageIndex.of(nodes) is index
