"""Volume plugins, node by node over JSON objects, as upstream walks through them.

Storage is in whole bytes here (plain numbers as quantities); selectors and affinities know In, NotIn and Exists.
"""

from dataclasses import dataclass, field

from tests.oracle.labels import holds
from tests.oracle.labels import labels_of as labels

UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
ERROR = "Error"

DISK = "node(s) had no available disk"
ONCE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ZONE = "node(s) had no available volume zone"
COUNT = "node(s) exceed max volume count"
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
BIND = "node(s) didn't find available persistent volumes to bind"
SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"


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


def annotations(each):
    return each["metadata"].get("annotations", {})


def pod_volumes(pod):
    return pod["spec"].get("volumes", [])


def affinity_holds(volume, node):
    required = volume["spec"].get("nodeAffinity", {}).get("required")
    if required is None:
        return True
    listed = [term.get("matchExpressions") for term in required["nodeSelectorTerms"]]
    return any(expressions and all(holds(each, labels(node)) for each in expressions) for expressions in listed)


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


# --- VolumeZone -------------------------------------------------------------------------------------------------------

BETA = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
TOPOLOGY = (*BETA, *BETA.values())


def zone(pod, storage, node):
    """Judge one node for claims that have their volume or wait for a consumer."""
    if not any(key in labels(node) for key in TOPOLOGY):
        return None
    for name in claim_references(pod):
        volume_name = storage.claim(pod["metadata"]["namespace"], name)["spec"].get("volumeName")
        if not volume_name:
            continue
        volume = storage.volume(volume_name)
        for key in TOPOLOGY:
            if key not in labels(volume):
                continue
            zones = [part.strip() for part in labels(volume)[key].split("__")]
            if "" in zones:
                continue
            value = labels(node).get(key)
            if value is None:
                value = labels(node).get(BETA.get(key, key))
            if value not in zones:
                return (UNRESOLVABLE, [ZONE])
    return None


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


# --- VolumeBinding ----------------------------------------------------------------------------------------------------


def size(each, *path):
    for step in path:
        each = each.get(step, {})
    return int(each.get("storage", 0))


def is_for(volume, claim):
    reference = volume["spec"].get("claimRef")
    return (
        reference is not None
        and (reference["namespace"], reference["name"]) == (claim["metadata"]["namespace"], named(claim))
        and reference.get("uid", "") in ("", claim["metadata"]["uid"])
    )


def has_form(volume, claim):
    """Tell whether size, mode and attributes class agree and the volume stays."""
    offer, spec = volume["spec"], claim["spec"]
    return (
        size(volume, "spec", "capacity") >= size(claim, "spec", "resources", "requests")
        and offer.get("volumeMode", "Filesystem") == spec.get("volumeMode", "Filesystem")
        and offer.get("volumeAttributesClassName", "") == spec.get("volumeAttributesClassName", "")
        and "deletionTimestamp" not in volume["metadata"]
    )


def is_on_offer(volume, claim):
    """Tell whether a volume that nobody was promised may go to a claim."""
    wanted = claim["spec"].get("selector", {}).get("matchLabels", {})
    return (
        volume["status"]["phase"] == "Available"
        and all(labels(volume).get(key) == value for key, value in wanted.items())
        and set(claim["spec"].get("accessModes", [])) <= set(volume["spec"].get("accessModes", []))
    )


def match_volume(claim, storage, node, taken):
    """Find the volume that a claim gets on a node, or None."""
    best = None
    for volume in sorted(storage.volumes, key=named):
        offer = volume["spec"]
        if offer.get("storageClassName", "") != claim["spec"]["storageClassName"] or named(volume) in taken:
            continue
        if ("claimRef" in offer and not is_for(volume, claim)) or not has_form(volume, claim):
            continue
        reached = affinity_holds(volume, node)
        if is_for(volume, claim):
            return volume if reached else None
        if not reached or not is_on_offer(volume, claim):
            continue
        if best is None or size(volume, "spec", "capacity") < size(best, "spec", "capacity"):
            best = volume
    return best


def provision_problem(claim, storage, node):
    storage_class = storage.storage_class(claim["spec"]["storageClassName"])
    if storage_class["provisioner"] in ("", "kubernetes.io/no-provisioner"):
        return BIND
    topologies = storage_class.get("allowedTopologies", [])
    if topologies and not any(
        all(labels(node).get(e["key"]) in e["values"] for e in term["matchLabelExpressions"]) for term in topologies
    ):
        return BIND
    driver = next((d for d in storage.drivers if named(d) == storage_class["provisioner"]), None)
    if driver is None or not driver["spec"].get("storageCapacity") or not size(claim, "spec", "resources", "requests"):
        return None
    for each in storage.capacities:
        limit = each.get("maximumVolumeSize", each.get("capacity"))
        if (
            each["storageClassName"] == named(storage_class)
            and limit is not None
            and int(limit) >= size(claim, "spec", "resources", "requests")
            and "nodeTopology" in each
            and all(labels(node).get(k) == v for k, v in each["nodeTopology"].get("matchLabels", {}).items())
        ):
            return None
    return SPACE


@dataclass
class Found:
    """What the claims of a pod get on a node."""

    reasons: list = field(default_factory=list)
    bindings: list = field(default_factory=list)
    provisions: list = field(default_factory=list)


def binding(pod, storage, node):
    """Judge one node, and say which volumes the claims would get and which would be made."""
    bound, delayed = [], []
    for name in claim_references(pod):
        claim = storage.claim(pod["metadata"]["namespace"], name)
        (bound if claim["spec"].get("volumeName") and BOUND in annotations(claim) else delayed).append(claim)
    found = Found()
    reached, known, problem = True, True, None
    for claim in bound:
        volume = storage.volume(claim["spec"]["volumeName"])
        if volume is None:
            known = False
            break
        if not affinity_holds(volume, node):
            reached = False
            break
    problem = delayed_problem(delayed, storage, node, found)
    if not reached:
        found.reasons.append(AFFINITY)
    if problem is not None:
        found.reasons.append(problem)
    if not known:
        found.reasons.append(GONE)
    return found


def delayed_problem(claims, storage, node, found):
    to_match = []
    for claim in claims:
        selected = annotations(claim).get(SELECTED)
        if selected is None:
            to_match.append(claim)
        elif selected != named(node):
            return BIND
        else:
            found.provisions.append(claim)
    taken = set()
    for claim in sorted(to_match, key=lambda each: size(each, "spec", "resources", "requests")):
        volume = match_volume(claim, storage, node, taken)
        if volume is None:
            found.provisions.append(claim)
        else:
            taken.add(named(volume))
            found.bindings.append((claim, volume))
    return next(filter(None, (provision_problem(claim, storage, node) for claim in found.provisions)), None)


def reserve(found, node):
    """Change the objects as the reservation of a node does."""
    for claim, volume in found.bindings:
        meta = claim["metadata"]
        volume["spec"]["claimRef"] = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    for claim in found.provisions:
        claim["metadata"].setdefault("annotations", {})[SELECTED] = named(node)
