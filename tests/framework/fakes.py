"""Plugins that answer as told, and sessions in which they are all there is."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.config.model import PluginRef, Profile, SchedulerConfiguration
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.framework.interface import CycleState, ExtenderError, ExtenderFilterResult, PostFilterResult, Scope
from kplan.framework.listers import Listers
from kplan.framework.session import Session, SessionOptions
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot

POINTS = ("pre_enqueue", "queue_sort", "pre_filter", "filter", "post_filter", "pre_score", "score", "reserve", "permit")
METHODS = {"queue_sort": "sort_key"}
SCHEDULER = "default-scheduler"


def plugin(name, scope=Scope.CLUSTER, *, ignores_pods=False, **answers):
    """Make a plugin with the methods named: each is what it answers, or a function that is asked."""

    def method(answer):
        return lambda _, *arguments: answer(*arguments) if callable(answer) else answer

    members = {name: method(answer) for name, answer in answers.items()}
    return type(name, (), {"name": name, "scope": scope, "ignores_pods": ignores_pods, **members})()


def rows_of(view):
    """List the node rows of a view."""
    return np.arange(len(view)) if view.rows is None else view.rows


def rejecting(*names, text="no", code=Code.UNSCHEDULABLE):
    """Make a filter that rejects the nodes named."""

    def answer(_, view):
        rejected = [view.cluster.nodes.names[row] in names for row in rows_of(view)]
        return Verdicts.where(np.asarray(rejected, np.bool_), Reason(text, code))

    return answer


def scoring(**scores):
    """Make a score: node -> raw score, 0 for all others."""

    def answer(_, view):
        names = view.cluster.nodes.names
        return np.asarray([scores.get(names[row], 0) for row in rows_of(view)], np.int64)

    return answer


def post_filter(status, *, row=None, findings=None):
    """Make a PostFilter that answers the same to everybody."""
    return lambda *_: PostFilterResult(status, row, findings=findings)


def profile(plugins, *, weights=None, name=SCHEDULER, percentage=None):
    """Make a profile of plugins at all points that they have, in the order given."""
    points = {
        point: tuple(
            PluginRef(each.name, (weights or {}).get(each.name, 1) if point == "score" else 0)
            for each in plugins
            if hasattr(each, METHODS.get(point, point))
        )
        for point in POINTS
    }
    return Profile(name, points, {}, percentage)


def node(name, **labels):
    """Make a node."""
    return convert({"metadata": {"name": name, "labels": labels}}, Node)


def pod(name="pod", on="", *, nominated="", cpu="0", scheduler=SCHEDULER, priority=0, **metadata):
    """Make a pod, running when `on` a node."""
    spec = {
        "nodeName": on,
        "schedulerName": scheduler,
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
    }
    status = {"nominatedNodeName": nominated} if nominated else {}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata}
    return PodInfo(convert({"metadata": meta, "spec": spec, "status": status}, Pod))


def session(plugins, nodes="abc", pods=(), *, weights=None, percentage=None, profiles=None, extenders=(), **options):
    """Make a session; `nodes` are names, or nodes."""
    table = NodeTable([node(each) if isinstance(each, str) else each for each in nodes])
    cluster = Cluster.build(table, list(pods) or [pod()])
    config = SchedulerConfiguration(
        profiles=tuple(profiles or [profile(plugins, weights=weights, percentage=percentage)])
    )
    by_name = {each.name: each for each in plugins}
    made = Session(
        cluster, Listers(Snapshot()), config, lambda *_: by_name, SessionOptions(**options), extenders=extenders
    )
    made.nominate_from_status(range(len(cluster.pods)))
    return made


def cycle_of(made, row=0):
    """Start a pod's cycle, and return it with the framework and what is kept for pods like it."""
    framework = made.frameworks[SCHEDULER]
    info = made.cluster.pods.infos[row]
    return framework, CycleState(info, row, made.cluster), framework.shape(info)


@dataclass
class FakeExtender:
    """An extender that lets pass whom it is told to; `rejects` are node -> text."""

    name: str = "extender"
    weight: int = 1
    is_ignorable: bool = False
    filters: bool = True
    prioritizes: bool = False
    preempts: bool = False
    rejects: dict = field(default_factory=dict)
    unresolvable: dict = field(default_factory=dict)
    drops: tuple = ()
    scores: dict = field(default_factory=dict)
    fails: bool = False
    interested: bool = True
    victims: Callable | None = None  #: makes of the candidates of preemption those that stay
    asked: list = field(default_factory=list)

    def is_interested(self, _):
        return self.interested

    def filter(self, _, nodes):
        names = [each.metadata.name for each in nodes]
        self.asked.append(names)
        if self.fails:
            raise ExtenderError("extender is away")
        gone = {*self.rejects, *self.unresolvable, *self.drops}
        return ExtenderFilterResult([name for name in names if name not in gone], self.rejects, self.unresolvable)

    def prioritize(self, _, nodes):
        self.asked.append([each.metadata.name for each in nodes])
        if self.fails:
            raise ExtenderError("extender is away")
        return self.scores

    def preempt(self, _, candidates, pods_on):
        return self.victims(dict(candidates))
