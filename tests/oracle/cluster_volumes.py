"""Random storage for random clusters: bound and waiting claims, volumes that few nodes reach, drivers with limits."""

from tests.oracle.cluster_pods import NAMESPACES, api_object

DRIVERS = ("disk.example.com", "share.example.com")
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
MANUAL = "kubernetes.io/no-provisioner"
GIB = 2**30


class Storage:
    """Claims of every namespace have the same names; `claim_names` are what pods may refer to."""

    def __init__(self, random, node_names, zones):
        self.random, self.node_names = random, node_names
        self.zones = [f"zone-{i}" for i in range(zones)]
        self.claim_names = [f"claim-{i}" for i in range(random.randint(2, 8))]

    def pick(self, options):
        return self.random.choice(options)

    def chance(self, share):
        return self.random.random() < share

    def objects(self):
        return [*self.classes(), *self.csi_nodes(), *self.drivers(), *self.capacities(), *self.claims_and_volumes()]

    def pod_volumes(self):
        names = self.random.sample(self.claim_names, self.pick((1, 1, 2)))
        return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]

    def classes(self):
        in_zones = {"matchLabelExpressions": [{"key": ZONE, "values": self.random.sample(self.zones, 1)}]}
        fields = {
            "manual": {"provisioner": MANUAL},
            "disk": {"provisioner": DRIVERS[0]},
            "share": {"provisioner": DRIVERS[1], "allowedTopologies": [in_zones]},
        }
        return [
            {
                **api_object("storage.k8s.io/v1", "StorageClass", name),
                "volumeBindingMode": "WaitForFirstConsumer",
                **each,
            }
            for name, each in fields.items()
        ]

    def drivers(self):
        spec = {"storageCapacity": True, "attachRequired": True}
        return [api_object("storage.k8s.io/v1", "CSIDriver", DRIVERS[0], spec=spec)] if self.chance(0.6) else []

    def csi_nodes(self):
        found = []
        for name in self.node_names:
            drivers = []
            for driver in DRIVERS:
                limit = {"allocatable": {"count": self.pick((1, 2, 4))}} if self.chance(0.6) else {}
                drivers.append({"name": driver, "nodeID": name, "topologyKeys": [], **limit})
            if self.chance(0.9):
                found.append(api_object("storage.k8s.io/v1", "CSINode", name, spec={"drivers": drivers}))
        return found

    def capacities(self):
        found = []
        for zone in self.zones:
            if self.chance(0.7):
                each = api_object("storage.k8s.io/v1", "CSIStorageCapacity", f"room-{zone}", "default")
                topology = {"matchLabels": {ZONE: zone}}
                capacity = str(self.pick((1, 5, 50)) * GIB)
                found.append({**each, "storageClassName": "disk", "capacity": capacity, "nodeTopology": topology})
        return found

    def claims_and_volumes(self):
        found = []
        for namespace in (*NAMESPACES, "nowhere"):
            for name in self.claim_names:
                storage = str(self.pick((1, 2, 10)) * GIB)
                storage_class = self.pick(("manual", "disk", "share"))
                mode = self.pick(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"))
                spec = {"storageClassName": storage_class, "accessModes": [mode], "volumeMode": "Filesystem"}
                spec["resources"] = {"requests": {"storage": storage}}
                claim = api_object("v1", "PersistentVolumeClaim", name, namespace, {}, spec, {"phase": "Pending"})
                if self.chance(0.5):
                    reference = {"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]}
                    volume = self.volume(f"pv-{namespace}-{name}", storage, storage_class, [mode])
                    volume["spec"]["claimRef"] = reference
                    volume["status"] = claim["status"] = {"phase": "Bound"}
                    spec["volumeName"] = volume["metadata"]["name"]
                    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
                    found.append(volume)
                found.append(claim)
        for i in range(self.random.randint(0, 12)):
            modes = self.pick((["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"], ["ReadWriteOncePod"]))
            found.append(self.volume(f"free-{i:02}", str(self.pick((1, 2, 10, 20)) * GIB), "manual", modes))
        return found

    def volume(self, name, storage, storage_class, modes):
        labels = {ZONE: self.pick((*self.zones, "__".join(self.zones)))} if self.chance(0.3) else {}
        spec = {"capacity": {"storage": storage}, "accessModes": modes, "storageClassName": storage_class}
        spec["volumeMode"] = "Filesystem"
        spec["csi"] = {"driver": self.pick(DRIVERS), "volumeHandle": name}
        if self.chance(0.4):
            key, values = self.pick(((ZONE, self.zones), (HOSTNAME, self.node_names)))
            some = self.random.sample(values, self.random.randint(1, len(values)))
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": some}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return api_object("v1", "PersistentVolume", name, labels=labels, spec=spec, status={"phase": "Available"})
