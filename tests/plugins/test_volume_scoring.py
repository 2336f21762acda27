import math

from hypothesis import given
from hypothesis import strategies as st

from kplan.config.args import UtilizationShapePoint, VolumeBindingArgs
from kplan.plugins.volume_binding import Finding, PodClaims, VolumeBinding
from kplan.plugins.volume_binding.catalogue import NO_VOLUME
from tests.oracle.volumes import Storage

from .asking import filtered
from .test_volume_binding import DRIVERS
from .volume_worlds import VolumeWorld, claim, node, pod, storage_class, volume
from .worlds import few

GATE = "StorageCapacityScoring"
TRACKED = [storage_class(name, "example.com/tracked") for name in ("fast", "slow")]


def shape(*points):
    return VolumeBindingArgs(shape=tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in points))


def report(name, storage_class_name, capacity, zone=None):
    """Make a CSIStorageCapacity for a zone, or for everywhere."""
    labels = {} if zone is None else {"topology.kubernetes.io/zone": zone}
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": storage_class_name,
        "capacity": capacity,
        "nodeTopology": {"matchLabels": labels},
    }


@st.composite
def worlds(draw):
    nodes = [node(f"n{index}", zone=draw(st.sampled_from("ab"))) for index in range(draw(st.integers(1, 4)))]
    sizes = st.sampled_from(["1", "2", "3", "7"])
    storage = Storage(
        volumes=[
            volume(
                f"v{k}", draw(sizes), draw(st.none() | st.just(["n0", "n1"])), storageClassName="fast", accessModes=[]
            )
            for k in range(draw(st.integers(0, 2)))
        ],
        claims=[
            claim(f"c{k}", draw(sizes), storageClassName=draw(st.sampled_from(["fast", "slow"]))) for k in range(3)
        ],
        classes=TRACKED,
        drivers=DRIVERS,
        capacities=[
            report(f"r-{name}-{zone}", name, draw(st.sampled_from(["3", "7", "20"])), zone)
            for name in ("fast", "slow")
            for zone in "ab"
        ],
    )
    return VolumeWorld(nodes, storage, gates=[GATE])


def expected(finding, world, row, points):
    """Score one node by its plan, claim by claim."""
    static, dynamic = {}, {}
    for match in finding.matches:
        size, index = int(match.claim.spec.resources.requests["storage"]), int(match.indices[row])
        name = match.claim.spec.storage_class_name
        if index != NO_VOLUME:
            requested, capacity = static.get(name, (0, 0))
            found = int(match.volumes.volumes[index].spec.capacity["storage"])
            static[name] = requested + size, capacity + found
            continue
        zone = world.nodes[row]["metadata"]["labels"]["topology.kubernetes.io/zone"]
        capacity = next(
            int(r["capacity"]) for r in world.storage.capacities if r["metadata"]["name"] == f"r-{name}-{zone}"
        )
        dynamic[name] = dynamic.get(name, (0, 0))[0] + size, capacity
    counted = static or dynamic
    scores = [
        points(100 if requested > capacity else requested * 100 // capacity) for requested, capacity in counted.values()
    ]
    return math.floor(sum(scores) / len(scores) + 0.5) if scores else 0


@few
@given(worlds(), st.lists(st.sampled_from(["c0", "c1", "c2"]), min_size=1, unique=True), st.booleans())
def test_scores_equal_those_of_each_node_on_its_own(world, names, fuller_is_better):
    args = shape((0, 0), (100, 10)) if fuller_is_better else None
    plugin, cycle = VolumeBinding(args, world.handle), world.cycle(pod("p", *names))
    verdicts = filtered(plugin, cycle, world.view())
    assert plugin.pre_score(cycle, world.view()) is None

    scores = plugin.score(cycle, world.view()).tolist()

    finding = Finding(plugin.assumed, cycle.read(PodClaims))
    points = (lambda at: at) if fuller_is_better else (lambda at: 100 - at)
    for row, verdict in enumerate(verdicts):
        if verdict is None:
            assert scores[row] == expected(finding, world, row, points)
