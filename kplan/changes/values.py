"""The changes: each is a struct with its document, its sentence, the commands to paste, its undo, and its weight.

A change is carried out by the verbs of a `Stage`: a cluster on paper, or one in motion. So a new change is a struct
here, made of verbs that stages have. What an answer tells of it (`text`, `commands`, …) is absent until it is asked for
with `described`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from kplan.api.names import PodKey, WorkloadRef
from kplan.api.quantity import count, listing
from kplan.changes.remedy import CorrectName, CorrectSelector, LowerRequest, Remedy, remedy_change
from kplan.errors import UsageError
from kplan.facts import Count, Document, LimitChange, QuotaRaise
from kplan.health.words import quota_command
from kplan.rules.nodes import short_group_name

MAX_GRACE = 366 * 24 * 3600
"""A year in seconds, which no pod needs to stop."""

MOST_NODES = 100_000
"""The largest number of nodes to add, above that of any real cluster."""

MOST_REPLICAS = 1_000_000

_MOST_NAMED = 5
_LONGEST_START = "10m"
"""How long a command waits until a pod is ready that takes the place of another."""

_MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

_OF_JOB = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
"""Labels that the API server gives to the pods of a job, and refuses in a new one."""

_CLIENT_SIDE = "kubectl patch --local -f - -o yaml"

_CLAIM = "PersistentVolumeClaim/"

_WITH_ROLLOUT = ("Deployment", "StatefulSet", "DaemonSet")

Grace = Annotated[int, Meta(ge=0, le=MAX_GRACE)]
NodeCount = Annotated[int, Meta(ge=1, le=MOST_NODES)]
Replicas = Annotated[int, Meta(ge=0, le=MOST_REPLICAS)]


class DrainOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How nodes are drained; the flags of ``kubectl drain``."""

    force: bool = False  #: evict pods that no controller recreates, too
    delete_emptydir_data: bool = False  #: evict pods whose data is lost with them, too
    disable_eviction: bool = False  #: delete pods instead of evicting them, whatever the budgets
    #: seconds in which pods have to stop, in place of their own grace periods; None for these
    grace_period: Grace | None = None
    #: skip pods whose deletion timestamp, when their grace period is over, is longer ago than so many seconds; 0: none
    skip_wait_for_delete_timeout: Grace = 0

    @property
    def flags(self) -> str:
        """The flags as a person writes them."""
        flags = ["--ignore-daemonsets"]
        flags += ["--force"] if self.force else []
        flags += ["--delete-emptydir-data"] if self.delete_emptydir_data else []
        flags += ["--disable-eviction"] if self.disable_eviction else []
        seconds = self.skip_wait_for_delete_timeout
        flags += [f"--skip-wait-for-delete-timeout={seconds}"] if seconds else []
        flags += [] if self.grace_period is None else [f"--grace-period={self.grace_period}"]
        return " ".join(flags)


