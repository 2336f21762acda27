"""Karpenter behind the seam: what comes, what goes, why the rest stays, and what it costs."""

from typing import Any

import pytest

import kplan
import kplan.documents.nodes
from kplan.documents.remedies import NodesReport
from kplan.report.new_nodes import stay_words
from tests.course.test_edits import LABELS, NOW, READY, TRUE, pool
from tests.objects import head, owned_by, planner_of, template

SIZES = {"m.large": 2, "m.xlarge": 4, "m.2xlarge": 8}
TYPES: list[dict[str, Any]] = [
    {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "58"},
        "overhead": {"kubeReserved": {"cpu": "100m"}},
        "offerings": [
            {"zone": zone, "capacityType": capacity_type, "price": price * cpu}
            for zone in ("a", "b")
            for capacity_type, price in (("on-demand", 0.05), ("spot", 0.02))
        ],
    }
    for name, cpu in SIZES.items()
]


def pod(name: str, cpu: str, node: str = "", **spec: Any) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    owners = owned_by("ReplicaSet/web")
    return head("Pod", name=name, namespace="default", uid=name, ownerReferences=owners, labels={"a": "b"}) | {
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec},
        "status": {"phase": "Running"} if node else {"phase": "Pending", "conditions": [condition]},
    }


def machine(name: str, instance_type: str = "m.xlarge", **metadata: Any) -> list[dict[str, Any]]:
    cpu = SIZES[instance_type]
    capacity = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "58"}
    allocatable = {**capacity, "cpu": f"{cpu * 1000 - 100}m"}
    labels = {**LABELS, "node.kubernetes.io/instance-type": instance_type}
    status = {"capacity": capacity, "allocatable": allocatable}
    created = {"creationTimestamp": "2026-01-15T10:00:00Z"}
    return [
        head("NodeClaim", name=name, labels=labels, **created)
        | {"spec": {}, "status": {**status, "providerID": name, "nodeName": name, "conditions": TRUE}},
        head("Node", name=name, labels={**labels, "kubernetes.io/hostname": name}, **metadata)
        | {"spec": {"providerID": name}, "status": {**status, "conditions": [{"type": "Ready", "status": "True"}]}},
    ]


def node_pool(**disruption: Any) -> dict[str, Any]:
    own = pool()
    own["spec"]["disruption"] = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption}
    own["status"] = {"conditions": READY}
    return own


def report(*objects: dict[str, Any], types: Any = TYPES, **options: Any) -> NodesReport:
    return report_of(kplan.Karpenter(instance_types=types, options=options), *objects)


def report_of(karpenter: kplan.Karpenter, *objects: dict[str, Any]) -> NodesReport:
    return planner_of(objects, autoscaler=karpenter, now=NOW).nodes()


def test_pods_that_fit_nowhere_get_the_cheapest_node() -> None:
    found = report(node_pool(), pod("one", "1500m"), pod("two", "1500m"))
    (added,) = found.adds
    assert (added.pool, added.instance_type, added.zone, added.price) == ("general", "m.xlarge", "a", 0.08)
    assert added.pods == ("default/one", "default/two")
    assert added.options == ("m.xlarge", "m.2xlarge")
    assert found.price.after == 0.08


def test_a_pool_gets_the_instance_types_of_its_node_class() -> None:
    small, *others = TYPES
    roomy = {**small, "nodeClasses": ["roomy"], "resources": {"cpu": "16", "memory": "64Gi", "pods": "58"}}
    plain = {**small, "nodeClasses": ["default"]}
    found = report(node_pool(), pod("one", "1"), pod("two", "12"), types=[roomy, plain, *others])
    assert [(added.instance_type, added.pods) for added in found.adds] == [("m.large", ("default/one",))]
    assert list(found.unhelped) == ["default/two"]


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        ([*READY[:2], {"type": "Ready", "status": "Unknown"}], "it is not ready: Ready is Unknown"),
        (READY[:2], "it is not ready: it has no condition Ready yet"),
        (READY[1:], "it is not ready: it has no condition ValidationSucceeded yet"),
        (
            [READY[0], {"type": "NodeClassReady", "status": "False", "reason": "NodeClassNotFound"}],
            "it is not ready: NodeClassReady is False (NodeClassNotFound)",
        ),
    ],
)
def test_a_pool_that_is_not_ready_is_named_with_its_reason(conditions: list[dict[str, Any]], why: str) -> None:
    found = report(node_pool() | {"status": {"conditions": conditions}}, pod("one", "1"))
    assert found.unhelped["default/one"] == {"general": (why,)}


