"""Hooks of Helm charts: objects that Helm creates before or after the others, or for other commands alone.

Helm goes on when the Job or the Pod of a hook has succeeded, and ends with an error where that fails. Argo CD does the
same. A hook for what comes before and for what comes after is created twice.

Upstream: helm pkg/action/hooks.go execHook, pkg/release/v1/util/manifest_sorter.go, hook_by_weight.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kplan.api.core import Pod
from kplan.api.kinds import kind_called, metadata_of
from kplan.api.labels import parse_int64
from kplan.api.names import WorkloadRef
from kplan.api.quantity import grouped
from kplan.api.workloads import Job
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot
from kplan.workloads import WrittenWorkload

_EVENTS, _WEIGHT, _POLICY = "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy"
_ANEW, _WHEN_DONE = "before-hook-creation", "hook-succeeded"
HELD_UP = "HeldUpByHook"  #: code of the warning about an object before which a hook does not succeed


class Hook(NamedTuple):
    """A hook as its annotations say it."""

    events: tuple[str, ...]  #: such as pre-install
    weight: int  #: hooks of one event come by their weights, then by their names
    is_made_anew: bool  #: a former object of its name is deleted before
    goes_when_done: bool  #: it is deleted once it has succeeded

    @property
    def comes_first(self) -> bool:
        return any(event in self.events for event in ("pre-install", "pre-upgrade"))

    def comes(self, *, is_upgrade: bool) -> list[bool]:
        """Tell for each time that it comes whether that is before the objects of the chart."""
        command = "upgrade" if is_upgrade else "install"
        return [when == "pre" for when in ("pre", "post") if f"{when}-{command}" in self.events]


def hook_of(content: Mapping[str, Any]) -> Hook | None:
    """Return what the annotations of an object say; None for one that is no hook."""
    annotations = (content.get("metadata") or {}).get("annotations") or {}
    if not (text := annotations.get(_EVENTS)):
        return None
    events, policies = (
        [part.strip() for part in str(one).split(",")] for one in (text, annotations.get(_POLICY, _ANEW))
    )
    weight = parse_int64(str(annotations.get(_WEIGHT, ""))) or 0
    return Hook(tuple(events), weight, _ANEW in policies, _WHEN_DONE in policies)


def not_run(name: str, hook: Hook, *, is_upgrade: bool) -> InputWarning:
    message = (
        f"is a Helm hook for {', '.join(hook.events)}, so {'upgrade' if is_upgrade else 'install'} does not create it"
    )
    return InputWarning("HookLeftOut", name, message)


def has_any(snapshot: Snapshot, keys: Collection[str]) -> bool:
    """Tell whether a cluster has any of some workloads, KIND/NAMESPACE/NAME; of a chart, that this is an upgrade."""
    paths = grouped((ref.kind, ref.path) for ref in map(WorkloadRef.parse, keys))
    kinds = ((kind_called(name), frozenset(own)) for name, own in paths.items())
    held = ((obj, own) for kind, own in kinds if kind is not None for obj in snapshot.objects(kind.attribute))
    return any(metadata_of(obj).key in own for obj, own in held)


def in_turn(
    workloads: Sequence[WrittenWorkload], has_any: Callable[[Sequence[str]], bool]
) -> tuple[list[Sequence[WrittenWorkload]], list[InputWarning]]:
    """Return what is applied together, in the order of Helm, and notes about hooks that are left out.

    Each hook comes alone, and all other workloads together. Of hooks alone none is left out: those that neither an
    install nor an upgrade creates are last.

    `has_any`: as the function of this name, for the cluster as it is now.
    """
    hooks = [(hook, workload) for workload in workloads if (hook := hook_of(workload.content)) is not None]
    others = [workload for workload in workloads if hook_of(workload.content) is None]
    if not hooks:
        return [workloads], []
    hooks.sort(key=lambda one: (one[0].weight, one[1].content["metadata"].get("name", "")))
    # Hooks alone do not tell of which command they are: they are for an install, if any of them is.
    is_upgrade = (
        has_any([one.key for one in others]) if others else not any(one.comes(is_upgrade=False) for one, _ in hooks)
    )
    turns = [(hook, workload, hook.comes(is_upgrade=is_upgrade)) for hook, workload in hooks]
    before, after = ([[workload] for _, workload, comes in turns if when in comes] for when in (True, False))
    rest = [(hook, workload) for hook, workload, comes in turns if not comes]
    if not others:
        return [*before, *after, *([workload] for _, workload in rest)], []
    return [*before, others, *after], [not_run(one.key, hook, is_upgrade=is_upgrade) for hook, one in rest]


def awaited(group: Sequence[WrittenWorkload]) -> WrittenWorkload | None:
    """Return the hook on whose success what follows a group waits; None where nothing waits."""
    return next((one for one in group if one.type in (Job, Pod) and hook_of(one.content) is not None), None)


def ends(workload: WrittenWorkload) -> bool:
    """Tell whether a manifest is of a hook that is a Pod, and that runs to its end."""
    is_pod = workload.type is Pod and hook_of(workload.content) is not None
    return is_pod and workload.content["spec"].get("restartPolicy", "Always") != "Always"
