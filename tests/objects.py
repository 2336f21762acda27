"""Kubernetes objects as tests write them down, and commands that several tests expect."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import kplan
from kplan.api.kinds import KINDS

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
_VERSIONS = {kind.name: kind.api_version for kind in KINDS}


def head(kind: str, api_version: str = "", /, **metadata: Any) -> Object:
    """Return apiVersion, kind and metadata of an object; kinds that kplan does not read need their version."""
    return {"apiVersion": api_version or _VERSIONS[kind], "kind": kind, "metadata": metadata}


def planner_of(*objects: Object | Sequence[Object], **options: Any) -> kplan.Planner:
    """Return a planner of a cluster of these objects, which may be listed."""
    listed = [obj for part in objects for obj in (part if isinstance(part, list | tuple) else [part])]
    return kplan.Planner(kplan.load_snapshot(listed), **options)


def adding(number: int, like: str) -> tuple[str, ...]:
    """Return the commands of a change that adds nodes by hand."""
    ready = "kubectl get nodes --no-headers | grep -cw Ready"
    nodes = "1 node" if number == 1 else f"{number} nodes"
    return (
        f"before=$({ready})",
        f"# add {nodes} like {like}",
        f"until [ $({ready}) -ge $((before + {number})) ]; do sleep 5; done",
    )


def owned_by(owner: str, uid: str = "") -> list[Object]:
    """Return the reference to a controller, KIND/NAME."""
    kind, _, name = owner.partition("/")
    return [{"apiVersion": _VERSIONS[kind], "kind": kind, "name": name, "uid": uid or name, "controller": True}]


def node(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    *,
    taints: Sequence[Object] = (),
    labels: Mapping[str, str] | None = None,
    **more: str,
) -> Object:
    """Return a node; keyword arguments are labels."""
    room = {"cpu": cpu, "memory": memory, "pods": pods}
    return head("Node", name=name, uid=name, labels={HOSTNAME: name, **(labels or {}), **more}) | {
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(
    name: str,
    on: str | None = None,
    *,
    cpu: str | None = "1",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: str | None = None,
    created: str = "2026-01-01T00:00:00Z",
    start: int | None = None,
    ports: Iterable[int] = (),
    nominated: str | None = None,
    leaving: bool = False,
    **spec: Any,
) -> Object:
    """Return a pod, running when `on` a node; `owner` is KIND/NAME, `start` an hour, `ports` are the host's."""
    uid = name if namespace == "default" else f"{namespace}-{name}"
    written = head(
        "Pod", name=name, namespace=namespace, uid=uid, labels=dict(labels or {}), creationTimestamp=created
    ) | {
        "spec": {
            "schedulerName": "default-scheduler",
            "priority": 0,
            "containers": [
                {
                    "name": "c",
                    "image": "app",
                    "resources": {"requests": {} if cpu is None else {"cpu": cpu}},
                    "ports": [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports],
                }
            ],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }
    if start is not None:
        written["status"]["startTime"] = f"2026-03-01T{start:02}:00:00Z"
    if nominated:
        written["status"]["nominatedNodeName"] = nominated
    if leaving:
        written["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        written["status"]["conditions"] = [preempted]
    if owner:
        written["metadata"]["ownerReferences"] = owned_by(owner)
    return written


def template(name: str, image: str = "app:1", cpu: str = "500m") -> Object:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def deployment(name: str, replicas: int, image: str = "app:1", cpu: str = "500m", **strategy: Any) -> Object:
    """Write a deployment; `strategy` is that of a rolling update."""
    selector, pods = {"matchLabels": {"app": name}}, template(name, image, cpu)
    spec: Object = {"replicas": replicas, "selector": selector, "template": pods}
    if strategy:
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": strategy}
    return head("Deployment", name=name, namespace="default", uid=f"d-{name}") | {"spec": spec}


def stateful_set(name: str, replicas: int, image: str = "app:1") -> Object:
    return head("StatefulSet", name=name, namespace="default", uid=f"s-{name}") | {
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
        }
    }


def daemon_set(name: str, image: str = "app:1", **strategy: Any) -> Object:
    """Write a daemon set; `strategy` is that of a rolling update."""
    return head("DaemonSet", name=name, namespace="default", uid=f"ds-{name}") | {
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": strategy},
        }
    }


