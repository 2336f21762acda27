"""What would help a pod is what an expert would try first, and says for how many pods it helps."""

from typing import Any

from tests.incidents.asking import remedies, text

SEARCH = "shop/search-7d9f8b6c5d-q2hss"
WEB = "shop/web-7d9f8b6c5d-2nj7r"


def only(listed: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (remedy,) = (candidate for candidate in listed if candidate["kind"] == kind)
    return remedy


def test_a_pod_that_can_be_moved_is_offered_where_no_budget_counts_it():
    assert only(remedies("crumbs", SEARCH), "move-pod")["change"]["budgets"] == []


def test_no_pod_is_moved_whose_budget_allows_no_disruption():
    kinds = [remedy["kind"] for remedy in remedies("crumbs-behind-budgets", SEARCH)]
    assert "move-pod" not in kinds
    assert (kinds[0], kinds[-1]) == ("add-nodes", "lower-request")


def test_what_helps_all_replicas_comes_before_what_helps_one():
    listed = remedies("crumbs-four-pods", SEARCH)
    assert only(listed, "add-nodes")["change"]["nodes"] == 4
    helped = [remedy["helps"]["pods"] for remedy in listed if "helps" in remedy]
    assert helped == sorted(helped, reverse=True)
    assert only(listed, "move-pod")["helps"] == {"pods": 1, "of": 4}


def test_nodes_are_added_for_both_replicas_and_the_control_plane_has_room_for_one():
    listed = remedies("one-per-host", "logging/es-7d9f8b6c5d-rqlmv")
    assert listed[0]["kind"] == "add-nodes"
    assert listed[0]["change"]["nodes"] == 2
    assert listed[0]["helps"] == {"pods": 2, "of": 2}
    assert only(listed, "tolerate-taint")["helps"] == {"pods": 1, "of": 2}


def test_the_typo_of_a_toleration_is_corrected():
    listed = remedies("toleration-typo", "etl/etl-7d9f8b6c5d-zfv6x")

    assert listed[0]["change"] == {
        "what": "toleration",
        "of": "",
        "from": "dedicated=bacth:NoSchedule",
        "to": "dedicated=batch:NoSchedule",
    }
    assert "did you mean dedicated=batch" in text("toleration-typo", "explain", "etl/etl-7d9f8b6c5d-zfv6x")


def test_spreading_may_leave_out_a_zone_whose_nodes_are_cordoned():
    honor = only(remedies("cordoned-zone", "shop/front-7d9f8b6c5d-lfs8v"), "honor-policy")
    assert honor["change"] == {"policy": "nodeTaintsPolicy", "topologyKey": "topology.kubernetes.io/zone"}
    assert honor["helps"] == {"pods": 2, "of": 2}


def test_a_command_can_be_pasted():
    shown = text("cordoned-zone", "explain", "shop/front-7d9f8b6c5d-lfs8v")
    assert "for both pods: kubectl uncordon c-0 - set" in shown


def test_a_daemon_may_get_the_priority_of_daemons():
    raised = only(remedies("daemon-without-room", "mon/agent-88ff0"), "raise-priority")
    assert raised["change"]["priorityClass"] == "system-node-critical"


def test_the_typo_of_a_topology_key_is_corrected():
    first = remedies("topology-key-typo", WEB)[0]
    assert first["change"]["what"] == "topologyKey"
    assert (first["change"]["from"], first["change"]["to"]) == ("kubernetes.io/host", "kubernetes.io/hostname")
    assert "did you mean kubernetes.io/hostname?" in text("topology-key-typo", "explain", WEB)


def test_the_namespace_in_which_the_other_pods_run_is_named():
    first = remedies("affinity-other-namespace", WEB)[0]
    assert first["kind"] == "search-namespace"
    assert first["change"] == {"namespace": "data", "selector": "app=redis", "topologyKey": "kubernetes.io/hostname"}
    assert "such pods run in namespace data" in text("affinity-other-namespace", "explain", WEB)


def test_a_misspelt_resource_or_label_is_corrected():
    assert remedies("resource-typo", "ml/train-7d9f8b6c5d-bcmjs")[0]["change"]["to"] == "nvidia.com/gpu"
    assert remedies("label-typo", "default/x-7d9f8b6c5d-82tlz")[0]["change"]["to"] == "disktype=ssd"
