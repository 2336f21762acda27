"""What is kept up to date node by node is what looking at every node anew says.

What it says is recorded: of real control planes, with the courses of `test_recorded`.
"""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.workloads import ON_DELETE, ROLLING_UPDATE
from kplan.course.simulation.controllers import daemon_set
from kplan.course.simulation.controllers.daemon_set import DaemonLedger, Eligibility, WantedDaemonSet
from kplan.course.simulation.controllers.observed import Action, Create, Delete, ObservedPod
from tests.recorded import examples

NODES = [f"n{number}" for number in range(6)]

WANTED = st.builds(
    WantedDaemonSet,
    st.just("new"),
    st.sampled_from([ROLLING_UPDATE, ROLLING_UPDATE, ON_DELETE]),
    st.sampled_from([0, 0, 1, 2, "50%"]),
    st.sampled_from([0, 1, 2, "40%", "100%"]),
)
ELIGIBLE = st.builds(
    lambda kind: Eligibility(should_run=kind == 0, may_stay=kind < 2), st.sampled_from([0, 0, 0, 0, 1, 2])
)
PODS = st.tuples(
    st.sampled_from([*NODES, "gone"]),
    st.sampled_from(["new", "old", "old", "older"]),
    st.sampled_from(["Running", "Running", "Running", "Pending", "Failed"]),
    st.booleans(),
)
STEPS = st.lists(st.tuples(st.integers(0, 2), PODS), max_size=16)


def pod(row: int, node: str, revision: str, phase: str, *, is_ready: bool) -> ObservedPod:
    on = node if phase != "Pending" else ""
    ready = 1.0 if is_ready and phase == "Running" else None
    return ObservedPod(row, "a", f"pod-{row}", "", on, phase, float(row % 3), ready, revision, target=node)


def both(
    wanted: WantedDaemonSet,
    nodes: Mapping[str, Eligibility],
    pods: Mapping[str, list[ObservedPod]],
    ledger: DaemonLedger,
) -> list[Action]:
    anew = DaemonLedger(wanted, nodes, pods)
    found = ledger.actions()
    assert found == anew.actions()
    assert ledger.desired == anew.desired == sum(each.should_run for each in nodes.values())
    return found


