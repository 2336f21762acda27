"""Small clusters with one pod pending for an everyday reason each."""

from tests.objects import node, pod
from tests.remedies.more_everyday import MORE
from tests.remedies.objects import (
    HOST,
    ZONE,
    Story,
    affinity,
    asking,
    claim,
    cordoned,
    gpu_node,
    limit_range,
    mounting,
    node_affinity,
    on_node,
    priority_class,
    spread,
    storage_class,
    taint,
    volume,
    web,
)

STORIES = (
    Story(
        "too little cpu is free on any node",
        [node("a", cpu="2"), node("b", cpu="2"), web(cpu="2"), pod("x", on="a", cpu="500m"), pod("y", on="b")],
        ("Both nodes lack cpu (requests 2, at most 1500m free, on a).",),
        ("lower-request", "add-nodes"),
    ),
    Story(
        "a limit range asks for more than is free",
        [node("a", cpu="2"), web(cpu="2"), pod("x", on="a", cpu="500m"), limit_range(min={"cpu": "1600m"})],
        ("The only node, a, lacks cpu (requests 2, 1500m free).",),
        ("add-nodes",),
        ("lower-request",),
    ),
    Story(
        "a limit range asks for less than is free",
        [node("a", cpu="2"), web(cpu="2"), pod("x", on="a", cpu="500m"), limit_range(min={"cpu": "1500m"})],
        ("The only node, a, lacks cpu (requests 2, 1500m free).",),
        ("lower-request",),
    ),
    Story(
        "no node is large enough even when it is empty",
        [node("a", cpu="2"), node("b", cpu="4"), web(cpu="8")],
        ("Neither node is large enough, even empty: it requests 8 cpu, and the largest, b, has 4",),
        ("lower-request", "add-nodes"),
    ),
    Story(
        "a label is misspelt, and a taint is not tolerated",
        [node("a", labels={"disk": "ssd"}, taints=[taint("dedicated", "ml")]), web(nodeSelector={"disk": "sdd"})],
        ("No node has disk=sdd; the only value is ssd (did you mean ssd?)",),
        ("together",),
    ),
    Story(
        "a label is misspelt, and the node is full",
        [node("a", cpu="1", labels={"disk": "ssd"}), pod("x", on="a"), web(nodeSelector={"disk": "sdd"})],
        ("No node has disk=sdd; the only value is ssd (did you mean ssd?)",),
        ("together",),
    ),
    Story(
        "cpu and memory are both too little",
        [node("a", cpu="2", memory="4Gi"), asking(web(), cpu="3", memory="6Gi")],
        ("No node is large enough, even empty: it requests 3 cpu, and the largest, a, has 2; ",),
        ("lower-request",),
    ),
    Story(
        "nodes of several pools have taints of their own",
        [node("a", taints=[taint("dedicated", "ml")]), node("b", taints=[taint("spot", "true")]), web()],
        ("Both nodes have taints it does not tolerate (dedicated=ml:NoSchedule, spot=true:NoSchedule).",),
        ("tolerate-taint",),
    ),
    Story(
        "a resource that no node offers",
        [node("a"), asking(web(), nvidia_com__gpu="1")],
        ("has nvidia.com/gpu, of which it requests 1",),
        ("add-nodes",),
    ),
    Story(
        "devices are few",
        [
            gpu_node("a", "4"),
            node("b"),
            asking(web(), nvidia_com__gpu="2"),
            asking(pod("x", on="a"), nvidia_com__gpu="3"),
        ],
        ("nvidia.com/gpu (requests 2",),
        ("lower-request", "add-nodes"),
    ),
    Story(
        "a label is misspelt",
        [node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "hdd"}), web(nodeSelector={"disk": "sdd"})],
        ("Neither node has disk=sdd; the values are hdd, ssd (did you mean ssd?)",),
        ("correct-selector",),
        best="correct-selector",
    ),
    Story(
        "a label key is misspelt",
        [node("a", labels={"disktype": "ssd"}), web(nodeSelector={"disktpye": "ssd"})],
        ("no node has label disktpye (did you mean disktype?)",),
        ("correct-selector",),
    ),
    Story(
        "an affinity to a zone that does not exist",
        [node("a", labels={ZONE: "eu-1a"}), node("b", labels={ZONE: "eu-1b"}), web(**node_affinity(ZONE, "eu-1c"))],
        ("Neither node has topology.kubernetes.io/zone=eu-1c; the values are eu-1a, eu-1b",),
        ("correct-selector",),
    ),
    Story(
        "all nodes have a taint",
        [node("a", taints=[taint("dedicated", "ml")]), node("b", taints=[taint("dedicated", "ml")]), web()],
        ("Both nodes have a taint it does not tolerate (dedicated=ml:NoSchedule).",),
        ("tolerate-taint",),
    ),
    Story(
        "all nodes are full",
        [node("a", cpu="1"), node("b", cpu="1"), web(cpu="1"), pod("x", on="a"), pod("y", on="b")],
        ("Both nodes lack cpu (requests 1, none free).",),
        ("add-nodes",),
    ),
    Story(
        "the only node with room is cordoned",
        [cordoned("a"), node("b", cpu="1"), web(cpu="1"), pod("x", on="b")],
        ("Neither node fits:", "1 is cordoned", "1 lacks cpu (requests 1, 0 free)"),
        ("uncordon",),
    ),
    Story(
        "nodes are not ready",
        [
            node("a", taints=[taint("node.kubernetes.io/not-ready")]),
            node("b", taints=[taint("node.kubernetes.io/unreachable", effect="NoExecute")]),
            web(),
        ],
        ("1 is not ready", "1 is unreachable"),
        ("repair-node",),
        ("tolerate-taint",),
    ),
    Story(
        "replicas keep apart on as many hosts as there are",
        [
            node("a"),
            node("b"),
            pod("web-0", on="a", labels={"app": "web"}),
            pod("web-1", on="b", labels={"app": "web"}),
            web(labels={"app": "web"}, **affinity("podAntiAffinity", HOST, app="web")),
        ],
        ("Both nodes have pods that its anti-affinity excludes (default/web-", f"2 domains of {HOST}"),
        ("relax", "add-nodes"),
    ),
    Story(
        "others keep it away",
        [
            node("a"),
            node("b", cpu="1"),
            pod("db", on="a", owner="StatefulSet/db", **affinity("podAntiAffinity", HOST, app="web")),
            web(labels={"app": "web"}, cpu="2"),
        ],
        ("1 has pods whose anti-affinity excludes it (default/db", "1 lacks cpu"),
        ("move-pod", "add-nodes"),
    ),
    Story(
        "the spread over zones does not hold",
        [
            node("a", labels={ZONE: "x"}),
            node("b", cpu="1", labels={ZONE: "y"}),
            pod("web-0", on="a", labels={"app": "web"}),
            pod("other", on="b"),
            web(labels={"app": "web"}, **spread(ZONE, app="web")),
        ],
        (f"1 would exceed maxSkew 1 over {ZONE} (1 in x", "1 lacks cpu"),
        ("relax", "add-nodes"),
    ),
    Story(
        "nothing to be near to",
        [node("a"), web(**affinity("podAffinity", HOST, app="cache"))],
        ("no pod that it must run next to", "no such pod runs anywhere"),
        ("relax",),
    ),
    Story(
        "a host port is taken",
        [node("a"), node("b", cpu="1"), pod("x", on="a", ports=[80], owner="ReplicaSet/x"), web(ports=[80], cpu="2")],
        ("1 has host port 80/TCP taken (default/x)", "1 lacks cpu"),
        ("move-pod", "add-nodes"),
    ),
    Story(
        "a claim does not exist",
        [
            node("a"),
            claim("data-web", "fast"),
            storage_class("fast", "WaitForFirstConsumer"),
            web(**mounting("dataweb")),
        ],
        ("Its claim default/dataweb does not exist (did you mean data-web?).",),
        ("correct-name", "create"),
    ),
    Story(
        "a claim is not bound yet",
        [node("a"), claim("data", "fast"), storage_class("fast", "Immediate"), web(**mounting("data"))],
        (
            (
                "Its claim default/data of storage class fast is not bound yet: csi.example.com makes the volume "
                "before the pod has a node, for nodes that kplan cannot know; with volumeBindingMode: "
                "WaitForFirstConsumer in a class, it makes it for the node of the pod."
            ),
        ),
    ),
    Story(
        "the class of a claim does not exist",
        [node("a"), claim("data", "fsat"), storage_class("fast", "WaitForFirstConsumer"), web(**mounting("data"))],
        ("Its claim default/data is not bound: there is no storage class fsat (did you mean fast?).",),
        ("correct-name", "create"),
    ),
    Story(
        "the volume is in another zone",
        [
            node("a", cpu="1", labels={ZONE: "x"}),
            node("b", labels={ZONE: "y"}),
            claim("data", "", "pv"),
            volume("pv", "x"),
            pod("other", on="a"),
            web(**mounting("data")),
        ],
        ("1 is not in the zone of volume pv", f"{ZONE}=x", "1 lacks cpu (requests 1, 0 free)"),
    ),
    Story(
        "gates hold it back",
        [node("a"), web(schedulingGates=[{"name": "example.com/quota"}])],
        ("The scheduler ignores it until its scheduling gate example.com/quota is removed",),
        ("remove-gates",),
    ),
    Story(
        "another scheduler is to place it",
        [node("a"), web(schedulerName="default-schedular")],
        ("It waits for scheduler default-schedular, which no profile here has (did you mean default-scheduler?).",),
        ("correct-name",),
    ),
    Story(
        "victims are still leaving",
        [node("a", cpu="1"), pod("low", on="a", leaving=True), web(priority=10, nominated="a")],
        ("It is nominated to a and waits until default/low ends",),
    ),
    Story(
        "a daemon's node is full",
        [node("a", cpu="1"), node("b"), pod("x", on="a"), web(owner="DaemonSet/web", **on_node("a"))],
        ("It can run on a only, which lacks cpu (requests 1, 0 free).",),
    ),
    Story(
        "the only node of its affinity does not exist",
        [node("web-1"), web(**on_node("web-2"))],
        ("It requires node web-2, which does not exist (did you mean web-1?).",),
    ),
    Story(
        "its resource claim does not exist",
        [node("a"), web(resourceClaims=[{"name": "gpu", "resourceClaimName": "none"}])],
        ('It is rejected before any node is evaluated: could not find ResourceClaim "default/none".',),
        never=("remove-gates",),
    ),
    Story(
        "a node runs as many pods as it may",
        [node("a", pods="1"), pod("x", on="a"), web()],
        ("The only node, a, runs 1 pod already, the maximum.",),
        ("add-nodes",),
    ),
    Story(
        "its priority is too low to make room",
        [node("a", cpu="1"), pod("x", on="a", priority=5), web(priority=1), priority_class("high", 100)],
        ("The only node, a, lacks cpu (requests 1, 0 free).",),
        ("add-nodes", "raise-priority"),
    ),
    *MORE,
)
