"""Pass or fail: whether anything that `--fail-on` lists happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, TypeVar, get_args

import msgspec

from kplan.api.names import choice_hint, object_name
from kplan.course.answers.placement import Placement
from kplan.documents.base import Condition, Context, Counted, Report, SchedulerRef, SnapshotRef, Verdict
from kplan.documents.placement import GroupPlan
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.framework.results import Outcome

R = TypeVar("R", bound=Report)

CONDITIONS: tuple[Condition, ...] = tuple(word for word in get_args(Condition) if word not in ("regression", "check"))
"""What `--fail-on` of most commands may list."""

DEFAULT_FAIL_ON: Mapping[str, tuple[Condition, ...]] = {
    "place": ("unschedulable", "stuck", "preemption", "gated"),
    "capacity": ("unschedulable", "preemption", "gated"),
    "preempt": ("unschedulable", "pdb-violation"),
    "plan": ("unschedulable", "stuck", "pdb-violation"),
    "drain": ("unschedulable", "stuck", "pdb-violation"),
    "remedy": ("unschedulable",),
    "explain": ("none",),
    "nodes": ("none",),
    "diff": ("none",),
}
"""The default of `--fail-on`, by command."""


def conditions(chosen: Sequence[Condition] | None, command: str | None) -> Sequence[Condition]:
    """Return the chosen conditions; for None those of a command by default, and `none` without a command."""
    if chosen is not None:
        return chosen
    return ("none",) if command is None else DEFAULT_FAIL_ON[command]


def parse_fail_on(text: str) -> tuple[Condition, ...]:
    """Read a comma-separated list of conditions; raises UsageError for other words, or `none` beside others."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in words if word not in CONDITIONS]
    if unknown or not words:
        first = unknown[0] if unknown else ""
        near = next((condition for condition in CONDITIONS if first and condition.startswith(first)), "")
        raise UsageError(
            f"unknown condition in --fail-on: {', '.join(unknown) or text!r}",
            hint=f"did you mean {near}?" if near else choice_hint(first, CONDITIONS),
        )
    if "none" in words and len(words) > 1:
        raise UsageError("--fail-on none cannot be combined with others", hint="leave out none, or all the others")
    return tuple(condition for word in words for condition in CONDITIONS if condition == word)


class Happened(msgspec.Struct, frozen=True):
    """Something that counts if --fail-on lists a condition of its rule."""

    counted: Counted
    is_old: bool = False  #: caused by pods that were pending before the change
    holds_up: bool = False  #: a pod for which a workload is stuck, and that counts as that, whatever its rule

    def counts(self, fail_on: Sequence[Condition]) -> bool:
        """Return whether it counts; old events count only if `fail_on` holds ``pending``."""
        if self.holds_up:
            return "stuck" in fail_on
        return self.counted.counts(fail_on) and (not self.is_old or "pending" in fail_on)


def judge(
    placements: Sequence[Placement],
    warnings: Sequence[InputWarning],
    fail_on: Sequence[Condition],
    *,
    accepts_preemption: bool = False,
    groups: Sequence[GroupPlan] = (),
    new_nodes: Iterable[str] = (),
) -> Verdict:
    """Return the verdict on placements; of a pod that is tried twice the last outcome counts.

    - `accepts_preemption`: a pod that can be placed by preemption does not count as unschedulable
    - `groups`: what becomes of groups, each of which counts once for all of its pending pods
    - `new_nodes`: the nodes that an autoscaler adds
    """
    last = {placement.pod.key: placement for placement in placements}
    pending = {key: one for key, one in last.items() if one.outcome is not Outcome.SCHEDULED}
    if accepts_preemption:
        admitted = {pod for group in groups if group.state == "Preempts" for pod in group.members}
        pending = {key: one for key, one in pending.items() if one.nominated_node is None and key not in admitted}
    group_of = {pod: object_name("PodGroup", group.namespace, group.name) for group in groups for pod in group.members}
    happened = once_a_group((Happened(Counted(key, one.outcome.value)) for key, one in pending.items()), group_of)
    tells_preemption = accepts_preemption or "unschedulable" not in fail_on
    for placement in placements:
        key = placement.pod.key
        if placement.nominated_node is None:
            continue
        if tells_preemption:
            happened.append(Happened(Counted(key, "Preemption", node=placement.nominated_node)))
        protected = (victim.key for victim in placement.victims if victim.pdb_violation)
        happened += [Happened(Counted(key, "PdbViolation", victim=pod)) for pod in protected]
    for group in groups:
        name = object_name("PodGroup", group.namespace, group.name)
        if group.state == "Preempts" and tells_preemption:
            happened.append(Happened(Counted(name, "Preemption")))
        happened += [Happened(Counted(name, "PdbViolation", victim=pod)) for pod in group.violating]
    happened += [Happened(Counted(name, "NewNode")) for name in new_nodes]
    return verdict_on(counted_of(happened, fail_on), warnings, fail_on)


class Head(TypedDict):
    """What reports of all kinds begin with."""

    snapshot: SnapshotRef
    scheduler: SchedulerRef
    verdict: Verdict
    warnings: tuple[InputWarning, ...]


def head_of(context: Context, fail_on: Sequence[Condition], happened: Iterable[Counted] = ()) -> Head:
    """Return the first fields of a report, with the verdict on those events that count and on the warnings."""
    counted = [event for event in happened if event.counts(fail_on)]
    return judged(context, verdict_on(counted, context.warnings, fail_on))


def judged(context: Context, verdict: Verdict) -> Head:
    """Return the first fields of a report with a verdict of its own."""
    return Head(snapshot=context.snapshot, scheduler=context.scheduler, verdict=verdict, warnings=context.warnings)


def once_a_group(happened: Iterable[Happened], groups: Mapping[str, str]) -> list[Happened]:
    """Return what happens, once for the pending pods of a group; `groups`: NAMESPACE/NAME of these -> group."""
    if not groups:
        return list(happened)
    first: dict[tuple[str, tuple[Condition, ...], bool], Happened] = {}
    for event in happened:
        name = groups.get(event.counted.object, event.counted.object)
        counted = msgspec.structs.replace(event.counted, object=name)
        first.setdefault((name, counted.conditions, event.is_old), msgspec.structs.replace(event, counted=counted))
    return list(first.values())


def counted_of(happened: Iterable[Happened], fail_on: Sequence[Condition]) -> list[Counted]:
    return list(dict.fromkeys(event.counted for event in happened if event.counts(fail_on)))


def verdict_on(
    counted: Iterable[Counted],
    warnings: Sequence[InputWarning],
    fail_on: Sequence[Condition],
    also: Sequence[str] = (),
) -> Verdict:
    """Return the verdict on what counts, and on the warnings; `also`: lines about no single object."""
    return Verdict.of(fail_on, [*counted, *counted_warnings(warnings, fail_on)], also)


def counted_warnings(warnings: Sequence[InputWarning], fail_on: Sequence[Condition]) -> list[Counted]:
    """Return the warnings if `fail_on` holds ``warning``."""
    return [Counted(warning.object, warning.code) for warning in warnings] if "warning" in fail_on else []


def with_warnings(report: R, more: Sequence[InputWarning]) -> R:
    """Return a report with further warnings, which count where warnings fail."""
    verdict = report.verdict
    if counted := counted_warnings(more, verdict.fail_on):
        verdict = Verdict.of(verdict.fail_on, [*verdict.counted, *counted])
    return msgspec.structs.replace(report, warnings=(*report.warnings, *more), verdict=verdict)
