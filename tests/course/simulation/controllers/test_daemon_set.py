"""The daemon set controller. Upstream: pkg/controller/daemon/daemon_controller_test.go, update_test.go."""

from kplan.course.simulation.controllers.daemon_set import DaemonLedger, Eligibility, WantedDaemonSet
from kplan.course.simulation.controllers.observed import Action, ObservedPod
from tests.course.simulation.controllers.builders import pod, said

HERE = Eligibility(should_run=True, may_stay=True)
AWAY = Eligibility(should_run=False, may_stay=False)
WANTED = WantedDaemonSet("v2")


def actions(wanted: WantedDaemonSet, nodes: dict[str, Eligibility], pods: dict[str, list[ObservedPod]]) -> list[Action]:
    return DaemonLedger(wanted, nodes, pods).actions()


def on(node: str, revision: str = "v2", *, ready: bool = True) -> ObservedPod:
    return pod(f"{revision}-{node}", node=node, ready=ready, revision=revision)


def by_node(*pods: ObservedPod) -> dict[str, list[ObservedPod]]:
    found: dict[str, list[ObservedPod]] = {}
    for each in pods:
        found.setdefault(each.target, []).append(each)
    return found


def test_pods_are_made_before_others_are_deleted_and_so_many_at_a_time() -> None:
    nodes = {f"a{i:03d}": AWAY for i in range(300)} | {f"b{i:03d}": HERE for i in range(300)}
    found = said(actions(WANTED, nodes, by_node(*(on(name) for name in nodes if name.startswith("a")))))
    assert (found[0], found[249], found[250], len(found)) == ("+b000", "+b249", "-v2-a000", 500)
