"""Small clusters in which it matters who runs where: labelled pods in namespaces, nodes in topology domains."""

from hypothesis import strategies as st

from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.framework.interface import PreScoreResult
from tests.oracle.scheduler_world import World as PlainWorld
from tests.recorded import examples

from .asking import Asked, filtered

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

# Drawing a whole cluster takes milliseconds, so fewer of them than usual.
few = examples(60)


def node(name, zone=None, *, taints=(), **labels):
    """Make a node that knows its name, and its zone if it has one."""
    zones = {} if zone is None else {ZONE: zone}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, **zones, **labels}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"pods": "110"}},
    }


def pod(name="pod", namespace="default", *, labels=None, terminating=False, owner=None, **spec):
    """Make a pod; `owner` is (apiVersion, kind, name), keyword arguments are fields of its spec."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if owner is not None:
        api_version, kind, owner_name = owner
        metadata["ownerReferences"] = [
            {"apiVersion": api_version, "kind": kind, "name": owner_name, "uid": owner_name, "controller": True}
        ]
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}


def app(name, **more):
    """Make a pod that carries nothing but the label app."""
    return pod(labels={"app": name}, **more)


def selector(**labels):
    """Make a selector of these labels."""
    return {"matchLabels": labels}


class Neighbourhood(Asked):
    """Nodes, the pods on each (by node name), and objects that say what belongs together (by snapshot attribute)."""

    def __init__(self, nodes, running=None, objects=None):
        super().__init__(nodes, **(objects or {}))
        self.running, self.objects = running or {}, objects or {}
        for row, each in enumerate(self.nodes):
            for other in self.running.get(each["metadata"]["name"], []):
                self.cluster.bind(self.coming(other), row)

    @property
    def plain(self):
        """The same cluster for the oracle, which reads objects."""
        objects = [{**each, "kind": "Node"} for each in self.nodes]
        for name, things in self.objects.items():
            objects += [{**each, "kind": KINDS_BY_ATTRIBUTE[name].name} for each in things]
        for on, pods in self.running.items():
            objects += [{**each, "kind": "Pod", "spec": {**each["spec"], "nodeName": on}} for each in pods]
        return PlainWorld(objects)


def scored(plugin, cycle, view):
    """Ask PreScore, Score and NormalizeScore: raw and normalized scores, or None when the plugin skips.

    A plugin that does both at once is asked for that, too.
    """
    result = plugin.pre_score(cycle, view)
    if isinstance(result, PreScoreResult):
        return None
    assert result is None
    raw = plugin.score(cycle, view)
    before = raw.tolist()
    normalized = plugin.normalize_score(cycle, raw)
    assert raw.tolist() == before
    if hasattr(plugin, "final_score"):
        assert plugin.final_score(cycle, view).tolist() == normalized.tolist()
    return before, normalized.tolist()


# --- random ones ------------------------------------------------------------------------------------------------------

NAMESPACES = ("default", "blue", "red")
NAMESPACE_LABELS = {"default": {}, "blue": {"team": "a", "env": "prod"}, "red": {"team": "b"}}
KEYS = (HOSTNAME, ZONE, "rack")

# Most pods are to matter to each other, so most are of one namespace and one app.
NAMESPACE_NAMES = st.sampled_from(["default", "default", "default", "blue", "red"])
APPS = st.sampled_from(["x", "x", "y"])
POD_LABELS = st.one_of(
    st.builds(lambda app: {"app": app}, APPS),
    st.builds(lambda app, tier: {"app": app, "tier": tier}, APPS, st.sampled_from(["x", "y"])),
    st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2),
)


def expressions(keys, values):
    """An expression of a label selector."""
    return st.one_of(
        st.builds(
            lambda key, operator, values: {"key": key, "operator": operator, "values": values},
            st.sampled_from(keys),
            st.sampled_from(["In", "NotIn"]),
            st.lists(st.sampled_from(values), min_size=1, max_size=2),
        ),
        st.builds(
            lambda key, operator: {"key": key, "operator": operator},
            st.sampled_from(keys),
            st.sampled_from(["Exists", "DoesNotExist"]),
        ),
    )


SELECTORS = st.one_of(
    st.builds(lambda app: {"matchLabels": {"app": app}}, APPS),
    st.sampled_from([None, {}, {"matchLabels": {"app": "x"}}]),
    st.builds(
        lambda labels, more: {"matchLabels": labels, "matchExpressions": more},
        st.dictionaries(st.just("app"), st.sampled_from(["x", "y"]), max_size=1),
        st.lists(expressions(["app", "tier"], ["x", "y"]), max_size=1),
    ),
)
SELECTORS_OF_NAMESPACES = st.one_of(
    st.just({}),
    st.builds(
        lambda more: {"matchExpressions": more}, st.lists(expressions(["team", "env"], ["a", "b", "prod"]), max_size=2)
    ),
)


@st.composite
def terms(draw):
    """A (anti-)affinity term."""
    return {
        "labelSelector": draw(SELECTORS),
        "topologyKey": draw(st.sampled_from(KEYS)),
        **draw(st.sampled_from([{}, {}, {"namespaces": ["default"]}, {"namespaces": ["blue", "red"]}])),
        **draw(st.one_of(st.just({}), st.builds(lambda them: {"namespaceSelector": them}, SELECTORS_OF_NAMESPACES))),
    }


WEIGHTED_TERMS = st.builds(
    lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.sampled_from([1, 7, 50, 100]), terms()
)


@st.composite
def affinities(draw, max_terms=2):
    """Inter-pod affinity of all four kinds."""
    return {
        part: {
            "requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(terms(), max_size=max_terms)),
            "preferredDuringSchedulingIgnoredDuringExecution": draw(st.lists(WEIGHTED_TERMS, max_size=max_terms)),
        }
        for part in ("podAffinity", "podAntiAffinity")
    }


@st.composite
def spread_constraints(draw, actions=("DoNotSchedule", "ScheduleAnyway")):
    """A topology spread constraint."""
    action = draw(st.sampled_from(actions))
    constraint = {
        "maxSkew": draw(st.integers(1, 3)),
        "topologyKey": draw(st.sampled_from(KEYS)),
        "whenUnsatisfiable": action,
        "labelSelector": draw(SELECTORS),
    }
    if action == "DoNotSchedule" and draw(st.booleans()):
        constraint["minDomains"] = draw(st.integers(1, 4))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        chosen = draw(st.sampled_from([None, "Honor", "Ignore"]))
        if chosen is not None:
            constraint[policy] = chosen
    if draw(st.booleans()):
        constraint["matchLabelKeys"] = ["tier"]
    return constraint


@st.composite
def pods(draw, max_terms=2, *, is_spread=False):
    """A pod that wants something of others."""
    spec = {}
    if is_spread:
        spec["topologySpreadConstraints"] = draw(st.lists(spread_constraints(), min_size=1, max_size=3))
        if draw(st.booleans()):
            spec["nodeSelector"] = {"rack": draw(st.sampled_from(["r1", "r2"]))}
        if draw(st.booleans()):
            spec["tolerations"] = [{"key": "only", "operator": "Exists"}]
    elif draw(st.booleans()):
        spec["affinity"] = draw(affinities(max_terms))
    return pod(
        namespace=draw(NAMESPACE_NAMES), labels=draw(POD_LABELS), terminating=draw(st.integers(0, 4)) == 0, **spec
    )


@st.composite
def nodes(draw, name):
    """A node that has some of the topology labels, and perhaps a taint."""
    labels = {HOSTNAME: name, ZONE: draw(st.sampled_from(["a", "b", ""])), "rack": draw(st.sampled_from(["r1", "r2"]))}
    if draw(st.integers(0, 3)) == 0:
        del labels[draw(st.sampled_from(KEYS))]
    taints = [{"key": "only", "value": "", "effect": "NoSchedule"}] if draw(st.integers(0, 3)) == 0 else []
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": {"allocatable": {}}}


@st.composite
def neighbourhoods(draw, max_terms=1):
    """One to six nodes with up to four pods each."""
    names = [f"n{index}" for index in range(draw(st.integers(1, 6)))]
    return Neighbourhood(
        [draw(nodes(name)) for name in names],
        {name: draw(st.lists(pods(max_terms), max_size=4)) for name in names},
        {"namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACE_LABELS.items()]},
    )


def signed(world, change):
    """List the pods that leave a node (-1) and come to it (1)."""
    _, left, came = world.after(change)
    return [*((each, -1) for each in left), *((each, 1) for each in came)]


def assert_follows(data, make, world, incoming, new):
    """Check that after pods came and went a plugin says what a new one says."""
    kept, view = make(world), world.view()
    filtered(kept, world.cycle(incoming), view)
    scored(kept, world.cycle(incoming), view)
    for each in new:
        world.cluster.bind(world.coming(each), data.draw(st.integers(0, len(world.nodes) - 1)))
    bound = [index for index, row in enumerate(world.cluster.node_of) if row >= 0]
    for index in data.draw(st.lists(st.sampled_from(bound), unique=True)) if bound else []:
        world.cluster.unbind(index)
    made = make(world)
    assert filtered(kept, world.cycle(incoming), view) == filtered(made, world.cycle(incoming), view)
    assert scored(kept, world.cycle(incoming), view) == scored(made, world.cycle(incoming), view)
