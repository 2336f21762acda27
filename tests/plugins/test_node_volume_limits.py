import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.plugins.node_volume_limits import REASON_MAX_VOLUME_COUNT_EXCEEDED, NodeVolumeLimits
from tests.oracle import volumes as oracle
from tests.oracle.volumes import Storage

from .asking import Change, changes, filtered, moved
from .volume_worlds import EBS, NFS, VolumeWorld, attachment, claim, csi_node, details, node, pod, storage_class, volume
from .worlds import few

VOLUMES = [
    volume("ebs-0", csi={"driver": EBS, "volumeHandle": "h0"}),
    volume("ebs-1", csi={"driver": EBS, "volumeHandle": "h1"}),
    volume("nfs-0", csi={"driver": NFS, "volumeHandle": "h0"}),
    volume("in-tree", awsElasticBlockStore={"volumeID": "h2"}),
    volume("host", hostPath={"path": "/x"}),
    volume("vsphere", vsphereVolume={"volumePath": "x"}),
    volume("no-handle", csi={"driver": EBS, "volumeHandle": ""}),
]
CLASSES = [
    storage_class("csi", EBS),
    storage_class("in-tree", "kubernetes.io/aws-ebs"),
    storage_class("not-migrated", "kubernetes.io/vsphere-volume"),
]
CLAIMS = [
    *(claim(each["metadata"]["name"], volume=each["metadata"]["name"]) for each in VOLUMES),
    claim("ebs-0-again", volume="ebs-0"),
    claim("volume-gone", volume="nowhere", storageClassName="csi"),
    claim("wanted", storageClassName="csi"),
    claim("wanted-too", storageClassName="in-tree"),
    claim("elsewhere", storageClassName="not-migrated"),
    claim("classless"),
    claim("unknown-class", storageClassName="unknown"),
]
NAMES = [each["metadata"]["name"] for each in CLAIMS]
INLINE = [
    {"awsElasticBlockStore": {"volumeID": "h2"}},
    {"awsElasticBlockStore": {"volumeID": "h3"}},
    {"azureFile": {"secretName": "s", "shareName": "x"}},
    {"csi": {"driver": EBS}},
]

pods = st.builds(
    lambda number, claims, inline: pod(f"p{number}", *claims, volumes=inline),
    st.integers(0, 10**9),
    st.lists(st.sampled_from([*NAMES, *["ebs-0", "ebs-0-again", "ebs-1", "in-tree", "wanted"] * 3]), max_size=3),
    st.lists(st.sampled_from(INLINE), max_size=1),
)
running_pods = st.one_of(pods, st.builds(lambda p: pod(p["metadata"]["name"], "does-not-exist"), pods))


@st.composite
def worlds(draw):
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    running = {name: draw(st.lists(running_pods, max_size=4)) for name in names}
    for number, each in enumerate(each for here in running.values() for each in here):
        each["metadata"] = {**each["metadata"], "uid": f"uid-{number}"}
    count = st.sampled_from([None, 0, 1, 2, 2, 3, 3, 4])
    csi_nodes = [
        csi_node(name, **draw(st.fixed_dictionaries({}, optional={"ebs": count, "nfs": count})))
        for name in names
        if draw(st.integers(0, 4))
    ]
    attached = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(VOLUMES)), max_size=3))
    attachments = [attachment(f"a{i}", name, each["metadata"]["name"]) for i, (name, each) in enumerate(attached)]
    storage = Storage(volumes=VOLUMES, claims=CLAIMS, classes=CLASSES, csi_nodes=csi_nodes, attachments=attachments)
    return VolumeWorld([node(name) for name in names], storage, running)


def expected(world, incoming, node_name, here):
    if not any("persistentVolumeClaim" in v or "awsElasticBlockStore" in v for v in incoming["spec"]["volumes"]):
        return None
    return oracle.limits(incoming, world.storage, {"metadata": {"name": node_name}}, here)


@few
@given(worlds(), pods)
def test_filter_equals_the_oracle(world, incoming):
    found = world.ask(NodeVolumeLimits, incoming)
    assert found == [expected(world, incoming, name, here) for name, here in world.running.items()]


@few
@given(st.data(), worlds(), pods)
def test_filter_sees_each_node_in_its_own_world(data, world, incoming):
    changed = data.draw(changes(world, st.lists(running_pods, max_size=2)))
    names = [each["metadata"]["name"] for each in world.nodes]
    assert world.ask_changed(NodeVolumeLimits, incoming, changed) == [
        expected(world, incoming, names[each.row], world.after(each)[0]) for each in changed
    ]


@few
@given(st.data(), worlds(), pods, st.lists(running_pods, max_size=5))
def test_counts_follow_the_cluster(data, world, incoming, new):
    plugin = NodeVolumeLimits(None, world.handle)
    world.ask(plugin, incoming)
    for _ in moved(data, world, new):
        found = world.ask(plugin, incoming)
        assert found == [expected(world, incoming, name, here) for name, here in world.running.items()]


