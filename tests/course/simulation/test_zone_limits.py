"""How quickly the nodes of a zone are tainted."""

import pytest

from kplan.course.simulation.node_lifecycle import Zone, ZoneCount, ZoneState, apply_states


@pytest.mark.parametrize(
    ("ready", "not_ready", "state", "rate"),
    [
        (2, 0, ZoneState.NORMAL, 0.1),
        (0, 2, ZoneState.FULL, 0.1),
        (1, 2, ZoneState.NORMAL, 0.1),  # two nodes are no disruption
        (2, 3, ZoneState.PARTIAL, 0.0),
        (3, 3, ZoneState.NORMAL, 0.1),
        (20, 40, ZoneState.PARTIAL, 0.01),
    ],
)
def test_a_zone_of_which_most_nodes_are_not_ready_is_spared(
    ready: int, not_ready: int, state: ZoneState, rate: float
) -> None:
    count = ZoneCount(ready, not_ready)
    assert (count.state, count.rate) == (state, rate)


def test_a_rate_that_changes_starts_the_wait_anew_only_where_one_was_on() -> None:
    rested, busy = Zone(), Zone(waiting=["n0"])
    busy.take(100.0)
    rested.swap(0.01, 105.0)
    busy.swap(0.01, 105.0)
    assert rested.accepts(105.0)
    assert busy.next_at == pytest.approx(205.0)


def test_no_node_is_tainted_while_all_zones_are_down_and_the_first_ten_seconds_after_it() -> None:
    zones = {"a": Zone(waiting=["n0"]), "b": Zone()}
    apply_states(zones, {"a": ZoneCount(0, 1), "b": ZoneCount(0, 1)}, 50.0)
    assert not zones["a"].accepts(60.0)
    assert not zones["a"].waiting
    assert apply_states(zones, {"a": ZoneCount(0, 1), "b": ZoneCount(1, 0)}, 80.0) == (True, False)
    assert [zones["a"].accepts(at) for at in (80.0, 90.0)] == [False, True]
