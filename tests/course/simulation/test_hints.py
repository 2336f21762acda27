"""Which events may make a rejected pod schedulable."""

from typing import Any

import pytest

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.course.simulation.queue import is_worth_retrying
from kplan.framework.interface import Event, NodeChanged, NodeUncordoned, PodAdded, PodDeleted
from kplan.rules.pod_info import PodInfo
from tests.objects import planner_of

HOST = "kubernetes.io/hostname"
NEAR = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}
SPREAD = {"maxSkew": 1, "topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
CLAIM = [{"name": "gpu", "resourceClaimName": "gpu"}]
DISK = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def info(namespace: str = "default", port: int = 0, **spec: Any) -> PodInfo:
    container: dict[str, Any] = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    metadata = {"name": "p", "namespace": namespace, "uid": "p", "labels": {"app": "web"}}
    return PodInfo(
        convert(
            {"metadata": metadata, "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec}},
            Pod,
        )
    )


def node(*taints: dict[str, str]) -> Node:
    return convert(
        {"metadata": {"name": "n1", "labels": {HOST: "n1", "disk": "ssd"}}, "spec": {"taints": list(taints)}}, Node
    )


def anti(**terms: Any) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**NEAR, **terms}]}}


def near() -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}


GONE, BOUND, OTHER = PodDeleted(info()), PodAdded(info()), PodAdded(info("other"))
UNCORDONED = NodeUncordoned(node())
TAINT = {"key": "gpu", "effect": "NoSchedule"}
CLEARED, TAINTED = NodeChanged(node(TAINT), node()), NodeChanged(node(), node(TAINT))
SESSION = planner_of({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}).session


@pytest.mark.parametrize(
    ("plugin", "pod", "helpful", "useless"),
    [
        ("NodeResourcesFit", info(), [GONE], [BOUND, UNCORDONED]),
        ("NodePorts", info(port=80), [PodDeleted(info(port=80))], [GONE, PodDeleted(info(port=81)), BOUND]),
        (
            "PodTopologySpread",
            info(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]),
            [GONE, BOUND],
            [OTHER, UNCORDONED],
        ),
        (
            "PodTopologySpread",
            info(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]),
            [],
            [GONE],
        ),
        ("InterPodAffinity", info(affinity=near()), [BOUND], [GONE, OTHER, UNCORDONED]),
        ("InterPodAffinity", info(affinity=anti()), [GONE], [BOUND, UNCORDONED]),
        ("InterPodAffinity", info(), [PodDeleted(info(affinity=anti()))], [GONE, BOUND]),
        ("NodeAffinity", info(nodeSelector={"disk": "ssd"}), [], [GONE, BOUND, UNCORDONED]),
        ("NodeUnschedulable", info(), [UNCORDONED], [GONE]),
        ("TaintToleration", info(), [CLEARED], [GONE, BOUND, UNCORDONED, TAINTED]),
        ("NodeName", info(), [], [GONE, UNCORDONED]),
        ("VolumeBinding", info(), [], [GONE]),
        ("VolumeRestrictions", info(), [PodDeleted(info(volumes=DISK))], [GONE, BOUND]),
        ("DynamicResources", info(), [PodDeleted(info(resourceClaims=CLAIM))], [GONE, UNCORDONED]),
        ("SomebodysOwn", info(), [GONE, BOUND, UNCORDONED], []),
    ],
)
def test_a_plugin_waits_for_what_may_change_its_mind(
    plugin: str, pod: PodInfo, helpful: list[Event], useless: list[Event]
) -> None:
    rejectors = frozenset({plugin})
    assert [is_worth_retrying(SESSION, pod, rejectors, event) for event in helpful] == [True] * len(helpful)
    assert [is_worth_retrying(SESSION, pod, rejectors, event) for event in useless] == [False] * len(useless)


def test_every_plugin_that_rejects_pods_knows_what_it_waits_for() -> None:
    (framework,) = SESSION.frameworks.values()
    rejecting = {*framework.pre_enqueue_plugins, *framework.pre_filter_plugins, *framework.filter_plugins}
    # These wait for any event: upstream's hints of both look at other pods of a group, which all events may concern.
    at_any_event = {"GangScheduling", "DefaultPreemption"}
    assert {plugin.name for plugin in rejecting} - at_any_event <= set(framework.queueing_hints)
