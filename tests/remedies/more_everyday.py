"""Further everyday reasons: names that are misspelt, volumes, pools and what nodes are made of."""

from tests.objects import node, pod
from tests.remedies.objects import (
    HOST,
    ZONE,
    Story,
    affinity,
    asking,
    claim,
    either,
    gpu_node,
    mounting,
    priority_class,
    recommending,
    spread,
    storage_class,
    taint,
    volume,
    web,
    with_disk,
)

MASTER = taint("node-role.kubernetes.io/control-plane")
ARCH = "kubernetes.io/arch"
POOL_X, POOL_Y = {"pool": "x", "disk": "ssd"}, {"pool": "y", "disk": "hdd"}
ONLY_ONCE = {
    **claim("data", "", "pv"),
    "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"},
}

MORE = (
    Story(
        "no node has so much disk of its own",
        [with_disk(node("a"), "10Gi"), with_disk(node("b"), "20Gi"), asking(web(), **{"ephemeral-storage": "30Gi"})],
        ("it requests 30Gi ephemeral-storage, and the largest, b, has 20Gi",),
        ("lower-request",),
    ),
    Story(
        "no node has huge pages",
        [node("a"), asking(web(), **{"hugepages-2Mi": "64Mi"})],
        ("No node has hugepages-2Mi, of which it requests 64Mi.",),
    ),
    Story(
        "a resource is misspelt",
        [gpu_node("a", "4"), gpu_node("b", "4"), asking(web(), nvidia_com__gpus="1")],
        ("Neither node has nvidia.com/gpus, of which it requests 1 (did you mean nvidia.com/gpu?).",),
        ("correct-name",),
        ("add-nodes",),
    ),
    Story(
        "no node has its architecture",
        [node("a", labels={ARCH: "amd64"}), web(nodeSelector={ARCH: "arm64"})],
        (f"No node has {ARCH}=arm64; the only value is amd64.",),
        ("add-nodes",),
        ("correct-selector",),
    ),
    Story(
        "workers are full and the control plane is not for it",
        [node("m", taints=[MASTER]), node("w", cpu="2"), web(cpu="2"), pod("x", on="w")],
        ("1 has a taint it does not tolerate", "1 lacks cpu (requests 2, 1 free)"),
        ("lower-request", "add-nodes", "tolerate-taint"),
        best="add-nodes",
    ),
    Story(
        "a node is short of disk",
        [node("a", taints=[taint("node.kubernetes.io/disk-pressure")]), node("b", cpu="1"), pod("x", on="b"), web()],
        ("1 is under disk pressure", "1 lacks cpu (requests 1, 0 free)"),
        ("add-nodes", "repair-node"),
        ("tolerate-taint",),
    ),
    Story(
        "its rule goes by a label that nodes lack",
        [node("a"), node("b"), web(labels={"app": "web"}, **spread(ZONE, app="web"))],
        (f"Neither node has label {ZONE}, the topology key of its rule.",),
        ("relax",),
    ),
    Story(
        "the pods to be near to are misspelt",
        [node("a"), pod("r", on="a", labels={"app": "redis-cache"}), web(**affinity("podAffinity", HOST, app="redis"))],
        ("no such pod runs anywhere; did you mean app=redis-cache?",),
        ("correct-name", "relax"),
        best="correct-name",
    ),
    Story(
        "volumes are made in another zone only",
        [
            node("a", labels={ZONE: "x"}),
            claim("data", "fast"),
            {
                **storage_class("fast", "WaitForFirstConsumer"),
                "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}],
            },
            web(**mounting("data")),
        ],
        (f"for claim default/data (1Gi of class fast, whose volumes are provisioned only where {ZONE} in (z))",),
    ),
    Story(
        "nobody makes volumes of the class",
        [
            node("a"),
            claim("data", "local"),
            {**storage_class("local", "WaitForFirstConsumer"), "provisioner": "kubernetes.io/no-provisioner"},
            web(**mounting("data")),
        ],
        ("has no free volume for claim default/data (1Gi of class local, for which none are provisioned).",),
    ),
    Story(
        "all nodes are in another zone than its volume",
        [
            node("a", labels={ZONE: "y"}),
            node("b", labels={ZONE: "y"}),
            claim("data", "", "pv"),
            volume("pv", "x"),
            web(**mounting("data")),
        ],
        (f"Neither node is in the zone of volume pv ({ZONE}=x).",),
        ("add-nodes",),
    ),
    Story(
        "no node has both labels",
        [node("a", labels=POOL_X), node("b", labels=POOL_Y), web(nodeSelector={"pool": "x", "disk": "hdd"})],
        ("Neither node has all the labels it requires: 1 has pool=x, 1 has disk=hdd, none has both.",),
        ("correct-selector",),
    ),
    Story(
        "its pool is full",
        [
            node("a", cpu="1", labels=POOL_X),
            node("b", labels=POOL_Y),
            pod("x", on="a"),
            web(nodeSelector={"pool": "x"}),
        ],
        ("1 does not have the labels it requires (pool=x)", "1 lacks cpu (requests 1, 0 free)"),
        ("add-nodes", "correct-selector"),
        best="add-nodes",
    ),
    Story(
        "either of two labels, and no node has one of them",
        [node("a", labels=POOL_X), web(**either("pool", "y", "z"))],
        ("No node has pool=y or pool=z; the only value is x.",),
    ),
    Story(
        "its claim is for one pod at a time",
        [
            node("a"),
            node("b"),
            ONLY_ONCE,
            volume("pv", "x"),
            pod("one", on="b", **mounting("data")),
            web(**mounting("data")),
        ],
        ("claim default/data is for one pod only (ReadWriteOncePod), and default/one on b uses it",),
        (),
        ("add-nodes",),
    ),
    Story(
        "what runs first asks for too much",
        [
            node("a", cpu="2"),
            web(initContainers=[{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}]),
        ],
        ("it requests 3 cpu for init container i, and the largest, a, has 2",),
        ("lower-request",),
    ),
    Story(
        "there are too few domains",
        [
            node("a", labels={ZONE: "x"}),
            pod("web-0", on="a", labels={"app": "web"}),
            web(
                labels={"app": "web"},
                topologySpreadConstraints=[
                    {**spread(ZONE, app="web")["topologySpreadConstraints"][0], "minDomains": 2}
                ],
            ),
        ],
        (f"maxSkew 1 over {ZONE} (1 in x; only 1 of at least 2 domains exist)",),
        ("relax", "add-nodes"),
    ),
    Story(
        "a toleration misspells the key of a taint",
        [
            node("a", taints=[taint("example.com/dedicated", "ml")]),
            web(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        ],
        ("it tolerates dedicated: did you mean example.com/dedicated?",),
        ("correct-name",),
        ("tolerate-taint",),
        best="correct-name",
    ),
    Story(
        "a toleration has the wrong effect",
        [
            node("a", taints=[taint("dedicated", "ml")]),
            web(tolerations=[{"key": "dedicated", "value": "ml", "effect": "NoExecute"}]),
        ],
        ("did you mean dedicated=ml:NoSchedule?",),
        best="correct-name",
    ),
    Story(
        "a toleration is for other nodes",
        [
            node("a", taints=[taint("pool", "batch-1")]),
            node("b", cpu="1", taints=[taint("pool", "batch-2")]),
            pod("x", on="b", cpu="1"),
            web(cpu="1", tolerations=[{"key": "pool", "value": "batch-2", "effect": "NoSchedule"}]),
        ],
        ("1 has a taint it does not tolerate (pool=batch-1:NoSchedule)",),
        ("tolerate-taint",),
        ("correct-name",),
    ),
    Story(
        "the topology key of spreading is misspelt",
        [
            node("a", labels={ZONE: "x"}),
            node("b", labels={ZONE: "y"}),
            web(labels={"app": "web"}, **spread("kubernetes.io/zone", app="web")),
        ],
        (f"did you mean {ZONE}?",),
        ("correct-name", "relax"),
        best="correct-name",
    ),
    Story(
        "the label key of the pods to be near to is misspelt",
        [
            node("a"),
            pod("r", on="a", labels={"app.kubernetes.io/name": "redis"}),
            web(**affinity("podAffinity", HOST, name="redis")),
        ],
        ("did you mean app.kubernetes.io/name=redis?",),
        best="correct-name",
    ),
    Story(
        "a toleration is nearer to the taint of other nodes",
        [
            node("a", taints=[taint("team", "match")]),
            node("b", taints=[taint("team", "batch")]),
            web(tolerations=[{"key": "team", "value": "bacth", "effect": "NoSchedule"}]),
        ],
        ("did you mean team=batch:NoSchedule?",),
        ("correct-name",),
        best="correct-name",
    ),
    Story(
        "it names the node where it runs, which is full",
        [node("a", cpu="1"), node("b"), pod("x", on="a"), web(nodeSelector={HOST: "a"})],
        ("1 lacks cpu (requests 1, 0 free)",),
        (),
        ("correct-selector",),
    ),
    Story(
        "a node with room is being set up",
        [
            node("a", cpu="1"),
            pod("x", on="a"),
            node(
                "fresh",
                taints=[
                    taint("node.cloudprovider.kubernetes.io/uninitialized", "true"),
                    taint("ebs.csi.aws.com/agent-not-ready", effect="NoExecute"),
                ],
            ),
            web(),
        ],
        ("1 is not set up yet", "1 lacks cpu"),
        ("wait", "add-nodes"),
        ("repair-node", "tolerate-taint"),
        best="wait",
    ),
    Story(
        "the device plugin of a node does not work",
        [gpu_node("a", "0", "4"), asking(web(), nvidia_com__gpu="1")],
        ("a reports 4 nvidia.com/gpu but 0 are allocatable: look at the device plugin.",),
        ("repair-node",),
        ("add-nodes",),
        best="repair-node",
    ),
    Story(
        "some devices of a node are not healthy",
        [gpu_node("a", "6", "8"), gpu_node("b", "4"), asking(web(), nvidia_com__gpu="8")],
        ("a reports 8 nvidia.com/gpu but only 6 are allocatable: look at the device plugin.",),
        ("repair-node", "lower-request"),
        ("add-nodes",),
        best="repair-node",
    ),
    Story(
        "a quota system holds it back",
        [node("a"), web(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])],
        ("scheduling gate kueue.x-k8s.io/admission",),
        ("wait",),
        ("remove-gates",),
    ),
    Story(
        "only a sibling could make room",
        [
            node("a", cpu="1"),
            pod("web-1", on="a", owner="ReplicaSet/web"),
            web(owner="ReplicaSet/web"),
            priority_class("high", 100),
        ],
        ("lacks cpu (requests 1, 0 free)",),
        ("add-nodes",),
        ("raise-priority", "move-pod"),
    ),
    Story(
        "who would make room is of another team and has no other place",
        [
            node("a", cpu="1"),
            pod("x", on="a", namespace="other", owner="ReplicaSet/x"),
            web(),
            priority_class("high", 100),
        ],
        ("lacks cpu (requests 1, 0 free)",),
        ("add-nodes",),
        ("raise-priority",),
    ),
    Story(
        "its claim names a class that goes on where another ends",
        [node("a"), claim("data", "gp3-fast"), storage_class("gp3", "WaitForFirstConsumer"), web(**mounting("data"))],
        ("there is no storage class gp3-fast (did you mean gp3?)",),
        ("correct-name", "create"),
        best="correct-name",
    ),
    Story(
        "less than half of what it requests is free",
        [node("a", cpu="4"), web(cpu="3"), pod("x", on="a", cpu="3")],
        ("lacks cpu (requests 3, 1 free)",),
        ("add-nodes",),
        ("lower-request",),
    ),
    Story(
        "a VerticalPodAutoscaler recommends what fits",
        [node("a", cpu="4"), web(cpu="3", owner="ReplicaSet/web"), pod("x", on="a", cpu="3"), recommending("600m")],
        ("lacks cpu (requests 3, 1 free)",),
        ("add-nodes", "lower-request"),
    ),
    Story(
        "a VerticalPodAutoscaler recommends more than fits",
        [
            node("a", cpu="4"),
            web(cpu="2", owner="ReplicaSet/web"),
            pod("x", on="a", cpu="2500m"),
            recommending("1900m"),
        ],
        ("lacks cpu (requests 2, 1500m free)",),
        ("add-nodes",),
        ("lower-request",),
    ),
)
