"""Hooks of Helm charts: objects that Helm creates before or after the others, or for other commands alone.

Helm goes on when the Job of a hook has succeeded, and ends with an error where that fails. Argo CD does the same.

Upstream: helm pkg/action/hooks.go execHook, pkg/release/v1/util/manifest_sorter.go, hook_by_weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kplan.api.labels import parse_int64
from kplan.api.workloads import Job
from kplan.facts import InputWarning
from kplan.workloads import WrittenWorkload

_EVENTS, _WEIGHT, _POLICY = "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy"
_ANEW = "before-hook-creation"
HELD_UP = "HeldUpByHook"  #: code of the warning about an object before which a hook does not succeed


class Hook(NamedTuple):
    """A hook as its annotations say it."""

    events: tuple[str, ...]  #: such as pre-install
    weight: int  #: hooks of one event come by their weights, then by their names
    is_made_anew: bool  #: a former object of its name is deleted before

    @property
    def comes_first(self) -> bool:
        return any(event in self.events for event in ("pre-install", "pre-upgrade"))

    def before(self, *, is_upgrade: bool) -> bool | None:
        """Tell whether it comes before the objects of the chart, or after them; None where it does not come."""
        command = "upgrade" if is_upgrade else "install"
        return True if f"pre-{command}" in self.events else False if f"post-{command}" in self.events else None


def hook_of(content: Mapping[str, Any]) -> Hook | None:
    """Return what the annotations of an object say; None for one that is no hook."""
    annotations = (content.get("metadata") or {}).get("annotations") or {}
    if not (text := annotations.get(_EVENTS)):
        return None
    events, policies = (
        [part.strip() for part in str(one).split(",")] for one in (text, annotations.get(_POLICY, _ANEW))
    )
    return Hook(tuple(events), parse_int64(str(annotations.get(_WEIGHT, ""))) or 0, _ANEW in policies)


def not_run(name: str, hook: Hook, *, is_upgrade: bool) -> InputWarning:
    """Return the note about a hook that is left out."""
    message = (
        f"is a Helm hook for {', '.join(hook.events)}, so {'upgrade' if is_upgrade else 'install'} does not create it"
    )
    return InputWarning("HookLeftOut", name, message)


def in_turn(
    workloads: Sequence[WrittenWorkload], is_live: Callable[[WrittenWorkload], bool]
) -> tuple[list[Sequence[WrittenWorkload]], list[InputWarning]]:
    """Return what is applied together, in the order of Helm, and notes about hooks that are left out.

    Each hook comes alone, and all other workloads together.

    `is_live`: tells whether the cluster has a workload; where it has one of the chart, that is upgraded.
    """
    hooks = [(hook, workload) for workload in workloads if (hook := hook_of(workload.content)) is not None]
    others = [workload for workload in workloads if hook_of(workload.content) is None]
    if not hooks or not others:
        return [workloads], []
    is_upgrade = any(map(is_live, others))
    hooks.sort(key=lambda one: (one[0].weight, one[1].content["metadata"].get("name", "")))
    before, after = (
        [[workload] for hook, workload in hooks if hook.before(is_upgrade=is_upgrade) is comes]
        for comes in (True, False)
    )
    left_out = ((hook, workload) for hook, workload in hooks if hook.before(is_upgrade=is_upgrade) is None)
    notes = [not_run(workload.key, hook, is_upgrade=is_upgrade) for hook, workload in left_out]
    return [*before, others, *after], notes


def awaited(group: Sequence[WrittenWorkload]) -> WrittenWorkload | None:
    """Return the hook on whose success what follows a group waits; None where nothing waits."""
    return next((one for one in group if one.type is Job and hook_of(one.content) is not None), None)
