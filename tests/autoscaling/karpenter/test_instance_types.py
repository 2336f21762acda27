"""Sets of instance types, asked at once, are those that a loop over types finds."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kplan.api.labels import ZONE
from kplan.autoscaling.karpenter.amounts import fits
from kplan.autoscaling.karpenter.catalogue import read_catalogue
from kplan.autoscaling.karpenter.instance_types import Columns, well_known_of
from kplan.autoscaling.karpenter.requirements import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    Requirements,
    Vocabulary,
    bits_of,
)

KEYS = {
    ZONE: ("a", "b", "c"),
    CAPACITY_TYPE: ("spot", "on-demand"),
    ARCH: ("amd64", "arm64"),
    INSTANCE_TYPE: ("t0", "t3"),
}


def entry(number: int, cpu: int, arch: str, offerings: list[tuple[str, str, float, bool]]) -> dict[str, Any]:
    return {
        "name": f"t{number}",
        "architecture": arch,
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi"},
        "offerings": [
            {"zone": zone, "capacityType": capacity_type, "price": price, "available": is_available}
            for zone, capacity_type, price, is_available in offerings
        ],
    }


def catalogues() -> st.SearchStrategy[list[dict[str, Any]]]:
    offering = st.tuples(
        st.sampled_from(KEYS[ZONE]), st.sampled_from(KEYS[CAPACITY_TYPE]), st.floats(0, 9), st.booleans()
    )
    machine = st.tuples(st.integers(1, 8), st.sampled_from(KEYS[ARCH]), st.lists(offering, min_size=1, max_size=4))
    return st.lists(machine, min_size=1, max_size=6).map(
        lambda machines: [entry(number, *machine) for number, machine in enumerate(machines)]
    )


def columns_of(catalogue: list[dict[str, Any]]) -> tuple[Columns, Vocabulary]:
    entries = read_catalogue(catalogue)
    known = Vocabulary(well_known_of(entries))
    return Columns(entries, known), known


def wishes() -> st.SearchStrategy[list[tuple[str, str, tuple[str, ...]]]]:
    one = st.sampled_from(sorted(KEYS)).flatmap(
        lambda key: st.tuples(
            st.just(key),
            st.sampled_from(["In", "NotIn"]),
            st.lists(st.sampled_from(KEYS[key]), min_size=1, max_size=2, unique=True).map(tuple),
        )
    )
    return st.lists(one, max_size=3)


@given(catalogues(), wishes(), st.integers(0, 9000), st.integers(0, 40))
def test_types_that_meet_requirements_amounts_and_offerings(
    catalogue: list[dict[str, Any]], wanted: list[tuple[str, str, tuple[str, ...]]], milli: int, gib: int
) -> None:
    columns, known = columns_of(catalogue)
    node = known.of(known.requirement(*one) for one in wanted)
    requests = {"cpu": milli * 10**6, "memory": gib * 2**30 * 10**9}

    assert set(bits_of(columns.matching(node))) == {
        index for index, own in enumerate(columns.requirements) if known.overlap(own, node)
    }
    assert set(bits_of(columns.roomy(requests))) == {
        index for index, own in enumerate(columns.allocatable) if fits(requests, own)
    }
    assert set(bits_of(columns.offered(node))) == {
        index for index, own in enumerate(columns.types) if any(_is_usable(known, node, one) for one in own.offerings)
    }


def _is_usable(known: Vocabulary, node: Requirements, offering: Any) -> bool:
    own = known.of_expressions(offering.requirements)
    return offering.available and not known.misfits(node, own, allows_well_known=True)