def test_how_far_limits_are_used_up_is_said() -> None:
    own = node_pool()
    own["spec"]["limits"] = {"cpu": "5"}
    found = report(own, *machine("n1"), pod("web", "3", "n1"), pod("one", "2"))
    assert found.unhelped["default/one"]["general"] == ("its limits (cpu 5, 4 in use) leave room for no further node",)
    assert "exceed limits for nodepool" in found.events["default/one"]


@pytest.mark.parametrize(
    ("classes", "options", "chosen"),
    [
        ((), {}, "general"),
        (("KWOKNodeClass",), {}, "other"),
        (("KWOKNodeClass",), {"supportedNodeClasses": ["karpenter.k8s.aws/EC2NodeClass"]}, "general"),
    ],
)
def test_pools_of_another_provider_are_passed_over(
    classes: tuple[str, ...], options: dict[str, Any], chosen: str
) -> None:
    pools = []
    for name, group, kind in (
        ("general", "karpenter.k8s.aws", "EC2NodeClass"),
        ("other", "karpenter.kwok.sh", "KWOKNodeClass"),
    ):
        reference = {"group": group, "kind": kind, "name": "default"}
        own = node_pool()
        own["metadata"] = {**own["metadata"], "name": name}
        own["spec"] = {**own["spec"], "template": {"spec": {"nodeClassRef": reference}}}
        pools.append(own)
    there = [{"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": kind, "metadata": {"name": "x"}} for kind in classes]

    found = report(*pools, *there, pod("one", "1"), **options)

    assert [node.pool for node in found.adds] == [chosen]
    (ignored,) = (warning for warning in found.warnings if warning.code == "OtherProvider")
    assert ignored.object != chosen


def deployment(image: str = "", **labels: str) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "controller", "image": image}]}}
    return head("Deployment", name="karpenter", namespace="kube-system", labels=labels) | {
        "spec": {"template": template}
    }


@pytest.mark.parametrize(
    ("objects", "version", "warns"),
    [
        ([], "1.14", False),
        ([deployment(**{"app.kubernetes.io/version": "1.13.2"})], "1.13", False),
        ([deployment("public.ecr.aws:443/karpenter/controller:v1.13.0@sha256:ab")], "1.13", False),
        ([deployment("public.ecr.aws:443/karpenter/controller")], "1.14", False),
        ([deployment(**{"app.kubernetes.io/version": "1.15.0"})], "1.14", True),
        ([deployment(**{"app.kubernetes.io/version": "0.37.0"})], "1.13", True),
    ],
)
def test_the_release_that_the_cluster_runs_decides(objects: list[dict[str, Any]], version: str, *, warns: bool) -> None:
    found = report(node_pool(), *objects, pod("one", "1"))
    assert found.autoscaler.version == version
    assert any(warning.code == "KarpenterVersion" for warning in found.warnings) is warns


def test_a_release_may_be_named() -> None:
    assert report_of(kplan.Karpenter(version="v1.13.4"), node_pool()).autoscaler.version == "1.13"


def test_a_move_that_saves_too_little_is_not_made_in_balance() -> None:
    busy = [pod(f"web-{number}", "500m", "n1") for number in range(7)]
    objects = [node_pool(consolidationPolicy="Balanced"), *machine("n1"), *machine("n2"), pod("other", "3800m", "n2")]
    stay = report(*objects, *busy, types=TYPES[1:2]).stays["n1"]
    assert "would save too little for what it disrupts: score" in stay.message


def buffer(name: str, **spec: Any) -> dict[str, Any]:
    return head("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1", name=name, namespace="default", uid=name) | {
        "spec": spec
    }


def buffered(*buffers: dict[str, Any], cpu: str = "1") -> NodesReport:
    chunk = head("PodTemplate", name="chunk", namespace="default") | {"template": template("chunk", cpu=cpu)}
    return report(node_pool(), chunk, *buffers, featureGates={"CapacityBuffer": True})


def test_room_is_kept_for_buffers() -> None:
    decided = buffered(buffer("warm", podTemplateRef={"name": "chunk"}, replicas=3, limits={"cpu": "2"}))
    (added,) = decided.adds
    assert added.pods == ("default/capacity-buffer-warm-1", "default/capacity-buffer-warm-2")


