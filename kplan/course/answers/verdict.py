"""Pass or fail: whether anything that `--fail-on` lists happened."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypedDict

import msgspec

from kplan.api.names import choice_hint, object_name
from kplan.course.answers.placement import Placement
from kplan.documents.base import Condition, Context, Counted, SchedulerRef, SnapshotRef, Verdict
from kplan.documents.placement import GroupPlan
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.framework.results import Outcome

UNSCHEDULABLE: Final = "unschedulable"
STUCK: Final = "stuck"
PREEMPTION: Final = "preemption"
PDB_VIOLATION: Final = "pdb-violation"
GATED: Final = "gated"
PENDING: Final = "pending"
UNAVAILABLE: Final = "unavailable"
NEW_NODES: Final = "new-nodes"
WARNING: Final = "warning"
NONE: Final = "none"
CONDITIONS: tuple[Condition, ...] = (
    UNSCHEDULABLE,
    STUCK,
    PREEMPTION,
    PDB_VIOLATION,
    GATED,
    PENDING,
    UNAVAILABLE,
    NEW_NODES,
    WARNING,
    NONE,
)

DEFAULT_FAIL_ON: Mapping[str, tuple[Condition, ...]] = {
    "place": (UNSCHEDULABLE, STUCK, PREEMPTION, GATED),
    "capacity": (UNSCHEDULABLE, PREEMPTION, GATED),
    "preempt": (UNSCHEDULABLE, PDB_VIOLATION),
    "plan": (UNSCHEDULABLE, STUCK, PDB_VIOLATION),
    "drain": (UNSCHEDULABLE, STUCK, PDB_VIOLATION),
    "remedy": (UNSCHEDULABLE,),
    "explain": (NONE,),
    "nodes": (NONE,),
    "diff": (NONE,),
}
"""The default of `--fail-on`, by command."""


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
    if NONE in words and len(words) > 1:
        raise UsageError("--fail-on none cannot be combined with others", hint="leave out none, or all the others")
    return tuple(condition for word in words for condition in CONDITIONS if condition == word)


class Happened(msgspec.Struct, frozen=True):
    """Something that counts if --fail-on lists its condition."""

    condition: Condition
    counted: Counted
    is_old: bool = False  #: caused by pods that were pending before the change

    def counts(self, fail_on: Sequence[Condition]) -> bool:
        """Return whether it counts; old events count only if `fail_on` holds ``pending``."""
        return self.condition in fail_on and (not self.is_old or PENDING in fail_on)


def judge(
    placements: Sequence[Placement],
    warnings: Sequence[InputWarning],
    fail_on: Sequence[Condition],
    *,
    accepts_preemption: bool = False,
    pending_before: Container[str] = (),
    groups: Mapping[str, str] = {},
    group_plans: Sequence[GroupPlan] = (),
    new_nodes: Iterable[str] = (),
) -> Verdict:
    """Return the verdict on placements; of a pod that is tried twice the last outcome counts.

    - `accepts_preemption`: a pod that can be placed by preemption does not count as unschedulable
    - `pending_before`: pods that were pending before, NAMESPACE/NAME, and what comes in their place
    - `groups`: NAMESPACE/NAME of pending pods -> the group that counts once for all of them
    - `group_plans`: what becomes of groups
    - `new_nodes`: the nodes that an autoscaler adds
    """
    waiting = (group for group in group_plans if group.state == "Preempts")
    admitted = {pod for group in waiting for pod in group.members} if accepts_preemption else set()
    outcomes = _outcomes(placements, accepts_preemption=accepts_preemption, pending_before=pending_before)
    happened = once_a_group((event for event in outcomes if event.counted.object not in admitted), groups)
    tells_preemption = accepts_preemption or UNSCHEDULABLE not in fail_on
    for placement in placements:
        key, is_old = placement.pod.key, placement.pod.key in pending_before
        if placement.nominated_node is None:
            continue
        if tells_preemption:
            happened.append(Happened(PREEMPTION, Counted(key, "Preemption", node=placement.nominated_node), is_old))
        protected = (victim.key for victim in placement.victims if victim.pdb_violation)
        happened += [Happened(PDB_VIOLATION, Counted(key, "PdbViolation", victim=pod), is_old) for pod in protected]
    of_groups = (event for group in group_plans for event in _of_group(group))
    happened += [event for event in of_groups if tells_preemption or event.condition != PREEMPTION]
    happened += [Happened(NEW_NODES, Counted(name, "NewNode")) for name in new_nodes]
    return Verdict.of(fail_on, [*counted_of(happened, fail_on), *counted_warnings(warnings, fail_on)])


def _of_group(group: GroupPlan) -> Iterator[Happened]:
    name = object_name("PodGroup", group.namespace, group.name)
    if group.state == "Preempts":
        yield Happened(PREEMPTION, Counted(name, "Preemption"))
    yield from (Happened(PDB_VIOLATION, Counted(name, "PdbViolation", victim=pod)) for pod in group.violating)


class Opening(TypedDict):
    """What reports of all kinds begin with."""

    snapshot: SnapshotRef
    scheduler: SchedulerRef
    verdict: Verdict
    warnings: tuple[InputWarning, ...]


def opening(context: Context, fail_on: Sequence[Condition], counted: Iterable[Counted] = ()) -> Opening:
    """Return the first fields of a report, with the verdict on some events and on the warnings."""
    return Opening(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(fail_on, [*counted, *counted_warnings(context.warnings, fail_on)]),
        warnings=context.warnings,
    )


def _outcomes(
    placements: Sequence[Placement], *, accepts_preemption: bool, pending_before: Container[str]
) -> Iterator[Happened]:
    """Yield the pods that have no node in the end."""
    last = {placement.pod.key: placement for placement in placements}
    for key, placement in last.items():
        gets_in = accepts_preemption and placement.nominated_node is not None
        if placement.outcome is Outcome.SCHEDULED or gets_in:
            continue
        counted = Counted(key, placement.outcome.value)
        condition: Condition = GATED if placement.outcome is Outcome.GATED else UNSCHEDULABLE
        yield Happened(condition, counted, key in pending_before)
        yield Happened(PENDING, counted)


def once_a_group(happened: Iterable[Happened], groups: Mapping[str, str]) -> list[Happened]:
    """Return what happens, once for the pending pods of a group; `groups`: NAMESPACE/NAME of these -> group."""
    if not groups:
        return list(happened)
    first: dict[tuple[str, Condition, bool], Happened] = {}
    for event in happened:
        name = groups.get(event.counted.object, event.counted.object)
        counted = msgspec.structs.replace(event.counted, object=name)
        first.setdefault((name, event.condition, event.is_old), msgspec.structs.replace(event, counted=counted))
    return list(first.values())


def counted_of(happened: Iterable[Happened], fail_on: Sequence[Condition]) -> list[Counted]:
    return list(dict.fromkeys(event.counted for event in happened if event.counts(fail_on)))


def counted_warnings(warnings: Sequence[InputWarning], fail_on: Sequence[Condition]) -> list[Counted]:
    """Return the warnings if `fail_on` holds ``warning``."""
    return [Counted(warning.object, warning.code) for warning in warnings] if WARNING in fail_on else []
