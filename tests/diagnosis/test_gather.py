"""Why a pod requests more than its containers."""

from tests.objects import node, planner_of, pod


def diagnosis(cpu: str, **spec: object) -> str:
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}
    asked = pod("web", cpu=cpu, **spec)
    return planner_of(node("a", cpu="2"), node("b", cpu="1"), runtime, asked).place("default/web").diagnosis


def starting(name: str, cpu: str, **more: str) -> dict[str, object]:
    return {"name": name, "image": "app", "resources": {"requests": {"cpu": cpu}}, **more}


def test_init_containers_that_request_less_and_sidecars_are_not() -> None:
    sidecar = starting("proxy", "1", restartPolicy="Always")
    assert "it requests 3 cpu, and" in diagnosis("3", initContainers=[starting("migrate", "2")])
    assert "it requests 3 cpu, and" in diagnosis("2", initContainers=[sidecar])
    assert "it requests 4 cpu for init container migrate, and" in diagnosis(
        "1", initContainers=[sidecar, starting("migrate", "3")]
    )


def test_a_label_that_no_node_has_is_told_alone_and_a_combination_where_each_is_there() -> None:
    planner = planner_of(node("a", zone="x"), node("b", disk="ssd"))
    told = [planner.place(pod("p", nodeSelector={"zone": "x", "disk": disk})).diagnosis for disk in ("ssd", "hdd")]
    assert told == [
        "Neither node has all the labels it requires: 1 has zone=x, 1 has disk=ssd, none has both.",
        "Neither node has disk=hdd; the only value is ssd.",
    ]