@pytest.mark.parametrize(
    ("own", "cpu", "message"),
    [
        (buffer("b", podTemplateRef={"name": "absent"}, replicas=1), "1", "for the buffer: PodTemplateNotFound"),
        (buffer("b", scalableRef={"kind": "Deployment", "name": "absent"}), "1", "for the buffer: ScalableRefNotFound"),
        (buffer("b", scalableRef={"kind": "Job", "name": "one"}), "1", "for the buffer: ResolutionFailed"),
        (buffer("b", podTemplateRef={"name": "chunk"}, replicas=2), "64", "for 2 of the 2 pods of the buffer"),
        (buffer("b", podTemplateRef={"name": "chunk"}, replicas=10**6), "1m", "asks for 1,000,000 pods"),
    ],
)
def test_a_buffer_without_its_room_is_warned_of(own: dict[str, Any], cpu: str, message: str) -> None:
    decided = buffered(own, cpu=cpu)
    assert [message in warning.message for warning in decided.warnings if warning.code.startswith("Buffer")] == [True]
    assert not decided.unhelped


BUDGET = head("PodDisruptionBudget", name="web", namespace="default") | {
    "spec": {"selector": {"matchLabels": {"a": "b"}}},
    "status": {"disruptionsAllowed": 0},
}
BOUND = head("PersistentVolumeClaim", name="gone", namespace="default") | {"spec": {"volumeName": "gone"}}


@pytest.mark.parametrize(
    ("objects", "reason", "message"),
    [
        ([node_pool(), BUDGET], "DisruptionBlocked", "Pdb prevents pod evictions (PodDisruptionBudget=[default/web])"),
        ([node_pool(budgets=[{"nodes": "0"}])], "DisruptionBlocked", "No allowed disruptions for disruption reason"),
        ([node_pool(consolidateAfter="Never")], "Unconsolidatable", 'NodePool "general" has consolidation disabled'),
        ([node_pool(consolidationPolicy="WhenEmpty")], "Unconsolidatable", "policy WhenEmpty, but node is not empty"),
        ([node_pool(consolidateAfter="24h")], "Unconsolidatable", "consolidateAfter has not passed"),
    ],
)
def test_a_node_that_stays_says_why(objects: list[dict[str, Any]], reason: str, message: str) -> None:
    stay = report(*objects, *machine("n1", "m.2xlarge"), pod("web", "1", "n1")).stays["n1"]
    assert stay.reason == reason
    assert message in stay.message


def test_a_pod_without_another_place_is_named_with_its_reason() -> None:
    present = pod("web", "1", "n1", nodeSelector={"node.kubernetes.io/instance-type": "m.old"})
    stay = report(node_pool(), *machine("n1"), present).stays["n1"]
    assert stay.pod == "default/web"
    assert stay.message.startswith("Not all pods would schedule, default/web => no instance type met")