class Upgrade(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How nodes are upgraded."""

    is_replaced: bool = True  #: an empty new node takes the place of each; else the node itself comes back
    surge: tuple[str, ...] = ()  #: further nodes that join first, and take pods while nodes are drained
    parallel: int = 1  #: how many nodes are drained at a time
    node_start: float = 0.0  #: seconds until a new node takes pods
    timeout: float | None = None  #: seconds after which the drain of a node is given up; None for never
    is_forced: bool = False  #: then its pods are deleted; else the upgrade ends
    uncordons_failed: bool = False  #: where the upgrade ends, the node that it ends at takes pods again
    cordons_all: bool = False  #: all nodes take no more pods from the beginning
    pause: float = 0.0  #: seconds from an empty node to its replacement
    waits_for_nodes: bool = True  #: the next node is drained when the new one is ready; else when the old one is gone
    #: the further nodes take the place of the last ones; else they are drained and removed in the end
    keeps_surge: bool = False


class Stage:
    """Where changes are carried out; each kind of stage has the verbs that mean something there."""

    name: ClassVar[str]  #: such as: on paper

    def carry_out(self, change: ChangeBase) -> None:
        """Carry a change out; raises UsageError where it means nothing here."""
        try:
            change.begin(self)
        except NotImplementedError:
            raise UsageError(f"{change.words}: cannot be done {self.name}") from None

    def apply(self, manifests: Sequence[Any]) -> None:
        """Apply manifests, one object after the other."""
        raise NotImplementedError

    def delete(self, objects: Sequence[str], grace_period: int | None) -> None:
        """Delete objects by their references."""
        raise NotImplementedError

    def scale(self, workload: str, replicas: int) -> None:
        """Scale the workloads of a reference."""
        raise NotImplementedError

    def cordon(self, nodes: Sequence[str]) -> None:
        """Have nodes take no more pods."""
        raise NotImplementedError

    def uncordon(self, nodes: Sequence[str]) -> None:
        """Have nodes take pods again."""
        raise NotImplementedError

    def add_nodes(self, number: int, like: str) -> None:
        """Have new nodes join that equal one."""
        raise NotImplementedError

    def resize(self, source: str) -> None:
        """Give workloads recommended requests."""
        raise NotImplementedError

    def settle(self) -> None:
        """Run controllers and scheduler until nothing moves."""
        raise NotImplementedError

    def drain(
        self, nodes: Sequence[str], options: DrainOptions | None, timeout: float | None, upgrade: Upgrade | None
    ) -> None:
        """Drain nodes one after the other; with an upgrade, they come back."""
        raise NotImplementedError

    def fail(self, nodes: Sequence[str], *, is_machine_gone: bool) -> None:
        """Have kubelets fall silent."""
        raise NotImplementedError

    def recover(self, nodes: Sequence[str]) -> None:
        """Have kubelets answer again."""
        raise NotImplementedError

    def not_ready(self, nodes: Sequence[str], *, handles_pods: bool) -> None:
        """Have kubelets post that they are not ready."""
        raise NotImplementedError

    def taint(self, node: str, taints: Sequence[str]) -> None:
        """Add and remove taints, each KEY=VALUE:EFFECT or KEY:EFFECT-."""
        raise NotImplementedError

    def post(self, node: str, conditions: Mapping[str, str]) -> None:
        """Have a kubelet post conditions of its node."""
        raise NotImplementedError

    def patch(self, target: str, spec: Mapping[str, Any]) -> None:
        """Change the pods of a workload, or a pod."""
        raise NotImplementedError

    def bound_replicas(self, workload: str, replicas: int, autoscaler: str, lowest: int) -> None:
        """Have an autoscaler want so many replicas at most."""
        raise NotImplementedError

    def move(self, node: str, pods: Sequence[str]) -> None:
        """Delete pods of a cordoned node one after the other, each when the one before runs elsewhere."""
        raise NotImplementedError

    def run_cron_job(self, cron_job: str) -> None:
        """Start a run of a cron job now."""
        raise NotImplementedError

    def set_budget(self, budget: str, fields: Mapping[str, Any]) -> None:
        """Change fields of a disruption budget."""
        raise NotImplementedError

    def set_quota(self, quota: str, hard: Mapping[str, str]) -> None:
        """Change limits of a ResourceQuota."""
        raise NotImplementedError

    def set_pool(self, change: Pool) -> None:
        """Change what an autoscaler may add."""
        raise NotImplementedError


class ChangeBase(Document, frozen=True, kw_only=True, omit_defaults=True, tag_field="change"):
    """What all changes share, as far as an answer tells it.

    Attributes
    ----------
    text : the change in words
    commands : to be pasted, in this order; a line that starts with # says what no command does
    undo : commands that undo it
    achieves : pods that run after this action and did not before, as NAMESPACE/NAME; KIND/NAMESPACE/NAME of the
        workload for replicas that the action replaces
    disturbs : running pods that are deleted or replaced, as NAMESPACE/NAME
    """

    text: str | UnsetType = UNSET
    commands: tuple[str, ...] | UnsetType = UNSET
    undo: tuple[str, ...] | UnsetType = UNSET
    achieves: tuple[str, ...] | UnsetType = UNSET
    disturbs: tuple[str, ...] | UnsetType = UNSET

    @property
    def words(self) -> str:
        """The change as a sentence without a full stop."""
        raise NotImplementedError

    @property
    def steps(self) -> tuple[str, ...]:
        """The commands that a person pastes."""
        return (f"# {self.words}",)

    @property
    def undoing(self) -> tuple[str, ...]:
        """The commands that undo it; empty where none do."""
        return ()

    @property
    def weight(self) -> int:
        """How much it disturbs; only the order of these numbers matters, see `kplan.changes.sets.disturbance`."""
        return 0

    @property
    def needs(self) -> Sequence[str]:
        """The nodes that have to be there."""
        return ()

    def begin(self, stage: Stage) -> None:
        """Carry the change out, or begin with what takes time."""
        raise NotImplementedError

    def described(self, achieves: Sequence[str] = (), disturbs: Sequence[str] = ()) -> Self:
        """Return the change with all that an answer tells of it."""
        return replace(
            self,
            text=self.words,
            commands=self.steps,
            undo=self.undoing,
            achieves=tuple(achieves),
            disturbs=tuple(disturbs),
        )


class OfNodes(ChangeBase, frozen=True):
    """A change of nodes, by their names; on paper also globs, or labels after a question mark."""

    nodes: tuple[str, ...]

    @property
    def needs(self) -> Sequence[str]:
        """See `ChangeBase`."""
        return self.nodes

    @property
    def named(self) -> str:
        """The nodes in words."""
        return listing(self.nodes, most=_MOST_NAMED)

    def kubectl(self, verb: str, flags: str = "") -> tuple[str, ...]:
        """Return a command about all nodes."""
        words = ("kubectl", verb, *map(quote, self.nodes), *filter(None, [flags]))
        return (" ".join(words),)


class Apply(ChangeBase, frozen=True, tag="apply"):
    """Manifests that are applied: files, directories or objects."""

    manifests: tuple[str | dict[str, Any], ...]

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"apply {listing([_manifest_name(manifest) for manifest in self.manifests], most=_MOST_NAMED)}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return tuple(
            f"kubectl apply -f {quote(manifest)}" if isinstance(manifest, str) else f"# {Apply((manifest,)).words}"
            for manifest in self.manifests
        )

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.apply(self.manifests)


class Delete(ChangeBase, frozen=True, tag="delete"):
    """Objects that are deleted with what they own: KIND/[NS/]NAME; on paper also globs, or KIND?label=value.

    Attributes
    ----------
    grace_period : seconds in which pods have to stop; null for their own
    """

    objects: tuple[str, ...]
    grace_period: Grace | None = None

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"delete {listing(self.objects, most=_MOST_NAMED)}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        grace = "" if self.grace_period is None else f" --grace-period={self.grace_period}"
        return tuple(f"kubectl delete {_target(reference)}{grace}" for reference in self.objects)

    @property
    def needs(self) -> Sequence[str]:
        """See `ChangeBase`."""
        parts = (reference.partition("/") for reference in self.objects)
        return [name for kind, _, name in parts if kind.lower() == "node"]

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.delete(self.objects, self.grace_period)


class Scale(ChangeBase, frozen=True, tag="scale"):
    """Run another number of replicas.

    Attributes
    ----------
    workload : KIND/[NAMESPACE/]NAME
    old : how many it has; absent where that is not known
    autoscaler : the HorizontalPodAutoscaler that sets their number, whose bounds change; empty for none
    lowest : the autoscaler's least number of replicas
    stops : how many running ones that stops
    drops : pods that wait and are not wanted any more, as NAMESPACE/NAME
    """

    workload: str
    replicas: Replicas
    old: Count | UnsetType = UNSET
    autoscaler: str = ""
    lowest: Count = 0
    stops: Count = 0
    drops: tuple[str, ...] | UnsetType = UNSET

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        instead = "" if self.old is UNSET else f" instead of {self.old}"
        by = f" (autoscaler {self.autoscaler})" if self.autoscaler else ""
        return f"run {count(self.replicas, 'replica')} of {self.workload}{instead}{by}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        if not self.autoscaler:
            return (f"kubectl scale {_target(self.workload)} --replicas={self.replicas}",)
        bounds = {"maxReplicas": self.replicas}
        bounds |= {"minReplicas": self.replicas} if self.lowest > self.replicas else {}
        name = f"{quote(self.autoscaler)} -n {quote(WorkloadRef.parse(self.workload).namespace)}"
        return (f"kubectl patch hpa {name} --type merge -p {_json({'spec': bounds})}",)

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`; the bounds of an autoscaler before are not known here."""
        if self.old is UNSET or self.autoscaler:
            return ()
        return Scale(self.workload, self.old).steps

    @property
    def weight(self) -> int:
        """A workload that changes counts 8, with 2 for each replica that stops, and 6 for each that is given up."""
        fewer = 0 if self.old is UNSET else self.old - self.replicas
        return 8 + 2 * self.stops + 6 * max(fewer - self.stops, 0)

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        if self.autoscaler:
            stage.bound_replicas(self.workload, self.replicas, self.autoscaler, self.lowest)
        else:
            stage.scale(self.workload, self.replicas)


class Patch(ChangeBase, frozen=True, tag="patch"):
    """Change what the pods of a workload say; its controller replaces them.

    Attributes
    ----------
    object : KIND/NAMESPACE/NAME of the workload, or of a pod that is created again
    patch : of the pods' ``spec``, a strategic merge patch as JSON
    remedy : what is changed
    replaces : how many pods that run its controller replaces
    restarts : waiting pods of a StatefulSet, as NAMESPACE/NAME, which it does not replace before they run
    """

    object: str
    patch: str
    remedy: Remedy
    replaces: Count = 0
    restarts: tuple[str, ...] = ()

    @property
    def spec(self) -> dict[str, Any]:
        """The patch as plain values."""
        change: dict[str, Any] = msgspec.json.decode(self.patch)
        return change

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        text = remedy_change(self.remedy)
        return text if self.object.startswith(_CLAIM) else f"in {self.object}, {text}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        kind, name = self.object.partition("/")[0], _target(self.object)
        if kind in ("Pod", "PersistentVolumeClaim"):  # whose class cannot change either
            return (f"kubectl get {name} -o yaml | {_created_again(quote(self._whole))}",)
        if kind == "Job":  # its template cannot change: it is created again, with labels and a selector of its own
            template = {"metadata": {"labels": dict.fromkeys(_OF_JOB)}, "spec": self.spec}
            again = _json({"spec": {"selector": None, "template": template}})
            return (f"kubectl get {name} -o yaml | {_created_again(again)}",)
        return (
            f"kubectl patch {name} -p {quote(self._whole)}",
            *(f"kubectl delete pod {_pod(pod)}" for pod in self.restarts),
        )

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`; of other kinds there is no former template to go back to."""
        has_history = self.object.startswith(tuple(f"{kind}/" for kind in _WITH_ROLLOUT))
        return (f"kubectl rollout undo {_target(self.object)}",) if has_history else ()

    @property
    def weight(self) -> int:
        """What is misspelt counts 1, a rule that is relaxed 6, a lower request 9, and each pod that is replaced 1."""
        if isinstance(self.remedy, CorrectName) or (
            isinstance(self.remedy, CorrectSelector) and self.remedy.change.to is not None
        ):
            return 1 + self.replaces
        return (9 if isinstance(self.remedy, LowerRequest) else 6) + self.replaces

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.patch(self.object, self.spec)

    @property
    def _whole(self) -> str:
        spec = f'{{"spec":{self.patch}}}'
        return spec if self.object.startswith(("Pod/", _CLAIM)) else f'{{"spec":{{"template":{spec}}}}}'


class Cordon(OfNodes, frozen=True, tag="cordon"):
    """Nodes that take no more pods."""

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"cordon {self.named}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return self.kubectl("cordon")

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return self.kubectl("uncordon")

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.cordon(self.nodes)


class Uncordon(OfNodes, frozen=True, tag="uncordon"):
    """Nodes that take pods again."""

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"uncordon {self.named}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return self.kubectl("uncordon")

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return self.kubectl("cordon")

    @property
    def weight(self) -> int:
        """See `ChangeBase`."""
        return len(self.nodes)

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.uncordon(self.nodes)


class AwaitNodes(OfNodes, frozen=True, tag="await"):
    """Wait until nodes are set up.

    Attributes
    ----------
    taints : the keys of the taints that they lose then
    """

    taints: tuple[str, ...]

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"wait until {self.named} {'is' if len(self.nodes) == 1 else 'are'} set up"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        keys = " ".join(f"-e {quote(key)}" for key in self.taints)
        return tuple(
            f"while kubectl get node {quote(node)} -o jsonpath='{{.spec.taints[*].key}}' | grep -qwF {keys}; "
            "do sleep 5; done"
            for node in self.nodes
        )

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        for node in self.nodes:
            stage.taint(node, [f"{key}-" for key in self.taints])


class Drain(OfNodes, frozen=True, tag="drain"):
    """Nodes that are drained, one after the other, as by ``kubectl drain``.

    Attributes
    ----------
    timeout : seconds after which kubectl gives up; null for never
    upgrade : of the nodes, which come back; null for a plain drain
    """

    options: DrainOptions | None = None
    timeout: float | None = None
    upgrade: Upgrade | None = None

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"{'drain' if self.upgrade is None else 'upgrade'} {self.named}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        if self.upgrade is not None:
            return (f"# {self.words}",)
        timeout = "" if self.timeout is None else f" --timeout={self.timeout:g}s"
        return self.kubectl("drain", (self.options or DrainOptions()).flags + timeout)

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return self.kubectl("uncordon") if self.upgrade is None else ()

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.drain(self.nodes, self.options, self.timeout, self.upgrade)


class Fail(OfNodes, frozen=True, tag="fail"):
    """Nodes whose kubelets fall silent: their last heartbeat is now.

    Attributes
    ----------
    machine_gone : a cloud's controller deletes the nodes
    """

    machine_gone: bool = False

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"{self.named} {'fails' if len(self.nodes) == 1 else 'fail'}"

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.fail(self.nodes, is_machine_gone=self.machine_gone)


class Recover(OfNodes, frozen=True, tag="recover"):
    """Nodes whose kubelets answer again, and are ready."""

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"{self.named} {'recovers' if len(self.nodes) == 1 else 'recover'}"

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.recover(self.nodes)


class NotReady(OfNodes, frozen=True, tag="notReady"):
    """Nodes whose kubelets post that they are not ready.

    Attributes
    ----------
    pods_handled : they start and end pods all the same
    """

    pods_handled: bool = False

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"{self.named} {'is' if len(self.nodes) == 1 else 'are'} not ready"

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.not_ready(self.nodes, handles_pods=self.pods_handled)


class Taint(ChangeBase, frozen=True, tag="taint"):
    """Nodes that get taints, or lose them, by hand: node -> KEY=VALUE:EFFECT, or KEY:EFFECT- for one that goes."""

    taints: dict[str, tuple[str, ...]]

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return "; ".join(f"taint {node}: {listing(taints)}" for node, taints in self.taints.items())

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
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
        """See `ChangeBase`."""
        return [*self.taints]

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        for node, taints in self.taints.items():
            stage.taint(node, taints)


class Conditions(ChangeBase, frozen=True, tag="conditions"):
    """Conditions that kubelets post of their nodes: node -> type -> True, False or Unknown."""

    conditions: dict[str, dict[str, Literal["True", "False", "Unknown"]]]

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        posted = {
            node: listing([f"{name}={status}" for name, status in of.items()]) for node, of in self.conditions.items()
        }
        return "; ".join(f"{node} posts {texts}" for node, texts in posted.items())

    @property
    def needs(self) -> Sequence[str]:
        """See `ChangeBase`."""
        return [*self.conditions]

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        for node, conditions in self.conditions.items():
            stage.post(node, conditions)


class AddNodes(ChangeBase, frozen=True, tag="addNodes"):
    """New nodes that equal an existing one.

    Attributes
    ----------
    devices : waiting pods claim devices, which the new nodes have to bring
    """

    nodes: NodeCount
    like: str
    devices: bool = False

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        brings = f" with {'its' if self.nodes == 1 else 'their'} devices" if self.devices else ""
        return f"add {count(self.nodes, 'node')} like {self.like}{brings}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        lines = [
            f"before=$({_READY_NODES})",
            f"# add {count(self.nodes, 'node')} like {quote(self.like)}",
            f"until [ $({_READY_NODES}) -ge $((before + {self.nodes})) ]; do sleep 5; done",
        ]
        if self.devices:
            lines.append(f"# {_BRINGS.format('it publishes' if self.nodes == 1 else 'they publish')}")
        return tuple(lines)

    @property
    def weight(self) -> int:
        """See `ChangeBase`."""
        return 5 * self.nodes

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.add_nodes(self.nodes, self.like)


_READY_NODES = "kubectl get nodes --no-headers | grep -cw Ready"
_BRINGS = "the pods claim devices, so wait until {} ResourceSlices like those of the other node"


class RemoveNodes(OfNodes, frozen=True, tag="removeNodes"):
    """Nodes whose objects are deleted; their pods are lost."""

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"remove {self.named}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return self.kubectl("delete node")

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.delete([f"node/{name}" for name in self.nodes], None)


class Resize(ChangeBase, frozen=True, tag="resize"):
    """Recommended requests: ``vpa`` for those of the cluster's VerticalPodAutoscalers, or a file that krr wrote."""

    recommendations: str

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"give pods the requests that {self.recommendations} recommends"

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.resize(self.recommendations)


class Settle(ChangeBase, frozen=True, tag="settle"):
    """Wait until controllers and scheduler have nothing to do any more."""

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return "wait until nothing moves"

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.settle()


class Place(Document, frozen=True):
    """A pod that is deleted, and where its controller's next pod goes.

    Attributes
    ----------
    goes_to : the scheduler's decision; empty where it is not known
    workload : KIND/NAMESPACE/NAME of what creates the next one; absent if nothing is waited for
    ready : how many of the workload's pods are ready before, and again when the next one is; absent as `workload`
    """

    pod: str
    goes_to: str = ""
    workload: str | UnsetType = UNSET
    ready: Count | UnsetType = UNSET


class Move(ChangeBase, frozen=True, tag="move"):
    """Cordon a node, delete pods there one after another, each when the one before runs elsewhere, and uncordon it.

    Attributes
    ----------
    uncordons : the node accepts pods before, and again afterwards
    """

    node: str
    pods: tuple[Place, ...]
    uncordons: bool = True

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        goes = [f"{place.pod} to {place.goes_to}" if place.goes_to else place.pod for place in self.pods]
        return f"move {listing(goes, most=_MOST_NAMED)} (away from {self.node})"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        moved = [command for place in self.pods for command in _moved(place)]
        node = quote(self.node)
        return (f"kubectl cordon {node}", *moved, f"kubectl uncordon {node}") if self.uncordons else tuple(moved)

    @property
    def weight(self) -> int:
        """See `ChangeBase`."""
        return 2 * len(self.pods)

    @property
    def needs(self) -> Sequence[str]:
        """See `ChangeBase`."""
        return (self.node,)

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.move(self.node, [place.pod for place in self.pods])


class RunCronJob(ChangeBase, frozen=True, tag="runCronJob"):
    """A run of a cron job that is started now, whatever its schedule; NAMESPACE/NAME."""

    cron_job: str

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"run CronJob {self.cron_job}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        ref = PodKey.parse(self.cron_job)
        name, namespace = quote(ref.name), quote(ref.namespace)
        return (f"kubectl create job {quote(self.job_name)} --from=cronjob/{name} -n {namespace}",)

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return (f"kubectl delete job {quote(self.job_name)} -n {quote(PodKey.parse(self.cron_job).namespace)}",)

    @property
    def job_name(self) -> str:
        """The name of the job; a name of a job has at most 63 characters."""
        return f"{PodKey.parse(self.cron_job).name[:56]}-manual"

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.run_cron_job(self.cron_job)


class LoosenBudget(ChangeBase, frozen=True, tag="budget"):
    """Let a disruption budget allow more for a while.

    Attributes
    ----------
    budget : NAMESPACE/NAME
    old, to : the fields of its ``spec`` that change, as JSON
    """

    budget: str
    old: str
    to: str

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"let budget {self.budget} allow more: {_fields(self.to)} instead of {_fields(self.old)}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        patch = quote(f'{{"spec":{self.to}}}')
        return (f"kubectl patch pdb {_pod(self.budget)} --type merge -p {patch}",)

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return LoosenBudget(self.budget, self.to, self.old).steps

    @property
    def weight(self) -> int:
        """See `ChangeBase`."""
        return 6

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.set_budget(self.budget, msgspec.json.decode(self.to))


class RaiseQuota(ChangeBase, frozen=True, tag="quota"):
    """Let a ResourceQuota, NAMESPACE/NAME, allow more."""

    quota: str
    limits: tuple[LimitChange, ...]

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        return f"raise ResourceQuota {self.quota}: {_raised(self.limits)}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return (quota_command(QuotaRaise(self.quota, self.limits)),)

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        return RaiseQuota(self.quota, _lowered(self.limits)).steps

    @property
    def weight(self) -> int:
        """See `ChangeBase`."""
        return 4

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.set_quota(self.quota, {limit.resource: limit.to for limit in self.limits})


class Admitted(Document, frozen=True, omit_defaults=True):
    """Values of a label that the nodes of a NodePool may have besides, such as an instance type or a zone.

    Attributes
    ----------
    key : of the requirement in the pool's template
    operator : In, whose list is to have the values, or NotIn, whose list is not to have them
    index : of the requirement
    at : for NotIn: where the values stand in its list
    """

    key: str
    operator: Literal["In", "NotIn"]
    values: tuple[str, ...]
    index: Count = 0
    at: tuple[int, ...] = ()


class GroupSize(Document, frozen=True, omit_defaults=True):
    """A larger maximum size of a node group.

    Attributes
    ----------
    cloud : whose group it is, where its name is the cloud's own: aws, or clusterapi; empty for others
    """

    old: Count
    to: Count
    cloud: str = ""


class Pool(ChangeBase, frozen=True, tag="pool"):
    """Let an autoscaler add more: one of higher limits or further values of a NodePool, or a larger node group.

    Attributes
    ----------
    name : of the NodePool or the node group
    """

    name: str
    limits: tuple[LimitChange, ...] = ()
    admits: Admitted | None = None
    size: GroupSize | None = None

    @property
    def part(self) -> tuple[str, int]:
        """Which part of it changes; changes of the same part can be made one."""
        return self.name, -1 if self.admits is None else self.admits.index

    @property
    def words(self) -> str:
        """See `ChangeBase`."""
        if self.size is not None:
            size = self.size
            return f"raise the maximum size of node group {short_group_name(self.name)} from {size.old} to {size.to}"
        if self.admits is not None:
            verb = "admit" if self.admits.operator == "In" else "no longer exclude"
            values = listing(self.admits.values, most=_MOST_NAMED)
            return f"{verb} {values} for {self.admits.key} in NodePool {self.name}"
        return f"raise the limit of NodePool {self.name}: {_raised(self.limits)}"

    @property
    def steps(self) -> tuple[str, ...]:
        """See `ChangeBase`."""
        pool = f"kubectl patch nodepool {quote(self.name)}"
        if self.size is not None:
            return self._of_group(self.size)
        if self.admits is not None:
            return (f"{pool} --type json -p {_json(_patch_steps(self.admits))}",)
        patch = {"spec": {"limits": {limit.resource: limit.to for limit in self.limits}}}
        return (f"{pool} --type merge -p {_json(patch)}",)

    def _of_group(self, size: GroupSize) -> tuple[str, ...]:
        match size.cloud:
            case "clusterapi":
                kind, namespace, name = self.name.split("/", 2)
                target = f"{quote(kind.lower())}.cluster.x-k8s.io {quote(name)} -n {quote(namespace)}"
                return (f"kubectl annotate {target} {_MAX_SIZE}={size.to} --overwrite",)
            case "aws":
                group = quote(self.name)
                flags = f"--auto-scaling-group-name {group} --max-size {size.to}"
                return (f"aws autoscaling update-auto-scaling-group {flags}",)
        return (f"# set the maximum size of node group {quote(self.name)} to {size.to} (now {size.old})",)

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`; a list of values is set back by hand."""
        if self.size is not None:
            return Pool(self.name, size=replace(self.size, old=self.size.to, to=self.size.old)).steps
        return Pool(self.name, _lowered(self.limits)).steps if self.limits else ()

    @property
    def weight(self) -> int:
        """See `ChangeBase`."""
        return 4

    def begin(self, stage: Stage) -> None:
        """See `ChangeBase`."""
        stage.set_pool(self)

    def joined(self, then: Pool) -> Pool:
        """Return this change and one of the same part that was made after it as one."""
        if self.size is not None and then.size is not None:
            return replace(then, size=replace(then.size, old=self.size.old))
        if self.admits is not None and then.admits is not None and self.admits.operator == "In":
            return replace(self, admits=replace(self.admits, values=(*self.admits.values, *then.admits.values)))
        limits = {limit.resource: limit for limit in self.limits}
        for limit in then.limits:
            former = limits.get(limit.resource, limit)
            limits[limit.resource] = replace(limit, old=former.old)
        return replace(then, limits=tuple(limits.values()))


Change = (
    Apply
    | Delete
    | Scale
    | Patch
    | Cordon
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
    | Resize
    | Settle
    | Move
    | RunCronJob
    | LoosenBudget
    | RaiseQuota
    | Pool
)
"""Every change; the tag ``change`` tells them apart in JSON."""


def _raised(limits: Sequence[LimitChange]) -> str:
    return " and ".join(f"{limit.resource} from {limit.old} to {limit.to}" for limit in limits)


def _lowered(limits: Sequence[LimitChange]) -> tuple[LimitChange, ...]:
    return tuple(LimitChange(limit.resource, limit.to, limit.old) for limit in limits)


def _manifest_name(manifest: str | Mapping[str, Any]) -> str:
    if isinstance(manifest, str):
        return manifest
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    return f"{manifest.get('kind', 'object')}/{name}"


def _target(reference: str) -> str:
    """Return KIND/[NAMESPACE/]NAME as kubectl takes it."""
    kind, *path = reference.split("/")
    namespace = f" -n {quote(path[0])}" if len(path) > 1 else ""
    return f"{quote(kind.lower())} {quote(path[-1])}{namespace}" if path else quote(reference)


def _pod(key: str) -> str:
    pod = PodKey.parse(key)
    return f"{quote(pod.name)} -n {quote(pod.namespace)}"


def _created_again(patch: str) -> str:
    return f"{_CLIENT_SIDE} -p {patch} | kubectl replace --force -f -"


def _moved(place: Place) -> Iterator[str]:
    """Yield how a pod is deleted, and how to wait for the next one: `kubectl delete` does not ask budgets."""
    yield f"kubectl delete pod {_pod(place.pod)} --wait"
    if place.workload:
        field = "ready" if place.workload.startswith("Job/") else "readyReplicas"
        ready = f"--for=jsonpath={quote(f'{{.status.{field}}}')}={place.ready}"
        yield f"kubectl wait {ready} {_target(place.workload)} --timeout={_LONGEST_START}"


def _patch_steps(change: Admitted) -> list[dict[str, str]]:
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


def _fields(text: str) -> str:
    """Return fields of JSON that are set, in a few words."""
    fields = msgspec.json.decode(text, type=dict[str, int | str | None])
    return ", ".join(f"{name}: {held}" for name, held in fields.items() if held is not None) or "none"
