"""The cheapest mix of shapes to add, held against trying every mix."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kplan.api.labels import ZONE
from kplan.capacity import additions as search
from kplan.capacity.counting import fill
from kplan.documents.capacity import Offers
from tests.capacity.test_counting import spread, template, web, zoned
from tests.objects import Object, daemon_set, node, planner_of, pod
from tests.recorded import examples


def spreading() -> Object:
    return web(**spread(ZONE))


def listing(path: Path, *shapes: tuple[str, int, str, str]) -> Path:
    path.write_text(
        "\n".join(
            f"- {{name: {name}, cpu: {cpu}, memory: 8Gi, price: {price}, labels: {{{ZONE}: {zone}}}}}"
            for name, cpu, price, zone in shapes
        )
    )
    return path


def offers_of(objects: list[Object], made: Object, wanted: int, shapes: Path) -> Offers | None:
    return planner_of(objects).capacity([template(made)], wanted=wanted, shapes=shapes).offers


def plainly_fits(objects: list[Object], made: Object, wanted: int, nodes: list[Object]) -> bool:
    planner = planner_of(*objects, *nodes)
    return fill(planner.fork(), [template(made)], limit=wanted).total >= wanted


@settings(examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=3), st.integers(3, 8), st.booleans()
)
def test_no_cheaper_mix_is_enough(tmp_path: Path, amounts: list[tuple[int, int]], wanted: int, has_rules: bool) -> None:
    objects, made = [zoned("a", "a", "2"), zoned("b", "b", "1")], spreading() if has_rules else web()
    listed = [(f"s{i}", cpu, str(price), "ab"[i % 2]) for i, (cpu, price) in enumerate(amounts)]
    found = offers_of(objects, made, wanted, listing(tmp_path / "shapes.yaml", *listed))

    def added(counts: tuple[int, ...]) -> list[Object]:
        every = zip(counts, listed, strict=True)
        return [zoned(f"{name}-{i}", zone, str(cpu)) for n, (name, cpu, _, zone) in every for i in range(n)]

    def fits(counts: tuple[int, ...]) -> bool:
        return plainly_fits(objects, made, wanted, added(counts))

    assert fits((0,) * len(listed)) == (found is None)
    if found is None:
        return
    for offer in found.offers:
        counts = tuple(offer.mix.get(name, 0) for name, *_ in listed)
        assert fits(counts)
    if found.offers and found.is_cheapest:
        for counts in product(range(6), repeat=len(listed)):
            price = sum(n * int(price) for n, (_, _, price, _) in zip(counts, listed, strict=True))
            assert sum(counts) > 5 or price >= found.offers[0].price or not fits(counts)
    assert found.is_cheapest or has_rules


def test_a_search_that_ends_before_it_can_tell_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_MIXES", 3)
    shapes = listing(tmp_path / "shapes.yaml", ("in-a", 2, "1", "a"), ("in-b", 2, "1", "b"))
    objects = [zoned("a", "a", "2"), zoned("b", "b", "2")]
    found = offers_of(objects, spreading(), 12, shapes)
    assert found is not None
    assert not found.is_cheapest
    assert [offer.mix for offer in found.offers] == [{"in-a": 2, "in-b": 2}]


def test_shapes_that_never_take_what_does_not_fit_are_told(tmp_path: Path) -> None:
    shapes = listing(tmp_path / "shapes.yaml", ("in-a", 2, "1", "a"), ("in-b", 2, "1", "b"))
    found = offers_of([zoned("a", "a", "2")], web(cpu="7"), 1, shapes)
    assert found is not None
    assert (found.offers, found.tried, found.is_cheapest) == ((), 0, True)
    assert [(shape.alone, shape.helps) for shape in found.shapes] == [(0, False), (0, False)]


def test_daemons_take_their_room_on_new_nodes(tmp_path: Path) -> None:
    agents, elsewhere = daemon_set("agent"), daemon_set("gpu")
    for daemons in (agents, elsewhere):
        daemons["spec"]["template"]["spec"] = pod("agent", cpu="1")["spec"]
    elsewhere["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    unknown = pod("lone-a", cpu="1", on="a", owner="DaemonSet/owner")
    shapes = listing(tmp_path / "shapes.yaml", ("large", 4, "1", "a"))
    found = offers_of([node("a"), agents, elsewhere, unknown], web(), 6, shapes)

    assert found is not None
    assert [(shape.daemons, shape.alone) for shape in found.shapes] == [(2, 2)]
    assert found.offers[0].mix == {"large": 2}
