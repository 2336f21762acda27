"""Changes of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from kplan.api import affinity
from kplan.api.quantity import listing
from kplan.changes import remedy as r
from kplan.changes.base import (
    MOST_NAMED,
    MOST_NODES,
    ChangeBase,
    DrainOptions,
    NodeCount,
    OfNodes,
    Upgrade,
    addition_words,
    of_somebody_else,
    pod_of,
    target_of,
)
from kplan.changes.objects import Delete
from kplan.errors import UsageError
from kplan.facts import Count, Document

_EFFECTS = (affinity.NO_SCHEDULE, affinity.PREFER_NO_SCHEDULE, affinity.NO_EXECUTE)
_LONGEST_START = "10m"  #: how long a command waits until a pod is ready that takes the place of another


class Cordon(OfNodes, frozen=True, tag="cordon"):
    """Nodes that take no more pods."""

    verb: ClassVar[str] = "cordon"
    undoing_verb: ClassVar[str] = "uncordon"


class Uncordon(OfNodes, frozen=True, tag="uncordon"):
    """Nodes that take pods again."""

    verb: ClassVar[str] = "uncordon"
    undoing_verb: ClassVar[str] = "cordon"

    @property
    def weight(self) -> int:
        return r.WEIGHTS[r.Uncordon] * len(self.nodes)


class AwaitNodes(OfNodes, frozen=True, tag="await"):
    """Wait until nodes are set up."""

    taints: tuple[str, ...]  #: the keys of the taints that they lose then

    @property
    def words(self) -> str:
        return f"wait until {self.named} {'is' if len(self.nodes) == 1 else 'are'} set up"

    @property
    def steps(self) -> tuple[str, ...]:
        keys = " ".join(f"-e {quote(key)}" for key in self.taints)
        return tuple(
            f"while kubectl get node {quote(node)} -o jsonpath='{{.spec.taints[*].key}}' | grep -qwF {keys}; "
            "do sleep 5; done"
            for node in self.nodes
        )

    @property
    def parts(self) -> Sequence[ChangeBase]:
        return (Taint({node: tuple(f"{key}-" for key in self.taints) for node in self.nodes}),)


class Drain(OfNodes, frozen=True, tag="drain"):
    """Nodes that are drained, one after the other, as by ``kubectl drain``."""

    options: DrainOptions | None = None
    timeout: float | None = None  #: seconds after which kubectl gives up; null for never
    upgrade: Upgrade | None = None  #: of the nodes, which come back; null for a plain drain

    @property
    def words(self) -> str:
        return f"{'drain' if self.upgrade is None else 'upgrade'} {self.named}"

    @property
    def steps(self) -> tuple[str, ...]:
        if self.upgrade is not None:
            return (f"# {self.words}",)
        timeout = "" if self.timeout is None else f" --timeout={self.timeout:g}s"
        return self.kubectl("drain", (self.options or DrainOptions()).flags + timeout)

    @property
    def undoing(self) -> tuple[str, ...]:
        return self.kubectl("uncordon") if self.upgrade is None else ()


class Fail(OfNodes, frozen=True, tag="fail"):
    """Nodes whose kubelets fall silent: their last heartbeat is now."""

    machine_gone: bool = False  #: a cloud's controller deletes the nodes

    @property
    def words(self) -> str:
        return f"{self.named} {'fails' if len(self.nodes) == 1 else 'fail'}"


class Recover(OfNodes, frozen=True, tag="recover"):
    """Nodes whose kubelets answer again, and are ready."""

    @property
    def words(self) -> str:
        return f"{self.named} {'recovers' if len(self.nodes) == 1 else 'recover'}"


class NotReady(OfNodes, frozen=True, tag="notReady"):
    """Nodes whose kubelets post that they are not ready."""

    pods_handled: bool = False  #: they start and end pods all the same

    @property
    def words(self) -> str:
        return f"{self.named} {'is' if len(self.nodes) == 1 else 'are'} not ready"


TAINTS_HINT = "write {NODE: [KEY=VALUE:EFFECT, KEY:EFFECT-]}, as for kubectl taint"


def taint_of(text: str) -> tuple[affinity.Taint, bool]:
    """Read a taint as for ``kubectl taint``, and whether it is one that goes; raises UsageError."""
    head, _, effect = text.removesuffix("-").partition(":")
    key, _, value = head.partition("=")
    goes = text.endswith("-")
    if not key or not (effect in _EFFECTS or (goes and not effect)):
        raise UsageError(f"taint: {text!r} is no taint", hint=TAINTS_HINT)
    return affinity.Taint(key=key, value=value, effect=effect), goes


class Taint(ChangeBase, frozen=True, tag="taint"):
    """Nodes that get taints, or lose them, by hand: node -> KEY=VALUE:EFFECT, or KEY:EFFECT- for one that goes."""

    taints: dict[str, tuple[str, ...]]

    @property
    def words(self) -> str:
        return "; ".join(f"taint {node}: {listing(taints)}" for node, taints in self.taints.items())

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(
            f"kubectl taint node {quote(node)} {' '.join(map(quote, taints))}" for node, taints in self.taints.items()
        )

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`; the value of a taint that goes is not known here."""
        added = {node: tuple(f"{text}-" for text in texts if text[-1:] != "-") for node, texts in self.taints.items()}
        return Taint({node: texts for node, texts in added.items() if texts}).steps

    @property
    def needs(self) -> Sequence[str]:
        return [*self.taints]