def scaler(name: str, lowest: int, highest: int, kind: str = "Deployment", target: str = "") -> Object:
    """Write an autoscaler of the workload of its name, or of another one."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": target or name}
    return head("HorizontalPodAutoscaler", name=name, namespace="default") | {
        "spec": {"scaleTargetRef": reference, "minReplicas": lowest, "maxReplicas": highest}
    }


def job(name: str, pods: int = 1, cpu: str = "500m", **spec: Any) -> Object:
    """Write a job of so many pods, which run side by side unless its spec says otherwise."""
    once = template(name, cpu=cpu)
    once["spec"]["restartPolicy"] = "Never"
    own = {"parallelism": pods, "completions": pods, "template": once, **spec}
    return head("Job", name=name, namespace="default", uid=name) | {"spec": own}


def cron_job(name: str, schedule: str, run: Object, **spec: Any) -> Object:
    """Write a cron job whose runs are as a job is."""
    return head("CronJob", name=name, namespace="default", uid=name) | {
        "spec": {"schedule": schedule, "jobTemplate": {"spec": run["spec"]}, **spec}
    }


def with_ready(obj: Object, status: str = "True") -> Object:
    """Return a node or a pod with that condition."""
    return obj | {"status": {**obj["status"], "conditions": [{"type": "Ready", "status": status}]}}


def owned_pod(workload: Object, name: str, on: str | None, **labels: str) -> Object:
    """Return a pod of a workload's template, which is ready where it runs."""
    made, own = workload["spec"]["template"], workload["metadata"]
    written = pod(name, on, labels={**made["metadata"]["labels"], **labels}, **made["spec"])
    written["metadata"]["ownerReferences"] = owned_by(f"{workload['kind']}/{own['name']}", own["uid"])
    return with_ready(written) if on else written


def device_slice(node_name: str, *devices: str, driver: str = "gpu.example.com") -> Object:
    """Write what a driver publishes of a node."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": name} for name in devices]
    return head("ResourceSlice", name=node_name) | {
        "spec": {"driver": driver, "nodeName": node_name, "pool": pool, "devices": listed}
    }


def affinity(kind: str, key: str, **labels: str) -> Object:
    """Return the part of a pod's spec that requires others near or, as podAntiAffinity, elsewhere."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str, when: str = "DoNotSchedule", **labels: str) -> Object:
    """Return the part of a pod's spec that spreads pods with these labels."""
    selector = {"matchLabels": labels}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def budget(name: str, **spec: Any) -> Object:
    return head("PodDisruptionBudget", name=name, namespace="default") | {
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec}
    }


def quota(name: str, used: str | None = "0", **hard: str) -> Object:
    """Write a quota of which so much of each resource is used; None where nobody has counted yet."""
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, used)}} if used is not None else {}
    return head("ResourceQuota", name=name, namespace="default") | {"spec": {"hard": hard}, **status}


def running(workload: Object, nodes: Sequence[str], pods: int | None = None) -> list[Object]:
    """Return a deployment with its replica set and pods, dealt out to nodes in turn; "" is for one that waits."""
    name, spec = workload["metadata"]["name"], workload["spec"]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    made = {**spec["template"], "metadata": {"labels": {"app": name, "pod-template-hash": "h1"}}}
    replica_set = head(
        "ReplicaSet",
        name=f"{name}-h1",
        namespace="default",
        uid=f"r-{name}",
        annotations={"deployment.kubernetes.io/desired-replicas": str(spec["replicas"])},
        ownerReferences=owned_by(f"Deployment/{name}", f"d-{name}"),
    ) | {
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": made["metadata"]["labels"]},
            "template": made,
        }
    }
    made_pods = [
        (
            head(
                "Pod",
                name=f"{name}-h1-{index:03d}",
                namespace="default",
                uid=f"p-{name}-{index}",
                labels=made["metadata"]["labels"],
                creationTimestamp="2026-01-01T00:00:00Z",
                ownerReferences=owned_by(f"ReplicaSet/{name}-h1", f"r-{name}"),
            )
            | {
                "spec": {"schedulerName": "default-scheduler", **made["spec"], "nodeName": nodes[index % len(nodes)]},
                "status": (
                    {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [ready]}
                    if nodes[index % len(nodes)]
                    else {"phase": "Pending"}
                ),
            }
        )
        for index in range(spec["replicas"] if pods is None else pods)
    ]
    return [workload, replica_set, *made_pods]
