"""A placement says what the contract says a placement says."""

import msgspec
import pytest

from kplan.course import in_order
from kplan.diagnosis.explanation import Shown
from tests.objects import node, planner_of, pod
from tests.preemption.scenes import planner

TAINT = {"key": "only", "value": "gpu", "effect": "NoSchedule"}
WORLD = [
    node("a", cpu="4"),
    node("b", cpu="4"),
    node("c", cpu="2", taints=[TAINT]),
    node("d", cpu="1"),
    pod("low", on="b", cpu="2"),
    pod("web", cpu="2"),
    pod("huge", cpu="9"),
    pod("vip", cpu="4", priority=5, nodeSelector={"kubernetes.io/hostname": "b"}),
    pod("shut", cpu="1", schedulingGates=[{"name": "later"}]),
]


def place(name):
    return planner(WORLD).place(f"default/{name}")


def test_every_rejected_node_names_its_first_plugin_and_all_others():
    rejected = place("huge").rejections["c"]

    assert (rejected.plugin, rejected.code) == ("TaintToleration", "UnschedulableAndUnresolvable")
    assert rejected.reasons == ("node(s) had untolerated taint(s)",)
    assert list(rejected.also_failing) == ["NodeResourcesFit"]
    assert rejected.to_dict() == {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "TaintToleration",
        "reasons": ["node(s) had untolerated taint(s)"],
        "details": [msgspec.to_builtins(detail) for detail in rejected.details],
        "alsoFailing": {"NodeResourcesFit": rejected.also_failing["NodeResourcesFit"].to_dict()},
    }
    detail = msgspec.to_builtins(rejected.also_failing["NodeResourcesFit"].details[0])
    assert {key: detail[key] for key in ("reason", "resource", "requested", "free", "allocatable", "short")} == {
        "reason": "Insufficient cpu",
        "resource": "cpu",
        "requested": "9",
        "free": "2",
        "allocatable": "2",
        "short": "7",
    }


def test_a_pod_that_must_preempt_has_its_victims():
    placement = place("vip")
    assert (placement.node, placement.nominated_node) == (None, "b")
    assert [victim.name for victim in placement.victims] == ["low"]
    assert placement.preemption.nominated_node == "b"
    assert placement.to_document().preemption == placement.preemption
    assert place("web").victims == ()
    assert place("web").preemption is None


def test_properties_are_those_of_the_explanation_of_all_nodes():
    for which in ("web", "huge", "vip", "shut"):
        placement = place(which)
        known = placement.explanation
        assert placement.explanation is known
        for name in ("ties", "feasible_nodes", "not_evaluated", "rejections", "rejection_summary", "scores"):
            assert getattr(placement, name) == getattr(known, name)


@pytest.mark.parametrize(
    ("nodes", "rejected", "feasible"),
    [
        pytest.param(None, ["c", "d"], ["a", "b"], id="all"),
        pytest.param(["d", "b"], ["d"], ["b"], id="some by name"),
        pytest.param([], [], [], id="none"),
        pytest.param(Shown(1), ["c", "d"], ["a"], id="the best and the closest"),
        pytest.param(Shown(1, also=("b",)), ["c", "d"], ["a", "b"], id="and one besides"),
    ],
)
@pytest.mark.parametrize("is_read_at_once", [True, False])
def test_about_which_nodes_it_tells(nodes, rejected, feasible, is_read_at_once, monkeypatch):
    if not is_read_at_once:
        monkeypatch.setattr(in_order, "_EAGER_CELLS", -1)
    made = place("web").to_dict(nodes)
    assert (list(made["rejections"]), made["feasibleNodes"]) == (rejected, feasible)
    assert list(made["scores"]) == feasible
    assert (made["feasibleCount"], made["ties"]) == (2, ["a"])
    assert [count["nodes"] for count in made["rejectionSummary"]] == [1, 1]


def test_a_gated_pod_has_the_text_of_pre_enqueue_and_that_of_its_condition() -> None:
    gated = pod("waits", schedulingGates=[{"name": "later"}])
    cluster = planner_of(node("n"))
    stored = "Scheduling is blocked due to non-empty scheduling gates"
    placement = cluster.place(gated)
    assert (placement.message, placement.stored_message) == ("waiting for scheduling gates: [later]", stored)
    assert placement.to_dict()["storedMessage"] == stored
    assert [pod.message for pod in cluster.roll_out([gated]).after] == [stored]
