"""What is asked for and not honoured is always told."""

import kplan
from tests.objects import node, pod


def warnings(*objects: dict, config: dict | None = None) -> list[tuple[str, str]]:
    planner = kplan.Planner(kplan.load_snapshot([node("a"), *objects]), kplan.load_scheduler_config(config))
    return [(warning.code, f"{warning.object}: {warning.message}") for warning in planner.warnings]


def test_a_plain_cluster_warns_of_nothing() -> None:
    assert warnings(pod("web", cpu="1")) == []


def test_tolerations_that_compare_and_scheduling_groups_need_gates_that_are_off() -> None:
    compares = pod("compares", cpu="1", tolerations=[{"key": "load", "operator": "Lt", "value": "5"}])
    grouped = pod("grouped", cpu="1", schedulingGroup={"podGroupName": "gang"})

    found = warnings(compares, grouped)

    assert [code for code, _ in found] == ["UnmodelledFeature", "UnmodelledFeature"]
    assert found[0][1].startswith("Pod/default/compares: TaintTolerationComparisonOperators")
    assert found[1][1].startswith("Pod/default/grouped: GenericWorkload, GangScheduling")


def test_device_features_behind_gates_are_told() -> None:
    status = {"phase": "Pending", "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "claim"}]}
    mapped = {**pod("mapped", cpu="1"), "status": status}

    assert [code for code, _ in warnings(mapped)] == ["UnmodelledFeature"]


def test_an_extender_that_is_not_called_is_told_with_what_it_would_have_said() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://127.0.0.1:1/x", "filterVerb": "filter", "preemptVerb": "preempt"}],
    }

    ((code, text),) = warnings(config=config)

    assert code == "ExtenderNotCalled"
    assert text.startswith("Extender/http://127.0.0.1:1/x: its filter and preempt verbs are not called")
