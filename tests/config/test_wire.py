"""The table of in-tree plugins agrees with itself and with the default profile that upstream prints."""

from kplan.config import default_configuration
from kplan.config.args import ARGS_TYPES
from kplan.config.model import EXTENSION_POINTS, PLACEMENT_POINTS, UPSTREAM_POINT_NAMES
from kplan.config.releases import newest, reference

DEFAULT_PLUGINS = newest().default_plugins
IMPLEMENTS = newest().implements


def test_every_default_plugin_is_in_tree_and_stands_once() -> None:
    names = [name for name, _ in DEFAULT_PLUGINS]
    assert len(set(names)) == len(names) == 20
    assert set(IMPLEMENTS) == {*names, *newest().gated_plugins}
    assert set(ARGS_TYPES) <= set(names)
    assert not set(newest().removed_plugins) & set(IMPLEMENTS)


def test_plugins_implement_known_points_only() -> None:
    points = {*EXTENSION_POINTS, *PLACEMENT_POINTS}
    assert set(UPSTREAM_POINT_NAMES) == points
    assert set().union(*IMPLEMENTS.values()) <= points


def test_a_default_weight_stands_at_plugins_that_score() -> None:
    assert [name for name, weight in DEFAULT_PLUGINS if weight and "score" not in IMPLEMENTS[name]] == []


def test_the_default_configuration_names_every_extension_point() -> None:
    (profile,) = default_configuration(reference()).profiles
    assert tuple(profile.plugins) == EXTENSION_POINTS
    assert profile.plugins["permit"] == profile.plugins["post_bind"] == ()
    assert set(profile.args) == set(ARGS_TYPES)
    assert set(profile.plugin_names()) == {name for name, _ in DEFAULT_PLUGINS}
