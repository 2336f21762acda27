"""In-tree plugins by name, and plugins that somebody brings along."""

from typing import Any, ClassVar

import numpy as np
import pytest

import kplan
from kplan.config.loading import to_document
from kplan.config.releases import newest
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.errors import UsageError
from kplan.framework.interface import CycleState, Handle, Scope, Status
from kplan.plugins.registry import PLUGINS
from tests.objects import head

NODES: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"team": team}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    for name, team in (("a", "red"), ("b", "blue"), ("c", "red"))
]


def pod(team: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    metadata = {"name": "p", "namespace": "default", "labels": {"team": team}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


class TeamNodes:
    """Takes pods to the nodes of their team, and likes the node that its arguments name."""

    name: ClassVar[str] = "TeamNodes"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT

    def __init__(self, args: Any, handle: Handle) -> None:
        self.favourite = (args or {}).get("favourite", "")

    def filter(self, cycle: CycleState, nodes: Any) -> Verdicts:
        teams = [node.metadata.labels["team"] for node in cycle.cluster.nodes.nodes]
        is_foreign = np.array(teams) != cycle.pod.labels["team"]
        return Verdicts.where(nodes.take(is_foreign), Reason("node(s) of another team", Code.UNSCHEDULABLE))

    def score(self, cycle: CycleState, nodes: Any) -> Any:
        return nodes.take(np.array([100 * (name == self.favourite) for name in cycle.cluster.nodes.names]))


class NoFridays:
    """Lets no pod into the queue."""

    name: ClassVar[str] = "NoFridays"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: Any) -> Status:
        return Status.unresolvable("not on a Friday")


def configuration(*enabled: str, args: Any = None) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in enabled]}},
    }
    if args is not None:
        profile["pluginConfig"] = [{"name": enabled[0], "args": args}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**head, "profiles": [profile]}


def planner(config: dict[str, Any] | None, *plugins: Any, **options: Any) -> kplan.Planner:
    loaded = None if config is None else kplan.load_scheduler_config(config)
    return kplan.Planner(kplan.load_snapshot(NODES), loaded, plugins=plugins, **options)


def test_the_registry_holds_every_plugin_of_the_newest_release_that_decides() -> None:
    binding = {"pre_bind", "bind", "post_bind"}
    deciding = {name for name, points in newest().implements.items() if not points <= binding}
    assert set(PLUGINS) <= set(newest().implements)
    assert deciding - set(PLUGINS) == set(newest().gated_plugins) - set(PLUGINS)


def test_a_plugin_from_outside_filters_and_scores() -> None:
    asked = planner(configuration("TeamNodes", args={"favourite": "c"}), TeamNodes)
    placement = asked.place(pod("red"))
    assert placement.node == "c"
    assert placement.to_dict()["rejections"]["b"]["reasons"] == ["node(s) of another team"]
    assert placement.scores["c"].plugins["TeamNodes"] == 100
    assert placement.scores["a"].plugins["TeamNodes"] == 0


def test_its_reasons_stand_in_the_message_and_in_the_document() -> None:
    placement = planner(configuration("TeamNodes"), TeamNodes).place(pod("green"))
    assert placement.node is None
    assert placement.message.startswith("0/3 nodes are available: 3 node(s) of another team.")
    assert "node(s) of another team" in str(placement.to_dict())


def test_a_plugin_may_keep_pods_out_of_the_queue() -> None:
    assert "not on a Friday" in planner(configuration("NoFridays"), NoFridays).place(pod("red")).message


def test_without_the_plugin_the_profile_is_warned_of() -> None:
    asked = planner(configuration("TeamNodes"))
    assert [warning.code for warning in asked.warnings if "TeamNodes" in warning.message] == ["UnknownPlugin"]
    assert [
        warning for warning in planner(configuration("TeamNodes"), TeamNodes).warnings if "TeamNodes" in str(warning)
    ] == []


def test_a_plugin_that_no_profile_enables_has_no_say() -> None:
    assert planner(None, TeamNodes).place(pod("green")).node == "a"


def test_another_release_and_a_changed_world_keep_the_plugin() -> None:
    asked = planner(configuration("TeamNodes", args={"favourite": "c"}), TeamNodes, kubernetes="1.34")
    changed = asked.for_cluster(kplan.load_snapshot(NODES[1:]))
    assert (asked.place(pod("red")).node, changed.place(pod("red")).node) == ("c", "c")
    assert changed.place(pod("blue")).node == "b"