@pytest.mark.parametrize(("others", "n_new"), [([], 1), (machine("n2"), 0), ([*machine("n2"), BOUND], 1)])
def test_a_pod_whose_claim_or_volume_is_gone_gets_a_place(others: list[dict[str, Any]], n_new: int) -> None:
    present = pod("web", "1", "n1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}])
    assert len(report(node_pool(), *machine("n1"), *others, present, markedForDeletion=["n1"]).adds) == n_new


@pytest.mark.parametrize(("after", "decision"), [("24h", "replace"), ("Never", "delete")])
def test_no_pod_moves_to_a_young_node_even_of_a_pool_without_a_usable_type(after: str, decision: str) -> None:
    odd, young = node_pool(consolidateAfter=after), machine("n2")
    odd["metadata"]["name"] = "odd"
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m.old"]}
    odd["spec"]["template"]["spec"]["requirements"] = [wanted]
    for one in young:
        one["metadata"]["labels"] = {**one["metadata"]["labels"], "karpenter.sh/nodepool": "odd"}
    stay = report(node_pool(), odd, *machine("n1"), *young, pod("web", "1", "n1")).stays["n1"]
    assert stay.message.startswith(f"{decision}: [n1]")


@pytest.mark.parametrize(("version", "is_wanted"), [("1.13", True), ("1.14", False)])
def test_a_preference_for_nodes_that_are_not_initialized_holds_until_templates_say_that_they_are(
    version: str, *, is_wanted: bool
) -> None:
    avoided = {"key": "karpenter.sh/initialized", "operator": "NotIn", "values": ["true"]}
    terms = [{"weight": 1, "preference": {"matchExpressions": [avoided]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    karpenter = kplan.Karpenter(instance_types=TYPES, version=version)
    planner = planner_of([node_pool(), pod("web", "1", affinity=affinity)], autoscaler=karpenter, now=NOW)
    (claim,) = planner.nodes(full=True).to_dict()["detail"]["provisioning"]["nodeClaims"]
    assert (avoided in claim["requirements"]) is is_wanted


def test_a_replacement_that_cannot_be_launched_is_warned_of() -> None:
    types = [
        {**entry, "offerings": [one for one in entry["offerings"] if one["capacityType"] != "spot"]} for entry in TYPES
    ]
    found = report(node_pool(), *machine("n1", "m.2xlarge"), pod("web", "1", "n1"), types=types)
    # Karpenter asks for spot capacity wherever the pool would allow it, whether there is any or not.
    assert ("LaunchFails", "general-new-1") in {(warning.code, warning.object) for warning in found.warnings}


def test_nodes_of_others_are_not_karpenters() -> None:
    _, node = machine("n1")
    node["metadata"]["labels"] = {"kubernetes.io/hostname": "n1"}
    stay = report(node_pool(), node).stays["n1"]
    assert stay.message == "Node isn't managed by karpenter"
    assert stay_words(stay) == "not one of Karpenter's nodes"


def test_without_a_catalogue_the_types_of_present_nodes_are_known_and_prices_are_not() -> None:
    found = report(node_pool(), *machine("n1", "m.2xlarge"), pod("web", "7", "n1"), pod("new", "5"), types=None)
    (added,) = found.adds
    assert (added.instance_type, added.price, found.price.before) == ("m.2xlarge", None, None)
    assert "NoPrices" in {warning.code for warning in found.warnings}
    assert found.autoscaler.source == "the nodes and node claims of the cluster"


def test_a_node_of_an_unknown_type_and_one_beyond_its_lifetime_are_warned_of() -> None:
    claim, node = machine("n1")
    claim["spec"]["expireAfter"] = "1h"
    found = report(node_pool(), claim, node, types=TYPES[:1])
    warnings = {(warning.code, warning.object) for warning in found.warnings}
    assert {("UnknownInstanceType", "m.xlarge"), ("Expired", "n1")} <= warnings


@pytest.mark.parametrize(
    ("version", "options", "message"),
    [
        ("1.14", {"preferencePolicy": "Sometimes"}, "preferencePolicy"),
        ("1.14", {"preferencesPolicy": "Ignore"}, "no option 'preferencesPolicy'"),
        ("1.14", {"featureGates": {"SpotToSpot": True}}, "no feature gate 'SpotToSpot'"),
        ("1.13", {"featureGates": {"CapacityBuffer": True}}, r"1\.13 has no feature gate 'CapacityBuffer'"),
        ("1.12", {}, r"1\.12.*not known"),
    ],
)
def test_what_karpenter_does_not_have_is_refused(version: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(kplan.UsageError, match=message):
        report_of(kplan.Karpenter(version=version, options=options), node_pool())


NOT_IN_ZONES = {"unsupportedTopologyKeys": ["topology.kubernetes.io/zone"]}
UNSUPPORTED_KEY = (
    "failed to validate pvc, storage class uses unsupported topology key "
    "(PersistentVolumeClaim=default/v, StorageClass=fast, TopologyKey=topology.kubernetes.io/zone)"
)
UNSUPPORTED_PROVISIONER = (
    "failed to validate pvc, provisioner is not supported "
    "(PersistentVolumeClaim=default/v, Provisioner=csi.example.com, StorageClass=fast)"
)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, ""),
        ({"unsupportedTopologyKeys": ["example.com/zone"], "unsupportedProvisioners": ["other.example.com"]}, ""),
        (NOT_IN_ZONES | {"unsupportedProvisioners": ["csi.example.com"]}, UNSUPPORTED_KEY),
        ({"unsupportedProvisioners": ["csi.example.com"]}, UNSUPPORTED_PROVISIONER),
    ],
)
def test_pods_with_volumes_that_the_provider_does_not_support_get_no_node(options: dict[str, Any], why: str) -> None:
    terms = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b"]}]}]
    storage = head("StorageClass", name="fast") | {
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": terms,
    }
    claim = head("PersistentVolumeClaim", name="v", namespace="default") | {"spec": {"storageClassName": "fast"}}
    user = pod("web", "1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}])

    found = report(node_pool(), storage, claim, user, **options)

    assert [added.zone for added in found.adds] == ([] if why else ["b"])
    assert found.unhelped == ({"default/web": {"": (why,)}} if why else {})
