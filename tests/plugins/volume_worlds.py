"""Small clusters with storage, made of JSON objects."""

import copy

from tests.oracle.volumes import Storage

from .asking import Asked, facts

EBS = "ebs.csi.aws.com"
NFS = "nfs.csi.k8s.io"
ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


def node(name, zone=None):
    labels = {HOSTNAME: name} if zone is None else {HOSTNAME: name, ZONE: zone}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}}


def pod(name="pod", *claims, volumes=(), namespace="default"):
    """Make a pod that uses claims, and volumes given as {source: …}."""
    named = [{"name": f"claim-{i}", "persistentVolumeClaim": {"claimName": each}} for i, each in enumerate(claims)]
    inline = [{"name": f"volume-{i}", **each} for i, each in enumerate(volumes)]
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"containers": [{"name": "main"}], "volumes": [*named, *inline]}}


def claim(name, storage="0", volume="", annotations=None, namespace="default", **spec):
    """Make a claim; one with a volume is bound to it."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    meta["annotations"] = {**(BIND_COMPLETED if volume else {}), **(annotations or {})}
    requests = {"requests": {"storage": storage}} if storage != "0" else {}
    spec = {"storageClassName": "", **spec, "resources": requests}
    return {
        "metadata": meta,
        "spec": {**spec, "volumeName": volume} if volume else spec,
        "status": {"phase": "Pending"},
    }


def volume(name, storage="0", hosts=None, labels=None, phase="Available", **spec):
    """Make a volume, which only some hosts reach if `hosts` are given."""
    if hosts is not None:
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(hosts)}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    capacity = {"capacity": {"storage": storage}}
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {**capacity, **spec},
        "status": {"phase": phase},
    }


def storage_class(name, provisioner="kubernetes.io/no-provisioner", mode="WaitForFirstConsumer", **fields):
    """Make a storage class."""
    mode = {} if mode is None else {"volumeBindingMode": mode}
    return {"metadata": {"name": name}, "provisioner": provisioner, **mode, **fields}


def csi_node(name, migrated=(), **counts):
    """Make a CSINode; keyword arguments are limits of drivers, `ebs` and `nfs` for short, None for no limit."""
    names = {"ebs": EBS, "nfs": NFS}
    drivers = [
        {"name": names[key], "nodeID": name, "allocatable": {} if count is None else {"count": count}}
        for key, count in counts.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}


def attachment(name, node_name, volume_name, attacher=EBS):
    """Make a VolumeAttachment."""
    source = {"persistentVolumeName": volume_name}
    return {"metadata": {"name": name}, "spec": {"attacher": attacher, "nodeName": node_name, "source": source}}


class VolumeWorld(Asked):
    """Nodes, the pods on each (by node name), and storage."""

    def __init__(self, nodes, storage=None, running=None, gates=()):
        self.storage = held = copy.deepcopy(storage or Storage())
        super().__init__(
            nodes,
            {each["metadata"]["name"]: [] for each in nodes} | (running or {}),
            gates=gates,
            persistent_volumes=held.volumes,
            persistent_volume_claims=held.claims,
            storage_classes=held.classes,
            csi_nodes=held.csi_nodes,
            csi_drivers=held.drivers,
            csi_storage_capacities=held.capacities,
            volume_attachments=held.attachments,
        )

    @property
    def all_running(self):
        """All pods that run."""
        return [each for pods in self.running.values() for each in pods]

    def bind(self, each, row):
        """Run a pod on a node."""
        added = self.coming(each)
        self.cluster.bind(added, row)
        self.running[self.nodes[row]["metadata"]["name"]].append(each)
        return added

    def evict(self, row, index):
        """Take away the pod at a place among those of a node."""
        name = self.nodes[row]["metadata"]["name"]
        uid = self.running[name].pop(index)["metadata"]["uid"]
        self.cluster.unbind(next(p for p in self.cluster.pods_on[row] if self.cluster.pods.infos[p].uid == uid))


def details(plugin, cycle, view, position=0):
    """Ask for the details of every reason at a position."""
    assert plugin.pre_filter(cycle) is None
    verdicts = plugin.filter(cycle, view)
    return [
        {"reason": reason.text, **facts(detail)}
        for reason in verdicts.reasons_at(position)
        for detail in reason.details(position)
    ]
