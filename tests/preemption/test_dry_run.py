"""The dry run on all nodes at once equals doing it node by node on clusters that really change; and its laws."""

import copy
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.config.loading import default_configuration
from kplan.config.releases import reference
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.framework.cycle import schedule_pod
from kplan.framework.interface import CycleState, Scope
from kplan.framework.listers import Listers
from kplan.framework.session import Session
from kplan.preemption.dry_run import FilterTrials, importance_order
from kplan.preemption.go_sort import go_sort
from kplan.rules.pod_info import NO_START_TIME, PodInfo
from kplan.snapshot.model import Snapshot
from tests.objects import affinity, node, pod, spread
from tests.oracle import preemption as oracle
from tests.preemption.scenes import HOSTNAME, app, budget, planner
from tests.recorded import examples

few = examples(60)
ZONE = "zone"
NODES = ("a", "b", "c")


# --- random clusters --------------------------------------------------------------------------------------------------

SELECTORS = st.sampled_from(
    [
        app("web"),
        app("db"),
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
        {},
        None,
        {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
    ]
)
LABELS = st.sampled_from([{"app": "web"}, {"app": "db"}, {}])


@st.composite
def running(draw, name, on):
    """A running pod, sometimes with a host port or with an aversion to the incoming one."""
    is_averse = draw(st.integers(0, 7)) == 0
    spec = affinity("podAntiAffinity", draw(st.sampled_from([HOSTNAME, ZONE])), app="vip") if is_averse else {}
    return pod(
        name,
        on,
        cpu=draw(st.sampled_from(["250m", "1", "1500m", "2"])),
        priority=draw(st.sampled_from([-5, 0, 0, 0, 10, 100])),
        start=draw(st.sampled_from([None, 8, 9, 9, 10])),
        labels=draw(LABELS),
        namespace=draw(st.sampled_from(["default", "default", "other"])),
        ports=draw(st.sampled_from([(), (), (), (80,), (80, 81)])),
        **spec,
    )


@st.composite
def incoming(draw):
    """A pod that often fits nowhere."""
    spec = {}
    match draw(st.integers(0, 5)):
        case 0:
            spec = affinity("podAntiAffinity", draw(st.sampled_from([HOSTNAME, ZONE])), app="web")
        case 1:
            spec = spread(draw(st.sampled_from([HOSTNAME, ZONE])), app="web")
        case 2:
            spec = affinity("podAffinity", ZONE, app="db")
    return pod(
        "vip",
        cpu=draw(st.sampled_from(["1", "2", "3500m"])),
        priority=50,
        labels={"app": "vip"},
        ports=draw(st.sampled_from([(), (), (80,)])),
        **spec,
    )


@st.composite
def scenes(draw):
    """A cluster with a pod to place, as objects."""
    objects = [node(name, labels={ZONE: draw(st.sampled_from(["x", "y"]))}) for name in NODES]
    for name in NODES:
        objects += [draw(running(f"{name}-{index}", name)) for index in range(draw(st.integers(0, 6)))]
    objects += [
        pod(
            f"promised-{index}",
            priority=draw(st.sampled_from([0, 50, 60])),
            nominated=draw(st.sampled_from(NODES)),
            labels=draw(LABELS),
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    objects += [
        budget(
            f"budget-{index}",
            draw(SELECTORS),
            draw(st.integers(0, 2)),
            disrupted=draw(st.sampled_from([(), ("a-0", "b-1")])),
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    objects.append(draw(incoming()))
    return objects


# --- the same, node by node -------------------------------------------------------------------------------------------


@dataclass
class World:
    """One node of a private copy of the cluster."""

    session: object
    pod: int
    row: int

    def remove(self, each):
        self.session.cluster.unbind(each.pod)

    def add(self, each):
        self.session.cluster.bind(each.pod, self.row)

    def rejection(self):
        return None if self.fits() else "does not fit"

    def fits(self):
        info = self.session.cluster.pods.infos[self.pod]
        promised = [
            other
            for other in self.session.nominator.pods_for(self.row)
            if self.session.cluster.pods.infos[other].priority >= info.priority and other != self.pod
        ]
        if promised:
            with_promised = self.session.fork()
            for other in promised:
                with_promised.cluster.bind(other, self.row)
            if not passes(with_promised, self.pod, self.row):
                return False
        return passes(self.session.fork(), self.pod, self.row)


def passes(session, pod_id, row):
    """Ask PreFilter and Filter about one node of a cluster as it stands."""
    info = session.cluster.pods.infos[pod_id]
    framework = session.framework_for(info)
    cycle = CycleState(info, pod_id, session.cluster)
    pre_filter = framework.run_pre_filter(cycle, framework.shape(info))
    assert pre_filter.status is None
    return framework.statuses(cycle, np.asarray([row]), pre_filter.skipped)[0] is None


def described(session, pod_id):
    info = session.cluster.pods.infos[pod_id]
    start = info.pod.status.start_time
    return SimpleNamespace(
        pod=pod_id,
        key=info.key,
        name=info.name,
        namespace=info.namespace,
        labels=info.labels,
        priority=info.priority,
        start=None if start is None else int(start[11:13]),
    )


def expected(session, pod_id, outcome, budgets):
    """Do the dry run node by node; return candidates by name and, for the other nodes, why not."""
    priority = session.cluster.pods.infos[pod_id].priority
    candidates, rejected = {}, {}
    for row, name in enumerate(session.cluster.nodes.names):
        status = outcome.status(row)
        if status is None or status.code.text != "Unschedulable":
            continue
        twin = session.fork()
        pods = [described(twin, each) for each in twin.cluster.pods_on[row]]
        found = oracle.select_victims(pods, priority, World(twin, pod_id, row), budgets)
        if isinstance(found, str):
            rejected[name] = found
        else:
            candidates[name] = found
    return candidates, rejected


@few
@given(scenes())
def test_all_nodes_at_once_decide_as_one_after_another(objects):
    session = planner(objects).session
    vip = session.find("default/vip")
    decided = schedule_pod(session, vip)
    if decided.post_filter is None:
        return
    found = decided.post_filter.findings.to_document().to_dict()
    budgets = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
    candidates, rejected = expected(session, vip, decided.filter, budgets)

    assert {name: (each["victims"], each["pdbViolations"]) for name, each in found["candidates"].items()} == {
        name: ([victim.key for victim in victims], n) for name, (victims, n) in candidates.items()
    }
    assert set(found["rejected"]) == set(rejected)
    for name, why in rejected.items():
        is_empty = found["rejected"][name]["reasons"] == ["No preemption victims found for incoming pod"]
        assert is_empty == (why == "no victims")
    if candidates:
        assert (found["ties"], found["decidedBy"]) == oracle.choose(candidates)
        assert found["nominatedNode"] == found["ties"][0]
        findings = decided.post_filter.findings
        told = findings.with_costs(findings.to_document(), reprieve=False).candidates
        assert sorted(name for name, candidate in told.items() if candidate.lost_by is None) == found["ties"]


# --- laws -------------------------------------------------------------------------------------------------------------


def simple(objects):
    """Leave out what can make a pod fit because of another one, or because one that it was counted with is gone."""
    kept = [copy.deepcopy(each) for each in objects if "nominatedNodeName" not in each.get("status", {})]
    for each in kept:
        if each["kind"] == "Pod":
            each["spec"].pop("affinity", None)
            each["spec"].pop("topologySpreadConstraints", None)
            each["spec"]["containers"][0]["ports"] = []
    return kept


@few
@given(scenes())
def test_with_any_one_victim_back_the_pod_does_not_fit(objects):
    objects = simple(objects)
    placement = planner(objects).place("default/vip")
    if placement.nominated_node is None:
        return
    gone = {(each.namespace, each.name) for each in placement.preemption.victims}

    def without(victims):
        left = [
            each
            for each in objects
            if each["kind"] != "Pod" or (each["metadata"]["namespace"], each["metadata"]["name"]) not in victims
        ]
        return planner(left).place("default/vip").node

    assert without(gone) == placement.nominated_node
    for victim in gone:
        assert without(gone - {victim}) is None


# --- the order of victims on many nodes at once is that of each node alone --------------------------------------------

PODS = st.tuples(st.sampled_from([-1, 0, 7]), st.sampled_from([None, 1, 1, 2, 3]))
IN_ORDER = st.lists(PODS, max_size=60).map(lambda pods: sorted(pods, key=lambda pod: (-pod[0], pod[1] or 9)))
GROUPS = st.lists(st.lists(PODS, max_size=20) | IN_ORDER, max_size=6)


def alone(pods):
    """Sort one node's pods with Go's algorithm, a pod without a start being earlier than others like it."""
    ranks = sorted({(-priority, start or 9) for priority, start in pods})
    keys = [2 * ranks.index((-priority, start or 9)) for priority, start in pods]
    return go_sort(keys, [key + (start is None) for key, (_, start) in zip(keys, pods, strict=True)])


@given(GROUPS)
def test_every_node_is_sorted_as_if_it_were_alone(groups):
    pods = [pod for group in groups for pod in group]
    starts = np.concatenate(([0], np.cumsum([len(group) for group in groups], dtype=int)))
    expected = [int(start) + index for start, group in zip(starts, groups, strict=False) for index in alone(group)]
    order = importance_order(
        np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        np.asarray([priority for priority, _ in pods], np.int64),
        np.asarray([NO_START_TIME if start is None else start for _, start in pods], np.int64),
    )
    assert order.tolist() == expected


class CountingFilter:
    """Rejects nodes with more than one pod, and counts how often it is asked."""

    def __init__(self, name, scope, *, ignores_pods=False):
        self.name = name
        self.scope = scope
        self.ignores_pods = ignores_pods
        self.n_asked = 0

    def filter(self, cycle, nodes):
        self.n_asked += 1
        pods = np.zeros(len(nodes)) if self.ignores_pods or self.scope is Scope.NODE_OBJECT else nodes.pod_count
        return Verdicts.where(pods > 1, Reason("too many", Code.UNSCHEDULABLE))


def make_session(plugins):
    nodes = NodeTable([convert({"metadata": {"name": name}}, Node) for name in ("a", "b")])
    pods = [
        convert({"metadata": {"name": f"{name}{i}", "namespace": "default"}, "spec": {"nodeName": name}}, Pod)
        for name in ("a", "b")
        for i in range(2)
    ]
    spec = {"schedulerName": "default-scheduler"}
    incoming = convert({"metadata": {"name": "vip", "namespace": "default"}, "spec": spec}, Pod)
    cluster = Cluster.build(nodes, [PodInfo(pod) for pod in (*pods, incoming)])
    return Session(
        cluster, Listers(Snapshot()), default_configuration(reference()), lambda *_: {p.name: p for p in plugins}
    )


def test_only_filters_that_look_at_pods_are_asked_at_each_step():
    fixed = CountingFilter("NodeName", Scope.NODE_OBJECT)
    blind = CountingFilter("VolumeBinding", Scope.CLUSTER, ignores_pods=True)
    looking = CountingFilter("NodeResourcesFit", Scope.NODE)
    session = make_session([fixed, blind, looking])
    decided = schedule_pod(session, 4)
    assert (fixed.n_asked, blind.n_asked, looking.n_asked) == (1, 1, 1)
    framework = session.frameworks["default-scheduler"]

    trials = FilterTrials(
        framework,
        CycleState(session.cluster.pods.infos[4], 4, session.cluster),
        decided.filter,
        rows=np.arange(2),
        positions=np.asarray([0, 0, 1, 1]),
        pods=np.arange(4),
    )
    verdicts, overrides = trials.statuses()
    answers = [trials.passes().tolist()]
    for changes in ([0, 2], [1]):
        trials.view.change(np.asarray(changes), 1)
        answers.append(trials.passes().tolist())
    trials.view.change(np.asarray([1]), -1)
    answers.append(trials.passes().tolist())

    assert answers == [[True, True], [True, True], [False, True], [True, True]]
    assert [name for name, _ in verdicts] == ["NodeName", "NodeResourcesFit", "VolumeBinding"]
    assert not any(verdict.bits.any() for _, verdict in verdicts)
    assert overrides == {}
    assert (fixed.n_asked, blind.n_asked, looking.n_asked) == (1, 1, 6)
