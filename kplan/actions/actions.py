"""The actions of a remedy before they are carried out, how much each disturbs, and what to paste so that it is done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, get_args

import msgspec

from kplan.api.references import PodKey, WorkloadRef
from kplan.autoscaling.seam import HigherLimits, LargerGroup, PoolChange, WiderRequirement
from kplan.documents import remedy as r
from kplan.documents.remedies import Kind
from kplan.errors import UsageError

KINDS: tuple[Kind, ...] = get_args(Kind)
CHANGES = "changes"


class UncordonNode(msgspec.Struct, frozen=True):
    """Uncordon a node."""

    node: str


class NewNodes(msgspec.Struct, frozen=True):
    """Add nodes that equal an existing one."""

    nodes: int
    like: str


class Move(msgspec.Struct, frozen=True):
    """Delete a running pod while its node is cordoned, so that its controller's next pod goes elsewhere."""

    pod: str
    node: str
    workload: str = ""  #: KIND/NAMESPACE/NAME of what creates the next one
    ready: int = 1  #: how many of its pods are ready before, and again when the next one is


class Loosen(msgspec.Struct, frozen=True):
    """Let a disruption budget allow more; `old` and `to` are the changed fields of its ``spec`` as JSON."""

    budget: str
    old: str
    to: str


class Fewer(msgspec.Struct, frozen=True):
    """Run fewer replicas of a workload."""

    workload: str
    old: int
    to: int
    stops: int = 0  #: how many of them run now
    scaler: str = ""  #: the HorizontalPodAutoscaler that sets their number; empty for none
    lowest: int = 0  #: its least number of replicas


class Patch(msgspec.Struct, frozen=True):
    """Change the pods of a workload, or a pod.

    `text` is the change of the pods' ``spec`` as JSON.
    """

    target: str
    text: str
    remedy: r.Remedy
    replaces: int = 0  #: how many pods that run its controller replaces

    @property
    def spec(self) -> dict[str, Any]:
        """The change of the pods' ``spec``, as a strategic merge patch."""
        change: dict[str, Any] = msgspec.json.decode(self.text)
        return change


class Widen(msgspec.Struct, frozen=True):
    """Change what an autoscaler may add."""

    change: PoolChange


Act = UncordonNode | NewNodes | Widen | Loosen | Move | Fewer | Patch
Acts = tuple[Act, ...]

_KIND_OF_ACT: Mapping[type[Act], Kind] = {
    UncordonNode: "uncordon",
    NewNodes: "nodes",
    Widen: "pools",
    Loosen: "budgets",
    Move: "moves",
    Fewer: "scale",
}
_KIND_OF_REMEDY: Mapping[type[r.RemedyBase], Kind] = {
    r.LowerRequest: "requests",
    r.CorrectSelector: "selectors",
    r.TolerateTaint: "tolerations",
    r.RelaxRule: "rules",
    r.HonorPolicy: "rules",
    r.SearchNamespace: "rules",
    r.CorrectName: "names",
}
_PATCHED: Mapping[Kind, int] = {"names": 3, "requests": 4, "selectors": 4, "tolerations": 4, "rules": 4}
_DISTURBS: Mapping[type[Act], int] = {UncordonNode: 1, Move: 2, NewNodes: 5, Widen: 5, Loosen: 6, Fewer: 8}
_REPLACED, _STOPPED, _GIVEN_UP = 1, 2, 6


def kind_of(act: Act) -> Kind:
    return _KIND_OF_REMEDY[type(act.remedy)] if isinstance(act, Patch) else _KIND_OF_ACT[type(act)]


def is_patched(remedy: r.RemedyBase) -> bool:
    """Tell whether a remedy changes what pods say."""
    return type(remedy) in _KIND_OF_REMEDY


def disturbance(acts: Iterable[Act]) -> int:
    """Return how much actions disturb, summed; only the order of these numbers matters.

    A node that is uncordoned counts 1, a pod that is moved 2, a misspelt name 3, another change of what pods say 4,
    each with 1 more for every running pod that is replaced, a new node 5, a pool or group that may grow 5, a budget
    that allows more 6, and a workload that runs fewer replicas 8, with 2 more for each of them that runs and 6 for each
    that waits: to give up a pod is never less than to add a node for it.
    """
    return sum(map(_disturbance, acts))


def _disturbance(act: Act) -> int:
    match act:
        case Patch(replaces=replaces):
            return _PATCHED[kind_of(act)] + _REPLACED * replaces
        case NewNodes(nodes=nodes):
            return _DISTURBS[NewNodes] * nodes
        case Fewer(old=old, to=to, stops=stops):
            return _DISTURBS[Fewer] + _STOPPED * stops + _GIVEN_UP * max(old - to - stops, 0)
    return _DISTURBS[type(act)]


def new_nodes(acts: Iterable[Act]) -> int:
    return sum(act.nodes for act in acts if isinstance(act, NewNodes))


def in_order(acts: Iterable[Act]) -> Acts:
    """Return actions in the order in which they are carried out; moves in their own order.

    What pods say changes before nodes come, so that no pod takes a new node that it does not need then.
    """
    ranks: dict[type[Act], int] = {Widen: 0, Loosen: 0, Patch: 1, Fewer: 2, UncordonNode: 3, NewNodes: 4, Move: 5}
    return tuple(sorted(acts, key=lambda act: ranks[type(act)]))


