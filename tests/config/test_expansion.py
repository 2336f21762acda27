"""Merging and expanding plugin sets.

Re-expresses default_plugins_test.go TestMergePlugins, framework_test.go TestNewFrameworkMultiPointExpansion and
TestNewFrameworkErrors (v1.36).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.config.model import EXTENSION_POINTS, PLACEMENT_POINTS
from kplan.config.problems import Place, Problems
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


def entries(*names: str | tuple[str, int]) -> tuple[Entry, ...]:
    return tuple(Entry(name) if isinstance(name, str) else Entry(*name) for name in names)


def point_set(*enabled: str | tuple[str, int], disabled: tuple[str, ...] = ()) -> PointSet:
    return PointSet(entries(*enabled), disabled)


def expanded(**sets: PointSet) -> dict[str, list[str | tuple[str, int]]]:
    """Expand test plugins; only points that have some, a weight beside the name where it counts."""
    problems = Problems("test")
    found = expand(sets, Place(problems), IMPLEMENTED)
    assert problems.recorded == []
    return {
        point: [(ref.name, ref.weight) if ref.weight else ref.name for ref in refs]
        for point, refs in found.items()
        if refs
    }


def everywhere(**changes: list[str | tuple[str, int]] | None) -> dict[str, list[str | tuple[str, int]]]:
    """The plugin `everything` at every point, with some points replaced or (None) gone."""
    usual: dict[str, list[str | tuple[str, int]]] = {point: ["everything"] for point in POINTS}
    usual["score"] = usual["placement_score"] = [("everything", 1)]
    return {point: value for point, value in {**usual, **changes}.items() if value is not None}


MERGES = {
    "a custom plugin follows the defaults": (point_set("d1", "d2"), point_set("c"), point_set("d1", "d2", "c")),
    "a default that is disabled and enabled again moves to where it is enabled": (
        point_set("d1", "d2"),
        point_set("c", "d2", disabled=("d2",)),
        point_set("d1", "c", "d2", disabled=("d2",)),
    ),
    "a star drops all defaults, so custom plugins can come first": (
        point_set("d1", "d2"),
        point_set("c", "d1", "d2", disabled=("*",)),
        point_set("c", "d1", "d2", disabled=("*",)),
    ),
    "a star and the defaults again, in another order": (
        point_set("d1", "d2"),
        point_set("d2", "d1", disabled=("*",)),
        point_set("d2", "d1", disabled=("*",)),
    ),
    "saying nothing keeps the defaults": (point_set("d1", "d2"), point_set(), point_set("d1", "d2")),
    "a default that is enabled again keeps its place and takes the new weight": (
        point_set("d1", "d2", "d3"),
        point_set(("d1", 2), ("d3", 3)),
        point_set(("d1", 2), "d2", ("d3", 3)),
    ),
    "the order of the defaults outlives an override in another order": (
        point_set("d1", "d2", "d3"),
        point_set(("d2", 2), ("d1", 1)),
        point_set(("d1", 1), ("d2", 2), "d3"),
    ),
    "of two overrides the last replaces the default and the first is left at the end": (
        point_set("d1", "d2", "d3"),
        point_set("d1", ("d2", 2), "d3", ("d2", 4)),
        point_set("d1", ("d2", 4), "d3", ("d2", 2)),
    ),
    "what the defaults disable stays disabled": (
        point_set("d1", disabled=("d2",)),
        point_set("c"),
        point_set("d1", "c", disabled=("d2",)),
    ),
    "disabling the only default leaves nothing": (
        point_set("d1"),
        point_set(disabled=("d1",)),
        point_set(disabled=("d1",)),
    ),
}


@pytest.mark.parametrize("point", ["multi_point", "filter"])
@pytest.mark.parametrize(("default", "custom", "wanted"), MERGES.values(), ids=MERGES)
def test_merge(default: PointSet, custom: PointSet, wanted: PointSet, point: str) -> None:
    assert merge({point: default}, {point: custom})[point] == wanted


def test_each_extension_point_merges_on_its_own() -> None:
    merged = merge(
        {"multi_point": point_set("d1", "d2")},
        {"multi_point": point_set("c", "c2", disabled=("d2",)), "score": point_set(disabled=("c2",))},
    )

    assert merged["multi_point"] == point_set("d1", "c", "c2", disabled=("d2",))
    assert merged["score"] == point_set(disabled=("c2",))
    assert merged["filter"] == PointSet()


EXPANSIONS = {
    "one plugin spreads over all points and scores with its weight": (
        {"multi_point": point_set(("everything", 5))},
        everywhere(score=[("everything", 5)], placement_score=[("everything", 5)]),
    ),
    "a point can disable what multiPoint enables": (
        {
            "multi_point": point_set("everything"),
            "pre_score": point_set(disabled=("everything",)),
            "score": point_set(disabled=("everything",)),
            "placement_score": point_set(disabled=("everything",)),
        },
        everywhere(pre_score=None, score=None, placement_score=None),
    ),
    "several plugins keep the order of multiPoint at every point": (
        {"multi_point": point_set("everything", "scorer", "placer")},
        everywhere(
            pre_score=["everything", "scorer"],
            score=[("everything", 1), ("scorer", 1)],
            placement_score=[("everything", 1), ("placer", 1)],
        ),
    ),
    "a star at a point keeps multiPoint out of it": (
        {"multi_point": point_set("everything", "scorer"), "pre_score": point_set(disabled=("*",))},
        everywhere(pre_score=None, score=[("everything", 1), ("scorer", 1)]),
    ),
    "plugins that a point names come first, in its order; those only in multiPoint follow": (
        {"multi_point": point_set("other-scorer", "everything", "scorer"), "score": point_set("scorer", "everything")},
        everywhere(pre_score=["everything", "scorer"], score=[("scorer", 1), ("everything", 1), ("other-scorer", 1)]),
    ),
    "a plugin that only the point names comes last, although it is named first": (
        {"multi_point": point_set("everything", "scorer"), "score": point_set("other-scorer", "scorer", "everything")},
        everywhere(pre_score=["everything", "scorer"], score=[("scorer", 1), ("everything", 1), ("other-scorer", 1)]),
    ),
    "the weight at the point beats that of multiPoint": (
        {
            "multi_point": point_set("everything", "scorer"),
            "score": point_set(("scorer", 5), ("everything", 3)),
            "placement_score": point_set(("everything", 2)),
        },
        everywhere(
            pre_score=["everything", "scorer"],
            score=[("scorer", 5), ("everything", 3)],
            placement_score=[("everything", 2)],
        ),
    ),
    "a weight of 0 at the point counts 1, whatever multiPoint says": (
        {"multi_point": point_set(("scorer", 7)), "score": point_set("scorer")},
        {"pre_score": ["scorer"], "score": [("scorer", 1)]},
    ),
    "with a star in multiPoint only what is enabled there remains": (
        {"multi_point": point_set("sorter", "binder", "scorer", "placer", disabled=("*",))},
        {
            "queue_sort": ["sorter"],
            "pre_score": ["scorer"],
            "score": [("scorer", 1)],
            "bind": ["binder"],
            "placement_score": [("placer", 1)],
        },
    ),
    "a plugin that multiPoint both disables and enables is enabled": (
        {"multi_point": point_set("binder", "sorter", "scorer", disabled=("scorer",))},
        {"queue_sort": ["sorter"], "pre_score": ["scorer"], "score": [("scorer", 1)], "bind": ["binder"]},
    ),
    "overridden weights in an order of their own, and one plugin more": (
        {
            "multi_point": point_set("everything", "scorer", "placer"),
            "score": point_set(("scorer", 5), ("other-scorer", 5), ("everything", 3)),
            "placement_score": point_set(("everything", 2), ("placer", 6)),
        },
        everywhere(
            pre_score=["everything", "scorer"],
            score=[("scorer", 5), ("everything", 3), ("other-scorer", 5)],
            placement_score=[("everything", 2), ("placer", 6)],
        ),
    ),
    "without multiPoint the points' own lists stand as they are": (
        {"queue_sort": point_set("sorter"), "score": point_set("scorer", ("everything", 2))},
        {"queue_sort": ["sorter"], "score": [("scorer", 1), ("everything", 2)]},
    ),
    "a star at a point keeps the order of its own list": (
        {
            "multi_point": point_set("scorer", "other-scorer"),
            "score": point_set("everything", "scorer", disabled=("*",)),
        },
        {"pre_score": ["scorer"], "score": [("everything", 1), ("scorer", 1)]},
    ),
}


@pytest.mark.parametrize(("sets", "wanted"), EXPANSIONS.values(), ids=EXPANSIONS)
def test_expand(sets: dict[str, PointSet], wanted: dict[str, list[str | tuple[str, int]]]) -> None:
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

    expand({point: PointSet(enabled) for point, enabled in sets.items()}, Place(problems), IMPLEMENTED)

    assert [(problem.json_path, problem.message) for problem in problems.recorded] == wanted
    assert all(problem.hint for problem in problems.recorded)


def test_the_default_sets_expand_to_the_plugins_that_implement_each_point() -> None:
    problems = Problems("test")

    found = expand(merge(DEFAULT_SETS, {}), Place(problems), IMPLEMENTS)

    assert problems.recorded == []
    assert {point: [ref.name for ref in refs] for point, refs in found.items()} == {
        point: [name for name, _ in DEFAULT_PLUGINS if point in IMPLEMENTS[name]] for point in POINTS
    }


names = st.sampled_from([name for name, _ in DEFAULT_PLUGINS])


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(POINTS), st.frozensets(names)))
def test_disabling_takes_exactly_the_named_plugins_out_of_a_point(disabled: dict[str, frozenset[str]]) -> None:
    custom = {point: PointSet((), tuple(names)) for point, names in disabled.items()}

    found = expand(merge(DEFAULT_SETS, custom), Place(Problems("test")), IMPLEMENTS)

    usual = expand(merge(DEFAULT_SETS, {}), Place(Problems("test")), IMPLEMENTS)
    assert found == {
        point: tuple(ref for ref in refs if ref.name not in disabled.get(point, ())) for point, refs in usual.items()
    }


@settings(deadline=None)
@given(st.permutations(sorted({name for name, _ in DEFAULT_PLUGINS})))
def test_the_order_of_multi_point_after_a_star_is_the_order_at_every_point(order: list[str]) -> None:
    custom = {"multi_point": point_set(*order, disabled=("*",))}

    found = expand(merge(DEFAULT_SETS, custom), Place(Problems("test")), IMPLEMENTS)

    assert {point: [ref.name for ref in refs] for point, refs in found.items()} == {
        point: [name for name in order if point in IMPLEMENTS[name]] for point in POINTS
    }