def test_the_effective_configuration_names_it_with_its_arguments() -> None:
    (profile,) = to_document(planner(configuration("TeamNodes", args={"favourite": "c"}), TeamNodes).config)["profiles"]
    assert {"name": "TeamNodes"} in profile["plugins"]["filter"]["enabled"]
    assert {"name": "TeamNodes", "args": {"favourite": "c"}} in profile["pluginConfig"]


class NodeName(TeamNodes):
    """Has a name that is taken."""

    name: ClassVar[str] = "NodeName"


class Nothing:
    """Implements nothing."""

    name: ClassVar[str] = "Nothing"


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ((NodeName,), "a plugin named NodeName already exists"),
        ((TeamNodes, TeamNodes), "a plugin named TeamNodes already exists"),
        ((Nothing,), "plugin Nothing implements no extension point"),
    ],
)
def test_plugins_that_cannot_be_compiled_in_are_refused(plugins: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        planner(None, *plugins)


def _without(point: str, *names: str) -> dict[str, Any]:
    profile = {"plugins": {point: {"disabled": [{"name": name} for name in names]}}}
    return {**configuration(), "profiles": [profile]}


#: Point -> plugin -> what it says where its part at that point does not run
UNPREPARED = {
    "preFilter": {
        "DynamicResources": "not found",
        "VolumeBinding": "not found",
        "NodeResourcesFit": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
        "NodePorts": 'reading "PreFilterNodePorts" from cycleState: not found',
        "NodeDeclaredFeatures": 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
        "InterPodAffinity": 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
        "PodTopologySpread": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
        "VolumeRestrictions": 'cannot read "PreFilterVolumeRestrictions" from cycleState',
    },
    "preScore": {
        "InterPodAffinity": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
        "PodTopologySpread": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    },
}
FAILED = {
    "preFilter": 'running "{}" filter plugin: {}',
    "preScore": 'running Score plugins: plugin "{}" failed with: {}',
}


@pytest.mark.parametrize(("point", "name"), [(point, name) for point, names in UNPREPARED.items() for name in names])
def test_without_what_it_prepares_a_plugin_fails(point: str, name: str) -> None:
    placement = planner(_without(point, name)).place(pod("red"))
    assert (placement.node, placement.message) == (None, FAILED[point].format(name, UNPREPARED[point][name]))


def test_plugins_of_claims_that_prepare_nothing_look_at_them_later() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [{**node, "metadata": {"name": node["metadata"]["name"], "labels": {zone: "z0"}}} for node in NODES]
    objects = [*nodes]
    for name, label in (("here", "z0"), ("there", "z1")):
        metadata = {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        access = {"accessModes": ["ReadWriteMany"]}
        storage = {**access, "capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": name}}
        wanted = {**access, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        objects += [
            head("PersistentVolume", name=name, labels={zone: label}) | {"spec": storage},
            head("PersistentVolumeClaim", **metadata) | {"spec": wanted},
        ]
    others = [{"name": name} for name in ("VolumeBinding", "VolumeRestrictions")]
    alone = _without("preFilter", "VolumeZone", "NodeVolumeLimits")
    alone["profiles"][0]["plugins"]["multiPoint"] = {"disabled": others}

    def placed(config: dict[str, Any], *claims: str) -> tuple[str | None, str]:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        asked = kplan.Planner(kplan.load_snapshot(objects), kplan.load_scheduler_config(config))
        placement = asked.place(pod("red", volumes=volumes))
        return placement.node, placement.message.partition(" preemption:")[0]

    assert placed(alone) == placed(alone, "here") == placed(configuration(), "here")
    elsewhere = "0/3 nodes are available: 3 node(s) had no available volume zone. no new claims to deallocate,"
    assert placed(alone, "there") == placed(configuration(), "there") == (None, elsewhere)
    missing = 'persistentvolumeclaim "missing" not found. no new claims to deallocate,'
    assert placed(alone, "missing") == (None, f"0/3 nodes are available: 3 looking up PVC default/missing: {missing}")
    others.append({"name": "NodeVolumeLimits"})
    assert placed(alone, "missing") == (None, f"0/3 nodes are available: 3 {missing}")
