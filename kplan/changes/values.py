"""Every change: a struct with its document, its sentence, the commands to paste, its undo, and its weight."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kplan.api import affinity
from kplan.api.kinds import kind_called
from kplan.api.labels import job_labels
from kplan.api.names import PodKey, WorkloadRef
from kplan.api.quantity import count, listing, natural
from kplan.changes import remedy as r
from kplan.changes.base import (
    MOST_NAMED,
    ChangeBase,
    OfNodes,
    addition_words,
    as_json,
    json_object,
    of_somebody_else,
    pod_of,
)
from kplan.changes.limits import ChangeOfLimits
from kplan.changes.remedy_words import remedy_change
from kplan.errors import UsageError
from kplan.facts import Count, Document, Seconds
from kplan.reading.arguments import FilePath, Manifest, Option

MAX_GRACE = 366 * 24 * 3600  #: a year in seconds, which no pod needs to stop
MOST_NODES = 100_000  #: the largest number of nodes to add, above that of any real cluster
MOST_REPLICAS = 1_000_000
Grace = Annotated[int, Meta(ge=0, le=MAX_GRACE)]
NodeCount = Annotated[int, Meta(ge=1, le=MOST_NODES)]
Replicas = Annotated[int, Meta(ge=0, le=MOST_REPLICAS)]

_LONGEST_START = "10m"  #: how long a command waits until a pod is ready that takes the place of another


_CLIENT_SIDE = "kubectl patch --local -f - -o yaml"
_CLAIM = "PersistentVolumeClaim/"
_WITH_ROLLOUT = ("Deployment", "StatefulSet", "DaemonSet")


def _grace_period(text: str) -> int | None:
    """Read seconds, where -1 stands for the pods' own as in kubectl; raises UsageError."""
    if not re.fullmatch(r"-1|[0-9]{1,8}", text) or int(text) > MAX_GRACE:
        raise UsageError(f"--grace-period {text}: is no number from -1 to {MAX_GRACE}", hint="give seconds, such as 30")
    return None if int(text) < 0 else int(text)


class DrainOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How nodes are drained; the flags of ``kubectl drain``.

    Attributes
    ----------
    force : also evict pods without a controller
    delete_emptydir_data : also evict pods with emptyDir volumes
    disable_eviction : delete pods, whatever disruption budgets say
    grace_period : how long pods may take to stop, in place of their own time
    skip_wait_for_delete_timeout : do not wait for pods that should be gone for longer
    """

    force: Annotated[bool, Option()] = False
    delete_emptydir_data: Annotated[bool, Option()] = False
    disable_eviction: Annotated[bool, Option(more=True)] = False
    grace_period: Annotated[Grace | None, Option("SECONDS", read=_grace_period, more=True)] = None
    skip_wait_for_delete_timeout: Annotated[Grace, Option("SECONDS", more=True)] = 0

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
    timeout: float | None = None  #: seconds after which the drain of a node is given up; null for never
    is_forced: bool = False  #: then its pods are deleted; else the upgrade ends
    uncordons_failed: bool = False  #: where the upgrade ends, the node that it ends at takes pods again
    cordons_all: bool = False  #: all nodes take no more pods from the beginning
    pause: float = 0.0  #: seconds from an empty node to its replacement
    waits_for_nodes: bool = True  #: the next node is drained when the new one is ready; else when the old one is gone
    #: the further nodes take the place of the last ones; else they are drained and removed in the end
    keeps_surge: bool = False


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
    timeout: Seconds | None = None  #: seconds after which kubectl gives up; null for never
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

    happens: ClassVar[tuple[str, str]] = ("fails", "fail")

    machine_gone: bool = False  #: a cloud's controller deletes the nodes


class Recover(OfNodes, frozen=True, tag="recover"):
    """Nodes whose kubelets answer again, and are ready."""

    happens: ClassVar[tuple[str, str]] = ("recovers", "recover")


class NotReady(OfNodes, frozen=True, tag="notReady"):
    """Nodes whose kubelets post that they are not ready."""

    happens: ClassVar[tuple[str, str]] = ("is not ready", "are not ready")

    pods_handled: bool = False  #: they start and end pods all the same


def taint_of(text: str) -> tuple[affinity.Taint, bool]:
    """Read a taint as for ``kubectl taint``, and whether it is one that goes; raises UsageError."""
    head, _, effect = text.removesuffix("-").partition(":")
    key, _, value = head.partition("=")
    goes = text.endswith("-")
    if not key or not (effect in affinity.EFFECTS or (goes and not effect)):
        hint = "write {NODE: [KEY=VALUE:EFFECT, KEY:EFFECT-]}, as for kubectl taint"
        raise UsageError(f"taint: {text!r} is no taint", hint=hint)
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
    #: KEY=VALUE of labels in which they differ from it; KEY alone for one that no node has, each its own
    labels: tuple[str, ...] = ()
    room: tuple[str, ...] = ()  #: RESOURCE=AMOUNT of what is allocatable instead

    @classmethod
    def parse(cls, text: str) -> AddNodes:
        """Read ``N=NODE``; raises UsageError for anything else."""
        number, _, like = text.partition("=")
        nodes = natural(number, MOST_NODES)
        if not like or not nodes:
            hint = f"for example 3=node-01; N is a number from 1 to {MOST_NODES}"
            raise UsageError(f"{text}: expected N=NODE", hint=hint)
        return cls(nodes, like)

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


class Apply(ChangeBase, frozen=True, tag="apply"):
    """Manifests that are applied: files, directories or objects."""

    manifests: tuple[Manifest, ...]

    @property
    def words(self) -> str:
        return f"apply {listing([_manifest_name(manifest) for manifest in self.manifests], most=MOST_NAMED)}"

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(
            f"kubectl apply -f {quote(manifest)}" if isinstance(manifest, str) else f"# {Apply((manifest,)).words}"
            for manifest in self.manifests
        )


class Delete(ChangeBase, frozen=True, tag="delete"):
    """Objects that are deleted with what they own: KIND/[NS/]NAME; on paper also globs, or KIND?label=value."""

    objects: tuple[str, ...]
    grace_period: Grace | None = None  #: seconds in which pods have to stop; null for their own

    @property
    def words(self) -> str:
        return f"delete {listing(self.objects, most=MOST_NAMED)}"

    @property
    def steps(self) -> tuple[str, ...]:
        grace = "" if self.grace_period is None else f" --grace-period={self.grace_period}"
        return tuple(f"kubectl delete {target_of(reference)}{grace}" for reference in self.objects)

    @property
    def needs(self) -> Sequence[str]:
        named = ((kind_called(word), name) for word, _, name in (text.partition("/") for text in self.objects))
        return [name for kind, name in named if kind is not None and kind.name == "Node"]


class Scale(ChangeBase, frozen=True, tag="scale"):
    """Run another number of replicas."""

    workload: str  #: KIND/[NAMESPACE/]NAME
    replicas: Replicas
    old: Count | UnsetType = UNSET  #: how many it has; absent where that is not known
    autoscaler: str = ""  #: the HorizontalPodAutoscaler that sets their number, whose bounds change; empty for none
    lowest: Count = 0  #: the autoscaler's least number of replicas
    stops: Count = 0  #: how many running ones that stops
    drops: tuple[str, ...] | UnsetType = UNSET  #: pods that wait and are not wanted any more, as NAMESPACE/NAME
    of_others: str = ""  #: the workload, as NAMESPACE/NAME, if it is of another namespace than the pods that are to run
    #: min_replicas, max_replicas: the bounds that the autoscaler gets instead; absent where they stay
    min_replicas: Count | UnsetType = UNSET
    max_replicas: Count | UnsetType = UNSET

    @classmethod
    def parse(cls, text: str) -> Scale:
        """Read ``KIND/[NS/]NAME=N``; raises UsageError for anything else."""
        workload, _, number = text.rpartition("=")
        replicas = natural(number, MOST_REPLICAS)
        if not workload or replicas is None:
            hint = f"for example deployment/shop/web=5; N is a number up to {MOST_REPLICAS}"
            raise UsageError(f"{text}: expected KIND/[NS/]NAME=N", hint=hint)
        return cls(workload, replicas)

    @property
    def words(self) -> str:
        instead = "" if self.old is UNSET else f" instead of {self.old}"
        by = r.bounds_words(self.autoscaler, self.min_replicas, self.max_replicas)
        whose = of_somebody_else(self.of_others)
        return f"run {count(self.replicas, 'replica')} of {self.workload}{instead}{by}{whose}"

    @property
    def steps(self) -> tuple[str, ...]:
        if not self.autoscaler:
            return (f"kubectl scale {target_of(self.workload)} --replicas={self.replicas}",)
        bounds = {"maxReplicas": self.max_replicas, "minReplicas": self.min_replicas}
        bounds = {field: bound for field, bound in bounds.items() if bound is not UNSET}
        name = f"{quote(self.autoscaler)} -n {quote(WorkloadRef.parse(self.workload).namespace)}"
        return (f"kubectl patch hpa {name} --type merge -p {as_json({'spec': bounds})}",)

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
        return r.WEIGHTS[r.LowerReplicas] + 2 * self.stops + 6 * max(fewer - self.stops, 0)


class Patch(ChangeBase, frozen=True, tag="patch"):
    """Change what the pods of a workload say; its controller replaces them."""

    object: str  #: KIND/NAMESPACE/NAME of the workload, or of a pod that is created again
    patch: str  #: of the pods' ``spec``, a strategic merge patch as JSON
    remedy: r.Remedy  #: what is changed
    replaces: Count = 0  #: how many pods that run its controller replaces
    #: waiting pods of a StatefulSet, as NAMESPACE/NAME, which it does not replace before they run
    restarts: tuple[str, ...] = ()
    cron_job: str = ""  #: NAMESPACE/NAME of the CronJob of a Job, whose next runs ask for the same; empty for none

    def __post_init__(self) -> None:
        json_object("patch", self.patch)

    @property
    def spec(self) -> dict[str, Any]:
        """The patch as plain values."""
        return json_object("patch", self.patch)

    @property
    def words(self) -> str:
        text = remedy_change(self.remedy)
        also = f" and CronJob/{self.cron_job}" if self.cron_job else ""
        return text if self.object.startswith(_CLAIM) else f"in {self.object}{also}, {text}"

    @property
    def steps(self) -> tuple[str, ...]:
        kind, name = self.object.partition("/")[0], target_of(self.object)
        is_first_name = isinstance(self.remedy, r.CorrectName) and not self.remedy.change.old
        if kind == "Pod" or (kind == "PersistentVolumeClaim" and not is_first_name):  # a claim gets a class only once
            return (f"kubectl get {name} -o yaml | {_created_again(quote(self._whole))}",)
        if kind == "Job":  # its template cannot change: it is created again, with labels and a selector of its own
            template = {"metadata": {"labels": dict.fromkeys(sorted(job_labels("", "")))}, "spec": self.spec}
            again = as_json({"spec": {"selector": None, "template": template}})
            anew = f"kubectl get {name} -o yaml | {_created_again(again)}"
            if not self.cron_job:
                return (anew,)
            template_of_runs = as_json({"spec": {"jobTemplate": {"spec": {"template": {"spec": self.spec}}}}})
            return (anew, f"kubectl patch {target_of(f'CronJob/{self.cron_job}')} -p {template_of_runs}")
        return (
            f"kubectl patch {name} -p {quote(self._whole)}",
            *(f"kubectl delete pod {pod_of(pod)}" for pod in self.restarts),
        )

    @property
    def undoing(self) -> tuple[str, ...]:
        """See `ChangeBase`; of other kinds there is no former template to go back to."""
        has_history = self.object.startswith(tuple(f"{kind}/" for kind in _WITH_ROLLOUT))
        return (f"kubectl rollout undo {target_of(self.object)}",) if has_history else ()

    @property
    def weight(self) -> int:
        """As its remedy (`kplan.changes.remedy.WEIGHTS`), and 1 for each pod that is replaced."""
        return r.weight_of(self.remedy) + self.replaces

    @property
    def _whole(self) -> str:
        spec = f'{{"spec":{self.patch}}}'
        return spec if self.object.startswith(("Pod/", _CLAIM)) else f'{{"spec":{{"template":{spec}}}}}'


class RunCronJob(ChangeBase, frozen=True, tag="runCronJob"):
    """A run of a cron job that is started now, whatever its schedule; NAMESPACE/NAME."""

    cron_job: str

    @property
    def words(self) -> str:
        return f"run CronJob {self.cron_job}"

    @property
    def steps(self) -> tuple[str, ...]:
        ref = PodKey.parse(self.cron_job)
        name, namespace = quote(ref.name), quote(ref.namespace)
        return (f"kubectl create job {quote(self.job_name)} --from=cronjob/{name} -n {namespace}",)

    @property
    def undoing(self) -> tuple[str, ...]:
        return (f"kubectl delete job {quote(self.job_name)} -n {quote(PodKey.parse(self.cron_job).namespace)}",)

    @property
    def job_name(self) -> str:
        """The name of the job; a name of a job has at most 63 characters."""
        return f"{PodKey.parse(self.cron_job).name[:56]}-manual"


class Resize(ChangeBase, frozen=True, tag="resize"):
    """Recommended requests: ``vpa`` for those of the cluster's VerticalPodAutoscalers, or a file that krr wrote."""

    recommendations: FilePath

    @property
    def words(self) -> str:
        return f"give pods the requests that {self.recommendations} recommends"


