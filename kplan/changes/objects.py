"""Changes of workloads, of limits and of other objects, and to wait for what they bring about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.names import PodKey, WorkloadRef
from kplan.api.quantity import count, listing
from kplan.changes.base import (
    MOST_NAMED,
    MOST_REPLICAS,
    ChangeBase,
    Grace,
    Replicas,
    as_json,
    json_object,
    of_somebody_else,
    pod_of,
    target_of,
)
from kplan.changes.remedy import WEIGHTS, LowerReplicas, Remedy, weight_of
from kplan.errors import UsageError
from kplan.facts import Count, Document, LimitChange, QuotaRaise
from kplan.health.words import quota_command
from kplan.reading.arguments import FilePath, Manifest
from kplan.rules.nodes import short_group_name

if TYPE_CHECKING:
    from kplan.api.workloads import PodDisruptionBudgetSpec

_OF_JOB = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
"""Labels that the API server gives to the pods of a job, and refuses in a new one."""

_CLIENT_SIDE = "kubectl patch --local -f - -o yaml"
_CLAIM = "PersistentVolumeClaim/"
_WITH_ROLLOUT = ("Deployment", "StatefulSet", "DaemonSet")


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
        parts = (reference.partition("/") for reference in self.objects)
        return [name for kind, _, name in parts if kind.lower() == "node"]


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

    @classmethod
    def parse(cls, text: str) -> Scale:
        """Read ``KIND/[NS/]NAME=N``; raises UsageError for anything else."""
        workload, _, number = text.rpartition("=")
        if not workload or not number.isascii() or not number.isdecimal() or int(number[:9]) > MOST_REPLICAS:
            hint = f"for example deployment/shop/web=5; N is a number up to {MOST_REPLICAS}"
            raise UsageError(f"{text}: expected KIND/[NS/]NAME=N", hint=hint)
        return cls(workload, int(number))

    @property
    def words(self) -> str:
        instead = "" if self.old is UNSET else f" instead of {self.old}"
        by = f" (autoscaler {self.autoscaler})" if self.autoscaler else ""
        whose = of_somebody_else(self.of_others)
        return f"run {count(self.replicas, 'replica')} of {self.workload}{instead}{by}{whose}"

    @property
    def steps(self) -> tuple[str, ...]:
        if not self.autoscaler:
            return (f"kubectl scale {target_of(self.workload)} --replicas={self.replicas}",)
        bounds = {"maxReplicas": self.replicas}
        bounds |= {"minReplicas": self.replicas} if self.lowest > self.replicas else {}
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
        return WEIGHTS[LowerReplicas] + 2 * self.stops + 6 * max(fewer - self.stops, 0)


class Patch(ChangeBase, frozen=True, tag="patch"):
    """Change what the pods of a workload say; its controller replaces them."""

    object: str  #: KIND/NAMESPACE/NAME of the workload, or of a pod that is created again
    patch: str  #: of the pods' ``spec``, a strategic merge patch as JSON
    remedy: Remedy  #: what is changed
    replaces: Count = 0  #: how many pods that run its controller replaces
    #: waiting pods of a StatefulSet, as NAMESPACE/NAME, which it does not replace before they run
    restarts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        json_object("patch", self.patch)

    @property
    def spec(self) -> dict[str, Any]:
        """The patch as plain values."""
        return json_object("patch", self.patch)

    @property
    def words(self) -> str:
        from kplan.changes.remedy_words import remedy_change

        text = remedy_change(self.remedy)
        return text if self.object.startswith(_CLAIM) else f"in {self.object}, {text}"

    @property
    def steps(self) -> tuple[str, ...]:
        kind, name = self.object.partition("/")[0], target_of(self.object)
        if kind in ("Pod", "PersistentVolumeClaim"):  # whose class cannot change either
            return (f"kubectl get {name} -o yaml | {_created_again(quote(self._whole))}",)
        if kind == "Job":  # its template cannot change: it is created again, with labels and a selector of its own
            template = {"metadata": {"labels": dict.fromkeys(_OF_JOB)}, "spec": self.spec}
            again = as_json({"spec": {"selector": None, "template": template}})
            return (f"kubectl get {name} -o yaml | {_created_again(again)}",)
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
        return weight_of(self.remedy) + self.replaces

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


_MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


class LoosenBudget(ChangeBase, frozen=True, tag="budget"):
    """Let a disruption budget allow more for a while."""

    costs: ClassVar[int] = 6

    budget: str  #: NAMESPACE/NAME
    #: old, to: the fields of its ``spec`` that change, as JSON
    old: str
    to: str

    def __post_init__(self) -> None:
        for name, text in (("old", self.old), ("to", self.to)):
            if not all(isinstance(held, int | str | None) for held in json_object(name, text).values()):
                raise ValueError(f'`{name}` is to hold numbers and shares, such as {{"minAvailable":1}}')

    @classmethod
    def between(cls, budget: str, before: PodDisruptionBudgetSpec, after: PodDisruptionBudgetSpec) -> Self:
        """Return the change from what a budget says to what it is to say."""
        sides = [msgspec.to_builtins(spec) for spec in (before, after)]
        names = [name for name in {**sides[0], **sides[1]} if sides[0].get(name) != sides[1].get(name)]
        old, to = (msgspec.json.encode({name: side.get(name) for name in names}).decode() for side in sides)
        return cls(budget, old, to)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as they become, as plain values."""
        return json_object("to", self.to)

    @property
    def words(self) -> str:
        return f"let budget {self.budget} allow more: {_fields(self.to)} instead of {_fields(self.old)}"

    @property
    def steps(self) -> tuple[str, ...]:
        patch = quote(f'{{"spec":{self.to}}}')
        return (f"kubectl patch pdb {pod_of(self.budget)} --type merge -p {patch}",)

    @property
    def undoing(self) -> tuple[str, ...]:
        return LoosenBudget(self.budget, self.to, self.old).steps


