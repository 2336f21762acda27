"""Small clusters with devices, and pods that claim them."""

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.plugins.dynamic_resources import DynamicResources
from kplan.rules.pod_info import PodInfo
from tests.plugins.asking import Asked
from tests.recorded import examples

DRIVER = "gpu.example.com"

# These worlds take a millisecond each.
many = examples(300)


def node(name, *, allocatable=None, **labels):
    """Make a node."""
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"pods": "110", **(allocatable or {})}},
    }


def attribute(value):
    """Make an attribute of a Python value; a text like v1.2.3 is a version, a list one of the plural kinds."""
    if isinstance(value, list):
        return {"strings": value}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"version": value[1:]} if value.startswith("v") and value[1:2].isdigit() else {"string": value}


def device(name, *, capacity=None, uses=None, taints=(), shared=None, policies=None, **attributes):
    """Make a device; `uses` is counter set -> counter -> amount, `taints` are keys of NoSchedule taints."""
    policies = policies or {}
    made = {
        "name": name,
        "attributes": {key.replace("__", "/"): attribute(value) for key, value in attributes.items()},
        "capacity": {
            key: {"value": value, **({"requestPolicy": policies[key]} if key in policies else {})}
            for key, value in (capacity or {}).items()
        },
        "consumesCounters": [
            {"counterSet": each, "counters": {key: {"value": value} for key, value in counters.items()}}
            for each, counters in (uses or {}).items()
        ],
        "taints": [{"key": key, "effect": "NoSchedule"} for key in taints],
    }
    return made if shared is None else {**made, "allowMultipleAllocations": shared}


def device_slice(name, *devices, on=None, pool=None, driver=DRIVER, generation=1, count=1, **spec):
    """Make a slice for the node `on`; without it, say in `spec` which nodes are meant."""
    place = {} if on is None else {"nodeName": on}
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or on or "pool", "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **place,
            **spec,
        },
    }


def counters_slice(name, counters, *, pool="pool", driver=DRIVER, count=1, **spec):
    """Make a slice with counter sets."""
    sets = [
        {"name": each, "counters": {key: {"value": value} for key, value in amounts.items()}}
        for each, amounts in counters.items()
    ]
    return device_slice(name, pool=pool, driver=driver, count=count, sharedCounters=sets, **spec)


def selectors(*expressions):
    """Make CEL selectors."""
    return [{"cel": {"expression": each}} for each in expressions]


def device_class(name="gpu", *expressions, extended=None, created=None):
    """Make a device class."""
    spec = {"selectors": selectors(*expressions)}
    if extended is not None:
        spec["extendedResourceName"] = extended
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def request(name="r", count=1, *expressions, of="gpu", **more):
    """Make a request for a number of devices; count "all" wants all of them."""
    mode = {"allocationMode": "All"} if count == "all" else {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": of, "selectors": selectors(*expressions), **mode, **more}}


def first_of(name, *requests):
    """Make a request that takes the first of several that works."""
    return {"name": name, "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in requests]}


def claim(name, *requests, constraints=(), namespace="default", owner=None, **status):
    """Make a claim; `owner` is the uid of the pod it was generated for."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    return {
        "metadata": metadata,
        "spec": {"devices": {"requests": list(requests), "constraints": list(constraints)}},
        "status": status,
    }


def allocation(*devices, on=None, **more):
    """Make an allocation of (pool, device) pairs, usable on one node or everywhere."""
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": each} for pool, each in devices]
    made = {"devices": {"results": results}, **more}
    if on is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        made["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return made


def pod(name="p", *claims, namespace="default", containers=None, init=(), statuses=(), **spec):
    """Make a pod with claims by name; `containers` are resource requests, `init` the same for init containers."""

    def made(position, requests):
        always = {"restartPolicy": "Always"} if requests.get("sidecar") else {}
        amounts = {key: value for key, value in requests.items() if key != "sidecar"}
        return {"name": f"c{position}", "resources": {"requests": amounts}, **always}

    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {
            "containers": [made(i, each) for i, each in enumerate(containers or [{}])],
            "initContainers": [made(i, each) for i, each in enumerate(init)],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            **spec,
        },
        "status": {"resourceClaimStatuses": list(statuses)},
    }


class DeviceWorld(Asked):
    """A cluster, and the plugin at work in it; nodes may be names."""

    def __init__(self, nodes, *slices, classes=None, claims=(), taken_at=None, args=None, rules=(), gates=()):
        super().__init__(
            [node(each) if isinstance(each, str) else each for each in nodes],
            gates=gates,
            taken_at=taken_at,
            resource_slices=slices,
            device_classes=classes or [device_class()],
            resource_claims=claims,
            device_taint_rules=rules,
        )
        self.plugin = DynamicResources(args, self.handle)

    def info(self, incoming):
        """Make what plugins see of a pod."""
        return PodInfo(convert(incoming, Pod))

    def statuses(self, cycle, rows=None):
        """Ask PreFilter and Filter: node -> texts of what is against it, empty where nothing is."""
        names = self.cluster.nodes.names
        view = self.view(rows)
        result = self.plugin.pre_filter(cycle)
        if result is not None and result.status is not None:
            return {names[view.row(i)]: list(result.status.reasons) for i in range(len(view))}
        if result is not None and result.skip:
            return {names[view.row(i)]: [] for i in range(len(view))}
        verdicts = self.plugin.filter(cycle, view)
        return {names[view.row(i)]: [each.text for each in verdicts.reasons_at(i)] for i in range(len(view))}

    def rejections(self, incoming):
        """Ask PreFilter and Filter: node -> why not."""
        return {name: texts[0] for name, texts in self.statuses(self.cycle(incoming)).items() if texts}

    def place(self, incoming):
        """Put a pod on the first node by name that takes it, and return the node's name, or None."""
        cycle = self.cycle(incoming)
        feasible = [name for name, texts in self.statuses(cycle).items() if not texts]
        if not feasible:
            return None
        row = self.cluster.nodes.row_of[feasible[0]]
        status = self.plugin.reserve(cycle, row)
        assert status.is_success, status
        self.cluster.bind(cycle.pod_id, row)
        return feasible[0]

    def claim(self, name):
        """Return a claim as it stands."""
        return self.plugin._devices.tracker.claims["default", name]

    def devices_of(self, name):
        """List the devices that a claim has, each as POOL/DEVICE."""
        results = self.claim(name).status.allocation.devices.results
        return [f"{each.pool}/{each.device}" for each in results]
