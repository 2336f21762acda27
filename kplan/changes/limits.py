"""Changes of limits: disruption budgets, quotas, and what an autoscaler may add."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any, ClassVar, Literal, Self

import msgspec
from msgspec.structs import replace

from kplan.api.quantity import listing
from kplan.api.workloads import PodDisruptionBudgetSpec
from kplan.changes.base import MOST_NAMED, ChangeBase, as_json, json_object, pod_of
from kplan.facts import Count, Document, LimitChange, QuotaRaise
from kplan.health.advice import quota_command
from kplan.rules.nodes import short_group_name

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
            limits[limit.resource] = replace(limit, old=limits.get(limit.resource, limit).old)
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


ChangeOfLimits = LoosenBudget | RaiseQuota | Pool
