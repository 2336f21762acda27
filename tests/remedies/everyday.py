"""Small clusters with one pod pending for an everyday reason each, and what they consist of."""

from dataclasses import dataclass
from typing import Any

from tests.objects import HOSTNAME as HOST
from tests.objects import Object, affinity, head, node, pod, spread

ZONE = "topology.kubernetes.io/zone"
KEY = "default/web"


@dataclass(frozen=True)
class Story:
    """A cluster, what the diagnosis must say, and which remedies it must offer."""

    name: str
    objects: list[dict[str, Any]]
    says: tuple[str, ...]
    remedies: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    best: str = ""


def web(**spec: Any) -> dict[str, Any]:
    return pod("web", **spec)


def selecting(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a pod's spec that requires nodes of one of these terms."""
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def having(key: str, value: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def on_node(name: str) -> dict[str, Any]:
    return selecting({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]})


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


def limit_range(**bounds: Any) -> dict[str, Any]:
    """Make a limit range of containers: ``min={"cpu": "1"}`` and the like."""
    spec = {"limits": [{"type": "Container", **bounds}]}
    return head("LimitRange", name="bounds", namespace="default") | {"spec": spec}


def cordoned(name: str, **more: Any) -> dict[str, Any]:
    cordoned = node(name, taints=[taint("node.kubernetes.io/unschedulable")], **more)
    cordoned["spec"]["unschedulable"] = True
    return cordoned


def claim(name: str, class_name: str | None = None, volume: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {} if class_name is None else {"storageClassName": class_name}
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return head("PersistentVolumeClaim", **metadata) | {"spec": spec}


def volume(name: str, zone: str) -> dict[str, Any]:
    return head("PersistentVolume", name=name, labels={ZONE: zone}) | {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": "data"},
        }
    }


def storage_class(name: str, mode: str) -> dict[str, Any]:
    return head("StorageClass", name=name) | {"provisioner": "csi.example.com", "volumeBindingMode": mode}


def of_deployment(*sets: str) -> list[dict[str, Any]]:
    """Return a Deployment of one replica, and its ReplicaSets."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    owned = [head("ReplicaSet", name=name, namespace="default", ownerReferences=[owner]) for name in sets]
    return [head("Deployment", name="web", namespace="default") | {"spec": {"replicas": 1}}, *owned]


def mounting(claim_name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]}


def priority_class(name: str, value: int) -> dict[str, Any]:
    return head("PriorityClass", name=name) | {"value": value}


def gpu_node(name: str, number: str, of: str = "") -> dict[str, Any]:
    """Return a node of whose devices a number is healthy; all unless there are more."""
    with_gpus, room = node(name), node(name)["status"]["allocatable"]
    with_gpus["status"]["allocatable"] = {**room, "nvidia.com/gpu": number}
    if of:
        with_gpus["status"]["capacity"] = {**room, "nvidia.com/gpu": of}
    return with_gpus


def asking(base_pod: dict[str, Any], **requests: str) -> dict[str, Any]:
    resources = base_pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {name.replace("__", "/").replace("_", "."): value for name, value in requests.items()}
    return base_pod


def with_disk(base_node: dict[str, Any], amount: str) -> dict[str, Any]:
    base_node["status"]["allocatable"] = {**base_node["status"]["allocatable"], "ephemeral-storage": amount}
    return base_node


def recommending(cpu: str) -> dict[str, Any]:
    """Make a VerticalPodAutoscaler of the pod's ReplicaSet."""
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    recommended = {"containerRecommendations": [{"containerName": "c", "target": {"cpu": cpu}}]}
    return head("VerticalPodAutoscaler", name="web", namespace="default") | {
        "spec": {"targetRef": target},
        "status": {"recommendation": recommended},
    }


MASTER = taint("node-role.kubernetes.io/control-plane")
ARCH = "kubernetes.io/arch"
POOL_X, POOL_Y = {"pool": "x", "disk": "ssd"}, {"pool": "y", "disk": "hdd"}
ONLY_ONCE = {
    **claim("data", "", "pv"),
    "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"},
}


def held(written: Object, *finalizers: str) -> Object:
    return written | {"metadata": written["metadata"] | {"finalizers": [*finalizers]}}


