"""What to paste so that an action is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from kplan.actions.actions import Act, Fewer, Move, NewNodes, Patch, UncordonNode
from kplan.api.references import PodKey, WorkloadRef

_CLIENT_SIDE = "kubectl patch --local -f - -o yaml"


def commands(acts: Sequence[Act], *, uncordons: bool = True) -> tuple[str, ...]:
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
        case Fewer(workload=workload, to=to):
            return (f"kubectl scale {_object(workload)} --replicas={to}",)
        case Patch():
            return _patch(first)
        case Move(node=node):
            deleted = [f"kubectl delete pod {_pod(act.pod)} --wait" for act in acts if isinstance(act, Move)]
            if not uncordons:
                return tuple(deleted)
            return f"kubectl cordon {quote(node)}", *deleted, f"kubectl uncordon {quote(node)}"


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
