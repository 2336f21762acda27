"""A cluster for the oracles: nodes, the pods on them, and what pods ask for."""

from fractions import Fraction

from tests.oracle.labels import labels_of, namespace_of
from tests.oracle.requests import quantity, units

DEFAULTS = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
PREFIXED = "kubernetes.io/"


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
    """One node and its pods."""

    def __init__(self, node, pods=()):
        self.node, self.pods, self.needs_of = node, list(pods), Needs
        self.name = node["metadata"]["name"]
        self.labels = labels_of(node)
        self.allocatable = {name: units(name, quantity(text)) for name, text in node["status"]["allocatable"].items()}

    def used(self, name):
        return sum(self.needs_of(pod).running.get(name, 0) for pod in self.pods)

    def used_nonzero(self, name):
        if name not in DEFAULTS:
            return self.used(name)
        return sum(self.needs_of(pod).running_nonzero.get(name, 0) for pod in self.pods)


class World:
    """What inter-pod affinity and spread look at; nodes and pods are in order of their names."""

    def __init__(self, objects):
        def of(kind):
            return [each for each in objects if each["kind"] == kind]

        nodes = sorted(of("Node"), key=lambda node: node["metadata"]["name"])
        self.nodes = {node["metadata"]["name"]: NodeInfo(node) for node in nodes}
        self.namespaces = {each["metadata"]["name"]: labels_of(each) for each in of("Namespace")}
        self.services, self.controllers = of("Service"), of("ReplicationController")
        self.replica_sets, self.stateful_sets = of("ReplicaSet"), of("StatefulSet")
        for pod in sorted(of("Pod"), key=lambda pod: (namespace_of(pod), pod["metadata"]["name"])):
            self.nodes[pod["spec"]["nodeName"]].pods.append(pod)