STORIES = (
    Story("too little cpu is free on any node",
          [node("a", cpu="2"), node("b", cpu="2"), web(cpu="2"), pod("x", on="a", cpu="500m"), pod("y", on="b")],
          ("Both nodes lack cpu (requests 2, at most 1500m free, on a).",), ("lower-request", "add-nodes")),
    Story("a limit range asks for more than is free",
          [node("a", cpu="2"), web(cpu="2"), pod("x", on="a", cpu="500m"), limit_range(min={"cpu": "1600m"})],
          ("The only node, a, lacks cpu (requests 2, 1500m free).",), ("add-nodes",), ("lower-request",)),
    Story("a limit range asks for less than is free",
          [node("a", cpu="2"), web(cpu="2"), pod("x", on="a", cpu="500m"), limit_range(min={"cpu": "1500m"})],
          ("The only node, a, lacks cpu (requests 2, 1500m free).",), ("lower-request",)),
    Story("no node has enough of both",
          [node("a", cpu="4", memory="16Gi"), node("b", cpu="8"), asking(web(), cpu="6", memory="12Gi")],
          ("1 lacks cpu (requests 6, it has 4 even when empty), 1 lacks memory (requests 12Gi, it has 8Gi even",),
          ("add-nodes", "lower-request", "lower-request")),
    Story("no node is large enough even when it is empty", [node("a", cpu="2"), node("b", cpu="4"), web(cpu="8")],
          ("Neither node is large enough, even empty: it requests 8 cpu, and the largest, b, has 4",),
          ("lower-request", "add-nodes")),
    Story("a label is misspelt, and a taint is not tolerated",
          [node("a", labels={"disk": "ssd"}, taints=[taint("dedicated", "ml")]), web(nodeSelector={"disk": "sdd"})],
          ("No node has disk=sdd; the only value is ssd (did you mean ssd?)",), ("together",)),
    Story("a label is misspelt, and the node is full",
          [node("a", cpu="1", labels={"disk": "ssd"}), pod("x", on="a"), web(nodeSelector={"disk": "sdd"})],
          ("No node has disk=sdd; the only value is ssd (did you mean ssd?)",), ("together",)),
    Story("cpu and memory are both too little",
          [node("a", cpu="2", memory="4Gi"), asking(web(), cpu="3", memory="6Gi")],
          ("No node is large enough, even empty: it requests 3 cpu, and the largest, a, has 2; ",), ("lower-request",)),
    Story("nodes of several pools have taints of their own",
          [node("a", taints=[taint("dedicated", "ml")]), node("b", taints=[taint("spot", "true")]), web()],
          ("Both nodes have taints it does not tolerate (dedicated=ml:NoSchedule, spot=true:NoSchedule).",),
          ("tolerate-taint",)),
    Story("a resource that no node offers", [node("a"), asking(web(), nvidia_com__gpu="1")],
          ("has nvidia.com/gpu, of which it requests 1",), ("add-nodes",)),
    Story("devices are few",
          [gpu_node("a", "4"), node("b"), asking(web(), nvidia_com__gpu="2"),
           asking(pod("x", on="a"), nvidia_com__gpu="3")], ("nvidia.com/gpu (requests 2",),
          ("lower-request", "add-nodes")),
    Story("a label is misspelt",
          [node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "hdd"}), web(nodeSelector={"disk": "sdd"})],
          ("Neither node has disk=sdd; the values are hdd, ssd (did you mean ssd?)",), ("correct-selector",),
          best="correct-selector"),
    Story("a label key is misspelt", [node("a", labels={"disktype": "ssd"}), web(nodeSelector={"disktpye": "ssd"})],
          ("no node has label disktpye (did you mean disktype?)",), ("correct-selector",)),
    Story("an affinity to a zone that does not exist",
          [node("a", labels={ZONE: "eu-1a"}), node("b", labels={ZONE: "eu-1b"}),
           web(**selecting(having(ZONE, "eu-1c")))],
          ("Neither node has topology.kubernetes.io/zone=eu-1c; the values are eu-1a, eu-1b",), ("correct-selector",)),
    Story("all nodes have a taint",
          [node("a", taints=[taint("dedicated", "ml")]), node("b", taints=[taint("dedicated", "ml")]), web()],
          ("Both nodes have a taint it does not tolerate (dedicated=ml:NoSchedule).",), ("tolerate-taint",)),
    Story("all nodes are full",
          [node("a", cpu="1"), node("b", cpu="1"), web(cpu="1"), pod("x", on="a"), pod("y", on="b")],
          ("Both nodes lack cpu (requests 1, none free).",), ("add-nodes",)),
    Story("the only node with room is cordoned", [cordoned("a"), node("b", cpu="1"), web(cpu="1"), pod("x", on="b")],
          ("Neither node fits:", "1 is cordoned", "1 lacks cpu (requests 1, 0 free)"), ("uncordon",)),
    Story("nodes are not ready",
          [node("a", taints=[taint("node.kubernetes.io/not-ready")]),
           node("b", taints=[taint("node.kubernetes.io/unreachable", effect="NoExecute")]), web()],
          ("1 is not ready", "1 is unreachable"), ("repair-node",), ("tolerate-taint",)),
    Story("replicas keep apart on as many hosts as there are",
          [node("a"), node("b"), pod("web-0", on="a", labels={"app": "web"}),
           pod("web-1", on="b", labels={"app": "web"}),
           web(labels={"app": "web"}, **affinity("podAntiAffinity", HOST, app="web"))],
          ("Both nodes have pods that its anti-affinity excludes (default/web-", f"2 domains of {HOST}"),
          ("relax", "add-nodes")),
    Story("others keep it away",
          [node("a"), node("b", cpu="1"),
           pod("db", on="a", owner="StatefulSet/db", **affinity("podAntiAffinity", HOST, app="web")),
           web(labels={"app": "web"}, cpu="2")],
          ("1 has pods whose anti-affinity excludes it (default/db", "1 lacks cpu"), ("move-pod", "add-nodes")),
    Story("the spread over zones does not hold",
          [node("a", labels={ZONE: "x"}), node("b", cpu="1", labels={ZONE: "y"}),
           pod("web-0", on="a", labels={"app": "web"}), pod("other", on="b"),
           web(labels={"app": "web"}, **spread(ZONE, app="web"))],
          (f"1 would exceed maxSkew 1 over {ZONE} (1 in x", "1 lacks cpu"), ("relax", "add-nodes")),
    Story("nothing to be near to", [node("a"), web(**affinity("podAffinity", HOST, app="cache"))],
          ("no pod that it must run next to", "no such pod runs anywhere"), ("relax",)),
    Story("anti-affinity to pods that fit elsewhere",
          [node("a"), pod("x", on="a", labels={"app": "x"}, owner="ReplicaSet/x"), node("b", cpu="1"),
           web(cpu="2", **affinity("podAntiAffinity", HOST, app="x"))],
          ("1 has pods that its anti-affinity excludes (default/x in", "1 lacks cpu"),
          ("move-pod", "add-nodes", "relax")),
    Story("a host port is taken",
          [node("a"), node("b", cpu="1"), pod("x", on="a", ports=[80], owner="ReplicaSet/x"), web(ports=[80], cpu="2")],
          ("1 has host port 80/TCP taken (default/x)", "1 lacks cpu"),
          ("move-pod", "add-nodes", "drop-host-ports")),
    Story("a claim does not exist",
          [node("a"), claim("data-web", "fast"), storage_class("fast", "WaitForFirstConsumer"),
           web(**mounting("dataweb"))], ("Its claim default/dataweb does not exist (did you mean data-web?).",),
          ("correct-name", "create")),
    Story("a claim is not bound yet",
          [node("a"), claim("data", "fast"), storage_class("fast", "Immediate"), web(**mounting("data"))],
          (("Its claim default/data of storage class fast is not bound yet: csi.example.com has not made its volume, "
            "which it does before the pod has a node, for nodes that kplan cannot know; kubectl describe pvc data -n "
            "default."),)),
    Story("the class of a claim does not exist",
          [node("a"), claim("data", "fsat"), storage_class("fast", "WaitForFirstConsumer"), web(**mounting("data"))],
          ("Its claim default/data is not bound: there is no storage class fsat (did you mean fast?).",),
          ("correct-name", "create")),
    Story("the volume is in another zone",
          [node("a", cpu="1", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}), claim("data", "", "pv"),
           volume("pv", "x"), pod("other", on="a"), web(**mounting("data"))],
          ("1 is not in the zone of volume pv", f"{ZONE}=x", "1 lacks cpu (requests 1, 0 free)")),
    Story("gates hold it back", [node("a"), web(schedulingGates=[{"name": "example.com/quota"}])],
          ("The scheduler ignores it until its scheduling gate example.com/quota is removed",), ("remove-gates",)),
    Story("another scheduler is to place it", [node("a"), web(schedulerName="default-schedular")],
          ("It waits for scheduler default-schedular, which no profile here has (did you mean default-scheduler?).",),
          ("correct-name",)),
    Story("victims are still leaving",
          [node("a", cpu="1"), pod("low", on="a", leaving=True), web(priority=10, nominated="a")],
          ("It is nominated to a and waits until default/low ends",)),
    Story("a daemon's node is full",
          [node("a", cpu="1"), node("b"), pod("x", on="a"), web(owner="DaemonSet/web", **on_node("a"))],
          ("It can run on a only, which lacks cpu (requests 1, 0 free).",)),
    Story("the only node of its affinity does not exist", [node("web-1"), web(**on_node("web-2"))],
          ("It requires node web-2, which does not exist (did you mean web-1?).",)),
    Story("its resource claim does not exist",
          [node("a"), web(resourceClaims=[{"name": "gpu", "resourceClaimName": "none"}])],
          ("Its ResourceClaim default/none does not exist.",),
          never=("remove-gates",)),
    Story("a node runs as many pods as it may", [node("a", pods="1"), pod("x", on="a"), web()],
          ("The only node, a, runs 1 pod already, the maximum.",), ("add-nodes",)),
    Story("its priority is too low to make room",
          [node("a", cpu="1"), pod("x", on="a", priority=5), web(priority=1), priority_class("high", 100)],
          ("The only node, a, lacks cpu (requests 1, 0 free).",), ("add-nodes", "raise-priority")),
    Story("its priority makes room",
          [node("a", cpu="1"), pod("x", on="a", priority=5), web(priority=9), priority_class("high", 100)],
          ("lacks cpu (requests 1, 0 free)",), ("add-nodes",), ("raise-priority",)),
    Story("no node has so much disk of its own",
          [with_disk(node("a"), "10Gi"), with_disk(node("b"), "20Gi"), asking(web(), **{"ephemeral-storage": "30Gi"})],
          ("it requests 30Gi ephemeral-storage, and the largest, b, has 20Gi",), ("lower-request",)),
    Story("no node has huge pages", [node("a"), asking(web(), **{"hugepages-2Mi": "64Mi"})],
          ("No node has hugepages-2Mi, of which it requests 64Mi.",)),
    Story("a resource is misspelt", [gpu_node("a", "4"), gpu_node("b", "4"), asking(web(), nvidia_com__gpus="1")],
          ("Neither node has nvidia.com/gpus, of which it requests 1 (did you mean nvidia.com/gpu?).",),
          ("correct-name",), ("add-nodes",)),
    Story("no node has its architecture", [node("a", labels={ARCH: "amd64"}), web(nodeSelector={ARCH: "arm64"})],
          (f"No node has {ARCH}=arm64; the only value is amd64.",), ("add-nodes",), ("correct-selector",)),
    Story("workers are full and the control plane is not for it",
          [node("m", taints=[MASTER]), node("w", cpu="2"), web(cpu="2"), pod("x", on="w")],
          ("1 has a taint it does not tolerate", "1 lacks cpu (requests 2, 1 free)"),
          ("lower-request", "add-nodes", "tolerate-taint"), best="add-nodes"),
    Story("a node is short of disk",
          [node("a", taints=[taint("node.kubernetes.io/disk-pressure")]), node("b", cpu="1"), pod("x", on="b"), web()],
          ("1 is under disk pressure", "1 lacks cpu (requests 1, 0 free)"), ("add-nodes", "repair-node"),
          ("tolerate-taint",)),
    Story("its rule goes by a label that nodes lack",
          [node("a"), node("b"), web(labels={"app": "web"}, **spread(ZONE, app="web"))],
          (f"Neither node has label {ZONE}, the topology key of its rule.",), ("relax",)),
    Story("the pods to be near to are misspelt",
          [node("a"), pod("r", on="a", labels={"app": "redis-cache"}),
           web(**affinity("podAffinity", HOST, app="redis"))],
          ("no such pod runs anywhere; did you mean app=redis-cache?",), ("correct-name", "relax"),
          best="correct-name"),
    Story("volumes are made in another zone only",
          [node("a", labels={ZONE: "x"}), claim("data", "fast"),
           {**storage_class("fast", "WaitForFirstConsumer"),
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}]},
           web(**mounting("data"))],
          (f"for claim default/data (1Gi of class fast, whose volumes are provisioned only where {ZONE} in (z))",)),
    Story("nobody makes volumes of the class",
          [node("a"), claim("data", "local"),
           {**storage_class("local", "WaitForFirstConsumer"), "provisioner": "kubernetes.io/no-provisioner"},
           web(**mounting("data"))],
          ("has no free volume for claim default/data (1Gi of class local, for which none are provisioned).",)),
    Story("all nodes are in another zone than its volume",
          [node("a", labels={ZONE: "y"}), node("b", labels={ZONE: "y"}), claim("data", "", "pv"), volume("pv", "x"),
           web(**mounting("data"))], (f"Neither node is in the zone of volume pv ({ZONE}=x).",), ("add-nodes",)),
    Story("no node has both labels",
          [node("a", labels=POOL_X), node("b", labels=POOL_Y), web(nodeSelector={"pool": "x", "disk": "hdd"})],
          ("Neither node has all the labels it requires: 1 has pool=x, 1 has disk=hdd, none has both.",),
          ("correct-selector",)),
    Story("its pool is full",
          [node("a", cpu="1", labels=POOL_X), node("b", labels=POOL_Y), pod("x", on="a"),
           web(nodeSelector={"pool": "x"})],
          ("1 does not have the labels it requires (pool=x)", "1 lacks cpu (requests 1, 0 free)"),
          ("add-nodes", "correct-selector"), best="add-nodes"),
    Story("either of two labels, and no node has one of them",
          [node("a", labels=POOL_X), web(**selecting(having("pool", "y"), having("pool", "z")))],
          ("No node has pool=y or pool=z; the only value is x.",)),
    Story("no node has either architecture",
          [node("a", labels={ARCH: "amd64"}), web(**selecting(having(ARCH, "arm64"), having(ARCH, "s390x")))],
          (f"No node has {ARCH}=arm64 or {ARCH}=s390x; the only value is amd64.",), ("add-nodes",)),
    Story("its claim is for one pod at a time",
          [node("a"), node("b"), ONLY_ONCE, volume("pv", "x"), pod("one", on="b", **mounting("data")),
           web(**mounting("data"))],
          ("claim default/data is for one pod only (ReadWriteOncePod), and default/one on b uses it",), (),
          ("add-nodes",)),
    Story("what runs first asks for too much",
          [node("a", cpu="2"),
           web(initContainers=[{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}])],
          ("it requests 3 cpu for init container i, and the largest, a, has 2",), ("lower-request",)),
    Story("there are too few domains",
          [node("a", labels={ZONE: "x"}), pod("web-0", on="a", labels={"app": "web"}),
           web(labels={"app": "web"},
               topologySpreadConstraints=[{**spread(ZONE, app="web")["topologySpreadConstraints"][0],
                                           "minDomains": 2}])],
          (f"maxSkew 1 over {ZONE} (1 in x; only 1 of at least 2 domains exist)",), ("relax", "add-nodes")),
    Story("a toleration misspells the key of a taint",
          [node("a", taints=[taint("example.com/dedicated", "ml")]),
           web(tolerations=[{"key": "dedicated", "operator": "Exists"}])],
          ("it tolerates dedicated: did you mean example.com/dedicated?",), ("correct-name",), ("tolerate-taint",),
          best="correct-name"),
    Story("a toleration has the wrong effect",
          [node("a", taints=[taint("dedicated", "ml")]),
           web(tolerations=[{"key": "dedicated", "value": "ml", "effect": "NoExecute"}])],
          ("did you mean dedicated=ml:NoSchedule?",), best="correct-name"),
    Story("a toleration is for other nodes",
          [node("a", taints=[taint("pool", "batch-1")]), node("b", cpu="1", taints=[taint("pool", "batch-2")]),
           pod("x", on="b", cpu="1"),
           web(cpu="1", tolerations=[{"key": "pool", "value": "batch-2", "effect": "NoSchedule"}])],
          ("1 has a taint it does not tolerate (pool=batch-1:NoSchedule)",), ("tolerate-taint",), ("correct-name",)),
    Story("the topology key of spreading is misspelt",
          [node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}),
           web(labels={"app": "web"}, **spread("kubernetes.io/zone", app="web"))], (f"did you mean {ZONE}?",),
          ("correct-name", "relax"), best="correct-name"),
    Story("the label key of the pods to be near to is misspelt",
          [node("a"), pod("r", on="a", labels={"app.kubernetes.io/name": "redis"}),
           web(**affinity("podAffinity", HOST, name="redis"))], ("did you mean app.kubernetes.io/name=redis?",),
          best="correct-name"),
    Story("a toleration is nearer to the taint of other nodes",
          [node("a", taints=[taint("team", "match")]), node("b", taints=[taint("team", "batch")]),
           web(tolerations=[{"key": "team", "value": "bacth", "effect": "NoSchedule"}])],
          ("did you mean team=batch:NoSchedule?",), ("correct-name",), best="correct-name"),
    Story("it names the node where it runs, which is full",
          [node("a", cpu="1"), node("b"), pod("x", on="a"), web(nodeSelector={HOST: "a"})],
          ("1 lacks cpu (requests 1, 0 free)",), (), ("correct-selector",)),
    Story("a node with room is being set up",
          [node("a", cpu="1"), pod("x", on="a"),
           node("fresh",
                taints=[taint("node.cloudprovider.kubernetes.io/uninitialized", "true"),
                        taint("ebs.csi.aws.com/agent-not-ready", effect="NoExecute")]), web()],
          ("1 is not set up yet", "1 lacks cpu"), ("wait", "add-nodes"), ("repair-node", "tolerate-taint"),
          best="wait"),
    Story("the device plugin of a node does not work", [gpu_node("a", "0", "4"), asking(web(), nvidia_com__gpu="1")],
          ("a reports 4 nvidia.com/gpu but 0 are allocatable: look at the device plugin.",), ("repair-node",),
          ("add-nodes",), best="repair-node"),
    Story("some devices of a node are not healthy",
          [gpu_node("a", "6", "8"), gpu_node("b", "4"), asking(web(), nvidia_com__gpu="8")],
          ("a reports 8 nvidia.com/gpu but only 6 are allocatable: look at the device plugin.",),
          ("repair-node", "lower-request"), ("add-nodes",), best="repair-node"),
    Story("a quota system holds it back", [node("a"), web(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])],
          ("scheduling gate kueue.x-k8s.io/admission",), ("wait",), ("remove-gates",)),
    Story("only a sibling could make room",
          [node("a", cpu="1"), pod("web-1", on="a", owner="ReplicaSet/web"), web(owner="ReplicaSet/web"),
           priority_class("high", 100)], ("lacks cpu (requests 1, 0 free)",), ("add-nodes",),
          ("raise-priority", "move-pod")),
    Story("who would make room is of another team and has no other place",
          [node("a", cpu="1"), pod("x", on="a", namespace="other", owner="ReplicaSet/x"), web(),
           priority_class("high", 100)], ("lacks cpu (requests 1, 0 free)",), ("add-nodes",), ("raise-priority",)),
    Story("its claim names a class that goes on where another ends",
          [node("a"), claim("data", "gp3-fast"), storage_class("gp3", "WaitForFirstConsumer"), web(**mounting("data"))],
          ("there is no storage class gp3-fast (did you mean gp3?)",), ("correct-name", "create"), best="correct-name"),
    Story("less than half of what it requests is free", [node("a", cpu="4"), web(cpu="3"), pod("x", on="a", cpu="3")],
          ("lacks cpu (requests 3, 1 free)",), ("add-nodes",), ("lower-request",)),
    Story("a VerticalPodAutoscaler recommends what fits",
          [node("a", cpu="4"), web(cpu="3", owner="ReplicaSet/web"), pod("x", on="a", cpu="3"), recommending("600m")],
          ("lacks cpu (requests 3, 1 free)",), ("add-nodes", "lower-request")),
    Story("a VerticalPodAutoscaler recommends more than fits",
          [node("a", cpu="4"), web(cpu="2", owner="ReplicaSet/web"), pod("x", on="a", cpu="2500m"),
           recommending("1900m")], ("lacks cpu (requests 2, 1500m free)",), ("add-nodes",), ("lower-request",)),
    Story("a rollout waits for the claim of the pod that it replaces",
          [node("a"), ONLY_ONCE, volume("pv", "x"), web(owner="ReplicaSet/web", **mounting("data")),
           pod("old", on="a", owner="ReplicaSet/old", **mounting("data")), *of_deployment("web", "old")],
          ("claim default/data is for one pod only (ReadWriteOncePod)",), ("allow-unavailable",), ("add-nodes",)),
    Story("its claim names no class, and none is the default",
          [node("a"), claim("data"), storage_class("fast", "WaitForFirstConsumer"), web(**mounting("data"))],
          ("it names no storage class, and none is the default: name one, such as fast",), ("correct-name",)),
    Story("a kubelet does not end its pod",
          [node("a", cpu="1"), held(pod("x", on="a", leaving=True), "batch.kubernetes.io/job-tracking"),
           held(pod("z", on="a", cpu=None, leaving=True), "example.com/backup"),
           pod("y", on="a", cpu=None, created="2026-03-01T13:00:00Z"), web()],
          ("lacks cpu",), ("repair-node", "add-nodes"), ("wait",), best="repair-node"),
)  # fmt: skip
