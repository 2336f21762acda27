import pytest

from kplan.plugins.volume_zone import REASON_CONFLICT, VolumeZone
from tests.oracle.volumes import Storage

from .volume_worlds import BETA_ZONE, VolumeWorld, claim, details, node, pod, storage_class, volume

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
