"""What to paste so that an action is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import msgspec

from kplan.actions.actions import Act, Fewer, Loosen, Move, NewNodes, Patch, UncordonNode, Widen
from kplan.api.references import PodKey, WorkloadRef
from kplan.autoscaling.seam import HigherLimits, LargerGroup, PoolChange, WiderRequirement

_MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
_CLIENT_SIDE = "kubectl patch --local -f - -o yaml"


def commands(acts: Sequence[Act], *, uncordons: bool = True) -> tuple[str, ...]:  # noqa: PLR0911 - one case a kind, in one place
    """Return the commands of an action, or of moves from one node.

    Parameters
    ----------
    uncordons : a node from which pods are moved accepts pods before, and again afterwards
    """
    first = acts[0]
    match first:
        case UncordonNode(node=node):
            return (f"kubectl uncordon {quote(node)}",)
        case NewNodes(nodes=nodes, like=like):
            return (f"# add {nodes} {'node' if nodes == 1 else 'nodes'} like {quote(like)}",)
        case Widen(change=change):
            return _widen(change)
        case Loosen(budget=budget, old=old, to=to):
            changed, undone = (quote(f'{{"spec":{fields}}}') for fields in (to, old))
            command = f"kubectl patch pdb {_pod(budget)} --type merge -p"
            return f"{command} {changed}", f"# to be undone at the end: {command} {undone}"
        case Fewer(workload=workload, to=to, scaler=""):
            return (f"kubectl scale {_object(workload)} --replicas={to}",)
        case Fewer(workload=workload, to=to, scaler=scaler, lowest=lowest):
            bounds = {"maxReplicas": to} | ({"minReplicas": to} if lowest > to else {})
            name = f"{quote(scaler)} -n {quote(WorkloadRef.parse(workload).namespace)}"
            return (f"kubectl patch hpa {name} --type merge -p {_json({'spec': bounds})}",)
        case Patch():
            return _patch(first)
        case Move(node=node):
            deleted = [f"kubectl delete pod {_pod(act.pod)} --wait" for act in acts if isinstance(act, Move)]
            if not uncordons:
                return tuple(deleted)
            return f"kubectl cordon {quote(node)}", *deleted, f"kubectl uncordon {quote(node)}"


def _widen(change: PoolChange) -> tuple[str, ...]:
    match change:
        case LargerGroup(group=group, to=to, cloud="clusterapi"):
            kind, namespace, name = group.split("/", 2)
            target = f"{quote(kind.lower())}.cluster.x-k8s.io {quote(name)} -n {quote(namespace)}"
            return (f"kubectl annotate {target} {_MAX_SIZE}={to} --overwrite",)
        case LargerGroup(group=group, to=to, cloud="aws"):
            return (
                f"aws autoscaling update-auto-scaling-group --auto-scaling-group-name {quote(group)} --max-size {to}",
            )
        case LargerGroup(group=group, old=old, to=to):
            return (f"# set the most size of node group {quote(group)} to {to} (now {old})",)
        case HigherLimits(pool=pool, limits=limits):
            patch = {"spec": {"limits": {resource: to for resource, _, to in limits}}}
            return (f"kubectl patch nodepool {quote(pool)} --type merge -p {_json(patch)}",)
        case WiderRequirement(pool=pool):
            return (f"kubectl patch nodepool {quote(pool)} --type json -p {_json(_steps(change))}",)


def _steps(change: WiderRequirement) -> list[dict[str, str]]:
    """Return a JSON patch, which fails where the pool has become another one meanwhile."""
    path = f"/spec/template/spec/requirements/{change.index}"
    steps = [{"op": "test", "path": f"{path}/key", "value": change.key}]
    if change.operator == "In":
        return steps + [{"op": "add", "path": f"{path}/values/-", "value": value} for value in change.values]
    for at, value in sorted(zip(change.at, change.values, strict=True), reverse=True):
        steps += [
            {"op": "test", "path": f"{path}/values/{at}", "value": value},
            {"op": "remove", "path": f"{path}/values/{at}"},
        ]
    return steps


def _json(patch: object) -> str:
    return quote(msgspec.json.encode(patch).decode())


def _patch(act: Patch) -> tuple[str, ...]:
    kind = WorkloadRef.parse(act.target).kind
    name = _object(act.target)
    if kind == "Pod":
        patch = quote(f'{{"spec":{act.text}}}')
        return (f"kubectl get {name} -o yaml | {_CLIENT_SIDE} -p {patch} | kubectl replace --force -f -",)
    patch = quote(f'{{"spec":{{"template":{{"spec":{act.text}}}}}}}')
    if kind == "Job":
        return (
            f"# the template of a job cannot change: create it again with {patch} in its manifest",
            f"kubectl delete {name}",
        )
    return (f"kubectl patch {name} -p {patch}",)


def _object(name: str) -> str:
    ref = WorkloadRef.parse(name)
    return f"{quote(ref.kind.lower())} {quote(ref.name)} -n {quote(ref.namespace)}"


def _pod(key: str) -> str:
    pod = PodKey.parse(key)
    return f"{quote(pod.name)} -n {quote(pod.namespace)}"
