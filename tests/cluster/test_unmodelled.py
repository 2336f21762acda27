"""What is asked for and not honoured is always told."""

import kplan
from tests.objects import node, pod


def warnings(*objects: dict, config: dict | None = None) -> list[tuple[str, str]]:
    planner = kplan.Planner(kplan.load_snapshot([node("a"), *objects]), kplan.load_scheduler_config(config))
    return [(warning.code, f"{warning.object}: {warning.message}") for warning in planner.warnings]


def test_a_plain_cluster_warns_of_nothing() -> None:
    assert warnings(pod("web", cpu="1")) == []


def test_device_features_behind_gates_are_told() -> None:
    status = {"phase": "Pending", "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "claim"}]}
    mapped = {**pod("mapped", cpu="1"), "status": status}
    assert [code for code, _ in warnings(mapped)] == ["UnmodelledFeature"]


def test_a_selector_that_cannot_be_evaluated_has_no_gate_that_is_off() -> None:
    selectors = [{"cel": {"expression": '["1.0.0"].map(v, semver(v)).size() == 1'}}]
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "odd"}}
    ((_, text),) = warnings({**kind, "spec": {"selectors": selectors}})
    assert text.endswith("; a pod whose claims need it gets an error")


def test_an_extender_that_is_not_called_is_told_with_what_it_would_have_said() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://127.0.0.1:1/x", "filterVerb": "filter", "preemptVerb": "preempt"}],
    }

    ((code, text),) = warnings(config=config)

    assert code == "ExtenderNotCalled"
    assert text.startswith("Extender/http://127.0.0.1:1/x: its filter and preempt verbs are not called")
