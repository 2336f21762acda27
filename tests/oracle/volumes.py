"""Volume plugins, node by node over JSON objects, as upstream walks through them."""

from dataclasses import dataclass, field

UNSCHEDULABLE = "Unschedulable"
ERROR = "Error"

DISK = "node(s) had no available disk"
ONCE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
COUNT = "node(s) exceed max volume count"


@dataclass
class Storage:
    """Everything but nodes and pods, as lists of JSON objects."""

    volumes: list = field(default_factory=list)
    claims: list = field(default_factory=list)
    classes: list = field(default_factory=list)
    csi_nodes: list = field(default_factory=list)
    drivers: list = field(default_factory=list)
    capacities: list = field(default_factory=list)
    attachments: list = field(default_factory=list)

    def claim(self, namespace, name):
        return next((c for c in self.claims if c["metadata"]["namespace"] == namespace and named(c) == name), None)

    def volume(self, name):
        return next((v for v in self.volumes if named(v) == name), None)

    def storage_class(self, name):
        return next((c for c in self.classes if named(c) == name), None)

    def csi_node(self, name):
        return next((c for c in self.csi_nodes if named(c) == name), None)


def named(each):
    return each["metadata"]["name"]


def pod_volumes(pod):
    return pod["spec"].get("volumes", [])


# --- VolumeRestrictions -----------------------------------------------------------------------------------------------


def claim_references(pod):
    return [v["persistentVolumeClaim"]["claimName"] for v in pod_volumes(pod) if "persistentVolumeClaim" in v]


def once_names(pod, storage):
    namespace = pod["metadata"]["namespace"]
    names = set(claim_references(pod))
    return {n for n in names if "ReadWriteOncePod" in storage.claim(namespace, n)["spec"].get("accessModes", [])}


def once_conflicts(pod, storage, running):
    """Count the pod's once-only claims that any running pod uses."""
    namespace = pod["metadata"]["namespace"]
    used = {
        name for other in running if other["metadata"]["namespace"] == namespace for name in claim_references(other)
    }
    return len(once_names(pod, storage) & used)


def disks_clash(one, other):
    for kind, key in (("gcePersistentDisk", "pdName"), ("iscsi", "iqn")):
        if kind in one and kind in other and one[kind][key] == other[kind][key]:
            return not (one[kind].get("readOnly") and other[kind].get("readOnly"))
    if "awsElasticBlockStore" in one and "awsElasticBlockStore" in other:
        return one["awsElasticBlockStore"]["volumeID"] == other["awsElasticBlockStore"]["volumeID"]
    if "rbd" in one and "rbd" in other:
        a, b = one["rbd"], other["rbd"]
        same = set(a["monitors"]) & set(b["monitors"]) and a["pool"] == b["pool"] and a["image"] == b["image"]
        return bool(same) and not (a.get("readOnly") and b.get("readOnly"))
    return False


def restrictions(pod, storage, running, node_pods, leaving=(), coming=()):
    """Judge one node; `running` are all pods before the change, `node_pods` those of the node after it."""
    conflicts = once_conflicts(pod, storage, running)
    has_disk = any(
        kind in v for v in pod_volumes(pod) for kind in ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
    )
    if not has_disk and not conflicts:
        return None
    if any(disks_clash(v, w) for v in pod_volumes(pod) for other in node_pods for w in pod_volumes(other)):
        return (UNSCHEDULABLE, [DISK])
    once = once_names(pod, storage)
    conflicts += sum(name in once for other in coming for name in claim_references(other))
    conflicts -= sum(name in once for other in leaving for name in claim_references(other))
    return (UNSCHEDULABLE, [ONCE]) if conflicts > 0 else None


# --- NodeVolumeLimits -------------------------------------------------------------------------------------------------

IN_TREE = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/vsphere-volume": None}


def attachable(pod, storage):
    """Map each attachable volume of a pod to its driver; None and a text when it cannot be told."""
    found = {}
    for volume in pod_volumes(pod):
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            name = f"{named(pod)}-{volume['name']}"
        else:
            if "awsElasticBlockStore" in volume:
                found["ebs.csi.aws.com/" + volume["awsElasticBlockStore"]["volumeID"]] = "ebs.csi.aws.com"
            continue
        namespace = pod["metadata"]["namespace"]
        claim = storage.claim(namespace, name)
        if claim is None:
            continue
        owners = claim["metadata"].get("ownerReferences", [])
        if "ephemeral" in volume and not any(o["controller"] and o["uid"] == pod["metadata"]["uid"] for o in owners):
            return None, f"PVC {namespace}/{name} was not created for pod {namespace}/{named(pod)} (pod is not owner)"
        driver, handle = claim_driver(claim, storage)
        if driver and handle:
            found[f"{driver}/{handle}"] = driver
    return found, ""


def claim_driver(claim, storage):
    volume = storage.volume(claim["spec"].get("volumeName"))
    if volume is not None:
        if "csi" in volume["spec"]:
            return volume["spec"]["csi"]["driver"], volume["spec"]["csi"]["volumeHandle"]
        if "awsElasticBlockStore" in volume["spec"]:
            return "ebs.csi.aws.com", volume["spec"]["awsElasticBlockStore"]["volumeID"]
        return None, None
    storage_class = storage.storage_class(claim["spec"].get("storageClassName"))
    if storage_class is None:
        return None, None
    provisioner = storage_class["provisioner"]
    return IN_TREE.get(provisioner, provisioner), f"unbound {claim['metadata']['namespace']} {named(claim)}"


def allowed_counts(csi_node):
    drivers = csi_node["spec"]["drivers"] if csi_node else ()
    return {each["name"]: each["allocatable"]["count"] for each in drivers if "count" in each.get("allocatable", {})}


def attached_to(node_name, storage):
    """Map each volume that a VolumeAttachment puts on a node to its driver."""
    found = {}
    for each in storage.attachments:
        spec = each["spec"]
        volume = storage.volume(spec["source"].get("persistentVolumeName"))
        if spec["nodeName"] == node_name and volume is not None and "csi" in volume["spec"]:
            found[f"{spec['attacher']}/{volume['spec']['csi']['volumeHandle']}"] = spec["attacher"]
    return found


def limits(pod, storage, node, node_pods):
    """Judge one node."""
    allowed = allowed_counts(storage.csi_node(named(node)))
    new, problem = attachable(pod, storage)
    if problem:
        return (ERROR, [problem])
    if not new or not allowed:
        return None
    held = {}
    for other in node_pods:
        volumes, problem = attachable(other, storage)
        if problem:
            return (ERROR, [problem])
        held.update(volumes)
    there = list(held.values()) + [d for v, d in attached_to(named(node), storage).items() if v not in held]
    fresh = [driver for volume, driver in new.items() if volume not in held]
    over = any(d in allowed and there.count(d) + fresh.count(d) > allowed[d] for d in fresh)
    return (UNSCHEDULABLE, [COUNT]) if over else None