class Conditions(ChangeBase, frozen=True, tag="conditions"):
    """Conditions that kubelets post of their nodes: node -> type -> True, False or Unknown."""

    conditions: dict[str, dict[str, Literal["True", "False", "Unknown"]]]

    @property
    def words(self) -> str:
        posted = {
            node: listing([f"{name}={status}" for name, status in of.items()]) for node, of in self.conditions.items()
        }
        return "; ".join(f"{node} posts {texts}" for node, texts in posted.items())

    @property
    def needs(self) -> Sequence[str]:
        return [*self.conditions]


_READY_NODES = "kubectl get nodes --no-headers | grep -cw Ready"
_BRINGS = "the pods claim devices, so wait until {} ResourceSlices like those of the other node"


class AddNodes(ChangeBase, frozen=True, tag="addNodes"):
    """New nodes that equal an existing one."""

    nodes: NodeCount
    like: str
    devices: bool = False  #: waiting pods claim devices, which the new nodes have to bring
    #: KEY=VALUE of labels in which they differ from it; KEY alone for a value that no node has yet
    labels: tuple[str, ...] = ()
    room: tuple[str, ...] = ()  #: RESOURCE=AMOUNT of what is allocatable instead

    @classmethod
    def parse(cls, text: str) -> AddNodes:
        """Read ``N=NODE``; raises UsageError for anything else."""
        number, _, like = text.partition("=")
        if not like or not number.isascii() or not number.isdecimal() or not 0 < int(number[:9]) <= MOST_NODES:
            hint = f"for example 3=node-01; N is a number from 1 to {MOST_NODES}"
            raise UsageError(f"{text}: expected N=NODE", hint=hint)
        return cls(int(number), like)

    @property
    def words(self) -> str:
        return addition_words(self.nodes, self.like, self.devices, self.labels, self.room)

    @property
    def steps(self) -> tuple[str, ...]:
        lines = [
            f"before=$({_READY_NODES})",
            f"# {addition_words(self.nodes, quote(self.like), None, self.labels, self.room)}",
            f"until [ $({_READY_NODES}) -ge $((before + {self.nodes})) ]; do sleep 5; done",
        ]
        if self.devices:
            lines.append(f"# {_BRINGS.format('it publishes' if self.nodes == 1 else 'they publish')}")
        return tuple(lines)

    @property
    def weight(self) -> int:
        return r.WEIGHTS[r.AddNodes] * self.nodes


class RemoveNodes(OfNodes, frozen=True, tag="removeNodes"):
    """Nodes whose objects are deleted; their pods are lost."""

    verb: ClassVar[str] = "delete node"

    @property
    def words(self) -> str:
        return f"remove {self.named}"

    @property
    def parts(self) -> Sequence[ChangeBase]:
        return (Delete(tuple(f"node/{name}" for name in self.nodes)),)


class Place(Document, frozen=True):
    """A pod that is deleted, and where its controller's next pod goes."""

    pod: str
    goes_to: str = ""  #: the scheduler's decision; empty where it is not known
    #: KIND/NAMESPACE/NAME of what creates the next one; absent if nothing is waited for
    workload: str | UnsetType = UNSET
    #: how many of the workload's pods are ready before, and again when the next one is; absent as `workload`
    ready: Count | UnsetType = UNSET


class Move(ChangeBase, frozen=True, tag="move"):
    """Cordon a node, delete pods there one after another, each when the one before runs elsewhere, and uncordon it."""

    node: str
    pods: tuple[Place, ...]
    uncordons: bool = True  #: the node accepts pods before, and again afterwards
    #: NAMESPACE/NAME of a workload of another namespace than the pods that are to run; empty for none
    of_others: str = ""

    @property
    def words(self) -> str:
        goes = [f"{place.pod} to {place.goes_to}" if place.goes_to else place.pod for place in self.pods]
        whose = of_somebody_else(self.of_others, within=True)
        return f"move {listing(goes, most=MOST_NAMED)} (away from {self.node}{whose})"

    @property
    def steps(self) -> tuple[str, ...]:
        moved = [command for place in self.pods for command in _moved(place)]
        node = quote(self.node)
        return (f"kubectl cordon {node}", *moved, f"kubectl uncordon {node}") if self.uncordons else tuple(moved)

    @property
    def weight(self) -> int:
        return r.WEIGHTS[r.MovePod] * len(self.pods)

    @property
    def needs(self) -> Sequence[str]:
        return (self.node,)


def _moved(place: Place) -> Iterator[str]:
    """Yield how a pod is deleted, and how to wait for the next one: `kubectl delete` does not ask budgets."""
    yield f"kubectl delete pod {pod_of(place.pod)} --wait"
    if place.workload:
        field = "ready" if place.workload.startswith("Job/") else "readyReplicas"
        ready = f"--for=jsonpath={quote(f'{{.status.{field}}}')}={place.ready}"
        yield f"kubectl wait {ready} {target_of(place.workload)} --timeout={_LONGEST_START}"


ChangeOfNodes = (
    Cordon
    | Uncordon
    | AwaitNodes
    | Drain
    | Fail
    | Recover
    | NotReady
    | Taint
    | Conditions
    | AddNodes
    | RemoveNodes
    | Move
)
