"""Random clusters, crowded and contrived: every rule that decides has something to decide, often several at once."""

from tests.oracle.cluster_pods import (
    APPS,
    DONGLE,
    GPU,
    HUGE,
    IMAGES,
    NAMESPACES,
    OWNERS,
    PREFERRED,
    REQUIRED,
    TAINTS,
    TOPOLOGIES,
    PodMaker,
    api_object,
)
from tests.oracle.cluster_volumes import Storage

API = "kubescheduler.config.k8s.io/v1"


class ClusterMaker(PodMaker):
    """Makes one case: {"objects", "pods", "settlePreemption", "config"?}; parameters as for pods."""

    def make(self):
        nodes = [self.node(i) for i in range(self.n_nodes)]
        self.names = [node["metadata"]["name"] for node in nodes]
        self.storage = Storage(self.random, self.names, self.zones) if self.with_volumes else None
        running = []
        self.fullness = 1 if self.is_crowded else self.random.uniform(0.2, 1)
        for name in self.names:
            most = int(self.most_pods * self.fullness)
            n_pods = self.random.randint(most // 2 if self.is_crowded else 0, most)
            running += [self.running(name) for _ in range(n_pods)]
        nominees = [self.nominee() for _ in range(self.random.randint(1, 4))] if self.has["nominated"] else []
        pending = [self.pending() for _ in range(self.random.randint(1, 4))]
        if len(pending) > 1 and self.chance(0.6):
            pending += [self.twin(self.pick(pending)) for _ in range(self.random.randint(1, 4))]
            self.random.shuffle(pending)
        asked = pending + (self.some(nominees) if self.chance(0.5) else [])
        names = [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in asked]
        others = [*self.budgets(), *self.owners(), *(self.storage.objects() if self.storage else ())]
        namespaces = [api_object("v1", "Namespace", name, labels=labels) for name, labels in NAMESPACES.items()]
        case = {
            "objects": [*namespaces, *nodes, *others, *running, *nominees, *pending],
            "pods": names,
            "settlePreemption": self.chance(0.5),
        }
        if self.has["several profiles"] or self.chance(0.4):
            case["config"] = self.config()
        return case

    # --- nodes --------------------------------------------------------------------------------------------------------

    def node(self, number):
        zone = f"zone-{self.random.randrange(self.zones)}"
        name = f"node-{number:03}"
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": f"region-{self.random.randrange(2)}",
            "rack": f"rack-{self.random.randrange(4)}",
            "disktype": self.pick(("ssd", "hdd")),
            "generation": self.pick(("1", "3", "7", "12", "x", "1_0", "", "99999999999999999999")),
            "pool": self.pick(("blue", "green", "")),
        }
        if self.has["missing labels"]:
            for key in self.some(labels, 0, 3) if self.chance(0.4) else []:
                del labels[key]
        cpu = self.pick(("4", "6", "7500m") if self.is_crowded else ("2", "4", "3500m", "8", "1"))
        amounts = {
            "cpu": cpu,
            "memory": self.pick(("4Gi", "8Gi", "8000M", "4091904Ki")),
            "pods": self.pick(("6", "12", "110")),
        }
        amounts["ephemeral-storage"] = self.pick(("100Gi", "95551679124"))
        if self.has["devices"] and self.chance(0.6):
            amounts[GPU] = self.pick(("0", "1", "2", "8"))
        if self.has["devices"] and self.chance(0.4):
            amounts[DONGLE] = self.pick(("1", "3"))
        if self.has["devices"] and self.chance(0.4):
            amounts[HUGE] = self.pick(("64Mi", "1Gi"))
        spec = {}
        if self.has["taints"] and self.chance(0.4):
            spec["taints"] = [self.taint() for _ in range(self.random.randint(1, 3))]
        if self.chance(0.05):
            spec["unschedulable"] = True
        images = [
            {
                "names": [image if ":" in image.split("/")[-1] else f"{image}:latest"],
                "sizeBytes": self.random.randint(1, 900) << 20,
            }
            for image in self.some(IMAGES)
        ]
        return api_object(
            "v1", "Node", name, labels=labels, spec=spec, status={"allocatable": amounts, "images": images}
        )

    def taint(self):
        taint = {"key": self.pick(TAINTS), "effect": self.pick(("NoSchedule", "NoExecute", "PreferNoSchedule"))}
        return {**taint, "value": self.pick(("a", "b"))} if self.chance(0.6) else taint

    # --- other objects ------------------------------------------------------------------------------------------------

    def budgets(self):
        found = []
        for i in range(self.random.randint(0, 5)):
            selector = self.pick(
                (
                    {"matchLabels": {"app": self.pick(APPS)}},
                    {"matchLabels": {"tier": self.pick(("front", "back"))}},
                    {"matchExpressions": [{"key": "app", "operator": "In", "values": self.some(APPS, 1)}]},
                    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
                    {},
                )
            )
            disrupted = {
                f"run-{self.random.randrange(1, self.serial + 2):03}": "2026-03-01T20:00:00Z" for _ in range(3)
            }
            status = {
                "disruptionsAllowed": self.random.randrange(3),
                "disruptedPods": disrupted if self.chance(0.3) else {},
            }
            spec = {"selector": selector, "minAvailable": 1}
            found.append(
                api_object(
                    "policy/v1", "PodDisruptionBudget", f"pdb-{i}", self.pick(list(NAMESPACES)), {}, spec, status
                )
            )
        return found

    def owners(self):
        found = []
        for owner in OWNERS[:3]:
            for namespace in self.some(NAMESPACES):
                wanted = {"app": self.pick(APPS)}
                selector = wanted if owner["kind"] == "ReplicationController" else {"matchLabels": wanted}
                spec = {"selector": selector}
                found.append(api_object(owner["apiVersion"], owner["kind"], owner["name"], namespace, {}, spec))
        for i in range(self.random.randint(0, 3)):
            wanted = {"app": self.pick(APPS), **({"tier": "front"} if self.chance(0.3) else {})}
            found.append(api_object("v1", "Service", f"svc-{i}", self.pick(list(NAMESPACES)), {}, {"selector": wanted}))
        return found

    # --- configuration ------------------------------------------------------------------------------------------------

    def config(self):
        first = {"schedulerName": "default-scheduler", "pluginConfig": self.plugin_config(), "plugins": {}}
        if self.chance(0.4):
            names = self.some(
                ("TaintToleration", "NodeAffinity", "InterPodAffinity", "ImageLocality", "PodTopologySpread"), 1, 2
            )
            enabled = [{"name": name, "weight": self.random.randint(1, 20)} for name in self.some(names)]
            first["plugins"]["score"] = {"disabled": [{"name": name} for name in names], "enabled": enabled}
        if self.chance(0.3):
            names = (
                "NodeAffinity",
                "TaintToleration",
                "InterPodAffinity",
                "NodeUnschedulable",
                "PodTopologySpread",
                "NodePorts",
            )
            first["plugins"]["filter"] = {"disabled": [{"name": self.pick(names)}]}
        second = {"schedulerName": "second-scheduler"}
        if self.chance(0.5):
            enabled = [{"name": "NodeResourcesFit", "weight": 5}] if self.chance(0.7) else []
            second["plugins"] = {"score": {"disabled": [{"name": "*"}], "enabled": enabled}}
        profiles = [first, second] if self.has["several profiles"] else [first]
        return {"apiVersion": API, "kind": "KubeSchedulerConfiguration", "profiles": profiles}

    def plugin_config(self):
        args = {}
        if self.chance(0.5):
            resources = [{"name": "cpu", "weight": self.random.randint(1, 5)}, {"name": "memory", "weight": 3}]
            resources += [{"name": each, "weight": 2} for each in self.some((GPU, "ephemeral-storage", HUGE), 0, 2)]
            kind = self.pick(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
            strategy = {"type": kind, "resources": resources}
            if kind == "RequestedToCapacityRatio":
                shape = self.pick((((0, 2), (40, 9), (70, 5), (100, 1)), ((0, 0), (100, 10)), ((10, 7), (55, 0))))
                strategy["requestedToCapacityRatio"] = {"shape": [{"utilization": u, "score": s} for u, s in shape]}
            args["NodeResourcesFit"] = {"scoringStrategy": strategy}
            if self.chance(0.3):
                args["NodeResourcesFit"]["ignoredResources"] = [DONGLE]
                args["NodeResourcesFit"]["ignoredResourceGroups"] = ["nvidia.com"]
        if self.chance(0.3):
            names = self.some(("cpu", "memory", GPU, "ephemeral-storage", HUGE), 1)
            args["NodeResourcesBalancedAllocation"] = {"resources": [{"name": name, "weight": 1} for name in names]}
        if self.chance(0.4):
            args["InterPodAffinity"] = {
                "hardPodAffinityWeight": self.pick((0, 5, 100)),
                "ignorePreferredTermsOfExistingPods": self.chance(0.5),
            }
        if self.chance(0.3):
            added = {}
            if self.chance(0.5):
                added[REQUIRED] = {
                    "nodeSelectorTerms": [{"matchExpressions": [self.node_expression()]} for _ in range(2)]
                }
            if not added or self.chance(0.5):
                preference = {"matchExpressions": [self.node_expression()]}
                added[PREFERRED] = [{"weight": self.random.randint(1, 100), "preference": preference}]
            args["NodeAffinity"] = {"addedAffinity": added}
        if self.chance(0.3):
            keys = self.some(TOPOLOGIES, 0, 3)
            constraints = [
                {
                    "topologyKey": key,
                    "maxSkew": self.random.randint(1, 3),
                    "whenUnsatisfiable": self.pick(("DoNotSchedule", "ScheduleAnyway")),
                }
                for key in keys
            ]
            args["PodTopologySpread"] = {"defaultingType": "List", "defaultConstraints": constraints}
        return [
            {"name": name, "args": {"apiVersion": API, "kind": f"{name}Args", **each}} for name, each in args.items()
        ]
