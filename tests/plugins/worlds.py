"""Small clusters made of JSON objects, a plugin asked about one, and random ones."""

from hypothesis import strategies as st

from kplan.framework.interface import PreScoreResult
from tests.oracle.scheduler_world import NodeInfo
from tests.recorded import examples

from .asking import Asked


def node(name="node", *, labels=None, taints=(), unschedulable=False, images=(), features=(), pods="10", **allocatable):
    """Make a node; `images` are (size, name…), keyword arguments are allocatable resources."""
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {
            "allocatable": {"pods": pods, **allocatable},
            "images": [{"names": list(names), "sizeBytes": size} for size, *names in images],
            "declaredFeatures": list(features),
        },
    }


def pod(name="pod", requests=None, *, ports=(), image="app:1", **spec):
    """Make a pod of one container; keyword arguments are fields of its spec."""
    container = {"name": "main", "image": image, "resources": {"requests": dict(requests or {})}, "ports": list(ports)}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container], **spec}}


def host_port(number, protocol="TCP", ip=""):
    """Make a container port that takes a port of the node."""
    return {"containerPort": number, "hostPort": number, "protocol": protocol, "hostIP": ip}


class World(Asked):
    """Nodes, the pods on each (by node name), and device classes; pods are named after their node."""

    def __init__(self, nodes, running=None, device_classes=()):
        named = {
            name: [{**each, "metadata": {"name": f"{name}-{i}", "namespace": "default"}} for i, each in enumerate(pods)]
            for name, pods in (running or {}).items()
        }
        super().__init__(nodes, named, device_classes=device_classes)
        self.running, self.device_classes = running or {}, device_classes

    def plain(self, each):
        """Return a node with its pods for the oracle."""
        return NodeInfo(each, self.pods_on(each))


def scored(plugin, cycle, view):
    """Ask PreScore and Score: raw scores, or None when the plugin skips."""
    if hasattr(plugin, "pre_score"):
        result = plugin.pre_score(cycle, view)
        if isinstance(result, PreScoreResult):
            return None
        assert result is None
    return plugin.score(cycle, view).tolist()


# --- random worlds ----------------------------------------------------------------------------------------------------

# Drawing a whole cluster takes milliseconds, so fewer of them than usual.
few = examples(25)

KEYS = ("zone", "disk", "rank")
VALUES = ("a", "b", "1", "7", "12", "x7")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "example.com/fpga", "hugepages-2Mi")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
PORTS = st.builds(
    host_port,
    st.sampled_from([80, 443]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
)
IMAGES = ("app:1", "app", "registry.io:5000/base", "registry.io:5000/base:2")
IMAGE_NAMES = ("app:1", "app:latest", "registry.io:5000/base:latest", "registry.io:5000/base:2")


def quantities(name):
    """Amounts that sometimes fit and sometimes do not, whole and fractional."""
    if name == "cpu":
        return st.sampled_from(["0", "1m", "250m", "0.5", "1", "1500m", "3"])
    if name == "memory":
        return st.sampled_from(["0", "1", "100Mi", "128M", "0.5Gi", "1Gi", "3Gi"])
    return st.sampled_from(["0", "1", "2", "3", "5"])


def resource_lists(max_size=4):
    """Some resources with amounts."""
    return st.lists(st.sampled_from(RESOURCES), unique=True, max_size=max_size).flatmap(
        lambda names: st.fixed_dictionaries({name: quantities(name) for name in names})
    )


@st.composite
def containers(draw):
    """A container with requests, ports and an image."""
    return {
        "name": "c",
        "image": draw(st.sampled_from(IMAGES)),
        "resources": {"requests": draw(resource_lists())},
        "ports": draw(st.lists(PORTS, max_size=1)),
    }


@st.composite
def tolerations(draw):
    """A toleration, wildcards included."""
    return {
        "key": draw(st.sampled_from(["", "a", "b", "node.kubernetes.io/unschedulable"])),
        "operator": draw(st.sampled_from(["", "Equal", "Exists", "Gt"])),
        "value": draw(st.sampled_from(["", "1"])),
        "effect": draw(st.sampled_from(["", *EFFECTS])),
    }


@st.composite
def pods(draw):
    """A pod with anything that node plugins read of its containers and tolerations."""
    spec = {"containers": draw(st.lists(containers(), min_size=1, max_size=2))}
    init = draw(st.lists(containers(), max_size=2))
    spec["initContainers"] = [{**each, "restartPolicy": "Always"} if draw(st.booleans()) else each for each in init]
    spec["tolerations"] = draw(st.lists(tolerations(), max_size=2))
    if draw(st.booleans()):
        spec["overhead"] = {"cpu": "10m"}
    if draw(st.integers(0, 3)) == 0:
        spec["resources"] = {"requests": {"cpu": draw(quantities("cpu"))}}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}


@st.composite
def nodes(draw, name):
    """A node with anything that node plugins read."""
    taint = st.builds(
        lambda key, value, effect: {"key": key, "value": value, "effect": effect},
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "1"]),
        st.sampled_from(EFFECTS),
    )
    image = st.tuples(st.sampled_from([10**6, 3 * 10**8, 2 * 10**9]), st.sampled_from(IMAGE_NAMES))
    return node(
        name,
        labels=draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)),
        taints=draw(st.lists(taint, max_size=2)),
        unschedulable=draw(st.booleans()),
        images=draw(st.lists(image, max_size=3)),
        pods=draw(st.sampled_from(["0", "1", "2", "9"])),
        **draw(resource_lists(max_size=6)),
    )


@st.composite
def worlds(draw):
    """One to three nodes with up to two pods each."""
    names = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    return World(
        [draw(nodes(name)) for name in names],
        {name: draw(st.lists(pods(), max_size=2)) for name in names},
        [{"metadata": {"name": "fpgas"}, "spec": {"extendedResourceName": "example.com/fpga"}}]
        if draw(st.booleans())
        else [],
    )
