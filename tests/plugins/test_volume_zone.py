import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.plugins.volume_zone import REASON_CONFLICT, VolumeZone
from tests.oracle import volumes as oracle
from tests.oracle.volumes import Storage

from .volume_worlds import BETA_ZONE, REGION, ZONE, VolumeWorld, claim, details, node, pod, storage_class, volume
from .worlds import few

zones = st.sampled_from(["a", "b", "c"])
volume_labels = st.dictionaries(
    st.sampled_from([ZONE, BETA_ZONE, REGION]), st.sampled_from(["a", "b", "a__b", " c __a", "a__", ""]), max_size=3
)


@st.composite
def worlds(draw):
    nodes = [
        node(f"n{i}", **draw(st.dictionaries(st.sampled_from(["zone", "beta_zone", "region"]), zones, max_size=3)))
        for i in range(draw(st.integers(1, 5)))
    ]
    volumes = [volume(f"v{i}", labels=draw(volume_labels)) for i in range(3)]
    claims = [claim(f"c{i}", volume=f"v{i}") for i in range(3)] + [claim("waits", storageClassName="wait")]
    return VolumeWorld(nodes, Storage(volumes=volumes, claims=claims, classes=[storage_class("wait")]))


@few
@given(worlds(), st.lists(st.sampled_from(["c0", "c1", "c2", "waits"]), max_size=3))
def test_filter_equals_the_oracle(world, claims):
    incoming = pod("p", *claims)
    found = world.ask(VolumeZone, incoming)
    assert found == [oracle.zone(incoming, world.storage, each) for each in world.nodes]


UNBOUND = Storage(
    claims=[
        claim("lost", volume="nowhere"),
        claim("classless"),
        claim("unknown", storageClassName="unknown"),
        claim("modeless", storageClassName="modeless"),
        claim("immediate", storageClassName="immediate"),
    ],
    classes=[storage_class("modeless", mode=None), storage_class("immediate", mode="Immediate")],
)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "PersistentVolumeClaim had no name"),
        ("gone", 'persistentvolumeclaim "gone" not found'),
        ("lost", 'persistentvolume "nowhere" not found'),
        ("classless", "PersistentVolumeClaim had no pv name and storageClass name"),
        ("unknown", 'storageclass.storage.k8s.io "unknown" not found'),
        ("modeless", 'VolumeBindingMode not set for StorageClass "modeless"'),
        ("immediate", "PersistentVolume had no name"),
    ],
)
def test_claims_that_cannot_be_bound_reject_the_pod(name, reason):
    world = VolumeWorld([node("n")], UNBOUND)
    assert world.ask(VolumeZone, pod("p", name)) == [reason]


def test_details_say_what_the_volume_and_the_node_say():
    storage = Storage(volumes=[volume("v", labels={BETA_ZONE: "b__a"})], claims=[claim("c", volume="v")])
    world = VolumeWorld([node("n", zone="c")], storage)
    assert details(VolumeZone(None, world.handle), world.cycle(pod("p", "c")), world.view()) == [
        {"reason": REASON_CONFLICT, "volume": "v", "label": BETA_ZONE, "allowed": ["a", "b"], "node": "c"}
    ]
