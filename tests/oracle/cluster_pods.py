"""Random pods that want and hold many things at once."""

import random

APPS = ("web", "db", "cache", "batch", "ml")
NAMESPACES = {
    "default": {"env": "prod"},
    "team-a": {"team": "a", "env": "prod"},
    "team-b": {"team": "b", "env": "dev"},
    "team-c": {},
}
TAINTS = ("dedicated", "gpu", "spot", "maintenance")
IMAGES = (
    "nginx:1.27",
    "redis:7",
    "busybox",
    "pytorch/pytorch:2.4",
    "registry.example.com:5000/app/web",
    "quay.io/x/y:v2",
)
GPU, DONGLE, HUGE = "nvidia.com/gpu", "example.com/dongle", "hugepages-2Mi"
TOPOLOGIES = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "rack", "pool")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MINUTE = "2026-03-01T{:02}:{:02}:{:02}Z"


OWNERS = tuple(
    {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    for version, kind, name in (
        ("apps/v1", "ReplicaSet", "rs"),
        ("apps/v1", "StatefulSet", "sts"),
        ("v1", "ReplicationController", "rc"),
        ("batch/v1", "Job", "job"),
    )
)


class PodMaker:
    """Makes pods, the same ones from the same seed.

    Parameters
    ----------
    nodes : how few and how many nodes
    most_pods : running pods on one node
    with_volumes : pods refer to claims
    with_ties : pods start at few different times, or have not started
    """

    def __init__(self, seed, nodes=(4, 12), *, most_pods=8, with_ties=True, with_volumes=False):
        self.random = random.Random(seed)
        self.n_nodes = self.random.randint(*nodes)
        self.most_pods = most_pods
        self.serial = 0
        self.with_volumes, self.storage = with_volumes, None
        self.has = {
            feature: self.random.random() < chance
            for feature, chance in {
                "affinity": 0.6,
                "spread": 0.6,
                "ports": 0.4,
                "devices": 0.5,
                "phases": 0.4,
                "taints": 0.5,
                "node affinity": 0.5,
                "several profiles": 0.2,
                "missing labels": 0.3,
                "unstarted": 0.3,
                "terminating": 0.4,
                "nominated": 0.4,
                "resized": 0.3,
            }.items()
        }
        self.are_starts_distinct = not with_ties
        self.zones = self.random.randint(1, 5)
        # On crowded nodes little is missing, and pods of lower priority hold it.
        self.is_crowded = self.chance(0.5)

    def chance(self, share):
        return self.random.random() < share

    def pick(self, options):
        return self.random.choice(options)

    def some(self, options, least=0, most=None):
        options = list(options)
        return self.random.sample(options, self.random.randint(least, min(len(options), most or len(options))))

    def pod(self, kind, *, is_picky):
        self.serial += 1
        labels = {"app": self.pick(APPS)}
        if self.chance(0.6):
            labels["tier"] = self.pick(("front", "back"))
        if self.chance(0.3):
            labels["pod-template-hash"] = self.pick(("aaa", "bbb"))
        spec = {
            "schedulerName": "default-scheduler",
            "containers": [self.container(f"c{i}") for i in range(self.pick((1, 1, 1, 2, 3)))],
            "priority": self.pick(self.priorities(is_picky)),
            "preemptionPolicy": "Never" if self.chance(0.05) else "PreemptLowerPriority",
            "tolerations": [self.toleration() for _ in range(self.random.randint(0, 3))],
        }
        if self.has["several profiles"] and self.chance(0.3):
            spec["schedulerName"] = "second-scheduler"
        if self.has["phases"]:
            self.add_phases(spec)
        if self.chance(0.6 if is_picky else 0.1 if self.is_crowded else 0.3):
            self.add_wishes(spec, labels)
        if self.storage is not None and self.chance(0.4):
            spec["volumes"] = self.storage.pod_volumes()
        pod = api_object(
            "v1", "Pod", f"{kind}-{self.serial:03}", self.pick(list(NAMESPACES)), labels, spec, {"phase": "Pending"}
        )
        if self.chance(0.03):
            pod["metadata"]["namespace"] = "nowhere"
        if self.chance(0.03):
            del pod["metadata"]["labels"]
        if self.chance(0.3):
            pod["metadata"]["ownerReferences"] = [self.pick(OWNERS)]
        return pod

    def priorities(self, is_picky):
        if not self.is_crowded:
            return (-10, 0, 0, 50, 100, 100, 1000)
        return (50, 100, 1000, 1000) if is_picky else (-10, -10, 0, 0, 0, 50, 100)

    def container(self, name):
        asked = {}
        if self.chance(0.85):
            least = ("100m", "250m", "500m", "1", "0.5", "0", "1001u", "333m")
            asked["cpu"] = self.pick(least if self.is_crowded else (*least, "1500m", "2"))
        if self.chance(0.8):
            least = ("128Mi", "512Mi", "1Gi", "0", "1e9", "100000001")
            asked["memory"] = self.pick(least if self.is_crowded else (*least, "3000M", "1.5Gi"))
        if self.chance(0.15):
            asked["ephemeral-storage"] = self.pick(("1Gi", "40Gi"))
        if self.has["devices"]:
            for device, amounts in ((GPU, ("1", "2", "0")), (DONGLE, ("1", "2")), (HUGE, ("2Mi", "64Mi"))):
                if self.chance(0.12):
                    asked[device] = self.pick(amounts)
        container = {"name": name, "image": self.pick(IMAGES), "resources": {"requests": asked}}
        if self.has["ports"] and self.chance(0.4):
            container["ports"] = [self.port() for _ in range(self.random.randint(1, 3))]
        return container

    def port(self):
        port = {"containerPort": 80, "protocol": self.pick(("TCP", "TCP", "UDP"))}
        if self.chance(0.8):
            port["hostPort"] = self.pick((80, 443, 8080, 9000))
        if self.chance(0.4):
            port["hostIP"] = self.pick(("127.0.0.1", "10.0.0.1", "0.0.0.0"))
        return port

    def toleration(self):
        toleration = {"operator": self.pick(("Exists", "Equal"))}
        if toleration["operator"] == "Equal" or self.chance(0.9):
            toleration["key"] = self.pick((*TAINTS, "node.kubernetes.io/unschedulable"))
        if toleration["operator"] == "Equal" and self.chance(0.8):
            toleration["value"] = self.pick(("a", "b"))
        if self.chance(0.6):
            toleration["effect"] = self.pick(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        return toleration

    def add_phases(self, spec):
        if self.chance(0.5):
            spec["initContainers"] = [self.container(f"i{i}") for i in range(self.random.randint(1, 3))]
            for container in spec["initContainers"]:
                if self.chance(0.5):
                    container["restartPolicy"] = "Always"
        if self.chance(0.3):
            spec["overhead"] = {"cpu": "150m", "memory": "64Mi"}
        if self.chance(0.25):
            whole = {"cpu": self.pick(("2", "3"))} if self.chance(0.8) else {}
            if not whole or self.chance(0.6):
                whole["memory"] = self.pick(("2Gi", "5Gi"))
            spec["resources"] = {"requests": whole}

    def add_wishes(self, spec, labels):
        affinity = {}
        if self.has["node affinity"] and self.chance(0.5):
            affinity["nodeAffinity"] = self.node_affinity()
        if self.has["node affinity"] and self.chance(0.2):
            spec["nodeSelector"] = {"disktype": self.pick(("ssd", "hdd"))}
        if self.has["affinity"]:
            for part, chance in (("podAffinity", 0.4), ("podAntiAffinity", 0.5)):
                if self.chance(chance):
                    affinity[part] = {}
                    if self.chance(0.1 if self.is_crowded else 0.5):
                        affinity[part][REQUIRED] = [self.affinity_term(labels) for _ in range(self.pick((1, 1, 2, 3)))]
                    if self.chance(0.6):
                        terms = [self.affinity_term(labels) for _ in range(self.pick((1, 1, 2, 4)))]
                        affinity[part][PREFERRED] = [
                            {"weight": self.random.randint(1, 100), "podAffinityTerm": term} for term in terms
                        ]
        if affinity:
            spec["affinity"] = affinity
        if self.has["spread"] and self.chance(0.6):
            spec["topologySpreadConstraints"] = self.spread(labels)

    def label_selector(self, labels):
        selector = {}
        if self.chance(0.7):
            selector["matchLabels"] = {"app": labels["app"] if self.chance(0.6) else self.pick(APPS)}
        if self.chance(0.35):
            key, operator = (
                self.pick(("app", "tier", "pod-template-hash")),
                self.pick(("In", "NotIn", "Exists", "DoesNotExist")),
            )
            expression = {"key": key, "operator": operator}
            if operator in ("In", "NotIn"):
                expression["values"] = self.some((*APPS, "front", "back", "aaa"), 1, 4)
            selector["matchExpressions"] = [expression]
        return selector

    def affinity_term(self, labels):
        term = {"topologyKey": self.pick(TOPOLOGIES)}
        if self.chance(0.97):
            term["labelSelector"] = self.label_selector(labels)
        if self.chance(0.3):
            term["namespaces"] = self.some((*NAMESPACES, "nowhere"), 1, 2)
        if self.chance(0.35):
            term["namespaceSelector"] = self.pick(
                (
                    {},
                    {"matchLabels": {"team": "a"}},
                    {"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev", "prod"]}]},
                    {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
                    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                )
            )
        return term

    def spread(self, labels):
        pairs = [(key, action) for key in TOPOLOGIES for action in ("DoNotSchedule", "ScheduleAnyway")]
        found = []
        for key, action in self.some(pairs, 1, 3):
            constraint = {"topologyKey": key, "whenUnsatisfiable": action, "maxSkew": self.pick((1, 1, 2, 5))}
            if self.chance(0.95):
                constraint["labelSelector"] = self.label_selector(labels)
            if action == "DoNotSchedule" and self.chance(0.3):
                constraint["minDomains"] = self.random.randint(1, 6)
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if self.chance(0.35):
                    constraint[policy] = self.pick(("Honor", "Ignore"))
            if "labelSelector" in constraint and self.chance(0.2):
                constraint["matchLabelKeys"] = self.some(("pod-template-hash", "nothing"), 1)
            found.append(constraint)
        return found

    def node_expression(self):
        key = self.pick(("disktype", "generation", "generation", "pool", "topology.kubernetes.io/zone"))
        operator = self.pick(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        expression = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = self.some(("ssd", "hdd", "blue", "", "7", "zone-0", "zone-1"), 1, 4)
        elif operator in ("Gt", "Lt"):
            expression["values"] = [self.pick(("0", "2", "7", "10", "0012"))]
        return expression

    def node_term(self):
        term = {}
        if self.chance(0.8):
            term["matchExpressions"] = [self.node_expression() for _ in range(self.pick((1, 1, 2)))]
        if not term or self.chance(0.15):
            operator = self.pick(("In", "In", "NotIn"))
            name = f"node-{self.random.randrange(self.n_nodes + 1):03}"
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
            if self.chance(0.1):
                term["matchFields"] *= 2
        return term

    def node_affinity(self):
        affinity = {}
        if self.chance(0.6):
            affinity[REQUIRED] = {"nodeSelectorTerms": [self.node_term() for _ in range(self.pick((1, 1, 2, 3)))]}
        if self.chance(0.2):
            names = self.some([f"node-{i:03}" for i in range(self.n_nodes + 1)], 1, 4)
            terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
            if self.chance(0.1):
                terms = [{"matchFields": [each["matchFields"][0] for each in terms]}]
            affinity[REQUIRED] = {"nodeSelectorTerms": terms}
        if self.chance(0.6):
            affinity[PREFERRED] = [
                {"weight": self.random.randint(1, 100), "preference": self.node_term()}
                for _ in range(self.pick((1, 2, 3)))
            ]
        return affinity

    def running(self, node):
        pod = self.pod("run", is_picky=False)
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running"}
        if self.chance(0.02):
            pod["status"]["phase"] = self.pick(("Succeeded", "Failed"))
        if self.are_starts_distinct:
            at = self.serial * 7919 % 86400
            pod["status"]["startTime"] = MINUTE.format(at // 3600, at // 60 % 60, at % 60)
        elif not (self.has["unstarted"] and self.chance(0.3)):
            pod["status"]["startTime"] = MINUTE.format(self.random.randrange(3), self.pick((0, 30)), 0)
        if self.has["terminating"] and self.chance(0.2):
            pod["metadata"]["deletionTimestamp"] = "2026-03-01T21:00:00Z"
            if self.chance(0.6):
                reason = self.pick(("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"))
                status = self.pick(("True", "True", "False"))
                pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": status, "reason": reason}]
        if self.has["resized"] and self.chance(0.3):
            self.resize(pod)
        return pod

    def resize(self, pod):
        status = pod["status"]
        statuses = []
        for container in pod["spec"]["containers"]:
            known = {"name": container["name"], "resources": {"requests": self.container("x")["resources"]["requests"]}}
            if self.chance(0.7):
                known["allocatedResources"] = self.container("x")["resources"]["requests"]
            if self.chance(0.8):
                statuses.append(known)
        status["containerStatuses"] = statuses
        if self.chance(0.4):
            pending = {"type": "PodResizePending", "status": "True", "reason": self.pick(("Infeasible", "Deferred"))}
            status["conditions"] = [*status.get("conditions", []), pending]

    def pending(self):
        pod = self.pod("new", is_picky=True)
        if self.is_crowded and self.chance(0.6):
            pod["spec"]["containers"][0]["resources"]["requests"].update(self.pick(({"cpu": "3"}, {"memory": "3000M"})))
        if self.chance(0.02):
            pod["spec"]["schedulingGates"] = [{"name": "example.com/a"}, {"name": "b"}]
        if self.chance(0.02):
            pod["metadata"]["deletionTimestamp"] = "2026-03-01T21:00:00Z"
        if self.chance(0.02):
            pod["spec"]["schedulerName"] = "nobody"
        return pod

    def twin(self, pod):
        self.serial += 1
        name = f"new-{self.serial:03}"
        return {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"uid-{name}"}}

    def nominee(self):
        pod = self.pod("nominee", is_picky=True)
        pod["status"]["nominatedNodeName"] = self.pick(self.names) if self.chance(0.97) else "node-gone"
        return pod


def api_object(version, kind, name, namespace=None, labels=None, spec=None, status=None):
    metadata = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}", "creationTimestamp": "2026-03-01T00:00:00Z"}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {**metadata, "labels": labels or {}},
        "spec": spec or {},
        "status": status or {},
    }
