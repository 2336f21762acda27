from hypothesis import given
from hypothesis import strategies as st

from kplan.config.releases import newest
from kplan.plugins.volume_restrictions import REASON_DISK_CONFLICT, VolumeRestrictions
from tests.oracle import volumes as oracle
from tests.oracle.volumes import Storage

from .asking import changes, moved
from .volume_worlds import VolumeWorld, claim, details, node, pod
from .worlds import few

REASON_ONCE = newest().texts.read_write_once_pod
CLAIMS = [
    claim(name, namespace=namespace, accessModes=modes)
    for name, modes in (("once", ["ReadWriteOncePod"]), ("also", ["ReadWriteOncePod"]), ("many", ["ReadWriteMany"]))
    for namespace in ("default", "other")
]

DISKS = [
    {"gcePersistentDisk": {"pdName": "a"}},
    {"gcePersistentDisk": {"pdName": "a", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "a", "readOnly": True}},
    {"iscsi": {"targetPortal": "p", "iqn": "a", "lun": 0}},
    {"iscsi": {"targetPortal": "q", "iqn": "a", "lun": 1, "readOnly": True}},
    {"rbd": {"monitors": ["m", "n"], "pool": "p", "image": "i"}},
    {"rbd": {"monitors": ["n", "o"], "pool": "p", "image": "i", "readOnly": True}},
    {"rbd": {"monitors": ["o"], "pool": "q", "image": "i"}},
]

numbers = st.integers(0, 10**9)
pods = st.builds(
    lambda number, claims, disks, namespace: pod(f"p{number}", *claims, volumes=disks, namespace=namespace),
    numbers,
    st.lists(st.sampled_from(["once", "also", "many"]), max_size=2),
    st.lists(st.sampled_from(DISKS), max_size=2),
    st.sampled_from(["default", "default", "other"]),
)


@st.composite
def worlds(draw):
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    running = {name: draw(st.lists(pods, max_size=3, unique_by=lambda p: p["metadata"]["uid"])) for name in names}
    seen = set()
    for here in running.values():
        here[:] = [p for p in here if p["metadata"]["uid"] not in seen and not seen.add(p["metadata"]["uid"])]
    return VolumeWorld([node(name) for name in names], Storage(claims=CLAIMS), running)


@few
@given(worlds(), pods)
def test_filter_equals_the_oracle(world, incoming):

    assert world.ask(VolumeRestrictions, incoming) == [
        oracle.restrictions(incoming, world.storage, world.all_running, here) for here in world.running.values()
    ]


@few
@given(st.data(), worlds(), pods)
def test_filter_sees_each_node_in_its_own_world(data, world, incoming):
    changed = data.draw(changes(world, st.lists(pods, max_size=2)))
    assert world.ask_changed(VolumeRestrictions, incoming, changed) == [
        oracle.restrictions(incoming, world.storage, world.all_running, *world.after(each)) for each in changed
    ]


@few
@given(st.data(), worlds(), pods, st.lists(pods, max_size=4))
def test_what_is_kept_follows_the_cluster(data, world, incoming, new):
    plugin = VolumeRestrictions(None, world.handle)
    world.ask(plugin, incoming)
    for _ in moved(data, world, new):
        expected = [
            oracle.restrictions(incoming, world.storage, world.all_running, pods) for pods in world.running.values()
        ]
        assert world.ask(plugin, incoming) == expected


def test_details_name_the_disk_and_the_pods_that_hold_it():
    holders = [pod(f"holder-{i}", volumes=[DISKS[1]]) for i in range(7)]
    world = VolumeWorld([node("n")], running={"n": holders})
    assert details(VolumeRestrictions(None, world.handle), world.cycle(pod(volumes=[DISKS[0]])), world.view()) == [
        {
            "reason": REASON_DISK_CONFLICT, "type": "gcePersistentDisk", "disk": "a", "readOnly": False,
            "pods": [f"default/holder-{i}" for i in range(5)], "andMore": 2,
        },
    ]  # fmt: skip


def test_details_name_the_claim_and_who_uses_it():
    world = VolumeWorld([node("m"), node("n")], Storage(claims=CLAIMS), {"n": [pod("user", "once")]})
    assert details(VolumeRestrictions(None, world.handle), world.cycle(pod("p", "once")), world.view()) == [
        {"reason": REASON_ONCE, "claim": "default/once", "usedBy": ["default/user on n"]}
    ]
