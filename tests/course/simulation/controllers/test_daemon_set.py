"""The daemon set controller. Upstream: pkg/controller/daemon/daemon_controller_test.go, update_test.go."""

from msgspec.structs import replace

from kplan.course.simulation.controllers.daemon_set import ON_DELETE, DaemonLedger, Eligibility, WantedDaemonSet
from kplan.course.simulation.controllers.observed import Action, ObservedPod
from tests.course.simulation.controllers.builders import pod, said

HERE = Eligibility(should_run=True, may_stay=True)
TAINTED = Eligibility(should_run=False, may_stay=True)
AWAY = Eligibility(should_run=False, may_stay=False)
WANTED = WantedDaemonSet("v2")
SURGING = WantedDaemonSet("v2", max_surge=1, max_unavailable=0)


def actions(wanted: WantedDaemonSet, nodes: dict[str, Eligibility], pods: dict[str, list[ObservedPod]]) -> list[Action]:
    return DaemonLedger(wanted, nodes, pods).actions()


def on(node: str, revision: str = "v2", *, ready: bool = True) -> ObservedPod:
    return pod(f"{revision}-{node}", node=node, ready=ready, revision=revision)


def by_node(*pods: ObservedPod) -> dict[str, list[ObservedPod]]:
    found: dict[str, list[ObservedPod]] = {}
    for each in pods:
        found.setdefault(each.target, []).append(each)
    return found


def test_every_node_that_should_have_a_pod_gets_one() -> None:
    assert said(actions(WANTED, {"a": HERE, "b": TAINTED, "c": AWAY}, {})) == ["+a"]


def test_pods_stay_on_nodes_that_only_refuse_new_ones() -> None:
    nodes = {"a": TAINTED, "b": AWAY}
    assert said(actions(WANTED, nodes, by_node(on("a"), on("b")))) == ["-v2-b"]


def test_a_second_pod_of_a_node_goes() -> None:
    older, younger = on("a"), pod("younger", node="a", ready=True, revision="v2", created=2_000_000.0)
    assert said(actions(WANTED, {"a": HERE}, by_node(younger, older))) == ["-younger"]


def test_a_pending_pod_for_a_node_that_is_gone_goes() -> None:
    assert said(actions(WANTED, {}, {"a": [pod("lost", target="a", revision="v2")]})) == ["-lost"]


def test_an_update_takes_down_as_many_as_may_be_missing() -> None:
    nodes = {"a": HERE, "b": HERE, "c": HERE}
    old = by_node(on("a", "v1"), on("b", "v1"), on("c", "v1"))
    assert said(actions(WANTED, nodes, old)) == ["-v1-a"]
    assert said(actions(replace(WANTED, max_unavailable=2), nodes, old)) == ["-v1-a", "-v1-b"]
    assert said(actions(replace(WANTED, max_unavailable="50%"), nodes, old)) == ["-v1-a", "-v1-b"]


def test_an_update_waits_for_new_pods_to_be_ready() -> None:
    nodes = {"a": HERE, "b": HERE}
    assert said(actions(WANTED, nodes, by_node(on("a", ready=False), on("b", "v1")))) == []
    assert said(actions(WANTED, nodes, by_node(on("a"), on("b", "v1")))) == ["-v1-b"]


def test_old_pods_that_do_not_work_go_in_any_case() -> None:
    nodes = {"a": HERE, "b": HERE}
    assert said(actions(WANTED, nodes, by_node(on("a", ready=False), on("b", "v1", ready=False)))) == ["-v1-b"]


def test_on_delete_updates_nothing_by_itself() -> None:
    assert actions(replace(WANTED, strategy=ON_DELETE), {"a": HERE}, by_node(on("a", "v1"))) == []


def test_a_surge_makes_the_new_pod_first() -> None:
    nodes = {"a": HERE, "b": HERE}
    assert said(actions(SURGING, nodes, by_node(on("a", "v1"), on("b", "v1")))) == ["+a"]
    assert said(actions(SURGING, nodes, by_node(on("a", "v1"), on("a", ready=False), on("b", "v1")))) == []
    assert said(actions(SURGING, nodes, by_node(on("a", "v1"), on("a"), on("b", "v1")))) == ["-v1-a"]


def test_a_surge_replaces_pods_that_do_not_work_beyond_its_number() -> None:
    nodes = {"a": HERE, "b": HERE, "c": HERE}
    old = by_node(on("a", "v1", ready=False), on("b", "v1", ready=False), on("c", "v1"))
    assert said(actions(SURGING, nodes, old)) == ["+a", "+b", "+c"]


def test_a_surge_keeps_old_pods_of_other_nodes_until_enough_is_available() -> None:
    nodes = {"a": Eligibility(should_run=False, may_stay=True), "b": HERE}
    assert said(actions(SURGING, nodes, by_node(on("a", "v1"), on("b", ready=False)))) == []
    assert said(actions(SURGING, nodes, by_node(on("a", "v1"), on("b")))) == ["-v1-a"]


def test_pods_are_made_before_others_are_deleted_and_so_many_at_a_time() -> None:
    nodes = {f"a{i:03d}": AWAY for i in range(300)} | {f"b{i:03d}": HERE for i in range(300)}
    found = said(actions(WANTED, nodes, by_node(*(on(name) for name in nodes if name.startswith("a")))))
    assert (found[0], found[249], found[250], len(found)) == ("+b000", "+b249", "-v2-a000", 500)