def extended(acts: Acts, more: Acts) -> Acts:
    """Return actions with further ones in their order; of one pool or group the changes become one."""
    joined = list(acts)
    for act in more:
        if act in joined:
            continue
        before = next((other for other in joined if _are_joined(other, act)), None)
        if before is not None:
            joined.remove(before)
        joined.append(act if before is None else _joined(before, act))
    return in_order(joined)


def _are_joined(act: Act, other: Act) -> bool:
    return isinstance(act, Widen) and isinstance(other, Widen) and _what(act.change) == _what(other.change)


def _what(change: PoolChange) -> tuple[str, str, int]:
    match change:
        case LargerGroup(group=group):
            return "group", group, 0
        case HigherLimits(pool=pool):
            return "limits", pool, 0
        case WiderRequirement(pool=pool, index=index):
            return "requirement", pool, index


def _joined(before: Act, act: Act) -> Act:
    """Return two changes of a pool or group as one, the second of which was made after the first."""
    match before, act:
        case Widen(LargerGroup(old=old)), Widen(LargerGroup() as then):
            return Widen(msgspec.structs.replace(then, old=old))
        case Widen(HigherLimits() as first), Widen(HigherLimits() as then):
            olds = {resource: old for resource, old, _ in first.limits}
            limits = {resource: (old, to) for resource, old, to in first.limits}
            limits |= {resource: (olds.get(resource, old), to) for resource, old, to in then.limits}
            return Widen(HigherLimits(first.pool, tuple((name, *texts) for name, texts in limits.items())))
        case Widen(WiderRequirement(operator="In") as first), Widen(WiderRequirement() as then):
            return Widen(msgspec.structs.replace(first, values=(*first.values, *then.values)))
    return act


def allowed_kinds(only: Collection[str], without: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds of actions that may be taken; raises UsageError for an unknown one, and where none is left.

    ``changes`` stands for all changes of what pods say.
    """
    unknown = [kind for kind in (*only, *without) if kind not in (*KINDS, CHANGES)]
    if unknown:
        raise UsageError(f"no kind of action: {', '.join(unknown)}", hint=f"choose from {', '.join((*KINDS, CHANGES))}")
    chosen, left_out = _expanded(only), _expanded(without)
    kinds = tuple(kind for kind in KINDS if (not only or kind in chosen) and kind not in left_out)
    if not kinds:
        raise UsageError("no kind of action is left", hint=f"choose from {', '.join((*KINDS, CHANGES))}")
    return kinds


def _expanded(kinds: Collection[str]) -> frozenset[str]:
    return frozenset((*kinds, *(_PATCHED if CHANGES in kinds else ())))


_MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
_LONGEST_START = "10m"
"""How long a command waits until a pod is ready that takes the place of another."""

_OF_JOB = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
"""Labels that the API server gives to the pods of a job, and refuses in a new one."""

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
        case Loosen(budget=budget, to=to):
            return (_with_budget(budget, to),)
        case Fewer(workload=workload, to=to, scaler=""):
            return (f"kubectl scale {_object(workload)} --replicas={to}",)
        case Fewer(workload=workload, to=to, scaler=scaler, lowest=lowest):
            bounds = {"maxReplicas": to} | ({"minReplicas": to} if lowest > to else {})
            name = f"{quote(scaler)} -n {quote(WorkloadRef.parse(workload).namespace)}"
            return (f"kubectl patch hpa {name} --type merge -p {_json({'spec': bounds})}",)
        case Patch():
            return _patch(first)
        case Move(node=node):
            moved = [command for act in acts if isinstance(act, Move) for command in _moved(act)]
            if not uncordons:
                return tuple(moved)
            return f"kubectl cordon {quote(node)}", *moved, f"kubectl uncordon {quote(node)}"


def undo_of(acts: Iterable[Act]) -> tuple[str, ...]:
    """Return the commands that undo, after all others, what was only for the time of them."""
    return tuple(_with_budget(act.budget, act.old) for act in acts if isinstance(act, Loosen))


def _with_budget(budget: str, fields: str) -> str:
    patch = quote(f'{{"spec":{fields}}}')
    return f"kubectl patch pdb {_pod(budget)} --type merge -p {patch}"


def _moved(act: Move) -> Iterator[str]:
    """Yield how a pod is deleted, and how to wait for the next one: `kubectl delete` does not ask budgets."""
    yield f"kubectl delete pod {_pod(act.pod)} --wait"
    if act.workload:
        kind = WorkloadRef.parse(act.workload).kind
        field = "ready" if kind == "Job" else "readyReplicas"
        ready = f"--for=jsonpath={quote(f'{{.status.{field}}}')}={act.ready}"
        yield f"kubectl wait {ready} {_object(act.workload)} --timeout={_LONGEST_START}"


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
    if kind == "Job":  # its template cannot change: it is created again, with labels and a selector of its own
        template = {"metadata": {"labels": dict.fromkeys(_OF_JOB)}, "spec": act.spec}
        again = _json({"spec": {"selector": None, "template": template}})
        return (f"kubectl get {name} -o yaml | {_CLIENT_SIDE} -p {again} | kubectl replace --force -f -",)
    return (f"kubectl patch {name} -p {patch}",)


def _object(name: str) -> str:
    ref = WorkloadRef.parse(name)
    return f"{quote(ref.kind.lower())} {quote(ref.name)} -n {quote(ref.namespace)}"


def _pod(key: str) -> str:
    pod = PodKey.parse(key)
    return f"{quote(pod.name)} -n {quote(pod.namespace)}"
