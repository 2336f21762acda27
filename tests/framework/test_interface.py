"""Statuses, and the profile's plugins held against the extension points."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.config.loading import default_configuration
from kplan.config.releases import reference
from kplan.framework.interface import Nominator, Plugin, Scope
from kplan.framework.listers import Listers
from kplan.plugins.registry import plugin_factory
from kplan.snapshot.model import Snapshot
from tests.framework.fakes import METHODS, session


def test_every_in_tree_plugin_has_its_name_a_scope_and_a_method_for_each_point_where_it_stands():
    (profile,) = default_configuration(reference()).profiles
    handle = session([]).frameworks["default-scheduler"].handle
    handle.listers = Listers(Snapshot())
    plugins = plugin_factory()(profile, handle)

    binding = {"pre_bind", "bind", "post_bind"}
    missing = {
        (point, ref.name)
        for point, refs in profile.plugins.items()
        if point not in binding
        for ref in refs
        if not hasattr(plugins.get(ref.name), METHODS.get(point, point))
    }
    # It keeps pods out of the queue while their victims leave; here victims leave at once.
    assert missing == {("pre_enqueue", "DefaultPreemption")}
    for name, plugin in plugins.items():
        assert isinstance(plugin, Plugin)
        assert (plugin.name, type(plugin).__name__, type(plugin.scope)) == (name, name, Scope)


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
