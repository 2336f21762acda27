"""Which filters are asked again while pods come and go."""

import numpy as np

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.config.loading import default_configuration
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.framework.cycle import schedule_pod
from kplan.framework.interface import CycleState, PreFilterResult, Scope
from kplan.framework.listers import Listers
from kplan.framework.session import Session
from kplan.preemption.dry_run import Trials
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot
from tests.framework import fakes


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
    return Session(cluster, Listers(Snapshot()), default_configuration(), lambda *_: {p.name: p for p in plugins})


def test_only_filters_that_look_at_pods_are_asked_at_each_step():
    fixed = CountingFilter("NodeName", Scope.NODE_OBJECT)
    blind = CountingFilter("VolumeBinding", Scope.CLUSTER, ignores_pods=True)
    looking = CountingFilter("NodeResourcesFit", Scope.NODE)
    session = make_session([fixed, blind, looking])
    decided = schedule_pod(session, 4)
    assert (fixed.n_asked, blind.n_asked, looking.n_asked) == (1, 1, 1)
    framework = session.frameworks["default-scheduler"]

    trials = Trials(
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
        trials.restore(np.asarray(changes))
        answers.append(trials.passes().tolist())
    trials.remove_again(np.asarray([1]))
    answers.append(trials.passes().tolist())

    assert answers == [[True, True], [True, True], [False, True], [True, True]]
    assert [name for name, _ in verdicts] == ["NodeName", "NodeResourcesFit", "VolumeBinding"]
    assert not any(verdict.bits.any() for _, verdict in verdicts)
    assert overrides == {}
    assert (fixed.n_asked, blind.n_asked, looking.n_asked) == (1, 1, 6)


def test_nodes_that_pre_filter_left_out_are_asked_about_by_all_filters():
    naming = fakes.plugin("A", pre_filter=PreFilterResult(nodes=frozenset("b")), filter=fakes.rejecting())
    fixed = fakes.plugin("B", Scope.NODE_OBJECT, filter=fakes.rejecting("a"))
    made = fakes.session([naming, fixed], "abc", [fakes.pod("vip"), *(fakes.pod(name, on=name) for name in "abc")])
    decided = schedule_pod(made, 0)
    framework, cycle, _ = fakes.cycle_of(made)
    rows = np.arange(3)

    trials = Trials(framework, cycle, decided.filter, rows=rows, positions=rows, pods=rows + 1)
    verdicts, _ = trials.statuses()

    assert [(name, verdict.bits.tolist()) for name, verdict in verdicts] == [("A", [0, 0, 0]), ("B", [1, 0, 0])]