def owned(name, owner):
    made = claim(name, volume="ebs-0")
    made["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    return made


EPHEMERAL = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


@pytest.mark.parametrize("delta", [False, True], ids=["running", "in the node's own world"])
def test_a_running_pod_with_a_claim_of_another_makes_a_limited_node_err(delta):
    storage = Storage(
        volumes=VOLUMES,
        claims=[*CLAIMS, owned("thief-volume-0", "victim")],
        csi_nodes=[csi_node("m", ebs=9), csi_node("n"), csi_node("o", ebs=9)],
    )
    thief = pod("thief", volumes=[EPHEMERAL])
    names = ("m", "n", "o")
    world = VolumeWorld([node(name) for name in names], storage, {} if delta else {"m": [thief], "n": [thief]})
    view = world.changed([Change(0, [], [thief]), Change(1, [], [thief]), Change(2, [], [])]) if delta else world.view()

    found = filtered(NodeVolumeLimits(None, world.handle), world.cycle(pod("p", "ebs-1")), view)

    problem = "PVC default/thief-volume-0 was not created for pod default/thief (pod is not owner)"
    assert found == [("Error", [problem]), None, None]


def test_every_distinct_error_has_its_own_text_however_many_there_are():
    names = [f"n{i:02}" for i in range(70)]
    storage = Storage(
        volumes=VOLUMES,
        claims=[*CLAIMS, *(owned(f"{name}-volume-0", "victim") for name in names)],
        csi_nodes=[csi_node(name, ebs=9) for name in names],
    )
    running = {name: [pod(name, volumes=[EPHEMERAL])] for name in names}
    world = VolumeWorld([node(name) for name in names], storage, running)
    plugin = NodeVolumeLimits(None, world.handle)
    cycle = world.cycle(pod("p", "ebs-1"))

    found = filtered(plugin, cycle, world.view())

    assert found == [
        ("Error", [f"PVC default/{name}-volume-0 was not created for pod default/{name} (pod is not owner)"])
        for name in names
    ]
    assert plugin.filter(cycle, world.view()).codes().tolist() == [3] * 70


BAD_INLINE = {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}
BAD_TEXT = "converting volume(volume-0) from inline to csi: kind(Dedicated) is not supported in csi migration"


@pytest.mark.parametrize(
    ("incoming", "expected"),
    [
        pytest.param(
            pod("p", "gone"),
            [("UnschedulableAndUnresolvable", ['looking up PVC default/gone: persistentvolumeclaim "gone" not found'])]
            * 2,
            id="a claim that does not exist is the pod's problem",
        ),
        pytest.param(pod("p", ""), [("Error", ["PersistentVolumeClaim had no name"])] * 2,
                     id="a claim without a name errs"),
        pytest.param(pod("p", volumes=[BAD_INLINE]), [("Error", [BAD_TEXT]), None],
                     id="an inline volume that cannot be translated errs where there is a CSINode"),
        pytest.param(pod("p", volumes=[BAD_INLINE, {"persistentVolumeClaim": {"claimName": ""}}]),
                     [("Error", [BAD_TEXT]), ("Error", ["PersistentVolumeClaim had no name"])],
                     id="elsewhere a later claim decides"),
    ],
)  # fmt: skip
def test_pods_whose_own_volumes_cannot_be_told(incoming, expected):
    world = VolumeWorld([node("m"), node("n")], Storage(claims=CLAIMS, csi_nodes=[csi_node("m", ebs=1)]))
    assert world.ask(NodeVolumeLimits, incoming) == expected


def test_a_node_beyond_its_limit_takes_pods_that_bring_nothing_new():
    storage = Storage(volumes=VOLUMES, claims=CLAIMS, csi_nodes=[csi_node("n", ebs=1)])
    world = VolumeWorld([node("n")], storage, {"n": [pod("both", "ebs-0", "ebs-1")]})
    assert world.ask(NodeVolumeLimits, pod("p", "ebs-0-again")) == [None]


def test_details_call_a_volume_that_does_not_exist_yet_by_its_claim():
    world = VolumeWorld([node("n")], Storage(claims=CLAIMS, classes=CLASSES, csi_nodes=[csi_node("n", ebs=0)]))
    (detail,) = details(NodeVolumeLimits(None, world.handle), world.cycle(pod("p", "wanted")), world.view())
    assert detail["volumes"] == ["default/wanted"]


def test_a_driver_may_keep_pods_off_nodes_on_which_it_is_not_installed():
    drivers = [{"metadata": {"name": EBS}, "spec": {"preventPodSchedulingIfMissing": True}}]
    storage = Storage(
        volumes=VOLUMES,
        claims=CLAIMS,
        classes=CLASSES,
        csi_nodes=[csi_node("has", ebs=1), csi_node("other", nfs=1)],
        drivers=drivers,
    )
    nodes = [node("has"), node("none"), node("other")]
    missing = ("Unschedulable", [f"{EBS} CSI driver is not installed on the node"])
    world = VolumeWorld(nodes, storage, gates=["VolumeLimitScaling"])
    plugin = NodeVolumeLimits(None, world.handle)

    assert world.ask(plugin, pod("a", "ebs-0")) == [None, missing, missing]
    assert world.ask(plugin, pod("b", "wanted")) == [None, missing, missing]
    # A migrated in-tree volume is one of CSI only where there is a CSINode.
    assert world.ask(plugin, pod("c", "wanted-too")) == [None, None, missing]
    two = ("Unschedulable", [REASON_MAX_VOLUME_COUNT_EXCEEDED])
    assert world.ask(plugin, pod("d", "ebs-0", "ebs-1")) == [two, missing, missing]
    assert details(plugin, world.cycle(pod("e", "ebs-0")), world.view(), 1) == [
        {"reason": missing[1][0], "driver": EBS}
    ]
