"""A cluster for the oracle scheduler: nodes, the pods on them in kube-scheduler's order, and what pods ask for."""

import copy
from fractions import Fraction

from tests.oracle import volumes
from tests.oracle.labels import labels_of, namespace_of
from tests.oracle.node_ports import ports
from tests.oracle.requests import quantity, units

DEFAULTS = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
PREFIXED = "kubernetes.io/"


def key_of(pod):
    return f"{namespace_of(pod)}/{pod['metadata']['name']}"


def priority_of(pod):
    return pod["spec"].get("priority") or 0


def is_scalar(name):
    """Tell whether a resource counts that is not CPU, memory, ephemeral storage or the number of pods."""
    is_native = "/" not in name or PREFIXED in name
    is_extended = not is_native and not name.startswith("requests.")
    return is_extended or name.startswith(("hugepages-", "attachable-volumes-")) or PREFIXED in name


def _amounts(resources):
    return {name: quantity(text) for name, text in (resources or {}).items()}


def _add(total, more):
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total, least):
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _effective(pod, asked, actuated, allocated):
    """What counts while a resize is under way: the most of what is asked, allocated and in force."""
    pending = next((each for each in pod["status"].get("conditions", []) if each["type"] == "PodResizePending"), None)
    total = {} if pending is not None and pending.get("reason") == "Infeasible" else dict(asked)
    _raise_to(total, actuated)
    _raise_to(total, allocated)
    return total


def total_requests(pod, *, missing=None, with_status=False, pod_level=True):
    """Sum up what a pod asks for, as exact quantities."""
    spec, status = pod["spec"], pod.get("status") or {}
    reported = {}
    for each in [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]:
        reported[each["name"]] = each

    def of(container, follows_status):
        asked = _amounts((container.get("resources") or {}).get("requests"))
        known = reported.get(container.get("name")) if with_status and follows_status else None
        if known is not None and known.get("resources") is not None:
            in_force = _amounts(known["resources"].get("requests"))
            asked = _effective(pod, asked, in_force, _amounts(known.get("allocatedResources")))
        return {**(missing or {}), **asked}

    total = {}
    for container in spec["containers"]:
        _add(total, of(container, True))
    so_far, starting = {}, {}
    for container in spec.get("initContainers", []):
        stays = container.get("restartPolicy") == "Always"
        moment = of(container, stays)
        if stays:
            _add(total, moment)
            _add(so_far, moment)
            moment = dict(so_far)
        else:
            _add(moment, so_far)
        _raise_to(starting, moment)
    _raise_to(total, starting)
    whole = supported((spec.get("resources") or {}).get("requests")) if pod_level else {}
    if whole:
        in_force = status.get("resources")
        effective = None
        if with_status and in_force is not None:
            asked = _amounts(spec["resources"]["requests"])
            actuated = _amounts(in_force.get("requests"))
            effective = _effective(pod, asked, actuated, _amounts(status.get("allocatedResources")))
        for name, amount in whole.items():
            total[name] = amount if effective is None else effective.get(name, 0)
    _add(total, _amounts(spec.get("overhead")))
    return total


def supported(resources):
    """The resources that can be asked for a pod as a whole."""
    asked = _amounts(resources)
    return {name: asked[name] for name in asked if name in ("cpu", "memory") or name.startswith("hugepages-")}


class Needs:
    """What a pod counts for, in milliCPU, bytes and counts."""

    def __init__(self, pod):
        running = total_requests(pod, with_status=True)
        self.running = in_units(running)
        named = running if supported((pod["spec"].get("resources") or {}).get("requests")) else {}
        missing = {name: amount for name, amount in DEFAULTS.items() if name not in named}
        self.running_nonzero = in_units(total_requests(pod, missing=missing, with_status=True))
        self.incoming = in_units(total_requests(pod))
        self.incoming_nonzero = in_units(total_requests(pod, missing=DEFAULTS, pod_level=False))


def in_units(amounts):
    return {name: units(name, amount) for name, amount in amounts.items()}


