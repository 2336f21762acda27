"""Promises to pending pods."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.framework.interface import Nominator

MOVES = st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 2)), max_size=15)


def play(nominator, model, moves):
    """Nominate and drop, here and in a list of (pod, row) in the order of the nominations."""
    for pod, row in moves:
        model[:] = [each for each in model if each[0] != pod]
        if row is None:
            nominator.drop(pod)
        else:
            nominator.nominate(pod, row)
            model.append((pod, row))


def read(nominator):
    return (
        bool(nominator),
        {row: nominator.pods_for(row) for row in range(3)},
        [nominator.row_of(pod) for pod in range(5)],
        nominator.rows(),
    )


def plainly(model):
    return (
        bool(model),
        {row: tuple(pod for pod, where in model if where == row) for row in range(3)},
        [dict(model).get(pod) for pod in range(5)],
        sorted({row for _, row in model}),
    )


@settings(deadline=None)
@given(MOVES, MOVES)
def test_a_pod_is_promised_the_node_that_it_was_promised_last(moves, more):
    nominator, model = Nominator(), []
    play(nominator, model, moves)
    assert read(nominator) == plainly(model)

    twin, other = nominator.copy(), list(model)
    play(twin, other, more)
    assert read(twin) == plainly(other)
    assert read(nominator) == plainly(model)