@pytest.mark.parametrize("burst", [1, 2, 250])
@examples(100)
@given(WANTED, st.dictionaries(st.sampled_from(NODES), ELIGIBLE), st.lists(PODS, max_size=8), STEPS)
def test_it_says_what_looking_at_every_node_anew_says(
    burst: int,
    wanted: WantedDaemonSet,
    nodes: dict[str, Eligibility],
    first: list[tuple[str, str, str, bool]],
    steps: list[tuple[int, tuple[str, str, str, bool]]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemon_set, "BURST_REPLICAS", burst)
        pods: dict[str, list[ObservedPod]] = {}
        for row, (node, revision, phase, is_ready) in enumerate(first):
            pods[node] = [*pods.get(node, ()), pod(row, node, revision, phase, is_ready=is_ready)]
        ledger = DaemonLedger(wanted, nodes, pods)
        both(wanted, nodes, pods, ledger)

        for row, (what, (node, revision, phase, is_ready)) in enumerate(steps, start=len(first)):
            theirs = pods.get(node, [])
            if what == 0 and theirs:
                theirs = theirs[1:]
            elif what == 1 and theirs:
                theirs = [*theirs[:-1], pod(theirs[-1].row, node, revision, phase, is_ready=is_ready)]
            else:
                theirs = [*theirs, pod(row, node, revision, phase, is_ready=is_ready)]
            _put(pods, ledger, node, theirs)
            both(wanted, nodes, pods, ledger)


@examples(60)
@given(WANTED, st.dictionaries(st.sampled_from(NODES), ELIGIBLE), st.lists(PODS, max_size=8))
def test_a_rollout_takes_the_same_course(
    wanted: WantedDaemonSet, nodes: dict[str, Eligibility], first: list[tuple[str, str, str, bool]]
) -> None:
    pods: dict[str, list[ObservedPod]] = {}
    for row, (node, revision, phase, is_ready) in enumerate(first):
        pods[node] = [*pods.get(node, ()), pod(row, node, revision, phase, is_ready=is_ready)]
    ledger = DaemonLedger(wanted, nodes, pods)
    row = len(first)

    for _ in range(40):
        found = both(wanted, nodes, pods, ledger)
        if not found:
            break
        for each in found:
            if isinstance(each, Delete):
                node = each.pod.target
                _put(pods, ledger, node, [other for other in pods[node] if other.row != each.pod.row])
            else:
                made = pod(row, each.node, each.revision, "Running", is_ready=True)
                _put(pods, ledger, each.node, [*pods.get(each.node, ()), made])
                row += 1


def _put(pods: dict[str, list[ObservedPod]], ledger: DaemonLedger, node: str, theirs: list[ObservedPod]) -> None:
    if theirs:
        pods[node] = theirs
    else:
        pods.pop(node, None)
    ledger.note(node, theirs)


@pytest.mark.parametrize(
    ("surge", "there", "deleted"),
    [
        # Without surge the oldest stays, and one with a node before one without.
        (0, "old new", [1]),
        (0, "~new old", [0]),
        # With surge the oldest of each revision stay, until the new one is ready, or where the old one is not.
        (1, "old new!", []),
        (1, "new! old", []),
        (1, "new old", [1]),
        (1, "old! new!", [0]),
        (1, "older old new!", [1]),
        (1, "new! old! old", [2, 1]),
    ],
)
def test_of_several_pods_on_a_node_the_controller_keeps_one_or_two(surge: int, there: str, deleted: list[int]) -> None:
    pods = [
        pod(row, "n0", word.strip("~!"), "Pending" if "~" in word else "Running", is_ready="!" not in word)
        for row, word in enumerate(there.split())
    ]
    wanted = WantedDaemonSet("new", ROLLING_UPDATE, surge, 1)
    actions = daemon_set.manage(wanted, "n0", Eligibility(should_run=True, may_stay=True), pods)
    assert [one.pod.row for one in actions if isinstance(one, Delete)] == deleted


def test_a_surge_comes_no_further_while_an_old_pod_is_on_a_node_that_is_gone() -> None:
    old = {name: [pod(row, name, "old", "Running", is_ready=True)] for row, name in enumerate(("n0", "gone"))}
    here = {"n0": Eligibility(should_run=True, may_stay=True)}
    ledger = DaemonLedger(WantedDaemonSet("new", ROLLING_UPDATE, 1, 0), here, old)
    assert ledger.actions() == []
    ledger.note("gone", ())
    assert len(ledger.actions()) == 1


def test_which_node_is_updated_next_is_drawn() -> None:
    wanted = WantedDaemonSet("new", ROLLING_UPDATE, 0, 1)
    here = Eligibility(should_run=True, may_stay=True)
    pods = {name: [pod(row, name, "old", "Running", is_ready=True)] for row, name in enumerate(NODES)}
    ledger = DaemonLedger(wanted, dict.fromkeys(NODES, here), pods)

    def first(draws: Random | None) -> str:
        (action,) = ledger.actions(draws)
        assert isinstance(action, Delete)
        return action.pod.node

    assert {first(Random(seed)) for seed in range(60)} == set(NODES)
    assert first(None) == NODES[0]


def test_pods_are_made_before_others_are_deleted_and_so_many_at_a_time() -> None:
    here, away = (Eligibility(should_run=is_here, may_stay=is_here) for is_here in (True, False))
    nodes = {f"a{i:03d}": away for i in range(300)} | {f"b{i:03d}": here for i in range(300)}
    pods = {name: [pod(row, name, "v2", "Running", is_ready=True)] for row, name in enumerate(nodes) if name < "b"}
    found = DaemonLedger(WantedDaemonSet("v2"), nodes, pods).actions()
    kinds = [(type(one), one.node if isinstance(one, Create) else one.pod.node) for one in found]
    assert [kinds[0], kinds[249], kinds[250], len(kinds)] == [(Create, "b000"), (Create, "b249"), (Delete, "a000"), 500]