class NodeInfo:
    """One node and its pods; ports in use are a set, so that one leaving pod frees what two took."""

    def __init__(self, node, needs_of):
        self.node, self.needs_of = node, needs_of
        self.name = node["metadata"]["name"]
        self.labels = labels_of(node)
        self.pods, self.ports = [], set()
        self.allocatable = {name: units(name, quantity(text)) for name, text in node["status"]["allocatable"].items()}

    @classmethod
    def of(cls, node, pods):
        """Make a node with its pods outside of a cluster."""
        info = cls(node, Needs)
        for pod in pods:
            info.add(pod)
        return info

    def copy(self):
        twin = object.__new__(NodeInfo)
        twin.__dict__.update(self.__dict__, pods=self.pods.copy(), ports=self.ports.copy())
        return twin

    def add(self, pod):
        self.pods.append(pod)
        self.ports |= set(ports(pod))

    def remove(self, pod):
        """The last pod takes the place of the one that leaves."""
        at = next(i for i, each in enumerate(self.pods) if each is pod)
        self.pods[at] = self.pods[-1]
        self.pods.pop()
        self.ports -= set(ports(pod))

    def used(self, name):
        return sum(self.needs_of(pod).running.get(name, 0) for pod in self.pods)

    def used_nonzero(self, name):
        if name not in DEFAULTS:
            return self.used(name)
        return sum(self.needs_of(pod).running_nonzero.get(name, 0) for pod in self.pods)


class World:
    """Everything that the scheduler knows; `nominated` maps pod keys to node names."""

    def __init__(self, objects, profile_names):
        def of(kind):
            return [each for each in objects if each["kind"] == kind]

        self._needs = {}
        nodes = sorted(of("Node"), key=lambda node: node["metadata"]["name"])
        self.nodes = {node["metadata"]["name"]: NodeInfo(node, self.needs_of) for node in nodes}
        self.namespaces = {each["metadata"]["name"]: labels_of(each) for each in of("Namespace")}
        self.budgets = of("PodDisruptionBudget")
        self.services, self.controllers = of("Service"), of("ReplicationController")
        self.replica_sets, self.stateful_sets = of("ReplicaSet"), of("StatefulSet")
        claims, stored = of("PersistentVolumeClaim"), of("PersistentVolume")
        self.storage = volumes.Storage(
            copy.deepcopy(stored),
            copy.deepcopy(claims),
            of("StorageClass"),
            of("CSINode"),
            of("CSIDriver"),
            of("CSIStorageCapacity"),
            of("VolumeAttachment"),
        )
        self.pods, self.nominated = {}, {}
        pods = [each for each in of("Pod") if (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
        for pod in sorted(pods, key=lambda pod: (namespace_of(pod), pod["metadata"]["name"])):
            self.pods[key_of(pod)] = pod
            where = pod["spec"].get("nodeName")
            promised = (pod.get("status") or {}).get("nominatedNodeName")
            if where:
                if where in self.nodes:
                    self.nodes[where].add(pod)
            elif promised and pod["spec"]["schedulerName"] in profile_names and not pod["spec"].get("schedulingGates"):
                self.nominated[key_of(pod)] = promised

    def needs_of(self, pod):
        known = self._needs.get(id(pod))
        if known is None or known[0] is not pod:
            known = self._needs[id(pod)] = (pod, Needs(pod))
        return known[1]

    def nominated_to(self, name):
        return [self.pods[key] for key, node in self.nominated.items() if node == name]

    def in_zone_order(self):
        """Names of the nodes, zone by zone in turn."""
        zones = {}
        for name, info in self.nodes.items():
            zones.setdefault(_zone(info.labels), []).append(name)
        rounds = max((len(names) for names in zones.values()), default=0)
        return [names[turn] for turn in range(rounds) for names in zones.values() if turn < len(names)]


def _zone(labels):
    region = labels.get("failure-domain.beta.kubernetes.io/region", labels.get("topology.kubernetes.io/region", ""))
    zone = labels.get("failure-domain.beta.kubernetes.io/zone", labels.get("topology.kubernetes.io/zone", ""))
    return (region, zone)
