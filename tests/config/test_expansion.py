"""Merging and expanding plugin sets.

Re-expresses default_plugins_test.go TestMergePlugins, framework_test.go TestNewFrameworkMultiPointExpansion and
TestNewFrameworkErrors (v1.36).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.config.model import EXTENSION_POINTS, PLACEMENT_POINTS
from kplan.config.problems import FieldPath, Problems
from kplan.config.profiles import Entry, PointSet, default_sets, expand, merge
from kplan.config.releases import newest

POINTS = (*EXTENSION_POINTS, *PLACEMENT_POINTS)
DEFAULT_PLUGINS = newest().default_plugins
DEFAULT_SETS = default_sets(newest())
IMPLEMENTS = newest().implements

IMPLEMENTED = {
    "everything": frozenset(POINTS),
    "scorer": frozenset({"pre_score", "score"}),
    "other-scorer": frozenset({"score"}),
    "placer": frozenset({"placement_score"}),
    "sorter": frozenset({"queue_sort"}),
    "binder": frozenset({"bind"}),
}


def point_set(text: str) -> PointSet:
    """Read plugins that are enabled, with weights, and with a minus those that are disabled: ``a b=3 -c``."""
    enabled = (word.partition("=") for word in text.split() if not word.startswith("-"))
    disabled = tuple(word[1:] for word in text.split() if word.startswith("-"))
    return PointSet(tuple(Entry(name, int(weight or 0)) for name, _, weight in enabled), disabled)


def expanded(**sets: str) -> dict[str, str]:
    """Expand test plugins; only points that have some, a weight beside the name where it counts."""
    problems = Problems("test")
    found = expand({point: point_set(text) for point, text in sets.items()}, FieldPath(problems), IMPLEMENTED)
    assert problems.recorded == []
    texts = {
        point: " ".join(f"{ref.name}={ref.weight}" if ref.weight else ref.name for ref in refs)
        for point, refs in found.items()
    }
    return {point: text for point, text in texts.items() if text}


def everywhere(**changes: str) -> dict[str, str]:
    """The plugin `everything` at every point, with some points replaced or (empty) gone."""
    usual = {**dict.fromkeys(POINTS, "everything"), "score": "everything=1", "placement_score": "everything=1"}
    return {point: text for point, text in {**usual, **changes}.items() if text}


#: Sentence -> the defaults, what is set, and what comes of both
MERGES = {
    "a custom plugin follows the defaults": ("d1 d2", "c", "d1 d2 c"),
    "a default that is disabled and enabled again moves to where it is enabled": ("d1 d2", "c d2 -d2", "d1 c d2 -d2"),
    "a star drops all defaults, so custom plugins can come first": ("d1 d2", "c d1 d2 -*", "c d1 d2 -*"),
    "a star and the defaults again, in another order": ("d1 d2", "d2 d1 -*", "d2 d1 -*"),
    "saying nothing keeps the defaults": ("d1 d2", "", "d1 d2"),
    "a default that is enabled again keeps its place and takes the new weight": (
        *("d1 d2 d3", "d1=2 d3=3"),
        "d1=2 d2 d3=3",
    ),
    "the order of the defaults outlives an override in another order": ("d1 d2 d3", "d2=2 d1=1", "d1=1 d2=2 d3"),
    "of two overrides the last replaces the default and the first is left at the end": (
        *("d1 d2 d3", "d1 d2=2 d3 d2=4"),
        "d1 d2=4 d3 d2=2",
    ),
    "what the defaults disable stays disabled": ("d1 -d2", "c", "d1 c -d2"),
    "disabling the only default leaves nothing": ("d1", "-d1", "-d1"),
}


@pytest.mark.parametrize("point", ["multi_point", "filter"])
@pytest.mark.parametrize(("default", "custom", "wanted"), MERGES.values(), ids=MERGES)
def test_merge(default: str, custom: str, wanted: str, point: str) -> None:
    assert merge({point: point_set(default)}, {point: point_set(custom)})[point] == point_set(wanted)


def test_each_extension_point_merges_on_its_own() -> None:
    custom = {"multi_point": point_set("c c2 -d2"), "score": point_set("-c2")}
    merged = merge({"multi_point": point_set("d1 d2")}, custom)
    assert merged["multi_point"] == point_set("d1 c c2 -d2")
    assert merged["score"] == point_set("-c2")
    assert merged["filter"] == PointSet()


SCORED, PLACED = "everything=1 scorer=1", "everything=1 placer=1"
#: Sentence -> the sets by point, and what comes of them
EXPANSIONS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "one plugin spreads over all points and scores with its weight": (
        {"multi_point": "everything=5"}, everywhere(score="everything=5", placement_score="everything=5"),
    ),
    "a point can disable what multiPoint enables": (
        {"multi_point": "everything", **dict.fromkeys(("pre_score", "score", "placement_score"), "-everything")},
        everywhere(pre_score="", score="", placement_score=""),
    ),
    "several plugins keep the order of multiPoint at every point": (
        {"multi_point": "everything scorer placer"},
        everywhere(pre_score="everything scorer", score=SCORED, placement_score=PLACED),
    ),
    "a star at a point keeps multiPoint out of it": (
        {"multi_point": "everything scorer", "pre_score": "-*"}, everywhere(pre_score="", score=SCORED),
    ),
    "plugins that a point names come first, in its order; those only in multiPoint follow": (
        {"multi_point": "other-scorer everything scorer", "score": "scorer everything"},
        everywhere(pre_score="everything scorer", score="scorer=1 everything=1 other-scorer=1"),
    ),
    "a plugin that only the point names comes last, although it is named first": (
        {"multi_point": "everything scorer", "score": "other-scorer scorer everything"},
        everywhere(pre_score="everything scorer", score="scorer=1 everything=1 other-scorer=1"),
    ),
    "the weight at the point beats that of multiPoint": (
        {"multi_point": "everything scorer", "score": "scorer=5 everything=3", "placement_score": "everything=2"},
        everywhere(pre_score="everything scorer", score="scorer=5 everything=3", placement_score="everything=2"),
    ),
    "a weight of 0 at the point counts 1, whatever multiPoint says": (
        {"multi_point": "scorer=7", "score": "scorer"}, {"pre_score": "scorer", "score": "scorer=1"},
    ),
    "with a star in multiPoint only what is enabled there remains": (
        {"multi_point": "sorter binder scorer placer -*"},
        {
            "queue_sort": "sorter", "pre_score": "scorer", "score": "scorer=1", "bind": "binder",
            "placement_score": "placer=1",
        },
    ),
    "a plugin that multiPoint both disables and enables is enabled": (
        {"multi_point": "binder sorter scorer -scorer"},
        {"queue_sort": "sorter", "pre_score": "scorer", "score": "scorer=1", "bind": "binder"},
    ),
    "overridden weights in an order of their own, and one plugin more": (
        {
            "multi_point": "everything scorer placer", "score": "scorer=5 other-scorer=5 everything=3",
            "placement_score": "everything=2 placer=6",
        },
        everywhere(pre_score="everything scorer", score="scorer=5 everything=3 other-scorer=5",
                   placement_score="everything=2 placer=6"),
    ),
    "without multiPoint the points' own lists stand as they are": (
        {"queue_sort": "sorter", "score": "scorer everything=2"},
        {"queue_sort": "sorter", "score": "scorer=1 everything=2"},
    ),
    "a star at a point keeps the order of its own list": (
        {"multi_point": "scorer other-scorer", "score": "everything scorer -*"},
        {"pre_score": "scorer", "score": "everything=1 scorer=1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sets", "wanted"), EXPANSIONS.values(), ids=EXPANSIONS)
def test_expand(sets: dict[str, str], wanted: dict[str, str]) -> None:
    assert expanded(**sets) == wanted


REFUSALS = {
    "the same plugin twice at a point": (
        {"pre_filter": (Entry("everything", path="a"), Entry("everything", path="b"))},
        [("b", 'plugin "everything" already registered as "PreFilterPlugin"')],
    ),
    "the same plugin twice in multiPoint is reported once": (
        {"multi_point": (Entry("everything", path="a"), Entry("everything", path="b"))},
        [("b", 'plugin "everything" already registered as "PreEnqueuePlugin"')],
    ),
    "a plugin at a point that it does not implement": (
        {"filter": (Entry("binder", path="a"),)},
        [("a", 'plugin "binder" does not extend FilterPlugin plugin')],
    ),
}


@pytest.mark.parametrize(("sets", "wanted"), REFUSALS.values(), ids=REFUSALS)
def test_expand_refuses(sets: dict[str, tuple[Entry, ...]], wanted: list[tuple[str, str]]) -> None:
    problems = Problems("test")
    expand({point: PointSet(enabled) for point, enabled in sets.items()}, FieldPath(problems), IMPLEMENTED)
    assert [(problem.json_path, problem.message) for problem in problems.recorded] == wanted
    assert all(problem.hint for problem in problems.recorded)


def test_the_default_sets_expand_to_the_plugins_that_implement_each_point() -> None:
    problems = Problems("test")
    found = expand(merge(DEFAULT_SETS, {}), FieldPath(problems), IMPLEMENTS)
    assert problems.recorded == []
    assert {point: [ref.name for ref in refs] for point, refs in found.items()} == {
        point: [name for name, _ in DEFAULT_PLUGINS if point in IMPLEMENTS[name]] for point in POINTS
    }


names = st.sampled_from([name for name, _ in DEFAULT_PLUGINS])


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(POINTS), st.frozensets(names)))
def test_disabling_takes_exactly_the_named_plugins_out_of_a_point(disabled: dict[str, frozenset[str]]) -> None:
    custom = {point: PointSet((), tuple(names)) for point, names in disabled.items()}
    found = expand(merge(DEFAULT_SETS, custom), FieldPath(Problems("test")), IMPLEMENTS)
    usual = expand(merge(DEFAULT_SETS, {}), FieldPath(Problems("test")), IMPLEMENTS)
    assert found == {
        point: tuple(ref for ref in refs if ref.name not in disabled.get(point, ())) for point, refs in usual.items()
    }


@settings(deadline=None)
@given(st.permutations(sorted({name for name, _ in DEFAULT_PLUGINS})))
def test_the_order_of_multi_point_after_a_star_is_the_order_at_every_point(order: list[str]) -> None:
    custom = {"multi_point": point_set(" ".join([*order, "-*"]))}
    found = expand(merge(DEFAULT_SETS, custom), FieldPath(Problems("test")), IMPLEMENTS)
    assert {point: [ref.name for ref in refs] for point, refs in found.items()} == {
        point: [name for name in order if point in IMPLEMENTS[name]] for point in POINTS
    }
