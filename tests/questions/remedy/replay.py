"""Printed commands, carried out one after the other on a copy of the cluster."""

import shlex
from typing import Any

import msgspec

import kplan
from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.changes import values as c
from kplan.course.snapshots import snapshot_of
from kplan.course.what_if import changed, settled
from kplan.documents import remedies as d
from tests.objects import head

_BY_NAME = ("containers", "initContainers")


def replayed(planner: kplan.Planner, remedy: d.RemedySet) -> int:
    """Carry out the printed commands on a copy of the cluster; return how many pods wait when all is at rest."""
    for command in [*(command for action in remedy.actions for command in action.commands), *remedy.undo]:
        planner = after(planner, shlex.split(command))
    return sum(not pod.spec.node_name for pod in settled(planner, retries=True).snapshot.pods)


def after(planner: kplan.Planner, words: list[str]) -> kplan.Planner:  # noqa: C901 - one case a command
    """Return the planner of the cluster after a command."""
    match words:
        case ["kubectl", "uncordon", name]:
            return changed(planner, [c.Uncordon((name,)), c.Settle()])
        case ["kubectl", "cordon", name]:
            return changed(planner, [c.Cordon((name,))])
        case ["kubectl", "delete", "pod", name, "-n", namespace, "--wait"]:
            return changed(planner, [c.Delete((f"pod/{namespace}/{name}",)), c.Settle()])
        case ["kubectl", "scale", kind, name, "-n", namespace, replicas]:
            number = replicas.removeprefix("--replicas=")
            return changed(planner, [c.Scale(f"{kind}/{namespace}/{name}", int(number)), c.Settle()])
        case ["kubectl", "patch", "deployment", name, "-n", namespace, "-p", patch]:
            obj = merged(object_of(planner, "deployments", name, namespace), msgspec.json.decode(patch))
            change = planner.roll_out([obj])
            return changed(planner.with_snapshot(snapshot_of(change.simulation, planner.snapshot)), [c.Apply((obj,))])
        case ["kubectl", "get", "pod", name, "-n", namespace, "-o", "yaml", "|", *rest] if "replace" in rest:
            patch = rest[rest.index("-p") + 1]
            obj = object_of(planner, "pods", name, namespace)
            return changed(planner, [c.Apply((merged(obj, msgspec.json.decode(patch)),))])
        case ["kubectl", "get", "job", name, "-n", namespace, "-o", "yaml", "|", *rest] if "replace" in rest:
            obj = merged(object_of(planner, "jobs", name, namespace), msgspec.json.decode(rest[rest.index("-p") + 1]))
            gone = changed(planner, [c.Delete((f"job/{namespace}/{name}",))])
            return gone.with_snapshot(snapshot_of(gone.roll_out([obj]).simulation, gone.snapshot))
        case ["kubectl", "patch", "nodepool", name, "--type", kind, "-p", patch]:
            obj, change = object_of(planner, "node_pools", name), msgspec.json.decode(patch)
            return changed(planner, [c.Apply((merged(obj, change) if kind == "merge" else patched(obj, change),))])
        case ["kubectl", "patch", "pdb" | "hpa" as kind, name, "-n", namespace, "--type", "merge", "-p", patch]:
            attribute = {"pdb": "pod_disruption_budgets", "hpa": "horizontal_pod_autoscalers"}[kind]
            obj = object_of(planner, attribute, name, namespace)
            return changed(planner, [c.Apply((merged(obj, msgspec.json.decode(patch)),)), c.Settle()])
        case ["#", "add", number, _, "like", like]:
            return changed(planner, [c.AddNodes(int(number), like), c.Settle()])
        case ["#", "set", "the", "maximum", "size", "of", "node", "group", name, "to", size, "(now", _]:
            groups = [dict(group) for group in planner.autoscaler.node_groups]
            (group,) = (group for group in groups if group["name"] == name)
            group["maxSize"] = int(size)
            other = planner.with_snapshot(planner.snapshot)
            other.autoscaler = kplan.ClusterAutoscaler(node_groups=groups)
            return other
        case ["kubectl", "wait", *_] | ["kubectl", "patch", "cronjob", *_]:
            return planner
        case ["#", "the", "pods", "claim", *_] | ["until" | "before=$(kubectl", *_]:
            return planner
    raise AssertionError(words)


def object_of(planner: kplan.Planner, attribute: str, name: str, namespace: str = "") -> dict[str, Any]:
    """Return an object of the cluster as kubectl has it."""
    (obj,) = (
        obj
        for obj in planner.snapshot.objects(attribute)
        if (obj.metadata.name, getattr(obj.metadata, "namespace", "")) == (name, namespace)
    )
    return head(KINDS_BY_ATTRIBUTE[attribute].name) | msgspec.json.decode(msgspec.json.encode(obj))


def merged(obj: Any, change: Any) -> Any:
    """Return an object after a merge patch; containers are merged by name, as a strategic one does."""
    if not isinstance(change, dict):
        return change
    held = dict(obj) if isinstance(obj, dict) else {}
    for key, value in change.items():
        if key in _BY_NAME:
            changes = {container["name"]: container for container in value}
            held[key] = [merged(container, changes.get(container["name"], {})) for container in held[key]]
        elif key == "ports":
            held[key] = _with_ports(held[key], value)
        elif key == "topologySpreadConstraints":
            gone = [_name(entry) for entry in value if entry.get("$patch") == "delete"]
            named = {_name(entry): entry for entry in (*held.get(key, ()), *value) if "$patch" not in entry}
            held[key] = [entry for name, entry in named.items() if name not in gone]
        else:
            held[key] = merged(held.get(key), value)
    return {key: value for key, value in held.items() if value is not None}


def _with_ports(ports: list[Any], changes: list[Any]) -> list[Any]:
    """Return ports after a strategic merge patch, to which the first one with a number is the one."""
    if {"$patch": "replace"} in changes:
        return [change for change in changes if "$patch" not in change]
    for change in changes:
        index = next(at for at, port in enumerate(ports) if port["containerPort"] == change["containerPort"])
        ports = [*ports[:index], merged(ports[index], change), *ports[index + 1 :]]
    return ports


def _name(constraint: dict[str, Any]) -> tuple[str, str]:
    return constraint["topologyKey"], constraint["whenUnsatisfiable"]


def patched(obj: Any, steps: list[dict[str, Any]]) -> Any:
    """Return an object after a JSON patch, RFC 6902."""
    for step in steps:
        *parents, last = step["path"].removeprefix("/").split("/")
        target = obj
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        match step["op"]:
            case "test":
                assert (target[int(last)] if isinstance(target, list) else target[last]) == step["value"]
            case "add":
                assert last == "-"
                target.append(step["value"])
            case "remove":
                del target[int(last)]
    return obj