class Settle(ChangeBase, frozen=True, tag="settle"):
    """Wait until controllers and scheduler have nothing to do any more."""

    @property
    def words(self) -> str:
        return "wait until nothing moves"


def _manifest_name(manifest: str | Mapping[str, Any]) -> str:
    if isinstance(manifest, str):
        return manifest
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    return f"{manifest.get('kind', 'object')}/{name}"


def _created_again(patch: str) -> str:
    return f"{_CLIENT_SIDE} -p {patch} | kubectl replace --force -f -"


def target_of(reference: str) -> str:
    """Return KIND/[NAMESPACE/]NAME as kubectl takes it."""
    kind, *path = reference.split("/")
    namespace = f" -n {quote(path[0])}" if len(path) > 1 else ""
    return f"{quote(kind.lower())} {quote(path[-1])}{namespace}" if path else quote(reference)


_OfNamedNodes = Cordon | Uncordon | AwaitNodes | Drain | Fail | Recover | NotReady
ChangeOfNodes = _OfNamedNodes | Taint | Conditions | AddNodes | RemoveNodes | Move
ChangeOfObjects = Apply | Delete | Scale | Patch | Resize | Settle | RunCronJob
Change = ChangeOfObjects | ChangeOfNodes | ChangeOfLimits  #: every change; the tag ``change`` tells them apart in JSON