class RaiseQuota(ChangeBase, frozen=True, tag="quota"):
    """Let a ResourceQuota, NAMESPACE/NAME, allow more."""

    costs: ClassVar[int] = 4

    quota: str
    limits: tuple[LimitChange, ...]

    @property
    def words(self) -> str:
        return f"raise ResourceQuota {self.quota}: {_raised(self.limits)}"

    @property
    def steps(self) -> tuple[str, ...]:
        return (quota_command(QuotaRaise(self.quota, self.limits)),)

    @property
    def undoing(self) -> tuple[str, ...]:
        return RaiseQuota(self.quota, _lowered(self.limits)).steps


class Admitted(Document, frozen=True, omit_defaults=True):
    """Values of a label that the nodes of a NodePool may have besides, such as an instance type or a zone."""

    key: str  #: of the requirement in the pool's template
    operator: Literal["In", "NotIn"]  #: In, whose list is to have the values, or NotIn, whose list is not to have them
    values: tuple[str, ...]
    index: Count = 0  #: of the requirement
    at: tuple[int, ...] = ()  #: for NotIn: where the values stand in its list


class GroupSize(Document, frozen=True, omit_defaults=True):
    """A larger maximum size of a node group."""

    old: Count
    to: Count
    cloud: str = ""  #: whose group it is, where its name is the cloud's own: aws, or clusterapi; empty for others


class Pool(ChangeBase, frozen=True, tag="pool"):
    """Let an autoscaler add more: one of higher limits or further values of a NodePool, or a larger node group."""

    costs: ClassVar[int] = 4

    name: str  #: of the NodePool or the node group
    limits: tuple[LimitChange, ...] = ()
    admits: Admitted | None = None
    size: GroupSize | None = None

    @property
    def part(self) -> tuple[str, int]:
        """Which part of it changes; changes of the same part can be made one."""
        return self.name, -1 if self.admits is None else self.admits.index

    @property
    def words(self) -> str:
        if self.size is not None:
            size = self.size
            return f"raise the maximum size of node group {short_group_name(self.name)} from {size.old} to {size.to}"
        if self.admits is not None:
            verb = "admit" if self.admits.operator == "In" else "no longer exclude"
            values = listing(self.admits.values, most=MOST_NAMED)
            return f"{verb} {values} for {self.admits.key} in NodePool {self.name}"
        return f"raise the limit of NodePool {self.name}: {_raised(self.limits)}"

    @property
    def steps(self) -> tuple[str, ...]:
        pool = f"kubectl patch nodepool {quote(self.name)}"
        if self.size is not None:
            return self._of_group(self.size)
        if self.admits is not None:
            return (f"{pool} --type json -p {as_json(_patch_steps(self.admits))}",)
        patch = {"spec": {"limits": {limit.resource: limit.to for limit in self.limits}}}
        return (f"{pool} --type merge -p {as_json(patch)}",)

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


def _raised(limits: Sequence[LimitChange]) -> str:
    return " and ".join(f"{limit.resource} from {limit.old} to {limit.to}" for limit in limits)


def _lowered(limits: Sequence[LimitChange]) -> tuple[LimitChange, ...]:
    return tuple(LimitChange(limit.resource, limit.to, limit.old) for limit in limits)


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


def _fields(text: str) -> str:
    """Return fields of JSON that are set, in a few words."""
    return ", ".join(f"{name}: {held}" for name, held in json_object("", text).items() if held is not None) or "none"


ChangeOfObjects = Apply | Delete | Scale | Patch | Resize | Settle | RunCronJob
ChangeOfLimits = LoosenBudget | RaiseQuota | Pool
