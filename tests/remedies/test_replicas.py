"""What would help all replicas of a workload that find no node, tried with as many as there are."""

from typing import Any

import kplan
from kplan.cluster.incoming import admit_manifests
from kplan.course.answers.placement import Placement
from kplan.report.decision import remedy_text
from kplan.workloads.manifests import ReadOptions, load_manifests
from tests.objects import affinity, node, owned_pod, planner_of, pod, stateful_set
from tests.remedies.everyday import ZONE, claim, storage_class, taint
from tests.remedies.everyday import volume as volume_object


def deployment(replicas: int, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    requests = spec.pop("requests", {"cpu": "1"})
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers, **spec}}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": wanted}


def placed(objects: list[dict[str, Any]], workload: dict[str, Any]) -> tuple[Placement, ...]:
    snapshot = kplan.load_snapshot(objects)
    pods = admit_manifests(load_manifests([workload], ReadOptions(snapshot=snapshot)), snapshot).pods
    return kplan.Planner(snapshot).plan(pods).placements


def remedies_of(objects: list[dict[str, Any]], workload: dict[str, Any]) -> list[dict[str, Any]]:
    last = placed(objects, workload)[-1]
    assert all(map(remedy_text, last.remedies))
    remedies: list[dict[str, Any]] = last.to_dict()["remedies"]
    return remedies


def of_kind(remedies: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (matching,) = (remedy for remedy in remedies if remedy["kind"] == kind)
    return matching


def test_so_many_nodes_are_enough_and_one_fewer_is_not():
    def with_nodes(number: int) -> tuple[Placement, ...]:
        return placed([node("a", cpu="3"), *(node(f"n{index}", cpu="3") for index in range(number))], deployment(11))

    assert all(with_node.node for with_node in with_nodes(3))
    assert not all(with_node.node for with_node in with_nodes(2))


def test_all_replicas_count_that_an_applied_workload_wants():
    there = [node("a", cpu="500m"), stateful_set("web", 1), owned_pod(stateful_set("web", 1), "web-0", "a")]
    waiting = planner_of(there).roll_out([stateful_set("web", 4)]).placement("default/web-1")
    adding, lowering = (remedy.change for remedy in waiting.remedies)
    assert (adding.nodes, lowering.old, lowering.to) == (3, 4, 1)


def test_a_remedy_says_how_many_of_the_replicas_it_lets_in_and_ranks_behind_where_these_are_few():
    nodes = [node("a", cpu="2"), node("b", cpu="1", taints=[taint("dedicated", "ml")])]
    remedies = remedies_of(nodes, deployment(6))
    kinds = [remedy["kind"] for remedy in remedies]
    assert of_kind(remedies, "tolerate-taint")["helps"] == {"pods": 1, "of": 4}
    assert kinds.index("add-nodes") < kinds.index("tolerate-taint")


def test_a_rule_is_relaxed_and_a_node_added_where_either_alone_is_not_enough():
    nodes = [node("a", cpu="1", labels={ZONE: "x"}), node("b", cpu="1", labels={ZONE: "y"})]
    running = [pod(f"web-{name}", on=name, labels={"app": "web"}) for name in "ab"]
    apart = affinity("podAntiAffinity", ZONE, app="web")
    whole = of_kind(remedies_of([*nodes, *running], deployment(1, nodeSelector={ZONE: "x"}, **apart)), "together")
    assert [part["kind"] for part in whole["changes"]] == ["relax", "add-nodes"]
    assert whole["changes"][1]["change"] == {"nodes": 1, "like": "a"}
    assert whole["then"] == "a-added-1"


def test_of_replicas_with_claims_of_their_own_one_says_nothing_of_the_others():
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    bound = [claim("data", "", "pv"), volume_object("pv", "x")]
    nodes = [node("a", cpu="1", labels={ZONE: "x"}), node("b", cpu="1", labels={ZONE: "x"})]
    workload = deployment(4, volumes=[volume])

    ephemeral = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim("data", "late")["spec"]}}}
    for with_own in ({**workload, "kind": "StatefulSet"}, deployment(4, volumes=[ephemeral])):
        own = remedies_of([*nodes, *bound, storage_class("late", "WaitForFirstConsumer")], with_own)
        assert own
        assert [remedy for remedy in own if "helps" in remedy] == []
    assert [remedy for remedy in remedies_of([*nodes, *bound], workload) if "helps" in remedy]


def test_a_namespace_that_does_not_exist_is_named_with_the_one_that_was_meant():
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    workload = deployment(1)
    workload["metadata"]["namespace"] = "shopp"
    (last,) = placed([node("a"), namespace], workload)

    assert last.diagnosis == "The API server refuses the pod: there is no namespace shopp (did you mean shop?)."
    assert [remedy_text(remedy) for remedy in last.remedies] == [
        "set the namespace to shop instead of shopp (not tried)",
        "create namespace shopp (not tried)",
    ]
